"""What an operator is: a function or a class with `@operator(...)` above it."""

from __future__ import annotations

import inspect
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Literal, Optional, Protocol, Sequence, Tuple, Type, TypeVar, Union, overload

from .configuration import NoConfig, config_schema
from .metrics import Metric
from .outcomes import Outcome
from .record import Record
from .tokens import Handler

Field = Literal["key", "value", "headers", "attributes"]
Answer = Union[Outcome, bool]
"""What `process` returns: an outcome, or True to pass and False to drop."""

MARK = "__tidegate__"
FIELDS = ("key", "value", "headers", "attributes")

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
# Of a number before the build at most 19 digits, so that it fits into 64 bits, and none of them a zero in front.
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_BEFORE = r"(?:(?:0|[1-9][0-9]*)(?![0-9A-Za-z-])|(?=[0-9]*[A-Za-z-])[0-9A-Za-z-]+)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_BEFORE}(\.{_BEFORE})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?\Z"
)


class Processor(Protocol):
    """An operator that is a class: `process` says what becomes of a record."""

    def process(self, record: Record, /) -> Answer: ...


C = TypeVar("C")
F = TypeVar("F", bound=Callable[[Record], Answer])
P = TypeVar("P", bound=Processor)


class Plain(Protocol):
    """Declares an operator without a configuration."""

    @overload
    def __call__(self, made: Type[P], /) -> Type[P]: ...
    @overload
    def __call__(self, made: F, /) -> F: ...


class Configured(Protocol[C]):
    """Declares an operator with one."""

    @overload
    def __call__(self, made: Type[P], /) -> Type[P]: ...
    @overload
    def __call__(self, made: Callable[[Record, C], Answer], /) -> Callable[[Record, C], Answer]: ...


@dataclass(frozen=True)
class Declared:
    """What `@operator` was told, and what it stands above."""

    name: str
    version: str
    reads: Tuple[str, ...]
    outputs: Union[Tuple[str, ...], Callable[[Any], Iterable[str]]]
    metrics: Tuple[Metric, ...]
    config: Type[Any]
    schema: str
    made: Callable[..., Any]
    tokens: bool
    """Whether it handles tokens: it is a class with a method `open`."""
    root: str
    """The directory of its source."""

    def named_outputs(self, config: Any) -> Tuple[str, ...]:
        """The outputs under a configuration."""
        if not callable(self.outputs):
            return self.outputs
        return _outputs(dict.fromkeys(self.outputs(config)))

    def start(self, config: Any) -> Tuple[Callable[[Record], Any], Optional[Handler]]:
        """Makes the operator of its configuration: what it does with a record, and what handles tokens."""
        plain = self.config is NoConfig
        if isinstance(self.made, type):
            one = self.made() if plain else self.made(config)
            return one.process, one if self.tokens else None
        if plain:
            return self.made, None
        function = self.made
        return lambda record: function(record, config), None


@overload
def operator(
    *,
    name: str,
    version: str = ...,
    reads: Sequence[Field] = ...,
    outputs: Sequence[str] = ...,
    metrics: Sequence[Metric] = ...,
    tokens: bool = ...,
) -> Plain: ...
@overload
def operator(
    *,
    name: str,
    config: Type[C],
    version: str = ...,
    reads: Sequence[Field] = ...,
    outputs: Union[Sequence[str], Callable[[C], Iterable[str]]] = ...,
    metrics: Sequence[Metric] = ...,
    tokens: bool = ...,
) -> Configured[C]: ...
def operator(
    *,
    name: str,
    config: Optional[Type[Any]] = None,
    version: str = "0.1.0",
    reads: Sequence[Field] = (),
    outputs: Union[Sequence[str], Callable[[Any], Iterable[str]]] = (),
    metrics: Sequence[Metric] = (),
    tokens: bool = False,
) -> Any:
    """Declares an operator: a function of a record (and its configuration), or a class with a method `process`.

    - `name` is a verb, `redact-pii`; `version` is semver.
    - `reads` names the fields of a record that it asks for. Of the others nothing is there.
    - `outputs` are its named outputs beside the main one, or a function that makes them of the configuration.
    - `config` is a dataclass. A function is given it with each record, a class when it is made.
    - `metrics` are those that it measures.
    - `tokens` says that it handles the text of answers as a model makes them: it is a class with a method `open(lane)`,
      which returns what gets the text of that lane, and operator.toml has `handlers = ["tokens"]`.

    An instance of a class is made once for each task, and again after a trap or a deadline: keep in it what can be made
    of the configuration, or lost.
    """
    if not _NAME.match(name) or len(name) > 128:
        raise ValueError(f"name is {name!r}, expected a verb in lower case with hyphens, at most 128 bytes")
    if not _VERSION.match(version) or len(version) > 128:
        raise ValueError(f"version is {version!r}, expected one such as 1.2.3, at most 128 bytes")
    if isinstance(reads, str):
        raise TypeError(f"reads is {reads!r}, expected a list of {', '.join(FIELDS)}")
    for field in reads:
        if field not in FIELDS:
            raise ValueError(f"reads has {field!r}, expected {', '.join(FIELDS)}")
    if isinstance(outputs, str):
        raise TypeError(f"outputs is {outputs!r}, expected a list of names")
    found = outputs if callable(outputs) else _outputs(outputs)
    names = [metric.name for metric in metrics]
    if len(names) > 64 or len(set(names)) < len(names):
        raise ValueError(f"metrics are {', '.join(names)}, expected at most 64, each name once")
    shown = {"series_refused_total": "a metric of the host"}
    for metric in metrics:
        for line in metric.lines():
            if line in shown:
                raise ValueError(f"metric {metric.name!r} is shown as {line}, as {shown[line]} is")
            shown[line] = repr(metric.name)
    kind = NoConfig if config is None else config
    schema = config_schema(kind)

    def declare(made: Any) -> Any:
        _check(made, name, config)
        if tokens:
            _check_tokens(made, name)
        file = sys.modules[made.__module__].__file__ or "."
        root = os.path.dirname(os.path.abspath(file))
        declared = Declared(name, version, tuple(reads), found, tuple(metrics), kind, schema, made, tokens, root)
        setattr(made, MARK, declared)
        return made

    return declare


def _outputs(names: Iterable[str]) -> Tuple[str, ...]:
    names = tuple(names)
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= 128 or not name.isprintable():
            raise ValueError(f"outputs have {name!r}, expected a name of 1 to 128 bytes without control characters")
    if len(names) > 256 or len(set(names)) < len(names):
        raise ValueError(f"outputs are {', '.join(names)}, expected at most 256, each once")
    return names


def _check(made: Any, name: str, config: Optional[Type[Any]]) -> None:
    """An operator that takes something else is found here, and not with the first record."""
    process = made
    takes = ["record"] if config is None else ["record", "config"]
    if isinstance(made, type):
        process = getattr(made, "process", None)
        if not callable(process):
            raise TypeError(f"{made.__name__}, the operator {name!r}, has no method process(self, record)")
        takes = ["self", "record"]
        try:
            inspect.signature(made).bind(*([] if config is None else [config]))
        except TypeError:
            expected = "(self)" if config is None else "(self, config)"
            raise TypeError(f"{made.__name__}, the operator {name!r}, is not made by __init__{expected}") from None
    try:
        inspect.signature(process).bind(*takes)
    except TypeError:
        shown = getattr(process, "__qualname__", repr(process))
        raise TypeError(f"{shown}, the operator {name!r}, does not take ({', '.join(takes)})") from None
    if inspect.iscoroutinefunction(process) or inspect.isgeneratorfunction(process):
        raise TypeError(f"the operator {name!r} is a coroutine or a generator, expected a function that returns an outcome")


def _check_tokens(made: Any, name: str) -> None:
    if not isinstance(made, type):
        raise TypeError(f"{made.__qualname__}, the operator {name!r}, handles tokens: write a class with process and open")
    opened = getattr(made, "open", None)
    try:
        if opened is None:
            raise TypeError
        inspect.signature(opened).bind("self", "lane")
    except TypeError:
        raise TypeError(f"{made.__name__}, the operator {name!r}, has no method open(self, lane)") from None


def declared_by(made: Any) -> Declared:
    """What `@operator` was told about a function or a class."""
    found = getattr(made, MARK, None)
    if not isinstance(found, Declared):
        raise TypeError(f"{made!r} has no @operator above it")
    return found


def only_operator(module: Any) -> Declared:
    """The operator of a module; there is exactly one."""
    found = [one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__]
    marked = [one.__dict__[MARK] for one in found if MARK in getattr(one, "__dict__", {})]
    file = os.path.basename(module.__file__ or module.__name__)
    if len(marked) != 1:
        names = ", ".join(repr(one.name) for one in marked) or "none"
        raise TypeError(f"{file} has the operators {names}, expected one with @operator above it")
    one: Declared = marked[0]
    return one
