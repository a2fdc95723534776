"""`chunk-text`: cuts documents into chunks that overlap, by sentence, so that each can be embedded by itself."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Dict, Literal, Optional, Tuple

from tidegate import (
    PASS,
    Answer,
    Counter,
    Data,
    FieldError,
    Length,
    Range,
    Record,
    RecordId,
    dead_letter,
    operator,
    piece,
    split,
)

from chunks import Cut
from sentences import ABBREVIATIONS, read

MAX_CHUNKS = 4095
CHUNKS = Counter("chunks_total", "Chunks that documents were cut into")


@dataclass(frozen=True)
class Config:
    """How documents are cut."""

    size: Annotated[int, Range(1, 100_000), "The largest chunk."] = 200
    overlap: Annotated[int, Range(0, 99_999), "As much of a chunk at most is in the next one again."] = 40
    unit: Annotated[
        Literal["words", "characters"],
        "What size and overlap count. In scripts without spaces a character is a word.",
    ] = "words"
    path: Annotated[
        Optional[str],
        Length(1),
        "The member of a JSON value that has the text, with dots between names. Without it the value is the text.",
    ] = None
    headers: Annotated[
        str,
        Length(1, 100),
        "What the names of the headers begin with that say a chunk's index, count, source and place.",
    ] = "chunk"
    abbreviations: Annotated[
        list[Annotated[str, Length(1, 24)]],
        "Words beside the usual ones whose full stop ends no sentence, without the stop.",
    ] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.overlap >= self.size:
            raise ValueError(f"config key `overlap` is {self.overlap}, expected less than `size`, {self.size}")
        if self.path is not None and "" in self.path.split("."):
            raise ValueError(
                f"config key `path` is {json.dumps(self.path)}, expected member names with dots between, as \"page.body\""
            )


@operator(name="chunk-text", version="1.0.0", reads=["value"], config=Config, metrics=[CHUNKS])
class ChunkText:
    def __init__(self, config: Config) -> None:
        self.cut = Cut(config.size, config.overlap, config.unit == "words")
        self.path = None if config.path is None else config.path.split(".")
        self.names = tuple(f"{config.headers}-{what}" for what in ("index", "count", "source", "start", "end"))
        self.abbreviations = ABBREVIATIONS | {word.rstrip(".").lower() for word in config.abbreviations}

    def process(self, record: Record) -> Answer:
        if record.value is None:
            return PASS
        try:
            before, text, after = self.find(record)
        except FieldError as error:
            return dead_letter(str(error))
        spans = self.cut.spans(read(text, self.abbreviations))
        if not spans:
            return PASS
        if len(spans) > MAX_CHUNKS:
            return dead_letter(f"the text has {len(spans)} chunks, at most {MAX_CHUNKS} can be: raise `size`")
        CHUNKS.add(len(spans))
        count, source = str(len(spans)), shown(record.id)
        quoted = self.path is not None
        pieces = []
        for index, (start, end) in enumerate(spans):
            chunk = text[start:end]
            value = before + (compact(chunk) if quoted else chunk) + after
            said = (str(index), count, source, str(start), str(end))
            headers: Dict[str, Optional[Data]] = dict(zip(self.names, said))
            pieces.append(piece(value=value, headers=headers))
        return split(pieces)

    def find(self, record: Record) -> Tuple[str, str, str]:
        """The text of a record, and what stands before and after it in the value."""
        if self.path is None:
            return "", record.text, ""
        document = record.json()
        place: Any = document
        for name in self.path[:-1]:
            place = place.get(name) if isinstance(place, dict) else None
        text = place.get(self.path[-1]) if isinstance(place, dict) else None
        if not isinstance(text, str):
            found = "not there" if text is None else type(text).__name__
            raise FieldError(f"the member {'.'.join(self.path)!r} is {found}, expected text")
        before, after = around(document, place, self.path[-1])
        return before, text, after


def around(document: Any, place: Dict[str, Any], name: str) -> Tuple[str, str]:
    """The document as compact JSON, in two parts: before and after the value of a member."""
    number = 0
    while True:
        place[name] = mark = f"chunk {number}"
        parts = compact(document).split(compact(mark))
        if len(parts) == 2:
            return parts[0], parts[1]
        number += 1


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def shown(identity: RecordId) -> str:
    """`0/3/42`: source, partition, offset."""
    text = f"{identity.source}/{identity.partition}/{identity.offset}"
    text = f"timer/{text}" if identity.origin == "timer" else text
    return f"{text}/{identity.emit}" if identity.emit else text
