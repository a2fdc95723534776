#!/usr/bin/env python3
"""Writes the golden arenas beside this file, from what wit/README.md says of them and nothing else.

Each line of a golden file is an offset, the bytes there in hexadecimal digits, and what they are. The tests of
`host/record` decode every file, and make those of the present layout again to the byte.

    python3 wit/golden/make_golden.py          # write
    python3 wit/golden/make_golden.py --check  # fail if a file is not current
"""

import struct
import sys
from pathlib import Path

NULL = 0xFFFFFFFF
NO_TIME = -(1 << 63)
ALL = 15


def u8(n):
    return struct.pack("<B", n)


def u16(n):
    return struct.pack("<H", n)


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


def i64(n):
    return struct.pack("<q", n)


def f64(n):
    return struct.pack("<d", n)


class Arena:
    """Bytes with what they are."""

    def __init__(self):
        self.parts = []
        self.length = 0

    def add(self, data, what):
        if data:
            self.parts.append((self.length, data, what))
            self.length += len(data)

    def text(self, title):
        lines = [f"# {line}" for line in title.split("\n")]
        for at, data, what in self.parts:
            for start in range(0, len(data), 16):
                digits = data[start : start + 16].hex(" ")
                note = what if start == 0 else ""
                lines.append(f"{at + start:04x}  {digits:<47}  # {note}".rstrip(" #"))
        return "\n".join(lines) + "\n"


def pairs(heap, entries, what):
    """A block of headers or attributes."""
    start = heap.length
    for name, value in entries:
        raw = name.encode()
        heap.add(u16(len(raw)), f"{what} {name!r}: length of the name")
        heap.add(u32(NULL if value is None else len(value)), "length of the value" if value is not None else "the value is null")
        heap.add(raw, "name")
        heap.add(value or b"", "value")
    return start, heap.length - start


def field(heap, data, what):
    start = heap.length
    heap.add(data or b"", what)
    return start, NULL if data is None else len(data)


class Record:
    def __init__(self, offset, origin=0, source=0, partition=0, emit=0, time=None, key=None, value=None, headers=(), attributes=()):
        self.offset, self.origin, self.source, self.partition, self.emit = offset, origin, source, partition, emit
        self.time, self.key, self.value, self.headers, self.attributes = time, key, value, headers, attributes


RECORDS = [
    Record(
        42,
        source=1,
        partition=2,
        time=1_700_000_000_000_000,
        key=b"k",
        value="värde".encode(),
        headers=[("h", b"1"), ("h", None), ("", b"")],
        attributes=[("pii", b"\x00\xff")],
    ),
    Record(43, source=1, partition=2, key=b"", value=None),
    Record(44, origin=1, partition=7, emit=4097, time=-1, value=b""),
]
CLOCK = 1_700_000_000_123_456
SEED = bytes(range(16))


def heap_of(arena, records, reads):
    """The heap, and where the fields of each record are."""
    spans = []
    for number, record in enumerate(records):
        of = f"of record {number}"
        spans.append(
            [
                field(arena, record.key, f"key {of}") if reads & 1 else (0, NULL),
                field(arena, record.value, f"value {of}") if reads & 2 else (0, NULL),
                pairs(arena, record.headers, f"header {of}") if reads & 4 else (0, 0),
                pairs(arena, record.attributes, f"attribute {of}") if reads & 8 else (0, 0),
            ]
        )
    arena.add(bytes(-arena.length % 8), "padding: the table begins at a multiple of 8")
    return spans


def span(arena, where, what):
    start, length = where
    null = ", null" if length == NULL else ""
    arena.add(u32(start), f"{what}: offset")
    arena.add(u32(length), f"{what}: length{null}")


def batch(records, reads=ALL, grown=False):
    """A batch of layout 2; `grown` as a later version may write it."""
    more = 16 if grown else 0
    heap = Arena()
    heap.length = 64 + more
    spans = heap_of(heap, records, reads)
    table, stride = heap.length, 72 + (8 if grown else 0)
    sections = table + stride * len(records) if grown else 0
    total = table + stride * len(records) + (16 + 8 if grown else 0)
    arena = Arena()
    arena.add(b"TGB\x02", "magic and layout")
    arena.add(u32(total), "length of the arena")
    arena.add(u32(64 + more), "length of this header")
    arena.add(u32(1 if grown else 0), "flags" + (": one of the lower sixteen, which may be unknown" if grown else ""))
    arena.add(u32(len(records)), "number of records")
    arena.add(u32(stride), "stride of the table")
    arena.add(u32(table), "offset of the table")
    arena.add(u32(1 if grown else 0), "number of sections")
    arena.add(u32(sections), "offset of the section table")
    arena.add(u32(0), "zero")
    arena.add(i64(CLOCK), "clock")
    arena.add(SEED, "seed")
    arena.add(bytes([0xEE]) * more, "fields that came later")
    arena.parts += heap.parts
    arena.length = heap.length
    for number, (record, places) in enumerate(zip(records, spans)):
        of = f"record {number}: "
        arena.add(i64(NO_TIME if record.time is None else record.time), of + ("event time" if record.time is not None else "no event time"))
        arena.add(u64(record.offset), of + "offset in its partition")
        arena.add(u64(record.emit), of + "emit")
        arena.add(u32(record.partition), of + "partition")
        arena.add(u16(record.source), of + "source")
        arena.add(u8(record.origin), of + "origin, " + ("a source" if record.origin == 0 else "a timer"))
        arena.add(u8(reads), of + "fields present")
        arena.add(u16(len(record.headers) if reads & 4 else 0), of + "number of headers")
        arena.add(u16(len(record.attributes) if reads & 8 else 0), of + "number of attributes")
        arena.add(u32(0), of + "zero")
        for name, where in zip(["key", "value", "headers", "attributes"], places):
            span(arena, where, of + name)
        arena.add(bytes([0xDD]) * (stride - 72), of + "fields that came later")
    if grown:
        arena.add(u32(77), "section: kind, below 0x80000000: may be unknown")
        arena.add(u32(1), "section: entries")
        arena.add(u32(arena.length + 8), "section: offset")
        arena.add(u32(8), "section: length")
        arena.add(bytes([1] * 8), "the section")
    assert arena.length == total
    return arena


def batch1(records):
    """A batch of layout 1."""
    heap = Arena()
    heap.length = 24
    spans = heap_of(heap, records, ALL)
    total = heap.length + 64 * len(records)
    arena = Arena()
    arena.add(b"TGB\x01", "magic and layout")
    arena.add(u32(total), "length of the arena")
    arena.add(u32(len(records)), "number of records")
    arena.add(u32(heap.length), "offset of the table")
    arena.add(i64(CLOCK), "clock")
    arena.parts += heap.parts
    arena.length = heap.length
    for number, (record, places) in enumerate(zip(records, spans)):
        of = f"record {number}: "
        arena.add(i64(NO_TIME if record.time is None else record.time), of + "event time")
        arena.add(u64(record.offset), of + "offset in its partition")
        arena.add(u32(record.partition), of + "partition")
        arena.add(u32(record.emit), of + "emit")
        arena.add(u16(record.source), of + "source")
        arena.add(u16(len(record.headers)), of + "number of headers")
        arena.add(u16(len(record.attributes)), of + "number of attributes")
        arena.add(u16(ALL), of + "fields present")
        for name, where in zip(["key", "value", "headers", "attributes"], places):
            span(arena, where, of + name)
    assert arena.length == total
    return arena


SAME = [(u8(0), "mask 0: nothing changes")]


def nullable(data, what):
    if data is None:
        return [(u32(NULL), f"{what}: null")]
    return [(u32(len(data)), f"{what}: length"), (data, what)]


def change(operation, name, value):
    raw = name.encode()
    names = ["set", "add", "remove"]
    return [
        (u8(operation), f"{names[operation]} {name!r}"),
        (u16(len(raw)), "length of the name"),
        (u32(NULL if value is None else len(value)), "length of the value" if value is not None else "no value"),
        (raw, "name"),
        (value or b"", "value"),
    ]


def value_patch(value):
    return [(u8(2), "mask: value"), *nullable(value, "value")]


EVERYTHING = [
    (u8(31), "mask: key, value, headers, attributes, event time"),
    *nullable(b"\x00\xff", "key"),
    *nullable(None, "value"),
    (u16(3), "changes of headers"),
    *change(0, "h", b"new"),
    *change(1, "h", None),
    *change(2, "gone", None),
    (u16(1), "changes of attributes"),
    *change(0, "ä", b""),
    (i64(-7), "event time"),
]
NULLS = [
    (u8(19), "mask: key, value, event time"),
    *nullable(None, "key"),
    *nullable(b"", "value, empty"),
    (i64(NO_TIME), "event time: none"),
]


def text(what, words):
    raw = words.encode()
    return [(u32(len(raw)), f"{what}: length"), (raw, what)]


OUTCOMES = [
    (0, "pass", []),
    (1, "drop", []),
    (2, "replace", SAME),
    (2, "replace", NULLS),
    (2, "replace", EVERYTHING),
    (3, "split", [(u32(0), "pieces: none, as drop")]),
    (
        3,
        "split",
        [
            (u32(3), "pieces"),
            (u16(0), "main output"),
            *SAME,
            (u16(2), "second named output"),
            *value_patch(b"two"),
            (u16(1), "first named output"),
            *EVERYTHING,
        ],
    ),
    (4, "route", [(u16(1), "first named output"), *value_patch(b"routed")]),
    (4, "route", [(u16(0), "main output, as replace"), *SAME]),
    (5, "retry", [(u32(250), "delay in milliseconds"), *text("reason", "later")]),
    (5, "retry", [(u32(NULL), "delay: as long as the host allows"), *text("reason", "")]),
    (6, "dead-letter", text("reason", "nicht für mich")),
]
SAMPLES = [
    (0, 0, u64(2), "amount", []),
    (1, 1, f64(-1.5), "value", ["dé"]),
    (1, 2, f64(0.75), "value", ["a", ""]),
]


def payloads(arena, outcomes):
    for number, (_, name, parts) in enumerate(outcomes):
        for data, what in parts:
            arena.add(data, f"{number} {name}: {what}")


def actions(arena, outcomes):
    for number, (code, name, _) in enumerate(outcomes):
        arena.add(u8(code), f"action of record {number}: {name}")


def answer(outcomes, samples=()):
    """An answer of layout 2."""
    body = sum(len(data) for _, _, parts in outcomes for data, _ in parts)
    measured = Arena()
    measured.length = 40 + len(outcomes) + body
    start = measured.length
    for number, (record, metric, bits, kind, labels) in enumerate(samples):
        of = f"sample {number}: "
        measured.add(u32(record), of + "record")
        measured.add(u16(metric), of + "metric")
        measured.add(u16(len(labels)), of + "number of labels")
        measured.add(bits, of + kind)
        for label in labels:
            measured.add(u16(len(label.encode())), of + "length of a label")
            measured.add(label.encode(), of + "label")
    table = measured.length if samples else 0
    total = measured.length + (16 if samples else 0)
    arena = Arena()
    arena.add(b"TGO\x02", "magic and layout")
    arena.add(u32(total), "length of the answer")
    arena.add(u32(40), "length of this header")
    arena.add(u32(0), "flags")
    arena.add(u32(len(outcomes)), "number of outcomes")
    arena.add(u32(40), "offset of the actions")
    arena.add(u32(40 + len(outcomes)), "offset of the payloads")
    arena.add(u32(body), "length of the payloads")
    arena.add(u32(1 if samples else 0), "number of sections")
    arena.add(u32(table), "offset of the section table")
    actions(arena, outcomes)
    payloads(arena, outcomes)
    arena.parts += measured.parts
    arena.length = measured.length
    if samples:
        arena.add(u32(1), "section: kind 1, samples")
        arena.add(u32(len(samples)), "section: entries")
        arena.add(u32(start), "section: offset")
        arena.add(u32(measured.length - start), "section: length")
    assert arena.length == total
    return arena


def answer1(outcomes):
    """An answer of layout 1."""
    body = sum(len(data) for _, _, parts in outcomes for data, _ in parts)
    arena = Arena()
    arena.add(b"TGO\x01", "magic and layout")
    arena.add(u32(16 + len(outcomes) + body), "length of the answer")
    arena.add(u32(len(outcomes)), "number of outcomes")
    arena.add(u32(16 + len(outcomes)), "offset of the payloads")
    actions(arena, outcomes)
    payloads(arena, outcomes)
    return arena


FILES = {
    "batch-all.hex": (
        "A batch of three records, for an operator that reads every field. The first has everything, the second an empty\n"
        "key and a null value, the third was made by a timer, is a piece of a piece, and has an empty value.",
        batch(RECORDS),
    ),
    "batch-key.hex": ("The same batch for an operator that reads the key alone.", batch(RECORDS, reads=1)),
    "batch-none.hex": ("A batch without a record.", batch([])),
    "batch-grown.hex": (
        "The first batch as a later version may write it: a longer header, longer entries, a flag and a section that\n"
        "may be unknown. A reader of this version finds the same records in it.",
        batch(RECORDS, grown=True),
    ),
    "batch-layout-1.hex": ("The first two records in the layout of the contract 0.1.0.", batch1(RECORDS[:2])),
    "answer-every.hex": ("Every outcome, with every change, by an operator of two named outputs.", answer(OUTCOMES)),
    "answer-samples.hex": (
        "Two records pass. Measured are a counter, a gauge with one label and a histogram with two.",
        answer(OUTCOMES[:1] * 2, SAMPLES),
    ),
    "answer-none.hex": ("The answer to a batch without a record.", answer([])),
    "answer-layout-1.hex": ("Every outcome, in the layout of the contract 0.1.0.", answer1(OUTCOMES)),
}


def main():
    directory = Path(__file__).parent
    for name, (title, arena) in FILES.items():
        made = arena.text(title)
        path = directory / name
        if "--check" not in sys.argv:
            path.write_text(made)
        elif path.read_text() != made:
            sys.exit(f"{path} is not what make_golden.py writes")


main()
