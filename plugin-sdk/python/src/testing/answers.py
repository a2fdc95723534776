"""Reads and checks an answer as the host does."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..arena import NO_TIME, NULL
from ..metrics import MAX_AMOUNT, MAX_LABEL, MAX_MEASUREMENTS, Metric
from ..outcomes import MAX_PIECES

ACTIONS = ("pass", "drop", "replace", "split", "route", "retry", "dead-letter")
OPERATIONS = ("set", "add", "remove")

Patch = Dict[str, Any]
"""What changes, by the names of the format of cases: `key`, `value`, `headers`, `attributes`, `event-time`, and `to`."""


class Refused(AssertionError):
    """An answer that the host would refuse."""


@dataclass
class Came:
    """An outcome as it was read."""

    action: str
    patches: List[Patch]
    after_ms: int = 0
    reason: str = ""


@dataclass
class Sample:
    """One measurement."""

    record: int
    metric: Metric
    labels: Tuple[str, ...]
    value: float


class _Reader:
    """Reads forward in a part of an answer."""

    def __init__(self, answer: bytes, start: int, end: int) -> None:
        if not 0 <= start <= end <= len(answer):
            raise Refused(f"a part from byte {start} to {end} is not within the answer of {len(answer)} bytes")
        self.answer, self.at, self.end = answer, start, end

    def take(self, length: int) -> bytes:
        if self.at + length > self.end:
            raise Refused(f"{length} bytes at byte {self.at} of the answer go over the end of their part, {self.end}")
        self.at += length
        return self.answer[self.at - length : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self, length: int) -> str:
        start = self.at
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise Refused(f"the text at byte {start} of the answer is not UTF-8") from None

    def nullable(self) -> Optional[bytes]:
        length = self.number("I")
        return None if length == NULL else self.take(length)


def read(answer: bytes, records: int, outputs: Sequence[str], metrics: Sequence[Metric]) -> Tuple[List[Came], List[Sample]]:
    """The outcomes and the measurements of an answer to so many records."""
    if type(answer) is not bytes or len(answer) < 40:
        raise Refused(f"the answer is {answer!r:.80}, expected 40 bytes or more")
    magic, length, header, flags, count, actions, start, size, sections, table = struct.unpack_from("<4sIIIIIIIII", answer)
    if (magic, length, header) != (b"TGO\x02", len(answer), 40) or flags or count != records:
        raise Refused(f"the head of the answer is wrong: {answer[:40].hex(' ')}")
    payloads = _Reader(answer, start, start + size)
    came = [_outcome(action, payloads, outputs) for action in _Reader(answer, actions, actions + count).take(count)]
    if payloads.at != payloads.end:
        raise Refused(f"the payloads end at byte {payloads.at} of the answer, their part at {payloads.end}")
    entries = _Reader(answer, table, table + 16 * sections)
    samples: List[Sample] = []
    for _ in range(sections):
        kind, number, at, width = (entries.number("I") for _ in range(4))
        if kind != 1:
            raise Refused(f"the answer has a section of kind {kind}")
        part = _Reader(answer, at, at + width)
        samples += [_sample(part, records, metrics) for _ in range(number)]
        if part.at != part.end:
            raise Refused(f"the measurements end at byte {part.at} of the answer, their section at {part.end}")
    for index, measured in Counter(sample.record for sample in samples).items():
        if measured > MAX_MEASUREMENTS:
            raise Refused(f"record {index + 1} has {measured} measurements, at most {MAX_MEASUREMENTS} can be")
    return came, samples


def _outcome(action: int, payloads: _Reader, outputs: Sequence[str]) -> Came:
    if action >= len(ACTIONS):
        raise Refused(f"the answer has the action {action}")
    name = ACTIONS[action]
    if name == "replace":
        return Came(name, [_patch(payloads, {})])
    if name == "split":
        pieces = payloads.number("I")
        if pieces > MAX_PIECES:
            raise Refused(f"the answer has a split of {pieces} pieces, at most {MAX_PIECES} can be")
        return Came(name, [_patch(payloads, _output(payloads, outputs)) for _ in range(pieces)])
    if name == "route":
        return Came(name, [_patch(payloads, _output(payloads, outputs))])
    if name == "retry":
        return Came(name, [], payloads.number("I"), payloads.text(payloads.number("I")))
    if name == "dead-letter":
        return Came(name, [], 0, payloads.text(payloads.number("I")))
    return Came(name, [])


def _output(payloads: _Reader, outputs: Sequence[str]) -> Patch:
    number = payloads.number("H")
    if number > len(outputs):
        raise Refused(f"the answer has the output {number}, of {len(outputs)}")
    return {"to": outputs[number - 1]} if number else {}


def _patch(payloads: _Reader, patch: Patch) -> Patch:
    mask = payloads.number("B")
    if mask > 31:
        raise Refused(f"the answer has a patch of mask {mask}")
    for bit, name in ((1, "key"), (2, "value")):
        if mask & bit:
            patch[name] = payloads.nullable()
    for bit, name in ((4, "headers"), (8, "attributes")):
        if mask & bit:
            patch[name] = [_change(payloads) for _ in range(payloads.number("H"))]
    if mask & 16:
        time = payloads.number("q")
        patch["event-time"] = None if time == NO_TIME else time
    return patch


def _change(payloads: _Reader) -> List[Any]:
    operation, length, size = payloads.number("B"), payloads.number("H"), payloads.number("I")
    if operation >= len(OPERATIONS):
        raise Refused(f"the answer has a change of operation {operation}")
    change: List[Any] = [OPERATIONS[operation], payloads.text(length)]
    value = None if size == NULL else payloads.take(size)
    return change if OPERATIONS[operation] == "remove" else [*change, value]


def _sample(part: _Reader, records: int, metrics: Sequence[Metric]) -> Sample:
    record, place, labels = part.number("I"), part.number("H"), part.number("H")
    if record >= records or place >= len(metrics) or labels != len(metrics[place].labels):
        raise Refused(f"a measurement of record {record + 1} of metric {place} has {labels} labels")
    metric = metrics[place]
    value = part.number("Q" if metric.kind == "counter" else "d")
    if metric.kind == "counter" and value > MAX_AMOUNT:
        raise Refused(f"counter {metric.name} is given {value}")
    values = tuple(part.text(part.number("H")) for _ in range(labels))
    if any(len(value.encode()) > MAX_LABEL for value in values):
        raise Refused(f"a label of metric {metric.name} has more than {MAX_LABEL} bytes")
    return Sample(record, metric, values, value)
