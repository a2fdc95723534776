"""The record that an operator sees."""

from __future__ import annotations

import json
import re
import struct
from typing import Any, Callable, Literal, NamedTuple, Optional

from .arena import NO_TIME, NULL, last, pairs, within
from .draw import Random
from .failures import FieldError

# Offset and length of a field, from an entry of the table. Of one that is not read the length is null, or 0 of a block.
_KEY = struct.Struct("<40xII").unpack_from
_VALUE = struct.Struct("<48xII").unpack_from
_HEADERS = struct.Struct("<56xII").unpack_from
_ATTRIBUTES = struct.Struct("<64xII").unpack_from
_TIME = struct.Struct("<q").unpack_from
_ID = struct.Struct("<8xQQIHB").unpack_from
_CLOCK = struct.Struct("<40xq").unpack_from
_SEED = slice(48, 64)


class RecordId(NamedTuple):
    """Where a record comes from: no two records of a pipeline have the same, and it stays the same after a restart."""

    origin: Literal["source", "timer"]
    source: int
    """Index of the source in the pipeline."""
    partition: int
    offset: int
    emit: int
    """0 for a record as it was read, another number for each piece of a split. Do not compute with it."""


class Record:
    """One record, read where it lies in the batch: a field costs when it is asked for.

    Only the fields that the operator's `reads` names are there; of the others nothing is: None, or no pair.
    """

    __slots__ = ("_batch", "_at")

    def __init__(self, batch: bytes, at: int) -> None:
        self._batch = batch
        self._at = at

    @property
    def key(self) -> Optional[bytes]:
        """The key, None for null."""
        start, length = _KEY(self._batch, self._at)
        return None if length == NULL else within(self._batch, start, length)

    @property
    def value(self) -> Optional[bytes]:
        """The value, None for null (a tombstone)."""
        start, length = _VALUE(self._batch, self._at)
        return None if length == NULL else within(self._batch, start, length)

    @property
    def text(self) -> str:
        """The value as text. Raises `FieldError` if it is null or not UTF-8."""
        return text(self.value)

    def json(self) -> Any:
        """The value read as JSON (RFC 8259). Raises `FieldError` if it is null, not JSON, or nested more than 128 deep."""
        return read_json(self.value)

    def header(self, name: str) -> Optional[bytes]:
        """The value of the last header of this name, None if there is none or it is null."""
        batch = self._batch
        start, length = _HEADERS(batch, self._at)
        return last(batch, start, start + length, name)

    def header_text(self, name: str) -> Optional[str]:
        """The same as text, None also if it is not UTF-8."""
        return text_or_none(self.header(name))

    @property
    def headers(self) -> list[tuple[str, Optional[bytes]]]:
        """All headers in order; a name may repeat."""
        start, length = _HEADERS(self._batch, self._at)
        return list(pairs(self._batch, start, start + length))

    def attribute(self, name: str) -> Optional[bytes]:
        """The value of the last private attribute of this name, None if there is none or it is null."""
        start, length = _ATTRIBUTES(self._batch, self._at)
        return last(self._batch, start, start + length, name)

    def attribute_text(self, name: str) -> Optional[str]:
        """The same as text, None also if it is not UTF-8."""
        return text_or_none(self.attribute(name))

    @property
    def attributes(self) -> list[tuple[str, Optional[bytes]]]:
        """All private attributes in order: seen by later operators, never by a sink."""
        start, length = _ATTRIBUTES(self._batch, self._at)
        return list(pairs(self._batch, start, start + length))

    @property
    def id(self) -> RecordId:
        """Where the record comes from."""
        offset, emit, partition, source, origin = _ID(self._batch, self._at)
        return RecordId("timer" if origin else "source", source, partition, offset, emit)

    @property
    def event_time(self) -> Optional[int]:
        """When it happened, microseconds since the Unix epoch; None if it is not known."""
        time: int = _TIME(self._batch, self._at)[0]
        return None if time == NO_TIME else time

    @property
    def now(self) -> int:
        """The clock of the batch, microseconds since the Unix epoch: the one time that an operator sees."""
        clock: int = _CLOCK(self._batch)[0]
        return clock

    def random(self) -> Random:
        """Random numbers, the same whenever this record comes to this slot."""
        offset, emit, partition, source, origin = _ID(self._batch, self._at)
        return Random(self._batch[_SEED], origin, source, partition, offset, emit)

    def __repr__(self) -> str:
        identity = self.id
        return f"Record({identity.source}/{identity.partition}/{identity.offset}, value={_short(self.value)})"


def text(value: Optional[bytes]) -> str:
    """A value as text."""
    if value is None:
        raise FieldError("value is null, expected text")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise FieldError(f"value is not UTF-8 at byte {error.start}") from None


def text_or_none(value: Optional[bytes]) -> Optional[str]:
    """A value as text, None if it is none or not UTF-8."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def read_json(value: Optional[bytes]) -> Any:
    """A value read as JSON."""
    if value is None:
        raise FieldError("value is null, expected JSON")
    if is_deep(value):
        raise FieldError(f"value is not JSON: nested more than {DEEPEST} deep")
    try:
        return strict_json(value.decode())
    except ValueError as error:
        raise FieldError(f"value is not JSON: {error}") from None


DEEPEST = 128
"""The deepest that lists and tables of JSON may lie in each other: Python reads them by recursion, and a component has
little of a stack."""

# What begins and ends texts, lists and tables, and what only looks so.
_MARK = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


def is_deep(value: bytes) -> bool:
    """Whether lists and tables of JSON text lie deeper in each other than may be."""
    # To count what begins one is fast, and of most texts that is all.
    if value.count(b"[") + value.count(b"{") <= DEEPEST:
        return False
    depth, within = 0, False
    for match in _MARK.finditer(value):
        mark = match.group()
        if mark == b'"':
            within = not within
        elif within:
            continue
        elif mark in b"[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif mark in b"]}":
            depth -= 1
    return False


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


strict_json: Callable[[str], Any] = json.JSONDecoder(parse_constant=_no_constant).decode
"""Reads JSON text, without the NaN and Infinity that Python's own reader takes."""


def _short(value: Optional[bytes]) -> str:
    return repr(value) if value is None or len(value) <= 40 else f"{value[:40]!r}... ({len(value)} bytes)"
