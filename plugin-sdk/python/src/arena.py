"""The packed arena of a batch, layout 2 of the contract: where its records and their fields lie."""

from __future__ import annotations

import struct
from typing import Iterator, Optional

from .failures import Permanent

NULL = 0xFFFFFFFF
NO_TIME = -(1 << 63)
KEY, VALUE, HEADERS, ATTRIBUTES = 1, 2, 4, 8

# Of flags and of kinds of sections: an arena with one that a reader does not know cannot be understood without it.
_CRITICAL_FLAGS = 0xFFFF0000
_CRITICAL_KIND = 0x80000000

# Magic, length, length of the header, flags; then number of records, stride and offset of their table, number and offset
# of sections.
_HEAD = struct.Struct("<4sIIIIIIII")
# Least bytes of a header and of an entry of the table; later versions may have more of both.
_HEADER, _ENTRY = 64, 72
_SECTION = struct.Struct("<I")
_PAIR = struct.Struct("<HI").unpack_from


def table(batch: bytes) -> tuple[int, int, int]:
    """The number of records of a batch, and the offset and stride of their table."""
    length = len(batch)
    if length < _HEADER or batch[:4] != b"TGB\x02":
        raise Permanent("bad-batch", f"the batch has {length} bytes and begins with {batch[:4].hex()}, expected 54474202")
    _, stated, header, flags, records, stride, start, sections, section_table = _HEAD.unpack_from(batch)
    if stated != length:
        raise Permanent("bad-batch", f"the batch has {length} bytes and says {stated}")
    if flags & _CRITICAL_FLAGS:
        raise Permanent("unknown-arena", f"the batch has the flags {flags:08x}, which this operator does not know")
    is_laid_out = header >= _HEADER and start >= header and stride >= _ENTRY and (header | start | stride) % 8 == 0
    if not is_laid_out or start + stride * records > length:
        raise Permanent("bad-batch", f"the batch has not the {records} records at byte {start} that it says")
    if section_table + 16 * sections > length:
        raise Permanent("bad-batch", f"the batch has not the {sections} sections at byte {section_table} that it says")
    for at in range(section_table, section_table + 16 * sections, 16):
        (kind,) = _SECTION.unpack_from(batch, at)
        if kind >= _CRITICAL_KIND:
            raise Permanent("unknown-arena", f"the batch has a section {kind:08x}, which this operator does not know")
    return records, start, stride


def within(batch: bytes, start: int, length: int) -> bytes:
    """Bytes of the batch. A slice beyond its end is shorter and no error, so that is looked at."""
    found = batch[start : start + length]
    if len(found) != length:
        raise _outside(start, start + length)
    return found


def _outside(start: int, end: int) -> Permanent:
    return Permanent("bad-batch", f"a record has bytes {start} to {end}, which the batch has not")


def pairs(batch: bytes, at: int, end: int) -> Iterator[tuple[str, Optional[bytes]]]:
    """The headers or attributes of a block."""
    if end > len(batch):
        raise _outside(at, end)
    while at < end:
        width, length = _PAIR(batch, at)
        start = at + 6 + width
        name = batch[at + 6 : start].decode()
        if length == NULL:
            at = start
            yield name, None
        else:
            at = start + length
            yield name, batch[start:at]


def last(batch: bytes, at: int, end: int, name: str) -> Optional[bytes]:
    """The value of the last header or attribute of this name in a block."""
    if end > len(batch):
        raise _outside(at, end)
    wanted = name.encode()
    found = None
    while at < end:
        width, length = _PAIR(batch, at)
        at += 6
        start = at + width
        if length == NULL:
            if batch[at:start] == wanted:
                found = None
            at = start
        else:
            after = start + length
            if batch[at:start] == wanted:
                found = batch[start:after]
            at = after
    return found
