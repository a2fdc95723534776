"""Configurations: schema, defaults, and what is said of a wrong one."""

import json
import unittest
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Dict, List, Literal, Optional

from tidegate import BadConfiguration, Length, Name, Range
from tidegate.configuration import config_schema, read_config


class Kind(Enum):
    PLAIN = "plain"
    RICH = "rich"


@dataclass(frozen=True)
class Rule:
    """A rule."""

    output: Annotated[str, Length(1, 8), "Where it goes."]
    weight: Annotated[float, Range(0, 1)] = 0.5


@dataclass(frozen=True)
class Config:
    """What is done,
    and how."""

    longest: Annotated[int, Range(1, 100), "Characters."]
    otherwise: Literal["drop", "keep"] = "drop"
    kind: Kind = Kind.PLAIN
    rules: Annotated[List[Rule], Length(maximum=2)] = field(default_factory=list)
    by_name: Dict[str, int] = field(default_factory=dict)
    label: Optional[str] = None
    class_name: Annotated[Optional[str], Name("class")] = None
    anything: Any = None
    strict: bool = True

    def __post_init__(self) -> None:
        if self.longest == 13:
            raise ValueError("config key `longest` is 13, expected a lucky number")


class Configurations(unittest.TestCase):
    def refused(self, config: Any) -> str:
        with self.assertRaises(BadConfiguration) as caught:
            read_config(Config, config if isinstance(config, str) else json.dumps(config))
        return caught.exception.message

    def test_a_schema_is_made_of_the_type(self) -> None:
        schema = json.loads(config_schema(Config))
        self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
        self.assertEqual(schema["description"], "What is done, and how.")
        self.assertEqual(schema["required"], ["longest"])
        self.assertIs(schema["additionalProperties"], False)
        keys = schema["properties"]
        self.assertEqual(keys["longest"], {"type": "integer", "minimum": 1, "maximum": 100, "description": "Characters."})
        self.assertEqual(keys["otherwise"], {"enum": ["drop", "keep"], "default": "drop"})
        self.assertEqual(keys["kind"], {"enum": ["plain", "rich"], "default": "plain"})
        self.assertEqual(keys["rules"]["maxItems"], 2)
        self.assertEqual(keys["rules"]["items"]["required"], ["output"])
        self.assertEqual(keys["rules"]["items"]["properties"]["output"]["maxLength"], 8)
        self.assertEqual(keys["by_name"], {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}})
        self.assertEqual(keys["label"], {"type": "string"})
        self.assertEqual(keys["class"], {"type": "string"})
        self.assertEqual(keys["anything"], {})

    def test_values_are_filled_in(self) -> None:
        config = read_config(Config, '{"longest": 80.0, "kind": "rich", "rules": [{"output": "a"}], "class": "c"}')
        self.assertEqual((config.longest, type(config.longest)), (80, int))
        self.assertIs(config.kind, Kind.RICH)
        self.assertEqual(config.rules, [Rule("a", 0.5)])
        self.assertEqual((config.otherwise, config.label, config.class_name, config.strict), ("drop", None, "c", True))

    def test_a_number_that_is_whole_is_an_int_however_it_is_written(self) -> None:
        for text, whole in (("1.0", 1), ("1e1", 10), ("0.5e1", 5), ("100", 100)):
            config = read_config(Config, f'{{"longest": {text}}}')
            self.assertEqual((config.longest, type(config.longest)), (whole, int))
        for text in ("1.5", "1e-1", "1e400"):
            self.assertRegex(self.refused(f'{{"longest": {text}}}'), "expected a whole number")

    def test_a_number_beyond_all_floats_is_refused_by_its_key(self) -> None:
        for weight in ("1" * 400, "1e400", "-1e400"):
            refused = self.refused(f'{{"longest": 1, "rules": [{{"output": "a", "weight": {weight}}}]}}')
            self.assertRegex(refused, r"config key `rules\[0\].weight` is .*, expected a number that a float can be")
        self.assertRegex(self.refused('{"longest": ' + "1" * 5000 + "}"), "config: ")

    def test_an_error_names_the_key_its_value_and_what_would_be_right(self) -> None:
        wanted = {
            "config key `longest` is missing": {},
            "config key `longest` is 0, expected at least 1": {"longest": 0},
            "config key `longest` is 101, expected at most 100": {"longest": 101},
            'config key `longest` is "5", expected a whole number': {"longest": "5"},
            "config key `longest` is true, expected a whole number": {"longest": True},
            "config key `longest` is 1.5, expected a whole number": {"longest": 1.5},
            "config key `label` is null, expected text": {"longest": 1, "label": None},
            'config key `otherwise` is "pass", expected one of "drop", "keep"': {"longest": 1, "otherwise": "pass"},
            "config key `rules` has 3 entries, expected at most 2": {"longest": 1, "rules": [{"output": "a"}] * 3},
            "config key `rules[0].output` has 0 characters, expected at least 1": {"longest": 1, "rules": [{"output": ""}]},
            "config key `rules[0].weight` is 2, expected at most 1": {
                "longest": 1,
                "rules": [{"output": "a", "weight": 2}],
            },
            "config key `by_name.x` is [], expected a whole number": {"longest": 1, "by_name": {"x": []}},
            "config key `longest` is 13, expected a lucky number": {"longest": 13},
            "config is [], expected a table": "[]",
        }
        for message, config in wanted.items():
            self.assertEqual(self.refused(config), message)
        self.assertRegex(self.refused({"longest": 1, "rule": 1}), "config key `rule` is unknown, expected `longest`, ")
        self.assertRegex(self.refused('{"longest": NaN}'), "config: NaN is no JSON")
        self.assertRegex(self.refused("{"), "config: ")
        self.assertEqual(self.refused('{"anything":' + "[" * 100_000), "config: nested more than 128 deep")

    def test_a_type_that_cannot_be_is_found_when_it_is_declared(self) -> None:
        def schema(hint: Any, **default: Any) -> str:
            kind = type("Bad", (), {"__annotations__": {"key": hint}, "__module__": __name__, **default})
            return config_schema(dataclass(kind))

        for hint, message in (
            (bytes, "Bad.key is of type <class 'bytes'>, expected bool, int"),
            (Optional[Dict[int, str]], "Bad.key is of type typing.Dict"),
            (List[Optional[str]], "an entry of Bad.key is Optional"),
            (Annotated[bool, Range(0, 1)], "Bad.key has Range"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                schema(hint)
        with self.assertRaisesRegex(TypeError, "the default of Bad.key is 5: .*at most 1"):
            schema(Annotated[int, Range(0, 1)], key=5)
        with self.assertRaisesRegex(TypeError, "the default of Bad.key is None: .*expected a whole number"):
            schema(int, key=None)
        for kind, bounds in ((Range, (5, 1)), (Length, (2, 1)), (Range, (float("nan"), None)), (Range, (None, float("inf")))):
            with self.assertRaisesRegex(ValueError, "has nothing between its bounds|expected a finite number"):
                kind(*bounds)
        with self.assertRaisesRegex(TypeError, "a configuration is a dataclass"):
            config_schema(int)
