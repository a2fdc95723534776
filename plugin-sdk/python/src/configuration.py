"""An operator's configuration: a dataclass, from which its JSON Schema, its defaults and its errors come.

    @dataclass(frozen=True)
    class Config:
        longest: Annotated[int, Range(1, 1_000_000), "The longest value that passes, bytes."]
        otherwise: Annotated[Literal["drop", "dead-letter"], "What becomes of a longer one."] = "drop"
        words: list[Annotated[str, Length(1)]] = field(default_factory=list)

A field can be `bool`, `int`, `float`, `str`, a `Literal` or an `Enum` of texts, another dataclass, `Any`, and `list`,
`dict[str, ...]` and `Optional` of these. A text in `Annotated` is its description.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

from .failures import BadConfiguration, Failure
from .record import DEEPEST, is_deep, strict_json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SHOWN = 200

Json = Any


def _check_bounds(bounds: Any, minimum: Optional[float], maximum: Optional[float]) -> None:
    """Refuses bounds that nothing lies between: where they are declared."""
    for bound in (minimum, maximum):
        if bound is not None and not -math.inf < bound < math.inf:
            raise ValueError(f"{bounds} has the bound {bound}, expected a finite number")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise ValueError(f"{bounds} has nothing between its bounds")


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both of which belong to it."""

    minimum: Optional[float] = None
    maximum: Optional[float] = None

    def __post_init__(self) -> None:
        _check_bounds(self, self.minimum, self.maximum)


@dataclass(frozen=True)
class Length:
    """Bounds of the length of a text (characters), a list or a table (entries)."""

    minimum: Optional[int] = None
    maximum: Optional[int] = None

    def __post_init__(self) -> None:
        _check_bounds(self, self.minimum, self.maximum)


@dataclass(frozen=True)
class Name:
    """The key of a field, where it is not the field's own name."""

    name: str


class Wrong(ValueError):
    """What is wrong with a configuration, and where."""


@dataclass(frozen=True)
class Place:
    """Where a value stands in a configuration: `rules[1].output`."""

    path: str = ""

    def key(self, name: str) -> "Place":
        return Place(f"{self.path}.{name}" if self.path else name)

    def entry(self, index: int) -> "Place":
        return Place(f"{self.path}[{index}]")

    def refuse(self, why: str) -> Wrong:
        return Wrong(f"config key `{self.path}` {why}" if self.path else f"config {why}")

    def wrong(self, value: Json, expected: str) -> Wrong:
        shown = json.dumps(value, ensure_ascii=False)
        if len(shown) > _SHOWN:
            shown = shown[:_SHOWN] + " ..."
        return self.refuse(f"is {shown}, expected {expected}")


class Shape:
    """What a value can be."""

    bounded: Optional[Type[Union[Range, Length]]] = None
    """What can bound it."""

    def schema(self) -> Dict[str, Json]:
        raise NotImplementedError

    def read(self, value: Json, place: Place) -> Any:
        raise NotImplementedError

    def show(self, value: Any) -> Json:
        return value


class _Whole(Shape):
    bounded = Range

    def schema(self) -> Dict[str, Json]:
        return {"type": "integer"}

    def read(self, value: Json, place: Place) -> int:
        # To JSON Schema 80.0 is a whole number too.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise place.wrong(value, "a whole number")
        return value


class _Number(Shape):
    bounded = Range

    def schema(self) -> Dict[str, Json]:
        return {"type": "number"}

    def read(self, value: Json, place: Place) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise place.wrong(value, "a number")
        try:
            number = float(value)
        except OverflowError:
            # A whole number may have any number of digits.
            number = math.inf
        if not math.isfinite(number):
            raise place.wrong(value, "a number that a float can be")
        return number


class _Text(Shape):
    bounded = Length

    def schema(self) -> Dict[str, Json]:
        return {"type": "string"}

    def read(self, value: Json, place: Place) -> str:
        if not isinstance(value, str):
            raise place.wrong(value, "text")
        return value


class _Truth(Shape):
    def schema(self) -> Dict[str, Json]:
        return {"type": "boolean"}

    def read(self, value: Json, place: Place) -> bool:
        if not isinstance(value, bool):
            raise place.wrong(value, "true or false")
        return value


class _Anything(Shape):
    def schema(self) -> Dict[str, Json]:
        return {}

    def read(self, value: Json, place: Place) -> Json:
        return value


class _Choice(Shape):
    def __init__(self, choices: Dict[str, Any]) -> None:
        self.choices = choices

    def schema(self) -> Dict[str, Json]:
        return {"enum": list(self.choices)}

    def read(self, value: Json, place: Place) -> Any:
        if not isinstance(value, str) or value not in self.choices:
            known = ", ".join(json.dumps(name, ensure_ascii=False) for name in self.choices)
            raise place.wrong(value, f"one of {known}")
        return self.choices[value]

    def show(self, value: Any) -> Json:
        return value.value if isinstance(value, enum.Enum) else value


class _List(Shape):
    bounded = Length

    def __init__(self, entry: Shape) -> None:
        self.entry = entry

    def schema(self) -> Dict[str, Json]:
        return {"type": "array", "items": self.entry.schema()}

    def read(self, value: Json, place: Place) -> Any:
        if not isinstance(value, list):
            raise place.wrong(value, "a list")
        return [self.entry.read(entry, place.entry(index)) for index, entry in enumerate(value)]

    def show(self, value: Any) -> Json:
        return [self.entry.show(entry) for entry in value]


class _Table(Shape):
    bounded = Length

    def __init__(self, entry: Shape) -> None:
        self.entry = entry

    def schema(self) -> Dict[str, Json]:
        return {"type": "object", "additionalProperties": self.entry.schema()}

    def read(self, value: Json, place: Place) -> Dict[str, Any]:
        if not isinstance(value, dict):
            raise place.wrong(value, "a table")
        return {name: self.entry.read(entry, place.key(name)) for name, entry in value.items()}

    def show(self, value: Any) -> Json:
        return {name: self.entry.show(entry) for name, entry in value.items()}


class _Described(Shape):
    """A shape with what `Annotated` says of it."""

    def __init__(self, shape: Shape, notes: Tuple[Any, ...], where: str) -> None:
        self.shape = shape
        self.bounded = shape.bounded
        self.range, self.length, self.texts = Range(), Length(), []
        for note in notes:
            if isinstance(note, str):
                self.texts.append(note)
            elif isinstance(note, (Range, Length)):
                if not (shape.bounded and isinstance(note, shape.bounded)):
                    raise TypeError(f"{where} has {note}, which cannot bound it")
                if isinstance(note, Range):
                    self.range = note
                else:
                    self.length = note

    def schema(self) -> Dict[str, Json]:
        schema = self.shape.schema()
        names = {"array": "Items", "object": "Properties"}.get(str(schema.get("type")), "Length")
        bounds = {
            "minimum": self.range.minimum,
            "maximum": self.range.maximum,
            f"min{names}": self.length.minimum,
            f"max{names}": self.length.maximum,
        }
        schema.update((name, bound) for name, bound in bounds.items() if bound is not None)
        if self.texts:
            own = [schema["description"]] if "description" in schema else []
            schema["description"] = "\n".join(self.texts + own)
        return schema

    def read(self, value: Json, place: Place) -> Any:
        read = self.shape.read(value, place)
        for limit, at in ((self.range.minimum, "least"), (self.range.maximum, "most")):
            if limit is not None and (value < limit if at == "least" else value > limit):
                raise place.wrong(value, f"at {at} {limit}")
        for limit, at in ((self.length.minimum, "least"), (self.length.maximum, "most")):
            if limit is not None and (len(value) < limit if at == "least" else len(value) > limit):
                unit = "characters" if isinstance(value, str) else "entries"
                raise place.refuse(f"has {len(value)} {unit}, expected at {at} {limit}")
        return read

    def show(self, value: Any) -> Json:
        return self.shape.show(value)


@dataclass(frozen=True)
class _Field:
    """A field of a dataclass and its key."""

    name: str
    key: str
    shape: Shape
    optional: bool
    default: Any


class Table(Shape):
    """A table with known keys: a dataclass."""

    def __init__(self, kind: Type[Any]) -> None:
        if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
            raise TypeError(f"a configuration is a dataclass, {kind!r} is none")
        self.kind = kind
        self.fields: List[_Field] = []
        hints = typing.get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            if field.init:
                self.fields.append(self._field(field, hints[field.name]))
        keys = [field.key for field in self.fields]
        for key in keys:
            if keys.count(key) > 1:
                raise TypeError(f"two fields of {kind.__name__} have the key {key!r}")

    def _field(self, field: "dataclasses.Field[Any]", hint: Any) -> _Field:
        where = f"{self.kind.__name__}.{field.name}"
        shape, optional, notes = _shape(hint, where)
        key = next((note.name for note in notes if isinstance(note, Name)), field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        made = _Field(field.name, key, shape, optional, default)
        if default is not dataclasses.MISSING and not (default is None and optional):
            try:
                shape.read(None if default is None else shape.show(default), Place(key))
            except (Wrong, AttributeError, TypeError) as error:
                raise TypeError(f"the default of {where} is {default!r}: {error}") from None
        return made

    def schema(self) -> Dict[str, Json]:
        keys: Dict[str, Json] = {}
        required = []
        for field in self.fields:
            schema = field.shape.schema()
            if field.default is not dataclasses.MISSING and field.default is not None:
                schema["default"] = field.shape.show(field.default)
            elif field.default is dataclasses.MISSING and not field.optional:
                required.append(field.key)
            keys[field.key] = schema
        schema = {"type": "object"}
        documentation = self.kind.__doc__ or ""
        # Without one of its own a dataclass has its signature there.
        if documentation and not documentation.startswith(self.kind.__name__ + "("):
            schema["description"] = " ".join(documentation.split())
        schema["properties"] = keys
        if required:
            schema["required"] = required
        schema["additionalProperties"] = False
        return schema

    def read(self, value: Json, place: Place) -> Any:
        if not isinstance(value, dict):
            raise place.wrong(value, "a table")
        known = {field.key for field in self.fields}
        for key in value:
            if key not in known:
                names = ", ".join(f"`{field.key}`" for field in self.fields) or "no key at all"
                raise place.key(key).refuse(f"is unknown, expected {names}")
        values = {}
        for field in self.fields:
            if field.key in value:
                values[field.name] = field.shape.read(value[field.key], place.key(field.key))
            elif field.default is dataclasses.MISSING:
                if not field.optional:
                    raise place.key(field.key).refuse("is missing")
                values[field.name] = None
        try:
            return self.kind(**values)
        except ValueError as error:
            # What its own `__post_init__` refuses.
            raise Wrong(str(error)) from None

    def show(self, value: Any) -> Json:
        shown = {}
        for field in self.fields:
            own = getattr(value, field.name)
            if own is not None:
                shown[field.key] = field.shape.show(own)
        return shown


_PLAIN: Dict[Any, Type[Shape]] = {bool: _Truth, int: _Whole, float: _Number, str: _Text, Any: _Anything}


def _shape(hint: Any, where: str) -> Tuple[Shape, bool, Tuple[Any, ...]]:
    """The shape of a type, whether it may be absent, and what `Annotated` says of it."""
    notes: Tuple[Any, ...] = ()
    optional = False
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            notes += hint.__metadata__
            hint = hint.__origin__
        elif origin in (Union, types.UnionType):
            others = [one for one in typing.get_args(hint) if one is not type(None)]
            if len(others) != 1 or optional:
                raise TypeError(f"{where} is of several types, which a configuration cannot have")
            optional = True
            hint = others[0]
        else:
            break
    shape = _plain(hint, where)
    return (_Described(shape, notes, where) if notes else shape), optional, notes


def _plain(hint: Any, where: str) -> Shape:
    if isinstance(hint, typing.Hashable) and hint in _PLAIN:
        return _PLAIN[hint]()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal and all(isinstance(choice, str) for choice in arguments):
        return _Choice({choice: choice for choice in arguments})
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and all(isinstance(one.value, str) for one in hint):
        return _Choice({one.value: one for one in hint})
    if origin is list:
        return _List(_entry(arguments[0], where))
    if origin is dict and arguments[0] is str:
        return _Table(_entry(arguments[1], where))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Table(hint)
    raise TypeError(
        f"{where} is of type {hint!r}, expected bool, int, float, str, Literal or Enum of texts, a dataclass, Any, or "
        "list, dict[str, ...] or Optional of these"
    )


def _entry(hint: Any, where: str) -> Shape:
    shape, optional, _ = _shape(hint, where)
    if optional:
        raise TypeError(f"an entry of {where} is Optional, which only a field can be")
    return shape


@dataclass(frozen=True)
class NoConfig:
    """The configuration of an operator that has none; any key is an error."""


C = TypeVar("C")


def config_schema(kind: Type[Any]) -> str:
    """The JSON Schema of a configuration, as the host is told it."""
    return json.dumps({"$schema": DIALECT, **Table(kind).schema()}, ensure_ascii=False)


def read_config(kind: Type[C], text: str) -> C:
    """Reads a configuration from JSON text; an empty text is an empty table. Raises `BadConfiguration`."""
    if is_deep(text.encode("utf-8", "surrogatepass")):
        raise BadConfiguration(f"config: nested more than {DEEPEST} deep")
    try:
        read: C = Table(kind).read(strict_json(text if text.strip() not in ("", "null") else "{}"), Place())
        return read
    except Wrong as error:
        raise BadConfiguration(str(error)) from None
    except Failure:
        raise
    except ValueError as error:
        raise BadConfiguration(f"config: {error}") from None
