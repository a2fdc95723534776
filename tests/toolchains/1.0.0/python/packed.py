"""The operator for the packed world."""

from wit_world import exports

import arena
from uppercase import DESCRIPTION, REASON, Decided, decide

UNCHANGED = {
    Decided.PASS: (arena.PASS, b""),
    Decided.DROP: (arena.DROP, b""),
    Decided.DEAD: arena.dead_letter(REASON.encode()),
}


def outcome(value):
    decided = decide(value)
    return arena.replace_value(decided) if isinstance(decided, bytes) else UNCHANGED[decided]


class Packed(exports.Packed):
    def describe(self, config: str):
        return DESCRIPTION

    def init(self, config: str) -> None:
        pass

    def process(self, batch: bytes) -> bytes:
        return arena.answer(map(outcome, arena.values(batch)))
