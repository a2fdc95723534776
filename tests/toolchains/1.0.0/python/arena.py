"""The packed arena, layout 2, as far as this operator needs it: see wit/README.md."""

import struct

from componentize_py_types import Err
from wit_world.imports.types import Failure, FailureClass

NULL = 0xFFFFFFFF
MASK_VALUE = 2
PASS, DROP, REPLACE, DEAD_LETTER = 0, 1, 2, 6
# Of flags and of kinds of sections: an arena with one that a reader does not know is not to be read.
CRITICAL_FLAGS = 0xFFFF0000
CRITICAL_KIND = 0x80000000

# Magic, length, length of the header, flags; then number and stride of records, their table, number and table of sections.
BATCH = struct.Struct("<4sIIIIIIII")
# Up to the fields that are present, over the key, the value.
ENTRY = struct.Struct("<31xB16xII")
# As that of a batch, with number of records, actions, payloads and their length, number and table of sections.
ANSWER = struct.Struct("<4sIIIIIIIII")


def values(batch: bytes):
    """The values of a batch's records, None for what is null or not there."""
    _, _, _, flags, records, stride, table, sections, section_table = BATCH.unpack_from(batch)
    kinds = [struct.unpack_from("<I", batch, section_table + 16 * section)[0] for section in range(sections)]
    if flags & CRITICAL_FLAGS or any(kind >= CRITICAL_KIND for kind in kinds):
        raise Err(Failure(FailureClass.PERMANENT, "unknown-arena", "the batch has what this operator does not know"))
    for at in range(table, table + stride * records, stride):
        present, start, length = ENTRY.unpack_from(batch, at)
        is_there = present & MASK_VALUE and length != NULL
        yield batch[start : start + length] if is_there else None


def replace_value(value: bytes):
    """The outcome that gives a record a new value."""
    return REPLACE, struct.pack("<BI", MASK_VALUE, len(value)) + value


def dead_letter(reason: bytes):
    """The outcome that sends a record to the dead letters."""
    return DEAD_LETTER, struct.pack("<I", len(reason)) + reason


def answer(outcomes) -> bytes:
    """An answer of outcomes, one for each record: an action and its payload."""
    outcomes = list(outcomes)
    actions = bytes(action for action, _ in outcomes)
    payloads = b"".join(payload for _, payload in outcomes)
    start = ANSWER.size + len(actions)
    end = start + len(payloads)
    header = ANSWER.pack(b"TGO\x02", end, ANSWER.size, 0, len(actions), ANSWER.size, start, len(payloads), 0, 0)
    return header + actions + payloads
