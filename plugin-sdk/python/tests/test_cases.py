"""Files of cases: what is different is told by case, record and field, and a wrong file by its place."""

import json
import os
import tempfile
import unittest
from typing import Any, Dict

from tidegate import Answer, Record, operator, replace
from tidegate.testing import run_cases
from tidegate.testing.cases import WrongCase


@operator(name="shout", reads=["value"])
def shout(record: Record) -> Answer:
    return replace(value=record.text.upper(), headers={"by": "shout"})


class Cases(unittest.TestCase):
    def run_case(self, case: Dict[str, Any], **document: Any) -> int:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "case.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"cases": [{"name": "one", **case}], **document}, file)
            return run_cases(shout, path)

    def test_a_case_that_fits_is_counted(self) -> None:
        patch = {"value": "HÉ", "headers": [["set", "by", "shout"]]}
        case = {"records": [{"value": "hé"}], "outcomes": [{"replace": patch}], "log": [], "metrics": []}
        self.assertEqual(self.run_case(case), 1)
        self.assertEqual(self.run_case({"sandbox": True}), 0)

    def test_a_difference_is_told_by_record_and_field(self) -> None:
        records = [{"value": "a"}, {"value": "b"}, {"value": {"base64": "/w=="}}]
        wanted = [{"replace": {"value": "B", "headers": [["set", "by", "shout"]]}}, {"replace": {"value": "B"}}, "drop"]
        with self.assertRaises(AssertionError) as caught:
            self.run_case({"records": records, "outcomes": wanted, "log": [["info", "x"]], "metrics": []})
        told = str(caught.exception)
        self.assertIn('case "one", record 1, value: expected "B", came "A"', told)
        self.assertIn('record 2, headers: expected no change, came [["set", "by", "shout"]]', told)
        self.assertIn("record 3, outcome: expected drop, came dead-letter (", told)
        self.assertIn('log: expected [["info", "x"]], came []', told)

    def test_a_file_that_is_not_in_the_format_is_told(self) -> None:
        for case, message in (
            ({"record": []}, "the case has the member 'record', expected name, config"),
            ({"records": [{"values": "a"}]}, "record 1 has the member 'values'"),
            ({"records": [{"value": 5}]}, "bytes are 5, expected text, null"),
            ({"records": [{"value": "a"}], "outcomes": []}, "0 outcomes of 1 records"),
            ({"records": [{}], "outcomes": [{"replaced": {}}]}, "an outcome is 'replaced', which is none"),
            ({"records": [{}], "outcomes": [{"poison": ""}]}, "an outcome is.*poison|the outcome is poison"),
            ({"outcomes": [], "failure": {}}, "are there together"),
            ({"seed": "00"}, "seed has 1 bytes, expected 16"),
        ):
            with self.assertRaisesRegex(WrongCase, message):
                self.run_case(case)

    def test_a_pattern_without_a_file_is_told(self) -> None:
        with self.assertRaisesRegex(AssertionError, "no file of cases is called none"):
            run_cases(shout, "none/*.json")
