"""Batches and answers, byte by byte, as wit/golden has them."""

import struct
import unittest

from . import GOLDEN
from tidegate import (
    DROP,
    PASS,
    Add,
    Answer,
    Counter,
    Gauge,
    Histogram,
    Permanent,
    Record,
    RecordId,
    Remove,
    Set,
    dead_letter,
    operator,
    piece,
    replace,
    retry,
    route,
    split,
)
from tidegate.arena import table
from tidegate.operators import declared_by
from tidegate.runner import Runner
from tidegate.testing import TestRecord
from tidegate.testing.records import pack

FIELDS = ("key", "value", "headers", "attributes")
CLOCK = 1_700_000_000_123_456
SEED = bytes(range(16))
RECORDS = [
    TestRecord(
        "värde",
        key="k",
        headers=[("h", "1"), ("h", None), ("", "")],
        attributes={"pii": b"\x00\xff"},
        event_time=1_700_000_000_000_000,
        id=RecordId("source", 1, 2, 42, 0),
    ),
    TestRecord(key="", id=RecordId("source", 1, 2, 43, 0)),
    TestRecord("", event_time=-1, id=RecordId("timer", 0, 7, 44, 4097)),
]
EVERYTHING = dict(
    key=b"\x00\xff",
    value=None,
    headers=[Set("h", "new"), Add("h", None), Remove("gone")],
    attributes={"ä": ""},
    event_time=-7,
)


def golden(name: str) -> bytes:
    lines = (GOLDEN / name).read_text().splitlines()
    return bytes.fromhex("".join(line[6:53].split("#")[0] for line in lines if not line.startswith("#")))


def records_of(batch: bytes) -> "list[Record]":
    records, start, stride = table(batch)
    return [Record(batch, start + stride * index) for index in range(records)]


class Batches(unittest.TestCase):
    def test_every_field_of_a_record_is_read(self) -> None:
        for name in ("batch-all.hex", "batch-grown.hex"):
            records = records_of(golden(name))
            self.assertEqual(len(records), 3)
            for record, wanted in zip(records, RECORDS):
                self.assertEqual(record.key, wanted.key)
                self.assertEqual(record.value, wanted.value)
                self.assertEqual(tuple(record.headers), wanted.headers)
                self.assertEqual(tuple(record.attributes), wanted.attributes)
                self.assertEqual(record.event_time, wanted.event_time)
                self.assertEqual(record.id, wanted.id)
                self.assertEqual(record.now, CLOCK)

    def test_of_a_name_that_repeats_the_last_value_is_found(self) -> None:
        record = records_of(golden("batch-all.hex"))[0]
        self.assertIsNone(record.header("h"))
        self.assertEqual(record.header(""), b"")
        self.assertIsNone(record.header("other"))
        self.assertEqual(record.attribute("pii"), b"\x00\xff")
        self.assertIsNone(record.attribute_text("pii"))

    def test_of_what_is_not_read_nothing_is_there(self) -> None:
        for record, wanted in zip(records_of(golden("batch-key.hex")), RECORDS):
            self.assertEqual(record.key, wanted.key)
            self.assertEqual((record.value, record.headers, record.attributes), (None, [], []))
            self.assertIsNone(record.header("h"))
            self.assertEqual(record.id, wanted.id)

    def test_the_harness_packs_the_same_bytes(self) -> None:
        self.assertEqual(pack(RECORDS, FIELDS, CLOCK, SEED), golden("batch-all.hex"))
        self.assertEqual(pack(RECORDS, ["key"], CLOCK, SEED), golden("batch-key.hex"))
        self.assertEqual(pack([], FIELDS, CLOCK, SEED), golden("batch-none.hex"))

    def test_what_has_to_be_known_and_is_not_fails_the_batch(self) -> None:
        batch = bytearray(golden("batch-all.hex"))
        batch[15] = 1
        with self.assertRaisesRegex(Permanent, "unknown-arena: the batch has the flags 01000000"):
            table(bytes(batch))
        batch = bytearray(golden("batch-grown.hex"))
        (sections,) = struct.unpack_from("<I", batch, 32)
        batch[sections + 3] = 0x80
        with self.assertRaisesRegex(Permanent, "unknown-arena: the batch has a section 8000004d"):
            table(bytes(batch))

    def test_what_is_no_whole_batch_fails(self) -> None:
        with self.assertRaisesRegex(Permanent, "bad-batch: the batch has .* and begins with 54474201"):
            table(golden("batch-layout-1.hex"))
        batch = golden("batch-all.hex")
        for length in range(len(batch)):
            with self.assertRaisesRegex(Permanent, "bad-batch"):
                table(batch[:length])
        wrong = [(4, 0), (8, 0), (8, 68), (16, 1000), (16, 0xFFFFFFFF), (20, 0), (20, 64), (20, 73), (20, 0xFFFFFFF8), (24, 0)]
        for at, number in [*wrong, (24, 8), (24, 0xFFFFFFF8), (28, 1000), (28, 0xFFFFFFFF), (32, 0xFFFFFFFF)]:
            grown = bytearray(golden("batch-grown.hex"))
            struct.pack_into("<I", grown, at, number)
            with self.assertRaisesRegex(Permanent, "bad-batch"):
                table(bytes(grown))


class Answers(unittest.TestCase):
    def test_every_outcome_is_written(self) -> None:
        outcomes = iter(
            [
                PASS,
                DROP,
                PASS,
                replace(key=None, value="", event_time=None),
                replace(**EVERYTHING),  # type: ignore[arg-type]
                split([]),
                split([piece(), piece("second", value="two"), piece("first", **EVERYTHING)]),  # type: ignore[arg-type]
                route("first", value="routed"),
                replace(),
                retry(0.25, "later"),
                retry(float("inf"), ""),
                dead_letter("nicht für mich"),
            ]
        )

        @operator(name="answer-every", outputs=["first", "second"])
        def answer_every(record: Record) -> Answer:
            return next(outcomes)

        batch = pack([RECORDS[0]] * 12, [], CLOCK, SEED)
        answer = Runner(declared_by(answer_every), "{}").process(batch)
        # A replace and a route that change nothing are written as what they are the same as.
        wanted = bytearray(golden("answer-every.hex"))
        wanted[0x2A] = wanted[0x30] = 0
        del wanted[0xE6:0xE9], wanted[0x34]
        struct.pack_into("<I", wanted, 4, len(wanted))
        struct.pack_into("<I", wanted, 28, len(wanted) - 0x34)
        self.assertEqual(answer.hex(" "), wanted.hex(" "))

    def test_measurements_are_written_behind_the_outcomes(self) -> None:
        count = Counter("count_total", "A counter")
        level = Gauge("level", "A gauge", labels=["of"])
        spread = Histogram("spread", "A histogram", labels=["of", "by"])

        @operator(name="measure", metrics=[count, level, spread])
        def measure(record: Record) -> Answer:
            if record.id.offset == 42:
                count.add(2)
            else:
                level.set(-1.5, of="dé")
                spread.observe(0.75, of="a", by="")
            return PASS

        answer = Runner(declared_by(measure), "{}").process(pack(RECORDS[:2], [], CLOCK, SEED))
        self.assertEqual(answer.hex(" "), golden("answer-samples.hex").hex(" "))

    def test_a_batch_without_a_record_is_answered(self) -> None:
        @operator(name="answer-none")
        def answer_none(record: Record) -> Answer:
            return PASS

        answer = Runner(declared_by(answer_none), "{}").process(golden("batch-none.hex"))
        self.assertEqual(answer, golden("answer-none.hex"))
