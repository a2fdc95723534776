"""Lanes of answers, for tests of what handles tokens."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from .. import log
from ..tokens import Ending, Kind, Lane, Lanes
from .records import NewPairs, pairs_of

IDENTITY = "source 0 partition 0 offset 0"


def TestLane(
    kind: Kind = "content",
    *,
    call: int = 0,
    model: str = "model",
    choice: int = 0,
    identity: str = IDENTITY,
    attributes: NewPairs = (),
) -> Lane:
    """A lane that a test opens. Attributes are pairs of a name and a value, or a mapping."""
    given = tuple((name, value or b"") for name, value in pairs_of(attributes))
    return Lane(identity, model, choice, kind, call if kind == "arguments" else None, given)


class Through(NamedTuple):
    """What went on of a text, and how the answer ended."""

    text: str
    end: Optional[Ending] = None


class OpenLane:
    """A lane under test."""

    def __init__(self, lanes: Lanes, lane: Lane, lines: List[Tuple[str, str]]) -> None:
        self._lanes = lanes
        self._lines = lines
        self._number = id(self)
        end = log.keep(lines)
        try:
            lanes.open(self._number, lane)
        finally:
            end()

    def step(self, text: str, last: bool = False) -> Through:
        """Gives the next text of the lane."""
        end = log.keep(self._lines)
        try:
            return Through(*self._lanes.step(self._number, text, last))
        finally:
            end()

    def each(self, pieces: Sequence[str]) -> List[Through]:
        """Gives all of the text in these pieces, as far as the answer goes."""
        came: List[Through] = []
        for at, piece in enumerate(pieces, 1):
            came.append(self.step(piece, at == len(pieces)))
            if came[-1].end is not None:
                break
        self._lanes.close(self._number)
        return came

    def run(self, pieces: Sequence[str]) -> Through:
        """The same: what went on in sum, and how the answer ended."""
        came = self.each(pieces)
        return Through("".join(through.text for through in came), came[-1].end if came else None)
