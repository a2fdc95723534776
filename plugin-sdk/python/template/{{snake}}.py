"""`{{name}}`: puts a mask over words that nobody else should read."""

from dataclasses import dataclass, field
from typing import Annotated

from tidegate import PASS, Answer, Length, Record, operator, replace


@dataclass(frozen=True)
class Config:
    """Which words are masked."""

    words: Annotated[
        list[Annotated[str, Length(1)]],
        "Words to look for, as they are written.",
    ] = field(default_factory=list)
    mask: Annotated[str, "What stands in their place."] = "***"


@operator(name="{{name}}", reads=["value"], config=Config)
def {{snake}}(record: Record, config: Config) -> Answer:
    # A value that is no text raises, and the record goes to the dead letters with the reason.
    text = record.text
    masked = text
    for word in config.words:
        masked = masked.replace(word, config.mask)
    return PASS if masked == text else replace(value=masked)
