"""`chunk-text`: cuts documents into chunks that overlap, by sentence, so that each can be embedded by itself."""

import json
import re
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
# Of all chunks of a record together: half of what an answer may have where a pipeline file does not say otherwise.
MAX_BYTES = 8 << 20
CHUNKS = Counter("chunks_total", "Chunks that documents were cut into")

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


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
        count, source = str(len(spans)), shown(record.id)
        write = str.encode if self.path is None else quoted
        pieces = []
        size = 0
        for index, (start, end) in enumerate(spans):
            value = before + write(text[start:end]) + after
            size += len(value)
            if size > MAX_BYTES:
                return dead_letter(
                    f"the first {index + 1} of {count} chunks have {size} bytes, at most {MAX_BYTES} can be: raise `size`, "
                    "lower `overlap`, or shorten what stands beside the text"
                )
            said = (str(index), count, source, str(start), str(end))
            headers: Dict[str, Optional[Data]] = dict(zip(self.names, said))
            pieces.append(piece(value=value, headers=headers))
        CHUNKS.add(len(spans))
        return split(pieces)

    def find(self, record: Record) -> Tuple[bytes, str, bytes]:
        """The text of a record, and what stands before and after it in the value."""
        if self.path is None:
            return b"", record.text, b""
        # That it is JSON, and not too deep.
        record.json()
        source = record.text
        found: Optional[Tuple[int, Any, int]] = (0, None, len(source))
        for name in self.path:
            found = found and value_of(source, found[0], name)
        begin, text, end = found or (0, None, 0)
        if not isinstance(text, str):
            kind = "not there" if text is None else type(text).__name__
            raise FieldError(f"the member {'.'.join(self.path)!r} is {kind}, expected text")
        return source[:begin].encode(), text, source[end:].encode()


def value_of(source: str, at: int, name: str) -> Optional[Tuple[int, Any, int]]:
    """Where the value of a member of the object here begins, the value, and where it ends. Of members of one name it is the
    last, as for all who read JSON in Python. The text is known to be JSON."""
    found = None
    at = _behind(source, at)
    if source[at] != "{":
        return None
    at = _behind(source, at + 1)
    while source[at] != "}":
        key, at = _DECODER.raw_decode(source, at)
        at = _behind(source, _behind(source, at) + 1)
        value, end = _DECODER.raw_decode(source, at)
        if key == name:
            found = at, value, end
        at = _behind(source, end)
        if source[at] == ",":
            at = _behind(source, at + 1)
    return found


def _behind(source: str, at: int) -> int:
    """Where white space ends that begins here."""
    return at + len(_SPACE.match(source, at).group())  # type: ignore[union-attr]


def quoted(text: str) -> bytes:
    """A text as JSON. Half of a pair of surrogates is no UTF-8, and stays what it is as an escape."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def shown(identity: RecordId) -> str:
    """`0/3/42`: source, partition, offset."""
    text = f"{identity.source}/{identity.partition}/{identity.offset}"
    text = f"timer/{text}" if identity.origin == "timer" else text
    return f"{text}/{identity.emit}" if identity.emit else text
