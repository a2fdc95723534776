"""The operator for the plain world: nothing but what the toolchain makes of the WIT."""

from wit_world import exports
from wit_world.exports.plain import (
    Answer,
    Batch,
    FieldChange_Keep,
    FieldChange_Set,
    Outcome_DeadLetter,
    Outcome_Drop,
    Outcome_Pass,
    Outcome_Replace,
    Patch,
    TimeChange_Keep,
)

from uppercase import DESCRIPTION, REASON, Decided, decide

UNCHANGED = {
    Decided.PASS: Outcome_Pass(),
    Decided.DROP: Outcome_Drop(),
    Decided.DEAD: Outcome_DeadLetter(REASON),
}


def outcome(message):
    decided = decide(message.value)
    if not isinstance(decided, bytes):
        return UNCHANGED[decided]
    return Outcome_Replace(Patch(FieldChange_Keep(), FieldChange_Set(decided), TimeChange_Keep(), [], []))


class Plain(exports.Plain):
    def describe(self, config: str):
        return DESCRIPTION

    def init(self, config: str) -> None:
        pass

    def process(self, batch: Batch) -> Answer:
        return Answer([outcome(message) for message in batch.messages], [])
