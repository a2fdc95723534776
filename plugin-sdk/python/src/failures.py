"""How a whole call fails. What is wrong with one record is an exception, or `dead_letter`."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Optional, Union, cast

TRANSIENT, PERMANENT, BAD_CONFIGURATION = "transient", "permanent", "bad-configuration"


class Failure(Exception):
    """Fails the call: raise one of `Transient`, `Permanent` and `BadConfiguration`.

    Where an operator starts, its revision does not. While a record is processed, the whole batch fails: no outcome of it
    counts, and no measurement. The instance stays.
    """

    kind = PERMANENT

    def __init__(self, code: str, message: str) -> None:
        """`code` is a short name that does not change (`[a-z][a-z0-9-]*`, at most 64 bytes), `message` is for people."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Transient(Failure):
    """The same call may succeed later: the records wait and come again."""

    kind = TRANSIENT


class Permanent(Failure):
    """The same call fails again: the records come again in smaller batches, until one fails by itself."""

    kind = PERMANENT


class BadConfiguration(Failure):
    """Only another configuration helps: `BadConfiguration("config key `limit` is 7, expected an even number")`."""

    kind = BAD_CONFIGURATION

    def __init__(self, message: str, code: str = "bad-config") -> None:
        super().__init__(code, message)


class FieldError(ValueError):
    """A field of a record cannot be read as it was asked for."""


_SHORT = 100


def brief(value: object) -> str:
    """A value as an error shows it: never long, and without running code of its own."""
    kind = type(value)
    if kind in (str, bytes):
        text = cast(Union[str, bytes], value)
        return repr(text) if len(text) <= _SHORT else f"{text[:_SHORT]!r}... ({len(text)} in all)"
    if value is None or kind in (bool, float) or (kind is int and cast(int, value).bit_length() <= 256):
        return repr(value)
    return f"an object of type {kind.__name__}"


_SDK = os.path.dirname(os.path.abspath(__file__)) + os.sep


def shown(error: BaseException, root: str) -> str:
    """An exception on a line: `ValueError: boom (redact.py:12)`, with the last line of it in the user's own files."""
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be shown"
    place = _place(error.__traceback__, root)
    text = f"{kind}: {message}" if message else kind
    return f"{text} ({place})" if place else text


def _place(step: Optional[TracebackType], root: str) -> str:
    """`redact.py:12`: the innermost line below `root`, or, if there is none, outside of this package."""
    own = any_other = ""
    within = root.rstrip(os.sep) + os.sep
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_SDK):
            if file.startswith(within) and "site-packages" not in file:
                own = f"{file[len(within) :]}:{step.tb_lineno}"
            any_other = f"{os.path.basename(file)}:{step.tb_lineno}"
        step = step.tb_next
    return own or any_other
