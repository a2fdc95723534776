"""The operator of the conformance suite: what it does stands in a record's header `do`; see ../README.md."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Annotated, Any, Callable, Dict, List, Literal, Optional, Union

from tidegate import (
    DROP,
    PASS,
    Add,
    Answer,
    BadConfiguration,
    Counter,
    End,
    FieldError,
    Gauge,
    Histogram,
    Lane,
    Length,
    Permanent,
    Range,
    Record,
    Remove,
    Set,
    Step,
    Transient,
    dead_letter,
    end,
    log,
    operator,
    piece,
    replace,
    retry,
    route,
    split,
)

SEEN = Counter("seen_total", "Records that were counted")
WORDS = Counter("words_total", "Words by kind", labels=["kind"])
LAST_BYTES = Gauge("last_bytes", "Bytes of the last value")
VALUE_BYTES = Histogram("value_bytes", "Bytes of values", bounds=[1, 10, 100, 1000])

CHANGES = [Set("a", "1"), Add("b", "2"), Add("b", "3"), Remove("c"), Set("d", None), Add("e", None)]
UPPER = {letter: letter - 32 for letter in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True)
class Nested:
    """A table in the configuration."""

    name: str
    on: bool = True


@dataclass(frozen=True)
class Config:
    """One key of each kind."""

    mode: Annotated[Literal["normal", "refuse", "transient", "panic"], "How it starts."] = "normal"
    limit: Annotated[int, Range(1, 1_000_000), "A whole number."] = 1000
    words: Annotated[List[Annotated[str, Length(1)]], "Texts."] = field(default_factory=list)
    ratio: Annotated[float, Range(0, 1), "A number."] = 0.5
    label: Annotated[Optional[str], "A text that may be absent."] = None
    nested: Annotated[Optional[Nested], "A table that may be absent."] = None


@operator(
    name="conformance",
    version="1.0.0",
    reads=["key", "value", "headers", "attributes"],
    outputs=["left", "right", *(f"out-{number}" for number in range(3, 17))],
    config=Config,
    metrics=[SEEN, WORDS, LAST_BYTES, VALUE_BYTES],
    tokens=True,
)
class Conformance:
    def __init__(self, config: Config) -> None:
        if config.mode == "refuse":
            raise BadConfiguration('config key "mode" is "refuse"', code="refused")
        if config.mode == "transient":
            raise Transient("not-now", "asked to come later")
        if config.mode == "panic":
            raise RuntimeError("asked to fail in init")
        self.config = config

    def process(self, record: Record) -> Answer:
        name = record.header("do")
        if name is None:
            return PASS
        behaviour = BEHAVIOURS.get(name.decode())
        if behaviour is not None:
            return behaviour(record)
        if name == b"config":
            return replace(value=compact(shown(self.config)))
        return dead_letter(f'unknown behaviour "{name.decode()}"')

    def open(self, lane: Lane) -> Step:
        handler = HANDLERS.get(lane.model)
        return (lambda text, last: text) if handler is None else handler(lane)


def reason(record: Record) -> str:
    return (record.value or b"").decode("utf-8", "replace")


def upper(record: Record) -> Answer:
    try:
        return replace(value=record.text.translate(UPPER))
    except FieldError:
        return dead_letter("value is not UTF-8 text")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown(config: Config) -> Dict[str, Any]:
    nested = config.nested and {"name": config.nested.name, "on": config.nested.on}
    ratio = int(config.ratio) if config.ratio.is_integer() else config.ratio
    return {**vars(config), "ratio": ratio, "nested": nested}


def show(record: Record) -> Answer:
    def digits(data: Optional[bytes]) -> Optional[str]:
        return None if data is None else data.hex()

    origin, source, partition, offset, emit = record.id
    return replace(
        value=compact(
            {
                "id": [origin, source, partition, str(offset), str(emit)],
                "time": record.event_time,
                "clock": record.now,
                "key": digits(record.key),
                "value": digits(record.value),
                "headers": [[name, digits(value)] for name, value in record.headers],
                "attributes": [[name, digits(value)] for name, value in record.attributes],
            }
        )
    )


def parts(record: Record) -> Answer:
    values = (record.value or b"").split(b",")
    return split(piece(value=value, headers={"part": str(index)}) for index, value in enumerate(values))


def throw(record: Record) -> Answer:
    raise RuntimeError("boom")


def fail_transient(record: Record) -> Answer:
    raise Transient("asked-for", "the record asks for it")


def fail_permanent(record: Record) -> Answer:
    raise Permanent("asked-for", "the record asks for it")


def fail_configuration(record: Record) -> Answer:
    raise BadConfiguration("the record asks for it", code="asked-for")


def spin(record: Record) -> Answer:
    while True:
        pass


KEPT: List[bytearray] = []


def grow(record: Record) -> Answer:
    while True:
        KEPT.append(bytearray(1 << 20))


def deep(record: Record) -> Answer:
    return deep(record) and deep(record)


def trap(record: Record) -> Answer:
    os.abort()


def lines(record: Record) -> Answer:
    log.trace("a trace line")
    log.debug("a debug line")
    log.info("an info line")
    log.warn("a warn line")
    log.error("an error line")
    return PASS


def measure(record: Record) -> None:
    length = len(record.value or b"")
    SEEN.add()
    WORDS.add(2, kind="short")
    LAST_BYTES.set(length)
    VALUE_BYTES.observe(length)


def measure_and_pass(record: Record) -> Answer:
    measure(record)
    return PASS


def measure_and_drop(record: Record) -> Answer:
    measure(record)
    return DROP


def measure_and_throw(record: Record) -> Answer:
    SEEN.add()
    return throw(record)


def draw(record: Record) -> Answer:
    random = record.random()
    return replace(value=f"{random.bits()},{random.bits()}")


BEHAVIOURS: Dict[str, Callable[[Record], Answer]] = {
    "pass": lambda record: PASS,
    "drop": lambda record: DROP,
    "echo": lambda record: replace(value=record.value),
    "upper": upper,
    "show": show,
    "set-key": lambda record: replace(key="a new key"),
    "null-key": lambda record: replace(key=None),
    "null-value": lambda record: replace(value=None),
    "empty-value": lambda record: replace(value=b""),
    "headers": lambda record: replace(headers=CHANGES),
    "attributes": lambda record: replace(attributes=CHANGES),
    "time": lambda record: replace(event_time=record.now),
    "no-time": lambda record: replace(event_time=None),
    "same": lambda record: replace(),
    "all": lambda record: replace(key="k", value="v", headers={"h": "1"}, attributes={"t": "2"}, event_time=5),
    "split": parts,
    "split-outputs": lambda record: split(
        [piece("left", value="l"), piece("right", value="r"), piece(value="m")],
    ),
    "split-none": lambda record: split([]),
    "split-many": lambda record: split([piece()] * 4095),
    "split-too-many": lambda record: split([piece()] * 4096),
    "route": lambda record: route(record.header_text("to") or ""),
    "route-changed": lambda record: route("left", value="changed", headers=[Remove("do")]),
    "last-output": lambda record: route("out-16"),
    "retry": lambda record: retry(1.5, reason(record)),
    "dead-letter": lambda record: dead_letter(reason(record)),
    "throw": throw,
    "fail-transient": fail_transient,
    "fail-permanent": fail_permanent,
    "fail-configuration": fail_configuration,
    "spin": spin,
    "grow": grow,
    "deep": deep,
    "trap": trap,
    "log": lines,
    "metrics": measure_and_pass,
    "metrics-drop": measure_and_drop,
    "metrics-throw": measure_and_throw,
    "json": lambda record: replace(value=record.json()["name"]),
    "random": draw,
    "headers-count": lambda record: replace(value=str(len(record.headers))),
    "clock": lambda record: replace(value=str(record.now)),
}


class Until:
    """Ends the answer at a word, and holds back what may become it."""

    WORD = "END"

    def __init__(self, how: Literal["stop", "filtered"]) -> None:
        self.how = how
        self.held = ""

    def __call__(self, text: str, last: bool) -> Union[str, End]:
        self.held += text
        at = self.held.find(self.WORD)
        if at >= 0:
            return end(self.held[:at], self.how)
        kept = 0 if last else min(len(self.held), len(self.WORD) - 1)
        while not self.WORD.startswith(self.held[len(self.held) - kept :]):
            kept -= 1
        through = self.held[: len(self.held) - kept]
        self.held = self.held[len(through) :]
        return through


class Holding:
    """Holds back so many characters at the end of the text; None for all of them."""

    def __init__(self, most: Optional[int]) -> None:
        self.most = most
        self.held = ""

    def __call__(self, text: str, last: bool) -> str:
        self.held += text
        most = 0 if last else len(self.held) if self.most is None else self.most
        through = self.held[: max(len(self.held) - most, 0)]
        self.held = self.held[len(through) :]
        return through


def told(lane: Lane) -> Step:
    kind = lane.kind if lane.call is None else f"{lane.kind} {lane.call}"
    attributes = [f"{name}={value.decode()}" for name, value in lane.attributes]
    parts = [lane.identity, lane.model, str(lane.choice), kind, *attributes, f"last a={lane.attribute_text('a') or ''}"]
    return lambda text, last: "|".join(parts) if last else ""


def logged(lane: Lane) -> Step:
    log.info("a lane opens")

    def step(text: str, last: bool) -> str:
        if last:
            log.debug("its text ends")
        return text

    return step


def refuse(lane: Lane) -> Step:
    raise Permanent("no-lane", "the lane asks for it")


def refuse_for_now(lane: Lane) -> Step:
    raise Transient("no-lane", "the lane asks for it")


def fail(text: str, last: bool) -> str:
    if text == "bad":
        raise Permanent("asked-for", "the text asks for it")
    return text


def boom(text: str, last: bool) -> str:
    raise RuntimeError("boom")


HANDLERS: Dict[str, Callable[[Lane], Step]] = {
    "upper": lambda lane: lambda text, last: text.translate(UPPER),
    "hold": lambda lane: Holding(None),
    "tail": lambda lane: Holding(1),
    "silent": lambda lane: lambda text, last: "",
    "stop": lambda lane: Until("stop"),
    "filter": lambda lane: Until("filtered"),
    "lane": told,
    "log": logged,
    "refuse": refuse,
    "refuse-transient": refuse_for_now,
    "fail": lambda lane: fail,
    "throw": lambda lane: boom,
}
