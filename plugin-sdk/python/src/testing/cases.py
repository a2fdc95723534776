"""Runs files of cases, in the format of `tidegate/cases.schema.json`, which all languages and the sandbox read.

Every harness compares the outcomes as they are answered. Cases with `"sandbox": true` are left to `tidegate test`.
"""

from __future__ import annotations

import base64
import binascii
import glob
import json
import math
import os
from typing import Any, Dict, List, Optional, Tuple

from ..failures import Failure
from ..operators import declared_by
from ..record import RecordId, strict_json
from .answers import Came, Patch, Refused
from .harness import CLOCK, SEED, Harness
from .lanes import IDENTITY, TestLane
from .records import TestRecord

_MEMBERS = (
    *("name", "config", "clock", "seed", "limits", "sandbox", "records", "outcomes"),
    *("log", "metrics", "failure", "refused", "tokens"),
)
_RECORD = ("key", "value", "headers", "attributes", "event-time", "id")
_PATCH = ("to", "key", "value", "headers", "attributes", "event-time")
_TOKENS = ("lane", "model", "choice", "record", "attributes", "pieces", "through", "end")
_SHOWN = 120


class WrongCase(ValueError):
    """A file of cases that is not in their format."""


def run_cases(operator: Any, *patterns: str) -> int:
    """Runs the cases of files and says how many there were: `run_cases(redact, "cases/*.json")`.

    Patterns count from the directory of the operator's source. Raises an AssertionError with every difference: file,
    case, record, field, what was expected and what came.
    """
    root = declared_by(operator).root
    run, different = 0, []
    for pattern in patterns or ("cases/*.json",):
        files = sorted(glob.glob(os.path.join(root, pattern)))
        if not files:
            raise AssertionError(f"no file of cases is called {pattern} in {root}")
        for file in files:
            name = os.path.relpath(file, root)
            with open(file, encoding="utf-8") as source:
                try:
                    document = strict_json(source.read())
                    _known(document, ("$schema", "config", "cases"), "the file")
                    cases: List[Dict[str, Any]] = document["cases"]
                except (ValueError, KeyError) as error:
                    raise WrongCase(f"{name}: {error}") from None
            for case in cases:
                title = f"{name}: case {json.dumps(case.get('name'), ensure_ascii=False)}"
                if case.get("sandbox"):
                    continue
                run += 1
                try:
                    found = _run(operator, case, document.get("config"))
                except (KeyError, TypeError, ValueError) as error:
                    raise WrongCase(f"{title}: {type(error).__name__}: {error}") from error
                different += [f"{title}, {one}" for one in found]
    if different:
        raise AssertionError("\n".join(different))
    return run


def _run(operator: Any, case: Dict[str, Any], config: Any) -> List[str]:
    """The differences of a case."""
    _known(case, _MEMBERS, "the case")
    if sum(one in case for one in ("outcomes", "failure", "refused")) > 1:
        raise WrongCase("outcomes, failure and refused are there together, expected one of them")
    config = json.dumps(case.get("config", config if config is not None else {}))
    seed = bytes.fromhex(case["seed"]) if "seed" in case else SEED
    if len(seed) != 16:
        raise WrongCase(f"seed has {len(seed)} bytes, expected 16")
    try:
        harness = Harness(operator, config, clock=case.get("clock", CLOCK), seed=seed)
    except Failure as failure:
        return _failed("refused", failure, case.get("refused"))
    if "refused" in case:
        return ["it starts, expected to be refused"]
    if "tokens" in case:
        return _tokens(harness, case)
    records = [_record(index, record) for index, record in enumerate(case.get("records", []))]
    expected = [_Expected(outcome) for outcome in case.get("outcomes", [])]
    try:
        came = harness.outcomes(records)
    except Failure as failure:
        found = _failed("failure", failure, case.get("failure"))
    except Refused as refused:
        found = [f"the host refuses the answer: {refused}"]
    else:
        found = ["no failure came"] if "failure" in case else []
        if "outcomes" in case and len(expected) != len(records):
            raise WrongCase(f"{len(expected)} outcomes of {len(records)} records")
        for number, (wanted, outcome) in enumerate(zip(expected, came), 1):
            found += [f"record {number}, {one}" for one in wanted.differences(outcome)]
    if "log" in case:
        found += _lines(case["log"], harness.log)
    if "metrics" in case:
        found += _metrics(case["metrics"], harness)
    return found


def _tokens(harness: Harness, case: Dict[str, Any]) -> List[str]:
    """The differences of a case that gives a text in pieces, and says what goes through."""
    tokens = case["tokens"]
    _known(tokens, _TOKENS, "tokens")
    kind: Any = tokens.get("lane", "content")
    call: int = 0
    if isinstance(kind, dict):
        _known(kind, ("arguments",), "the lane")
        call, kind = kind["arguments"], "arguments"
    elif kind not in ("content", "reasoning"):
        raise WrongCase(f"the lane is {_shown(kind)}, expected content, reasoning or arguments")
    given: Dict[str, Any] = {name: tokens[name] for name in ("model", "choice") if name in tokens}
    pairs = _pairs(tokens.get("attributes", []))
    lane = TestLane(kind, call=call, identity=tokens.get("record", IDENTITY), attributes=pairs, **given)
    pieces: List[str] = tokens["pieces"]
    try:
        each = harness.open(lane).each(pieces)
    except Failure as failure:
        return _failed("failure", failure, case.get("failure"))
    lines = list(harness.log)
    if "failure" in case:
        return ["no failure came"]
    if "through" not in tokens:
        return ["it expects neither what goes through nor a failure"]
    texts, came_end = [through.text for through in each], each[-1].end
    whole, came = "".join(pieces), "".join(texts)
    wanted = tokens["through"]
    found = _differs("through", wanted, texts if isinstance(wanted, list) else came)
    found += _differs("end", tokens.get("end"), came_end)
    cuts = (
        ("in one piece", [whole]),
        ("character by character", list(whole) or [""]),
        # As every lane of a pipeline ends: it is known late that nothing more comes.
        ("with its end apart", [whole, ""]),
    )
    for cut, again in cuts:
        try:
            other = harness.open(lane).run(again)
        except Failure as failure:
            found.append(f"the same text {cut}: fails: {failure}")
            continue
        found += _differs(f"the same text {cut}, through", came, other.text)
        found += _differs(f"the same text {cut}, end", came_end, other.end)
    return found + (_lines(case["log"], lines) if "log" in case else [])


def _differs(what: str, expected: Any, came: Any) -> List[str]:
    return [] if expected == came else [f"{what}: expected {_shown(expected)}, came {_shown(came)}"]


def _failed(what: str, failure: Failure, expected: Optional[Dict[str, Any]]) -> List[str]:
    if expected is None:
        return [f"{what}: {failure.kind}: {failure}"]
    _known(expected, ("class", "code", "message"), what)
    came = {"class": failure.kind, "code": failure.code, "message": failure.message}
    return [
        f"{what}, {name}: expected {_shown(text)}, came {_shown(came[name])}"
        for name, text in expected.items()
        if not _fits(text, came[name])
    ]


def _known(value: Any, members: Tuple[str, ...], what: str) -> None:
    if not isinstance(value, dict):
        raise WrongCase(f"{what} is {_shown(value)}, expected an object")
    for name in value:
        if name not in members:
            raise WrongCase(f"{what} has the member {name!r}, expected {', '.join(members)}")


def _record(index: int, record: Dict[str, Any]) -> TestRecord:
    _known(record, _RECORD, f"record {index + 1}")
    identity = {"origin": "source", "source": 0, "partition": 0, "offset": index, "emit": 0}
    _known(record.get("id", {}), tuple(identity), f"the id of record {index + 1}")
    return TestRecord(
        _data(record.get("value")),
        key=_data(record.get("key")),
        headers=_pairs(record.get("headers", [])),
        attributes=_pairs(record.get("attributes", [])),
        event_time=record.get("event-time"),
        id=RecordId(**{**identity, **record.get("id", {})}),
    )


def _data(value: Any) -> Optional[bytes]:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        if set(value) == {"base64"}:
            try:
                return base64.b64decode(value["base64"], validate=True)
            except binascii.Error as error:
                raise WrongCase(f"base64 is {_shown(value['base64'])}: {error}") from None
        if set(value) == {"repeat", "times"}:
            repeated: bytes = value["repeat"].encode() * value["times"]
            return repeated
        if set(value) == {"json"}:
            return json.dumps(value["json"], ensure_ascii=False, separators=(",", ":")).encode()
    raise WrongCase(f"bytes are {_shown(value)}, expected text, null, base64, repeat with times, or json")


def _pairs(pairs: Any) -> List[Tuple[str, Optional[bytes]]]:
    if isinstance(pairs, dict):
        if set(pairs) == {"repeat", "times"}:
            name, value = pairs["repeat"]
            return [(name, _data(value))] * pairs["times"]
        pairs = list(pairs.items())
    return [(name, _data(value)) for name, value in pairs]


def _patch(patch: Dict[str, Any]) -> Patch:
    _known(patch, _PATCH, "the patch")
    read: Patch = {}
    for name, value in patch.items():
        if name in ("key", "value"):
            read[name] = _data(value)
        elif name in ("headers", "attributes"):
            if value:
                read[name] = [[*change[:2], *map(_data, change[2:])] for change in value]
        else:
            read[name] = value
    return read


class _Expected:
    """An outcome as a case has it."""

    def __init__(self, outcome: Any) -> None:
        if outcome in ("pass", "drop"):
            outcome = {outcome: None}
        if not isinstance(outcome, dict) or len(outcome) != 1:
            raise WrongCase(f"an outcome is {_shown(outcome)}, expected pass, drop or an object with one member")
        ((self.action, content),) = outcome.items()
        self.patches: List[Patch] = []
        self.reason: Any = ""
        self.after_ms = 0
        if self.action in ("replace", "route"):
            self.patches = [_patch(content)]
        elif self.action == "split":
            if isinstance(content, dict):
                content = [content["repeat"]] * content["times"]
            self.patches = [_patch(piece) for piece in content]
            self.action = "split" if self.patches else "drop"
        elif self.action == "retry":
            _known(content, ("after-ms", "reason", "then"), "retry")
            self.after_ms, self.reason = content["after-ms"], content["reason"]
        elif self.action in ("dead-letter", "raised"):
            self.reason = content
        elif self.action == "poison":
            raise WrongCase("the outcome is poison, which only a case with \"sandbox\": true can have")
        elif self.action not in ("pass", "drop"):
            raise WrongCase(f"an outcome is {self.action!r}, which is none")
        if self.action == "replace" and self.patches == [{}]:
            self.action, self.patches = "pass", []

    def differences(self, came: Came) -> List[str]:
        came = _simplest(came)
        action = "dead-letter" if self.action == "raised" else self.action
        if action != came.action:
            why = f" ({_shown(came.reason)})" if came.reason else ""
            return [f"outcome: expected {action}, came {came.action}{why}"]
        if len(self.patches) != len(came.patches):
            return [f"pieces: expected {len(self.patches)}, came {len(came.patches)}"]
        found = []
        for number, (wanted, patch) in enumerate(zip(self.patches, came.patches), 1):
            if wanted != patch:
                piece = f"piece {number}, " if action == "split" else ""
                found += [f"{piece}{one}" for one in _patch_differences(wanted, patch)]
        if self.after_ms != came.after_ms:
            found.append(f"after-ms: expected {self.after_ms}, came {came.after_ms}")
        if not _fits(self.reason, came.reason):
            found.append(f"reason: expected {_shown(self.reason)}, came {_shown(came.reason)}")
        return found


def _simplest(came: Came) -> Came:
    """What means the same is the same, as for the host: a replace without changes passes, a split into nothing drops."""
    if came.action == "split" and not came.patches:
        return Came("drop", [])
    return Came("pass", []) if came.action == "replace" and came.patches == [{}] else came


def _patch_differences(wanted: Patch, came: Patch) -> List[str]:
    found = []
    for name in _PATCH:
        sides = [_shown(side[name]) if name in side else "no change" for side in (wanted, came)]
        if name == "to":
            sides = [side.get("to", "the main output") for side in (wanted, came)]
        if wanted.get(name, "") != came.get(name, "") or (name in wanted) != (name in came):
            found.append(f"{name}: expected {sides[0]}, came {sides[1]}")
    return found


def _fits(expected: Any, came: str) -> bool:
    if isinstance(expected, dict):
        _known(expected, ("contains",), "a text")
        return all(part in came for part in expected["contains"])
    return bool(expected == came)


def _lines(expected: List[List[Any]], came: List[Tuple[str, str]]) -> List[str]:
    fits = len(expected) == len(came) and all(
        level == wanted[0] and _fits(wanted[1], text) for wanted, (level, text) in zip(expected, came)
    )
    return [] if fits else [f"log: expected {_shown(expected)}, came {_shown([list(line) for line in came])}"]


def _metrics(expected: List[Dict[str, Any]], harness: Harness) -> List[str]:
    came: Dict[Tuple[str, Tuple[Tuple[str, str], ...]], Any] = {}
    for sample in harness.samples:
        key = (sample.metric.name, tuple(sorted(zip(sample.metric.labels, sample.labels))))
        if sample.metric.kind == "counter":
            came[key] = came.get(key, 0) + sample.value
        elif sample.metric.kind == "gauge":
            came[key] = sample.value
        else:
            before = came.get(key, {"count": 0, "sum": 0})
            came[key] = {"count": before["count"] + 1, "sum": before["sum"] + sample.value}
    wanted = {}
    for one in expected:
        _known(one, ("name", "labels", "value"), "a metric")
        wanted[one["name"], tuple(sorted(one.get("labels", {}).items()))] = one["value"]
    return [
        f"metric {name}{dict(labels) or ''}: expected {wanted.get((name, labels))}, came {came.get((name, labels))}"
        for name, labels in sorted({*wanted, *came})
        if not _near(wanted.get((name, labels), 0), came.get((name, labels), 0))
    ]


def _near(one: Any, other: Any) -> bool:
    """Whether numbers are the same but for how sums were rounded. What stayed at zero is as if it had not been measured."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.get("count") == other.get("count") and _near(one.get("sum"), other.get("sum"))
    numbers = all(isinstance(number, (int, float)) for number in (one, other))
    return numbers and math.isclose(one, other, rel_tol=1e-9)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... ({len(text)} characters)"


def _text(value: bytes) -> str:
    """Bytes as they are shown: their text, or the digits of what is none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
