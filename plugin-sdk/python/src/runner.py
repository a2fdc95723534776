"""Runs an operator over packed batches: in the component, and in the harness of tests."""

from __future__ import annotations

import struct
from typing import Any, List, Optional

from . import metrics
from .arena import table
from .configuration import read_config
from .failures import Failure, Permanent, brief, shown
from .operators import Declared
from .outcomes import DEAD, DROP, DROPPED, NOTHING, PASS, PASSED, Outcome, Routed, Split, dead_letter
from .record import Record
from .tokens import Lanes

# As the head of a batch, with the number of records, then actions, payloads and their length, number and table of
# sections.
_ANSWER = struct.Struct("<4sIIIIIIIII")
_SECTION = struct.Struct("<IIII").pack
_SAMPLES = 1
_U16 = struct.Struct("<H").pack
_U32 = struct.Struct("<I").pack


class Runner:
    """An operator that has been configured and answers batches."""

    def __init__(self, declared: Declared, config: str) -> None:
        """Reads the configuration, JSON text, and makes the operator. Raises a `Failure`."""
        read = read_config(declared.config, config)
        self.declared = declared
        try:
            self.outputs = declared.named_outputs(read)
            self._process, handler = declared.start(read)
        except Failure:
            raise
        except Exception as error:
            raise Permanent("exception", shown(error, declared.root)) from error
        self.lanes = Lanes(handler, declared.root) if handler is not None else None
        """Of an operator that handles tokens."""
        self._numbers = {name: _U16(index + 1) for index, name in enumerate(self.outputs)}
        self._places = {metric: index for index, metric in enumerate(declared.metrics)}

    def process(self, batch: bytes) -> bytes:
        """Answers a packed batch with packed outcomes, one for each record. Raises a `Failure`."""
        records, start, stride = table(batch)
        # What is not written to passes.
        actions = bytearray(records)
        payloads: List[bytes] = []
        samples: List[bytes] = []
        process = self._process
        measured = metrics.measured
        measured.clear()
        metrics.places.clear()
        metrics.places.update(self._places)
        index = 0
        for at in range(start, start + stride * records, stride):
            try:
                outcome = process(Record(batch, at))
            except (Failure, MemoryError):
                # Of memory that has run out the record may not be the cause: the host tries it in a new instance.
                raise
            except (Exception, SystemExit) as error:
                measured.clear()
                outcome = dead_letter(shown(error, self.declared.root))
            if outcome is PASS or outcome is True:
                pass
            elif outcome is DROP or outcome is False:
                actions[index] = DROPPED
            elif type(outcome) is Outcome and outcome.payload is not NOTHING:
                actions[index] = outcome.action
                payloads += outcome.payload
            else:
                actions[index] = self._written(outcome, payloads)
            if measured:
                number = _U32(index)
                samples += [number + sample for sample in measured]
                measured.clear()
            index += 1
        return _answer(actions, payloads, samples)

    def _written(self, outcome: Any, payloads: List[bytes]) -> int:
        """The same as `_write`, where what raises is a dead letter: an outcome may be any object."""
        before = len(payloads)
        try:
            return self._write(outcome, payloads)
        except MemoryError:
            raise
        except Exception as error:
            del payloads[before:]
            return self._dead(shown(error, self.declared.root), payloads)

    def _write(self, outcome: Any, payloads: List[bytes]) -> int:
        """Writes the payload of an outcome that names outputs, changes nothing or is none, and says which action it is."""
        if not issubclass(type(outcome), Outcome):
            return self._dead(f"{self.declared.made.__qualname__} returned {brief(outcome)}, expected an outcome", payloads)
        if isinstance(outcome, Split):
            written = len(payloads)
            payloads.append(_U32(len(outcome.pieces)))
            for piece in outcome.pieces:
                number = self._number(piece.output)
                if number is None:
                    del payloads[written:]
                    return self._dead(self._unknown(piece.output), payloads)
                payloads.append(number)
                payloads += piece.patch
        elif isinstance(outcome, Routed):
            number = self._number(outcome.output)
            if number is None:
                return self._dead(self._unknown(outcome.output), payloads)
            payloads.append(number)
            payloads += outcome.payload
        elif outcome.payload is NOTHING:
            return PASSED
        else:
            payloads += outcome.payload
        action: int = outcome.action
        return action

    def _number(self, output: Optional[str]) -> Optional[bytes]:
        return b"\0\0" if output is None else self._numbers.get(output)

    def _unknown(self, output: Optional[str]) -> str:
        known = ", ".join(repr(name) for name in self.outputs) or "no named output"
        return f"operator {self.declared.name} has no output {brief(output)}, it has {known}"

    def _dead(self, reason: str, payloads: List[bytes]) -> int:
        metrics.measured.clear()
        payloads += dead_letter(reason).payload
        return DEAD


def _answer(actions: bytearray, payloads: List[bytes], samples: List[bytes]) -> bytes:
    start = _ANSWER.size + len(actions)
    size = sum(map(len, payloads))
    end = start + size
    if not samples:
        head = _ANSWER.pack(b"TGO\x02", end, 40, 0, len(actions), 40, start, size, 0, 0)
        return b"".join((head, actions, *payloads))
    section = b"".join(samples)
    place = end + len(section)
    head = _ANSWER.pack(b"TGO\x02", place + 16, 40, 0, len(actions), 40, start, size, 1, place)
    return b"".join((head, actions, *payloads, section, _SECTION(_SAMPLES, len(samples), end, len(section))))
