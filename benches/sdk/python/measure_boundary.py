"""The operator of the boundary's benches, in Python: tests/guests/bench-operator says what it does."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tidegate import DROP, PASS, Answer, Record, operator, replace


@dataclass(frozen=True)
class Config:
    """The configuration."""

    mode: Annotated[Literal["filter", "echo"], "What it does."]


@operator(name="measure-boundary", version="1.0.0", reads=["value"], config=Config)
class MeasureBoundary:
    def __init__(self, config: Config) -> None:
        self.is_echo = config.mode == "echo"

    def process(self, record: Record) -> Answer:
        value = record.value
        if value is None:
            return PASS
        if self.is_echo:
            return replace(value=value)
        return DROP if len(value) > 10 and value[10] % 2 == 1 else PASS
