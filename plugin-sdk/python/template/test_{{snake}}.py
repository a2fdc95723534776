"""Runs the operator natively, through the same encoding as in WebAssembly."""

import unittest

from tidegate import BadConfiguration
from tidegate.testing import Harness, run_cases

from {{snake}} import {{snake}}


class {{camel}}Tests(unittest.TestCase):
    def setUp(self) -> None:
        self.operator = Harness({{snake}}, {"words": ["secret"]})

    def test_a_listed_word_is_masked(self) -> None:
        answer = self.operator.run_one("a secret, kept")
        self.assertEqual(answer.record.text, "a ***, kept")

    def test_what_has_none_passes_as_it_is(self) -> None:
        self.assertTrue(self.operator.run_one("nothing to see").is_pass)

    def test_a_wrong_configuration_is_refused_by_its_key(self) -> None:
        with self.assertRaisesRegex(BadConfiguration, "words"):
            Harness({{snake}}, {"words": [""]})

    def test_the_cases_pass(self) -> None:
        run_cases({{snake}}, "cases/*.json")


if __name__ == "__main__":
    unittest.main()
