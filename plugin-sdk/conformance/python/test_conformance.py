"""The cases of the suite, run natively: `python3 -m unittest`, or pytest."""

import unittest

from conformance import Conformance
from tidegate.testing import Harness, TestRecord, run_cases


class ConformanceTests(unittest.TestCase):
    def test_the_cases_of_the_suite_pass(self) -> None:
        self.assertGreater(run_cases(Conformance, "../cases/*.json"), 100)

    def test_an_exception_names_its_type_message_and_line(self) -> None:
        answer = Harness(Conformance).run_one(TestRecord(headers={"do": "throw"}))
        self.assertRegex(str(answer.reason), r"\ARuntimeError: boom \(conformance\.py:\d+\)\Z")


if __name__ == "__main__":
    unittest.main()
