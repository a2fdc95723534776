"""The operator of the boundary's benches in the plain world: nothing but what the toolchain makes of the WIT."""

import json

from wit_world import exports
from wit_world.exports.plain import (
    Answer,
    Batch,
    FieldChange_Keep,
    FieldChange_Set,
    Outcome_Drop,
    Outcome_Pass,
    Outcome_Replace,
    Patch,
    TimeChange_Keep,
)
from wit_world.imports.types import Description, Fields

DROP = Outcome_Drop()
PASS = Outcome_Pass()
KEEP = FieldChange_Keep()
KEEP_TIME = TimeChange_Keep()


def filter_out(message):
    value = message.value
    return DROP if value is not None and len(value) > 10 and value[10] % 2 == 1 else PASS


def echo(message):
    if message.value is None:
        return PASS
    return Outcome_Replace(Patch(KEEP, FieldChange_Set(message.value), KEEP_TIME, [], []))


# An object of the class is made for each call, so what `init` decides is not kept there.
outcome = filter_out


class Plain(exports.Plain):
    def describe(self, config: str):
        return Description("measure-boundary", "1.0.0", "{}", Fields.VALUE, [], [], [], [])

    def init(self, config: str) -> None:
        global outcome
        outcome = echo if json.loads(config)["mode"] == "echo" else filter_out

    def process(self, batch: Batch) -> Answer:
        return Answer([outcome(message) for message in batch.messages], [])
