"""Handlers of tokens: lanes, what goes on of their text, and what comes of an exception."""

import json
import os
import tempfile
import unittest
from dataclasses import dataclass
from typing import Any, Union

from tidegate import PASS, Answer, End, Lane, Permanent, Record, Step, end, log, operator
from tidegate.testing import Harness, TestLane, Through, run_cases


@dataclass(frozen=True)
class Config:
    word: str


class Counting:
    """Counts the pieces of its lane."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str, last: bool) -> str:
        self.count += 1
        return f"{text}{self.count}{'.' if last else ''}"


class Forgetting:
    """Takes no text for nothing to do, and so never says what it has held back."""

    def __init__(self) -> None:
        self.held = ""

    def __call__(self, text: str, last: bool) -> str:
        if not text:
            return ""
        self.held += text
        return self.held if last else ""


@operator(name="try-out", config=Config, reads=["attributes"], tokens=True)
class TryOut:
    def __init__(self, config: Config) -> None:
        self.word = config.word

    def process(self, record: Record) -> Answer:
        return PASS

    def open(self, lane: Lane) -> Step:
        log.info(f"opens {lane.model}")
        if lane.model == "refused":
            raise Permanent("no-lane", "not this one")
        if lane.model == "no step":
            return "text"  # type: ignore[return-value]
        if lane.model == "counts":
            return Counting()
        if lane.model == "forgets":
            return Forgetting()
        if lane.model == "tells":
            told = f"{self.word} {lane.kind} {lane.call} {lane.attribute_text('a')} {lane.attribute_text('b')}"
            return lambda text, last: told
        return self.step

    def step(self, text: str, last: bool) -> Union[str, End]:
        if text == "bad":
            return end("so far", "filtered")
        if text == "throw":
            raise RuntimeError("boom")
        return 5 if text == "number" else text  # type: ignore[return-value]


def harness() -> Harness:
    return Harness(TryOut, {"word": "w"})


class Tokens(unittest.TestCase):
    def test_what_a_lane_keeps_is_its_own(self) -> None:
        started = harness()
        one, other = (started.open(TestLane(model="counts")) for _ in range(2))
        self.assertEqual(one.step("a"), Through("a1"))
        self.assertEqual(other.step("b"), Through("b1"))
        self.assertEqual(one.step("c", True), Through("c2."))
        self.assertEqual(started.log, [("info", "opens counts")] * 2)

    def test_a_lane_tells_what_the_operator_reads(self) -> None:
        lane = TestLane("arguments", call=2, model="tells", attributes=[("a", "1"), ("a", "2"), ("b", b"\xff")])
        self.assertEqual(harness().open(lane).step("").text, "w arguments 2 2 None")

        @operator(name="blind", tokens=True)
        class Blind:
            def process(self, record: Record) -> Answer:
                return PASS

            def open(self, lane: Lane) -> Step:
                return lambda text, last: str(lane.attributes)

        self.assertEqual(Harness(Blind).open(lane).step("").text, "()")

    def test_an_answer_ends_where_the_handler_says(self) -> None:
        self.assertEqual(harness().open().run(["good ", "bad", "more"]), Through("good so far", "filtered"))
        with self.assertRaisesRegex(ValueError, "an answer ends as 'now', expected stop or filtered"):
            end("x", "now")  # type: ignore[arg-type]

    def test_what_is_raised_fails_with_its_line(self) -> None:
        with self.assertRaisesRegex(Permanent, "no-lane: not this one"):
            harness().open(TestLane(model="refused"))
        with self.assertRaisesRegex(Permanent, "open returned 'text', expected a function of text"):
            harness().open(TestLane(model="no step"))
        with self.assertRaisesRegex(Permanent, r"exception: RuntimeError: boom \(test_tokens\.py:\d+\)"):
            harness().open().step("throw")
        with self.assertRaisesRegex(Permanent, "a step returned 5, expected text or end"):
            harness().open().step("number")

    def test_half_a_pair_of_surrogates_is_no_text(self) -> None:
        self.assertEqual(harness().open().step("a\ud800").text, "a\\ud800")

    def test_what_handles_tokens_is_a_class_with_open(self) -> None:
        def function(record: Record) -> Answer:
            return PASS

        class Without:
            def process(self, record: Record) -> Answer:
                return PASS

        class Wrong(Without):
            def open(self) -> Step:
                raise NotImplementedError

        declared: Any = operator(name="try-out", tokens=True)
        with self.assertRaisesRegex(TypeError, "handles tokens: write a class with process and open"):
            declared(function)
        for made in (Without, Wrong):
            with self.assertRaisesRegex(TypeError, r"has no method open\(self, lane\)"):
                declared(made)
        with self.assertRaisesRegex(TypeError, "the operator 'plain' handles no tokens"):
            Harness(operator(name="plain")(Without)).open()

    def test_cases_find_what_is_lost_where_the_end_comes_without_a_text(self) -> None:
        case = {"name": "one", "tokens": {"model": "forgets", "pieces": ["go", "od"], "through": "good"}}
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "tokens.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"config": {"word": "w"}, "cases": [case]}, file)
            with self.assertRaisesRegex(AssertionError, 'with its end apart, through: expected "good", came ""'):
                run_cases(TryOut, path)

    def test_cases_say_what_differs_and_that_another_cut_matters(self) -> None:
        tokens = {"pieces": ["go", "od"], "through": ["go", "no"], "end": "stop"}
        cases = [{"name": "one", "tokens": tokens}, {"name": "two", "tokens": {"pieces": ["b", "ad"], "through": "bad"}}]
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "tokens.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"config": {"word": "w"}, "cases": cases}, file)
            with self.assertRaises(AssertionError) as raised:
                run_cases(TryOut, path)
        for part in (
            'case "one", through: expected ["go", "no"], came ["go", "od"]',
            'case "one", end: expected "stop", came null',
            'case "two", the same text in one piece, through: expected "bad", came "so far"',
            'case "two", the same text in one piece, end: expected null, came "filtered"',
        ):
            self.assertIn(part, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
