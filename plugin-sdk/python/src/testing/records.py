"""Records that own what they hold, and the batch that is made of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ..arena import ATTRIBUTES, HEADERS, KEY, NO_TIME, NULL, VALUE
from ..outcomes import Data
from ..record import RecordId, read_json, text, text_or_none

Pair = Tuple[str, Optional[bytes]]
Pairs = Tuple[Pair, ...]
NewPairs = Union[Mapping[str, Optional[Data]], Iterable[Tuple[str, Optional[Data]]]]

BITS = {"key": KEY, "value": VALUE, "headers": HEADERS, "attributes": ATTRIBUTES}

_HEAD = struct.Struct("<4sIIIIIIIIIq16s")
_ENTRY = struct.Struct("<qQQIHBBHHIIIIIIIII")


def _bytes(data: Optional[Data]) -> Optional[bytes]:
    return data.encode() if isinstance(data, str) else None if data is None else bytes(data)


def pairs_of(pairs: NewPairs) -> Pairs:
    found = pairs.items() if isinstance(pairs, Mapping) else pairs
    return tuple((name, _bytes(value)) for name, value in found)


@dataclass(frozen=True, init=False)
class TestRecord:
    """A record that owns its fields: what goes into a test, and what comes out. It is looked at as a `Record` is."""

    __test__ = False

    value: Optional[bytes]
    key: Optional[bytes]
    headers: Pairs
    attributes: Pairs
    event_time: Optional[int]
    id: RecordId

    def __init__(
        self,
        value: Optional[Data] = None,
        *,
        key: Optional[Data] = None,
        headers: NewPairs = (),
        attributes: NewPairs = (),
        event_time: Optional[int] = None,
        id: Optional[RecordId] = None,
    ) -> None:
        """Headers and attributes are pairs of a name and a value, or a mapping. Without `id` it is the place in the batch."""
        mine = object.__setattr__
        mine(self, "value", _bytes(value))
        mine(self, "key", _bytes(key))
        mine(self, "headers", pairs_of(headers))
        mine(self, "attributes", pairs_of(attributes))
        mine(self, "event_time", event_time)
        mine(self, "id", id)

    @property
    def text(self) -> str:
        """The value as text. Raises `FieldError` if it is null or not UTF-8."""
        return text(self.value)

    def json(self) -> Any:
        """The value read as JSON. Raises `FieldError` if it is null or not JSON."""
        return read_json(self.value)

    def header(self, name: str) -> Optional[bytes]:
        """The value of the last header of this name, None if there is none or it is null."""
        return dict(self.headers).get(name)

    def header_text(self, name: str) -> Optional[str]:
        """The same as text, None also if it is not UTF-8."""
        return text_or_none(self.header(name))

    def attribute(self, name: str) -> Optional[bytes]:
        """The value of the last private attribute of this name, None if there is none or it is null."""
        return dict(self.attributes).get(name)

    def attribute_text(self, name: str) -> Optional[str]:
        """The same as text, None also if it is not UTF-8."""
        return text_or_none(self.attribute(name))


def placed(records: Sequence[TestRecord]) -> List[TestRecord]:
    """The records, those without an identity with their place in the batch."""
    return [
        record if record.id is not None else replaced(record, id=RecordId("source", 0, 0, index, 0))
        for index, record in enumerate(records)
    ]


def replaced(record: TestRecord, **changes: Any) -> TestRecord:
    """A record with other fields."""
    names = ("value", "key", "headers", "attributes", "event_time", "id")
    fields = {name: getattr(record, name) for name in names}
    return TestRecord(**{**fields, **changes})


def pack(records: Sequence[TestRecord], reads: Iterable[str], clock: int, seed: bytes) -> bytes:
    """A batch of layout 2 with the fields that are read, and nothing of the others."""
    present = sum(BITS[field] for field in set(reads))
    heap = bytearray(_HEAD.size)
    entries = [_entry(record, present, heap) for record in records]
    heap += bytes(-len(heap) % 8)
    table = len(heap)
    total = table + _ENTRY.size * len(entries)
    heap[: _HEAD.size] = _HEAD.pack(
        b"TGB\x02", total, _HEAD.size, 0, len(entries), _ENTRY.size, table, 0, 0, 0, clock, seed
    )
    return bytes(heap) + b"".join(entries)


def _entry(record: TestRecord, present: int, heap: bytearray) -> bytes:
    spans: List[int] = []
    for bit, field in ((KEY, record.key), (VALUE, record.value)):
        field = field if present & bit else None
        spans += (len(heap) if present & bit else 0, NULL if field is None else len(field))
        heap += field or b""
    counts = []
    for bit, pairs in ((HEADERS, record.headers), (ATTRIBUTES, record.attributes)):
        pairs = pairs if present & bit else ()
        start = len(heap)
        for name, value in pairs:
            raw = name.encode()
            heap += struct.pack("<HI", len(raw), NULL if value is None else len(value)) + raw + (value or b"")
        spans += (start if present & bit else 0, len(heap) - start)
        counts.append(len(pairs))
    identity = record.id
    return _ENTRY.pack(
        NO_TIME if record.event_time is None else record.event_time,
        identity.offset,
        identity.emit,
        identity.partition,
        identity.source,
        int(identity.origin == "timer"),
        present,
        *counts,
        0,
        *spans,
    )
