"""What an operator measures.

A metric is a constant that `@operator(metrics=[...])` names. It is measured while a record is processed and counts if the
outcome of that record does, so records that come again count once. What was measured for a record that raised does not
count.

    WORDS = Counter("words_total", "Words seen, by language", labels=["language"])
    WORDS.add(3, language="en")
"""

from __future__ import annotations

import math
import re
import struct
from typing import Dict, List, Sequence, Tuple

MAX_MEASUREMENTS = 256
MAX_LABEL = 256
MAX_AMOUNT = 1 << 53

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")
_HEAD = struct.Struct("<HH").pack
_AMOUNT = struct.Struct("<Q").pack
_VALUE = struct.Struct("<d").pack
_LENGTH = struct.Struct("<H").pack

# What has been measured for the record that is processed, and the places of the metrics of its operator. One operator is
# at work at a time.
measured: List[bytes] = []
places: Dict["Metric", int] = {}


class Metric:
    """What `Counter`, `Gauge` and `Histogram` have in common."""

    kind = ""

    def __init__(self, name: str, help: str, labels: Sequence[str] = (), bounds: Sequence[float] = ()) -> None:
        for one in (name, *labels):
            if not _NAME.match(one):
                raise ValueError(f"metric {name!r} has the name {one!r}, expected [a-z][a-z0-9_]*, at most 64 bytes")
        if isinstance(labels, str) or len(labels) > 8 or len(set(labels)) < len(labels):
            raise ValueError(f"metric {name!r} has the labels {labels!r}, expected a list of at most 8, each once")
        for label in labels:
            if label in ("slot", "revision", "le"):
                raise ValueError(f"metric {name!r} has the label {label!r}, which is the host's")
        if len(help.encode()) > 512 or _CONTROL.search(help):
            raise ValueError(f"the help of metric {name!r} is {help!r}, expected one line of at most 512 bytes")
        self.name = name
        self.help = help
        self.labels = tuple(labels)
        self.bounds = tuple(float(bound) for bound in bounds)

    def lines(self) -> Tuple[str, ...]:
        """The names that its lines have where the host shows it, without what all begin with."""
        if self.kind == "counter" and not self.name.endswith("_total"):
            return (f"{self.name}_total",)
        if self.kind == "histogram":
            return (self.name, *(f"{self.name}_{part}" for part in ("bucket", "sum", "count")))
        return (self.name,)

    def _measure(self, bits: bytes, labels: Dict[str, str]) -> None:
        place = places.get(self)
        if place is None:
            raise ValueError(f"metric {self.name!r} is not among the metrics of the operator that is at work")
        if len(measured) >= MAX_MEASUREMENTS:
            raise ValueError(f"a record has more than {MAX_MEASUREMENTS} measurements")
        if len(labels) != len(self.labels):
            raise ValueError(f"metric {self.name!r} is measured with {_list(labels)}, it has {_list(self.labels)}")
        parts = [_HEAD(place, len(self.labels)), bits]
        for label in self.labels:
            if label not in labels:
                raise ValueError(f"metric {self.name!r} is measured with {_list(labels)}, it has {_list(self.labels)}")
            value = cut(labels[label])
            parts.append(_LENGTH(len(value)) + value)
        measured.append(b"".join(parts))


class Counter(Metric):
    """A sum of amounts. Its name ends with `_total`."""

    kind = "counter"

    def __init__(self, name: str, help: str, *, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)

    def add(self, amount: int = 1, /, **labels: str) -> None:
        """Adds an amount, a whole number from 0 to 2^53, under these values of its labels."""
        if not isinstance(amount, int) or not 0 <= amount <= MAX_AMOUNT:
            raise ValueError(f"counter {self.name!r} is given {amount!r}, expected a whole number from 0 to 2^53")
        self._measure(_AMOUNT(amount), labels)


class Gauge(Metric):
    """The last of some values."""

    kind = "gauge"

    def __init__(self, name: str, help: str, *, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)

    def set(self, value: float, /, **labels: str) -> None:
        """Sets the value under these values of its labels. One that is not finite is ignored."""
        if math.isfinite(value):
            self._measure(_VALUE(value), labels)


class Histogram(Metric):
    """How often values fell between bounds."""

    kind = "histogram"

    def __init__(self, name: str, help: str, *, labels: Sequence[str] = (), bounds: Sequence[float] = ()) -> None:
        """`bounds` are upper bounds, ascending, at most 32; without them those usual for seconds, 0.005 to 10."""
        super().__init__(name, help, labels, bounds)
        ascending = all(low < high for low, high in zip(self.bounds, self.bounds[1:]))
        if len(self.bounds) > 32 or not ascending or not all(map(math.isfinite, self.bounds)):
            raise ValueError(f"the bounds of metric {name!r} are {bounds!r}, expected at most 32, finite and ascending")

    def observe(self, value: float, /, **labels: str) -> None:
        """Adds a value under these values of its labels. One that is not finite is ignored."""
        if math.isfinite(value):
            self._measure(_VALUE(value), labels)


def cut(label: str) -> bytes:
    """As much of a label's value as the host takes, up to a border between characters."""
    value = label.encode("utf-8", "backslashreplace")
    if len(value) > MAX_LABEL:
        value = value[:MAX_LABEL].decode("utf-8", "ignore").encode()
    return value


def _list(labels: Sequence[str] | Dict[str, str]) -> str:
    return f"the labels {', '.join(labels)}" if labels else "no labels"
