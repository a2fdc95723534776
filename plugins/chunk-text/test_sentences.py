"""Sentences and words of many scripts."""

import unittest
from typing import List

from sentences import ABBREVIATIONS, read


def sentences(text: str) -> List[str]:
    found = read(text)
    starts = [0, *(stop + 1 for stop in found.sentences)]
    return [text[found.starts[first] : found.ends[last]] for first, last in zip(starts, found.sentences)]


class Sentences(unittest.TestCase):
    def test_they_end_with_a_mark_and_a_space(self) -> None:
        self.assertEqual(sentences("One. Two! Three? Four"), ["One.", "Two!", "Three?", "Four"])
        self.assertEqual(sentences('He said "Go." Then he left.'), ['He said "Go."', "Then he left."])
        self.assertEqual(sentences("Really?! Yes... Sure…"), ["Really?!", "Yes...", "Sure…"])
        self.assertEqual(sentences("Version 1.2.3 costs 4.50 at example.com today."), ["Version 1.2.3 costs 4.50 at example.com today."])

    def test_a_full_stop_of_a_word_ends_none(self) -> None:
        for text in (
            "Dr. Smith met Mr. Jones at St. Mary.",
            "J. S. Bach wrote it.",
            "Bring apples, e.g. Boskoop, on 3. Oktober.",
            "Das gilt z.B. Montags und bzw. Dienstags.",
            "Approx. five vs. six.",
            "It stops. here in lower case.",
        ):
            self.assertEqual(sentences(text), [text])
        self.assertEqual(sentences("It was 1999. Then came 2000."), ["It was 1999.", "Then came 2000."])

    def test_other_scripts_have_their_own_marks(self) -> None:
        self.assertEqual(sentences("你好。世界很大！「真的？」是。"), ["你好。", "世界很大！", "「真的？」", "是。"])
        self.assertEqual(sentences("これはペンです。あれは本です。"), ["これはペンです。", "あれは本です。"])
        self.assertEqual(sentences("यह एक वाक्य है। यह दूसरा है।"), ["यह एक वाक्य है।", "यह दूसरा है।"])
        self.assertEqual(sentences("هل أنت هنا؟ نعم."), ["هل أنت هنا؟", "نعم."])
        self.assertEqual(sentences("Это первое. Это второе."), ["Это первое.", "Это второе."])

    def test_an_empty_line_ends_one(self) -> None:
        self.assertEqual(sentences("A heading\n\nA text\nof two lines"), ["A heading", "A text\nof two lines"])
        self.assertEqual(sentences("A heading \r\n \r\nA text"), ["A heading", "A text"])
        self.assertEqual(sentences("\n\nA text \n\n"), ["A text"])

    def test_a_text_without_a_word_has_none(self) -> None:
        for text in ("", " \n\n \u3000"):
            self.assertEqual(sentences(text), [])

    def test_words_without_spaces_are_characters(self) -> None:
        self.assertEqual(len(read("世界 hello こんにちは").ends), 8)
        self.assertEqual(len(read("a b\u00a0c\td").ends), 4)

    def test_abbreviations_are_in_lower_case(self) -> None:
        self.assertEqual([word for word in ABBREVIATIONS if word != word.lower()], [])
