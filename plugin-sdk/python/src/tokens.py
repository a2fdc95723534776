"""Answers of models as they are made: lanes that are open, and what goes on of each piece of their text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Literal, Optional, Protocol, Tuple, Union

from .failures import Failure, Permanent, brief, shown
from .record import text_or_none

Kind = Literal["content", "reasoning", "arguments"]
Ending = Literal["stop", "filtered"]
ENDINGS = ("stop", "filtered")


@dataclass(frozen=True)
class Lane:
    """One text of an answer."""

    identity: str
    """The record that the answer is for, as it stands in logs."""
    model: str
    """The model's name in the pipeline."""
    choice: int
    """Which of the answers that were asked for, counted from 0."""
    kind: Kind
    """What is said, what is thought before, or the arguments of a call: JSON text, which may be cut anywhere. What is put
    into a string there has to be escaped as JSON is."""
    call: Optional[int]
    """Of arguments the index of their call, counted from 0."""
    attributes: Tuple[Tuple[str, bytes], ...]
    """The record's private attributes in order; none if the operator does not read them."""

    def attribute(self, name: str) -> Optional[bytes]:
        """The value of the last private attribute of this name; None if there is none."""
        return next((value for known, value in reversed(self.attributes) if known == name), None)

    def attribute_text(self, name: str) -> Optional[str]:
        """The same as text; None if it is not UTF-8."""
        return text_or_none(self.attribute(name))


@dataclass(frozen=True)
class End:
    """What goes on where the answer ends: `end` makes it."""

    text: str
    how: Ending


def end(text: str, how: Ending) -> End:
    """This text goes on, and the answer ends behind it: at a word, as by a stop string, or because it may not be said."""
    if how not in ENDINGS:
        raise ValueError(f"an answer ends as {brief(how)}, expected {' or '.join(ENDINGS)}")
    return End(text, how)


Step = Callable[[str, bool], Union[str, End]]
"""Gets the next text of a lane, and whether it is the last; returns what of it goes on, with what was held back before."""


class Handler(Protocol):
    """A class that handles tokens: `open` makes of each lane the function that gets its text."""

    def open(self, lane: Lane, /) -> Step: ...


class Lanes:
    """The lanes of an operator that are open, by their numbers. What an operator raises is a `Failure`."""

    def __init__(self, handler: Handler, root: str) -> None:
        self._handler = handler
        self._root = root
        self._open: Dict[int, Step] = {}

    def open(self, number: int, lane: Lane) -> None:
        """Begins a lane."""
        step: Any = self._called(lambda: self._handler.open(lane))
        if not callable(step):
            raise Permanent("exception", f"open returned {brief(step)}, expected a function of text")
        self._open[number] = step

    def step(self, number: int, text: str, last: bool) -> Tuple[str, Optional[Ending]]:
        """What goes on of the next text of a lane, and how its answer ends."""
        step = self._open.get(number)
        if step is None:
            raise Permanent("unknown-lane", f"lane {number} is not open")
        came: Any = self._called(lambda: step(text, last))
        through, how = (came.text, came.how) if isinstance(came, End) else (came, None)
        if not isinstance(through, str):
            raise Permanent("exception", f"a step returned {brief(through)}, expected text or end(...)")
        # The host takes UTF-8; half of a pair of surrogates is none.
        return through.encode("utf-8", "backslashreplace").decode(), how

    def close(self, number: int) -> None:
        """The lane is done."""
        self._open.pop(number, None)

    def _called(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Failure, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise Permanent("exception", shown(error, self._root)) from error
