"""The packed arena, version 1, as far as this operator needs it. The layout is in wit/released/0.1.0/tidegate.wit."""

import struct

NULL = 0xFFFFFFFF
MASK_VALUE = 2
PASS, DROP, REPLACE, DEAD_LETTER = 0, 1, 2, 6

HEADER = struct.Struct("<4sIII")
# Up to the fields that are present, over the key, the value.
ENTRY = struct.Struct("<30xH8xII")


def values(batch: bytes):
    """The values of a batch's records, None for what is null or not there."""
    _, _, records, table = HEADER.unpack_from(batch)
    for at in range(table, table + 64 * records, 64):
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
    start = HEADER.size + len(actions)
    return HEADER.pack(b"TGO\x01", start + len(payloads), len(actions), start) + actions + payloads
