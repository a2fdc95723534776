"""What becomes of a record."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta, timezone
from typing import Iterable, Mapping, Optional, Sequence, Tuple, Union

from .arena import NO_TIME, NULL
from .failures import brief

Data = Union[bytes, bytearray, memoryview, str]
"""What a field can be set to. A text is its UTF-8."""

Time = Union[int, datetime]
"""Microseconds since the Unix epoch, or a `datetime` that knows its time zone."""

MAX_PIECES = 4095
MAX_CHANGES = 65535
MAX_NAME = 65535
MAX_DELAY = 0xFFFFFFFF

PASSED, DROPPED, REPLACED, SPLIT, ROUTED, RETRIED, DEAD = range(7)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CHANGE = struct.Struct("<BHI").pack
_VALUE_ALONE = struct.Struct("<BI").pack
_LENGTH = struct.Struct("<I").pack
_COUNT = struct.Struct("<H").pack
_TIME = struct.Struct("<q").pack
_RETRY = struct.Struct("<II").pack
_NULL = _LENGTH(NULL)


class _Keep:
    """What is not mentioned stays as it was."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()


class Change:
    """A change of headers or attributes: `Set`, `Add` or `Remove`."""

    __slots__ = ("name", "value")
    operation = -1

    def __init__(self, name: str, value: Optional[Data]) -> None:
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.value!r})"


class Set(Change):
    """Replaces every header or attribute of the name by one. None is null, which is not empty."""

    __slots__ = ()
    operation = 0


class Add(Change):
    """Appends a header or an attribute; others of the name stay."""

    __slots__ = ()
    operation = 1


class Remove(Change):
    """Removes every header or attribute of the name."""

    __slots__ = ()
    operation = 2

    def __init__(self, name: str) -> None:
        super().__init__(name, None)

    def __repr__(self) -> str:
        return f"Remove({self.name!r})"


Changes = Union[Mapping[str, Optional[Data]], Sequence[Change]]
"""Changes of headers or attributes: a mapping sets its names, a list of `Set`, `Add` and `Remove` is made in its order."""


Parts = Tuple[bytes, ...]
"""Bytes that follow each other: they are joined once for a whole answer, so a large value is copied once."""

NOTHING: Parts = (b"\0",)
"""The patch that changes nothing."""


class Outcome:
    """What becomes of a record: `PASS`, `DROP`, or what `replace`, `split`, `route`, `retry` and `dead_letter` return."""

    __slots__ = ("action", "payload")

    def __init__(self, action: int, payload: Parts = ()) -> None:
        self.action = action
        self.payload = payload

    def __repr__(self) -> str:
        names = ("PASS", "DROP", "replace", "split", "route", "retry", "dead_letter")
        return f"<Outcome {names[self.action]}>"


class Routed(Outcome):
    """The outcome that `route` returns."""

    __slots__ = ("output",)

    def __init__(self, payload: Parts, output: str) -> None:
        super().__init__(ROUTED, payload)
        self.output = output


class Split(Outcome):
    """The outcome that `split` returns."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence["Piece"]) -> None:
        super().__init__(SPLIT)
        self.pieces = pieces


class Piece:
    """One record of a split; `piece` makes it."""

    __slots__ = ("output", "patch")

    def __init__(self, output: Optional[str], patch: Parts) -> None:
        self.output = output
        self.patch = patch


PASS = Outcome(PASSED)
"""The record goes on as it is."""

DROP = Outcome(DROPPED)
"""The record ends here."""


def replace(
    *,
    value: Union[Data, None, _Keep] = KEEP,
    key: Union[Data, None, _Keep] = KEEP,
    headers: Changes = (),
    attributes: Changes = (),
    event_time: Union[Time, None, _Keep] = KEEP,
) -> Outcome:
    """The record goes on changed: `replace(value="new", headers={"seen": "1"})`. What is not named stays as it was.

    `value=None` and `key=None` make them null, `event_time=None` takes the time away.
    """
    return Outcome(REPLACED, _patch(value, key, headers, attributes, event_time))


def route(
    output: str,
    *,
    value: Union[Data, None, _Keep] = KEEP,
    key: Union[Data, None, _Keep] = KEEP,
    headers: Changes = (),
    attributes: Changes = (),
    event_time: Union[Time, None, _Keep] = KEEP,
) -> Outcome:
    """The record goes to a named output, one of the operator's `outputs`, changed as by `replace`."""
    if not isinstance(output, str):
        raise TypeError(f"output is {brief(output)}, expected the name of an output")
    return Routed(_patch(value, key, headers, attributes, event_time), output)


def piece(
    to: Optional[str] = None,
    *,
    value: Union[Data, None, _Keep] = KEEP,
    key: Union[Data, None, _Keep] = KEEP,
    headers: Changes = (),
    attributes: Changes = (),
    event_time: Union[Time, None, _Keep] = KEEP,
) -> Piece:
    """One record of a split: how it differs from the record it came from, and the named output it goes to."""
    if to is not None and not isinstance(to, str):
        raise TypeError(f"output is {brief(to)}, expected the name of an output")
    return Piece(to, _patch(value, key, headers, attributes, event_time))


def split(pieces: Iterable[Piece]) -> Outcome:
    """The record becomes these, at most 4,095: `split(piece(value=part) for part in parts)`. Without any it ends."""
    made = list(pieces)
    for one in made:
        if not isinstance(one, Piece):
            raise TypeError(f"a split has {brief(one)}, expected what piece() returns")
    if len(made) > MAX_PIECES:
        raise ValueError(f"split into {len(made)} pieces, at most {MAX_PIECES} can be")
    return Split(made)


def retry(after: Union[float, timedelta], reason: str) -> Outcome:
    """The record comes again to this operator after these seconds, of which 10 minutes count, as often as the pipeline
    file says."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if not seconds >= 0:
        raise ValueError(f"a retry after {seconds} s, expected 0 or more")
    # Held against the longest before it is rounded: a product may be beyond all floats.
    delay = round(min(seconds * 1000, MAX_DELAY))
    why = _reason(reason)
    return Outcome(RETRIED, (_RETRY(delay, len(why)), why))


def dead_letter(reason: str) -> Outcome:
    """The record goes to the dead letters. Of the reason 4 KiB are kept, on one line."""
    why = _reason(reason)
    return Outcome(DEAD, (_LENGTH(len(why)), why))


def micros(time: Time) -> int:
    """A time as microseconds since the Unix epoch."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"the time {time.isoformat()} has no time zone")
        return (time - _EPOCH) // timedelta(microseconds=1)
    return time


def moment(time: int) -> datetime:
    """Microseconds since the Unix epoch as a `datetime` in UTC. Raises `OverflowError` outside of the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=time)


def _reason(reason: str) -> bytes:
    if not isinstance(reason, str):
        raise TypeError(f"reason is {brief(reason)}, expected text")
    return reason.encode("utf-8", "backslashreplace")


def _bytes(data: Data) -> bytes:
    kind = type(data)
    if kind is bytes:
        return data  # type: ignore[return-value]
    if kind is str:
        return data.encode()  # type: ignore[union-attr]
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"{type(data).__name__} is no field, expected bytes or str")


def _patch(
    value: Union[Data, None, _Keep],
    key: Union[Data, None, _Keep],
    headers: Changes,
    attributes: Changes,
    event_time: Union[Time, None, _Keep],
) -> Parts:
    if key is KEEP and event_time is KEEP and not headers and not attributes:
        # Most changes are of the value alone.
        if value is KEEP:
            return NOTHING
        if value is None:
            return (_VALUE_ALONE(2, NULL),)
        data = value if type(value) is bytes else _bytes(value)  # type: ignore[arg-type]
        return _VALUE_ALONE(2, len(data)), data
    mask, parts = 0, [b""]
    for bit, field in ((1, key), (2, value)):
        if field is None:
            mask |= bit
            parts.append(_NULL)
        elif not isinstance(field, _Keep):
            mask |= bit
            data = _bytes(field)
            parts.append(_LENGTH(len(data)))
            parts.append(data)
    for bit, changes, what in ((4, headers, "headers"), (8, attributes, "attributes")):
        if changes:
            mask |= bit
            _changes(changes, what, parts)
    if not isinstance(event_time, _Keep):
        mask |= 16
        parts.append(_TIME(NO_TIME if event_time is None else micros(event_time)))
    parts[0] = bytes((mask,))
    return tuple(parts)


def _changes(changes: Changes, what: str, parts: list[bytes]) -> None:
    if len(changes) > MAX_CHANGES:
        raise ValueError(f"{len(changes)} changes of {what}, at most {MAX_CHANGES} can be")
    parts.append(_COUNT(len(changes)))
    # Asked in this order because a test for a mapping of any kind is slow.
    if isinstance(changes, dict) or isinstance(changes, Mapping):
        for name, value in changes.items():
            _change(0, name, value, what, parts)
        return
    for change in changes:
        if not isinstance(change, Change) or change.operation < 0:
            raise TypeError(f"{what} have {brief(change)}, expected Set, Add or Remove")
        _change(change.operation, change.name, change.value, what, parts)


def _change(operation: int, name: str, value: Optional[Data], what: str, parts: list[bytes]) -> None:
    raw = name.encode()
    if len(raw) > MAX_NAME:
        raise ValueError(f"a name in {what} has {len(raw)} bytes, at most {MAX_NAME} can be")
    if value is None:
        parts.append(_CHANGE(operation, len(raw), NULL) + raw)
    else:
        data = _bytes(value)
        parts.append(_CHANGE(operation, len(raw), len(data)) + raw + data)
