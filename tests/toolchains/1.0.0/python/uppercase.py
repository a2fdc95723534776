"""What the operator does with a value; see ../../README.md."""

import sys
import time
from enum import Enum

from componentize_py_types import Err
from wit_world.imports import log
from wit_world.imports.types import Description, Failure, FailureClass, Fields

REASON = "the record asks for it"
DESCRIPTION = Description("uppercase-python", "1.0.0", "{}", Fields.VALUE, [], [], [], [])
# Letters of other alphabets stay as they are, as in the other languages.
UPPERCASE = bytes(byte - 32 if 97 <= byte <= 122 else byte for byte in range(256))


class Decided(Enum):
    """What becomes of a record whose value does not change."""

    PASS = 0
    DROP = 1
    DEAD = 2


def decide(value):
    """One of these, or the new value."""
    if value is None:
        return Decided.PASS
    if value.startswith(b"drop"):
        return Decided.DROP
    if value.startswith(b"dead"):
        return Decided.DEAD
    if value.startswith(b"fail"):
        raise Err(Failure(FailureClass.PERMANENT, "asked-for", REASON))
    if value.startswith(b"sleep"):
        began = time.monotonic()
        time.sleep(3600)
        return b"SLEPT %d" % (time.monotonic() - began)
    if value.startswith(b"print"):
        print("a line of the operator", file=sys.stderr)
    if value.startswith(b"log"):
        log.write(log.Level.INFO, "a line of the operator")
    return value.translate(UPPERCASE)
