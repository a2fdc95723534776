"""Upper-cases values; see ../../README.md for what it does."""

import sys
import time

from wit_world import exports
from wit_world.exports.operator import Description
from wit_world.imports import log

from arena import DROP, PASS, answer, dead_letter, replace_value, values

# Letters of other alphabets stay as they are, as in the other languages.
UPPERCASE = bytes(byte - 32 if 97 <= byte <= 122 else byte for byte in range(256))


def outcome(value):
    if value is None:
        return PASS, b""
    if value.startswith(b"drop"):
        return DROP, b""
    if value.startswith(b"dead"):
        return dead_letter(b"the record asks for it")
    if value.startswith(b"sleep"):
        began = time.monotonic()
        time.sleep(3600)
        return replace_value(b"SLEPT %d" % (time.monotonic() - began))
    if value.startswith(b"print"):
        print("a line of the operator", file=sys.stderr)
    if value.startswith(b"log"):
        log.write(log.Level.INFO, "a line of the operator")
    return replace_value(value.translate(UPPERCASE))


class Operator(exports.Operator):
    def describe(self) -> Description:
        return Description("uppercase-python", "1.0.0", "{}", ["value"], [])

    def init(self, config: str) -> None:
        pass

    def process(self, batch: bytes) -> bytes:
        return answer(map(outcome, values(batch)))
