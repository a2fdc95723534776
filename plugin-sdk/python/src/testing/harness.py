"""An operator under test."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .. import log
from ..configuration import Table
from ..metrics import Metric, cut
from ..operators import declared_by
from ..record import RecordId
from ..runner import Runner
from ..tokens import Lane
from .answers import Came, Patch, Refused, Sample, read
from .lanes import OpenLane, TestLane
from .records import Pairs, TestRecord, pack, placed, replaced

CLOCK = 1_700_000_000_000_000
SEED = b"a seed for tests"
MAX_PAIRS = 65535


@dataclasses.dataclass(frozen=True)
class Answer:
    """What became of a record, with the record as the next stage would see it."""

    action: str
    """`pass`, `drop`, `replace`, `split`, `route`, `retry` or `dead-letter`."""
    records: Tuple[Tuple[Optional[str], TestRecord], ...] = ()
    """What goes on: the name of the output, None for the main one, and the record."""
    reason: Optional[str] = None
    """Why it comes again, or is a dead letter."""
    after_ms: Optional[int] = None
    """When it comes again."""

    @property
    def record(self) -> TestRecord:
        """The one record that goes on."""
        if len(self.records) != 1:
            raise AssertionError(f"no single record goes on: {self}")
        return self.records[0][1]

    @property
    def output(self) -> Optional[str]:
        """The named output that the one record goes to."""
        return self.records[0][0] if len(self.records) == 1 else None

    @property
    def is_pass(self) -> bool:
        """Whether it goes on as it was."""
        return self.action == "pass"

    @property
    def is_drop(self) -> bool:
        """Whether it ended."""
        return self.action == "drop"

    @property
    def is_dead_letter(self) -> bool:
        """Whether it went to the dead letters."""
        return self.action == "dead-letter"


class Harness:
    """An operator under test, one at a time."""

    def __init__(
        self,
        operator: Any,
        config: Union[str, Mapping[str, Any], Any, None] = None,
        *,
        clock: int = CLOCK,
        seed: bytes = SEED,
    ) -> None:
        """Configures the function or class that has `@operator` above it: with a mapping, JSON text or its own dataclass.

        Raises the `Failure` that the user would see.
        """
        self.declared = declared_by(operator)
        self.clock = clock
        self.seed = seed
        self.log: List[Tuple[str, str]] = []
        """The lines logged since it was started: level and text."""
        self.samples: List[Sample] = []
        """What was measured since it was started, and counts."""
        end = log.keep(self.log)
        try:
            self._runner = Runner(self.declared, _json(config))
        finally:
            end()

    @property
    def outputs(self) -> Tuple[str, ...]:
        """The named outputs that it has under its configuration."""
        return self._runner.outputs

    def run(self, records: Sequence[TestRecord]) -> List[Answer]:
        """Runs one batch and says what became of each record.

        Raises the `Failure` that fails the batch, and `Refused` for an answer that the host would refuse.
        """
        records = placed(records)
        return [_answer(record, came) for record, came in zip(records, self.outcomes(records))]

    def run_one(self, record: Union[TestRecord, bytes, str]) -> Answer:
        """Runs a batch of one record, or of one that has this value."""
        return self.run([record if isinstance(record, TestRecord) else TestRecord(record)])[0]

    def outcomes(self, records: Sequence[TestRecord]) -> List[Came]:
        """Runs one batch; the outcomes as they were answered."""
        records = placed(records)
        batch = pack(records, self.declared.reads, self.clock, self.seed)
        end = log.keep(self.log)
        try:
            answer = self._runner.process(batch)
        finally:
            end()
        came, samples = read(answer, len(records), self.outputs, self.declared.metrics)
        # What belongs to a record that comes again does not count.
        self.samples += [sample for sample in samples if came[sample.record].action != "retry"]
        return came

    def open(self, lane: Optional[Lane] = None) -> OpenLane:
        """Opens a lane of an answer, made by `TestLane`. The operator is told what it reads, as by the host.

        Raises the `Failure` that refuses it.
        """
        if self._runner.lanes is None:
            raise TypeError(f"the operator {self.declared.name!r} handles no tokens")
        lane = lane or TestLane()
        if "attributes" not in self.declared.reads:
            lane = dataclasses.replace(lane, attributes=())
        return OpenLane(self._runner.lanes, lane, self.log)

    def counter(self, metric: Union[Metric, str], **labels: str) -> int:
        """The sum of a counter since it was started, under these values of its labels."""
        return int(sum(self.values(metric, **labels)))

    def values(self, metric: Union[Metric, str], **labels: str) -> List[float]:
        """What a metric was given since it was started, under these values of its labels, in order."""
        name = metric if isinstance(metric, str) else metric.name
        wanted = {label: cut(value).decode() for label, value in labels.items()}
        return [
            sample.value
            for sample in self.samples
            if sample.metric.name == name and dict(zip(sample.metric.labels, sample.labels)) == wanted
        ]


def _json(config: Any) -> str:
    if config is None:
        return "{}"
    if isinstance(config, str):
        return config
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = Table(type(config)).show(config)
    return json.dumps(config)


def _answer(record: TestRecord, came: Came) -> Answer:
    if came.action == "pass":
        return Answer("pass", ((None, record),))
    if came.action in ("retry", "dead-letter"):
        after = came.after_ms if came.action == "retry" else None
        return Answer(came.action, (), came.reason, after)
    split = came.action == "split"
    records = []
    for index, patch in enumerate(came.patches):
        emit = child_emit(record.id.emit, index) if split else record.id.emit
        records.append((patch.get("to"), patched(record, patch, emit)))
    return Answer(came.action, tuple(records))


def patched(record: TestRecord, patch: Patch, emit: int) -> TestRecord:
    """A record with a patch applied."""
    changes: Dict[str, Any] = {"id": RecordId(*record.id[:4], emit)}
    for name in ("key", "value"):
        if name in patch:
            changes[name] = patch[name]
    for name in ("headers", "attributes"):
        if name in patch:
            changes[name] = _changed(getattr(record, name), patch[name], name)
    if "event-time" in patch:
        changes["event_time"] = patch["event-time"]
    return replaced(record, **changes)


def _changed(pairs: Pairs, changes: List[List[Any]], what: str) -> Pairs:
    changed = list(pairs)
    for operation, name, *value in changes:
        if operation != "add":
            changed = [pair for pair in changed if pair[0] != name]
        if operation != "remove":
            changed.append((name, value[0]))
    if len(changed) > MAX_PAIRS:
        raise Refused(f"a record has {len(changed)} {what}, at most {MAX_PAIRS} can be")
    return tuple(changed)


def child_emit(parent: int, piece: int) -> int:
    """The `emit` of a piece of a split, as the host numbers it."""
    path = parent * 4096 + piece + 1
    if path < 1 << 63:
        return path
    # SplitMix64, twice.
    everything = (1 << 64) - 1
    number = 0
    for part in (parent, piece + 1):
        number = (number + part + 0x9E3779B97F4A7C15) & everything
        number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & everything
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & everything
        number ^= number >> 31
    return number | 1 << 63
