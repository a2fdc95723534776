"""The operator: chunks lose nothing, are in order and within their bounds."""

import json
import random
import unittest
from typing import Any, List, Tuple

from chunk_text import ChunkText
from chunks import Cut
from sentences import read
from tidegate import BadConfiguration
from tidegate.testing import Harness, TestRecord, run_cases

PARTS = [
    *("a", "tea", "word", "sentence", "Extraordinarily", "naïve", "e\u0301clair", "3.14", "Dr.", "e.g.", "no."),
    *("世界", "こんにちは。", "「はい。」", "यह।", "هل؟", "😀", "👩\u200d👩\u200d👧", "x" * 50),
    *(". ", "! ", "? ", " ", " ", " ", "  ", "\n", "\n\n", "\u3000", "\t", ", ", "; ", '." ', "...", "\r\n\r\n"),
]


def document(source: random.Random) -> str:
    parts = [source.choice(PARTS) for _ in range(source.randrange(120))]
    return source.choice((" ", "")).join(parts)


class Spans(unittest.TestCase):
    def check(self, cut: Cut, text: str) -> List[Tuple[int, int]]:
        spans = cut.spans(read(text))
        done = before = 0
        for start, end in spans:
            self.assertLess(start, end)
            # Nothing but white space is between two chunks, and each has something new.
            self.assertEqual(text[done:start].strip() if start > done else "", "")
            self.assertGreater(end, done)
            self.assertGreaterEqual(start, before)
            self.assertEqual(text[start:end], text[start:end].strip())
            if cut.by_words:
                self.assertLessEqual(len(read(text[start:end]).ends), cut.size)
                self.assertLessEqual(len(read(text[start:done]).ends), cut.overlap)
            else:
                self.assertLessEqual(end - start, cut.size)
                self.assertLessEqual(done - start, cut.overlap)
            done, before = end, start
        self.assertEqual(text[done:].strip(), "")
        return spans

    def test_chunks_cover_every_document_in_order(self) -> None:
        source = random.Random(10)
        for _ in range(3000):
            by_words = source.random() < 0.5
            size = source.choice((1, 2, 3, 5, 10, 40, 200))
            overlap = source.randrange(size)
            self.check(Cut(size, overlap, by_words), document(source))

    def test_whole_sentences_are_kept_where_they_fit(self) -> None:
        text = "One two three. Four five. Six seven eight. Nine."
        spans = self.check(Cut(5, 2, True), text)
        chunks = ["One two three. Four five.", "Four five. Six seven eight.", "seven eight. Nine."]
        self.assertEqual([text[start:end] for start, end in spans], chunks)
        spans = self.check(Cut(5, 0, True), text)
        self.assertEqual([text[start:end] for start, end in spans], [chunks[0], "Six seven eight. Nine."])

    def test_a_sentence_that_is_too_long_is_cut_between_words(self) -> None:
        text = " ".join(f"w{number}" for number in range(10))
        spans = self.check(Cut(4, 1, True), text)
        self.assertEqual([text[start:end] for start, end in spans], ["w0 w1 w2 w3", "w3 w4 w5 w6", "w6 w7 w8 w9"])

    def test_a_word_that_is_too_long_is_cut_between_characters(self) -> None:
        spans = self.check(Cut(4, 0, False), "abcdefghij")
        self.assertEqual(spans, [(0, 4), (4, 8), (8, 10)])
        # The accent stays with its letter.
        self.assertEqual(self.check(Cut(4, 0, False), "abce\u0301fg"), [(0, 3), (3, 7)])

    def test_hostile_texts_are_read_once(self) -> None:
        for text in ("." * 300_000 + "a", " " * 300_000, "a" + ".)" * 150_000 + "b", "\n \n" * 100_000 + "a"):
            self.check(Cut(1000, 10, True), text)

    def test_much_white_space_is_not_looked_at_again_and_again(self) -> None:
        text = ("a" + " " * 50_000 + "\n" * 50_000) * 10
        self.assertEqual(len(self.check(Cut(1, 0, True), text)), 10)
        self.assertEqual(len(self.check(Cut(10, 9, False), text)), 10)


class Operator(unittest.TestCase):
    def chunks(self, record: TestRecord, **config: Any) -> List[TestRecord]:
        answer = Harness(ChunkText, config).run_one(record)
        self.assertEqual(answer.action, "split", answer)
        return [one for _, one in answer.records]

    def test_each_chunk_says_where_it_comes_from(self) -> None:
        text = "First one. Second one. Third one."
        chunks = self.chunks(TestRecord(text, key="k", headers={"h": "1"}), size=4, overlap=2)
        self.assertEqual([chunk.text for chunk in chunks], ["First one. Second one.", "Second one. Third one."])
        for index, chunk in enumerate(chunks):
            self.assertEqual((chunk.key, chunk.header("h")), (b"k", b"1"))
            self.assertEqual(chunk.header_text("chunk-index"), str(index))
            self.assertEqual(chunk.header_text("chunk-count"), "2")
            self.assertEqual(chunk.header_text("chunk-source"), "0/0/0")
            start, end = (int(chunk.header_text(f"chunk-{side}") or "") for side in ("start", "end"))
            self.assertEqual(text[start:end], chunk.text)

    def test_a_member_of_json_is_cut_and_the_others_stay(self) -> None:
        page = {"id": 7, "page": {"title": "chunk 0", "body": "One. Two.", "tags": ["chunk 1", None]}}
        chunks = self.chunks(TestRecord(json.dumps(page)), path="page.body", size=1, overlap=0, headers="part")
        self.assertEqual([chunk.json()["page"]["body"] for chunk in chunks], ["One.", "Two."])
        for chunk in chunks:
            self.assertEqual({**chunk.json(), "page": {**chunk.json()["page"], "body": "One. Two."}}, page)
            self.assertEqual(chunk.header("part-count"), b"2")

    def test_what_stands_beside_the_text_stays_byte_for_byte(self) -> None:
        before = ' { "n" : 1.10, "e":1E2, "big": 123456789012345678901234567890.50,\n"far":1e400, "u":"\\u00e9\\/\\ud800", "a":{"body":"no"},'
        before += '"body": "first", "page":\t{"body": [1.0, "]}"], "bo\\u0064y" : '
        after = ' , "t":"{\\"body\\":\\"x\\"}"} ,"body":null}\r\n'
        chunks = self.chunks(TestRecord(f'{before}"O\\u006ee. Tw\\ud800.  "{after}'), path="page.body", size=1, overlap=0)
        self.assertEqual([chunk.text for chunk in chunks], [f'{before}"One."{after}', f'{before}"Tw\\ud800."{after}'])

    def test_a_document_is_read_as_often_as_its_path_is_long(self) -> None:
        # Texts that a mark could be mistaken for, each of which had the document written once more.
        words = [f"chunk {number}" for number in range(100_000)]
        chunks = self.chunks(TestRecord(json.dumps({"words": words, "body": "One. Two."})), path="body", size=1, overlap=0)
        self.assertEqual([chunk.json()["words"] == words for chunk in chunks], [True, True])

    def test_chunks_that_are_too_large_together_are_a_dead_letter_that_says_what_helps(self) -> None:
        for config, value in (
            ({"path": "body", "size": 1, "overlap": 0}, json.dumps({"beside": "x" * 48_000, "body": "w " * 2000})),
            ({"size": 4001, "overlap": 4000}, "word " * 8000),
        ):
            harness = Harness(ChunkText, config)
            self.assertRegex(
                str(harness.run_one(value).reason),
                r"\Athe first \d+ of \d+ chunks have 8\d{6} bytes, at most 8388608 can be: raise `size`, lower `overlap`, or ",
            )
            self.assertEqual(harness.counter("chunks_total"), 0)

    def test_what_has_no_text_says_so(self) -> None:
        harness = Harness(ChunkText, {"path": "body"})
        for value, reason in (
            ("{}", "the member 'body' is not there, expected text"),
            ("[]", "the member 'body' is not there, expected text"),
            ('{"body": 5}', "the member 'body' is int, expected text"),
            ('{"body": "a", "body": null}', "the member 'body' is not there, expected text"),
            ("{", "value is not JSON: "),
            ("[" * 200, "value is not JSON: nested more than 128 deep"),
        ):
            self.assertRegex(str(harness.run_one(value).reason), reason)
        self.assertRegex(str(Harness(ChunkText).run_one(b"\xff").reason), "value is not UTF-8 at byte 0")
        for empty in (TestRecord(), TestRecord(""), TestRecord(" \n")):
            self.assertTrue(Harness(ChunkText).run_one(empty).is_pass)

    def test_too_many_chunks_are_a_dead_letter_that_says_what_helps(self) -> None:
        answer = Harness(ChunkText, {"size": 1, "overlap": 0}).run_one("w " * 4096)
        self.assertEqual(answer.reason, "the text has 4096 chunks, at most 4095 can be: raise `size`")

    def test_chunks_are_counted(self) -> None:
        harness = Harness(ChunkText, {"size": 1, "overlap": 0})
        harness.run_one("One two three.")
        self.assertEqual(harness.counter("chunks_total"), 3)

    def test_a_wrong_configuration_is_refused_by_its_key(self) -> None:
        for config, message in (
            ({"size": 5, "overlap": 5}, "config key `overlap` is 5, expected less than `size`, 5"),
            ({"size": 0}, "config key `size` is 0, expected at least 1"),
            ({"path": "a..b"}, 'config key `path` is "a..b", expected member names'),
            ({"unit": "tokens"}, 'config key `unit` is "tokens", expected one of "words", "characters"'),
        ):
            with self.assertRaisesRegex(BadConfiguration, message):
                Harness(ChunkText, config)

    def test_the_cases_pass(self) -> None:
        run_cases(ChunkText, "cases/*.json")


if __name__ == "__main__":
    unittest.main()
