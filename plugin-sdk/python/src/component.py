"""What the component exports. The module that `tidegate build` makes of a project imports it:

    import redact
    from tidegate.component import exported, tokens
    Packed = exported(redact, ["tokens"])
    Tokens = tokens()

It is apart from what operators use, so that interfaces that the contract gets later can join.
"""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any, Dict, List, NoReturn, Optional, Sequence

from componentize_py_types import Err  # type: ignore[import-not-found]
from wit_world import exports  # type: ignore[import-not-found]
from wit_world.imports import types  # type: ignore[import-not-found]

from .configuration import read_config
from .failures import BAD_CONFIGURATION, PERMANENT, TRANSIENT, Failure, Permanent, shown
from .metrics import Metric
from .operators import Declared, only_operator
from .runner import Runner
from .tokens import Kind, Lane, Lanes

_CLASSES = {
    TRANSIENT: types.FailureClass.TRANSIENT,
    PERMANENT: types.FailureClass.PERMANENT,
    BAD_CONFIGURATION: types.FailureClass.BAD_CONFIGURATION,
}
_FIELDS = {
    "key": types.Fields.KEY,
    "value": types.Fields.VALUE,
    "headers": types.Fields.HEADERS,
    "attributes": types.Fields.ATTRIBUTES,
}
_KINDS = {
    "counter": types.MetricKind.COUNTER,
    "gauge": types.MetricKind.GAUGE,
    "histogram": types.MetricKind.HISTOGRAM,
}


class _Started:
    """What `init` has made. Each export is called on an instance of its own of `Packed`, so it is kept beside them."""

    runner: Optional[Runner] = None


def _started(call: str) -> Runner:
    if _Started.runner is None:
        raise Permanent("not-started", f"`{call}` was called before `init`")
    return _Started.runner


def exported(module: ModuleType, handlers: Sequence[str]) -> Any:
    """The class that the component exports for the operator of a module; `handlers` are those of operator.toml."""
    declared = only_operator(module)
    if declared.tokens and "tokens" not in handlers:
        raise TypeError(f"the operator {declared.name!r} has tokens=True: write handlers = [\"tokens\"] in operator.toml")
    if not declared.tokens and "tokens" in handlers:
        raise TypeError(f"operator.toml has the handler \"tokens\": write tokens=True for the operator {declared.name!r}")

    class Packed(exports.Packed):  # type: ignore[misc]
        """The fast world's handler."""

        def describe(self, config: str) -> Any:
            return _description(declared, config)

        def init(self, config: str) -> None:
            try:
                _Started.runner = Runner(declared, config)
            except Failure as failure:
                _fail(failure)

        def process(self, batch: bytes) -> bytes:
            try:
                return _started("process").process(batch)
            except Failure as failure:
                _fail(failure)

    # What is there when the component is written stays for good. To look for garbage among it would take time, and memory
    # of each instance, which shares what it does not write to.
    gc.collect()
    gc.freeze()
    return Packed


def tokens() -> Any:
    """The class that the component exports for the handler of tokens, of the operator that `exported` was given."""
    from wit_world.exports import tokens as wit  # type: ignore[import-not-found]

    kinds: Dict[Any, Kind] = {
        wit.LaneKind_Content: "content",
        wit.LaneKind_Reasoning: "reasoning",
        wit.LaneKind_Arguments: "arguments",
    }
    endings = {None: None, "stop": wit.Ending.STOP, "filtered": wit.Ending.FILTERED}

    class Tokens(exports.Tokens):  # type: ignore[misc]
        """The handler of tokens."""

        def open(self, number: int, lane: Any) -> None:
            attributes = tuple((pair.name, pair.value) for pair in lane.attributes)
            kind, call = kinds[type(lane.kind)], getattr(lane.kind, "value", None)
            try:
                _lanes("open").open(number, Lane(lane.identity, lane.model, lane.choice, kind, call, attributes))
            except Failure as failure:
                _fail(failure)

        def step(self, pieces: List[Any]) -> List[Any]:
            verdicts = []
            try:
                for piece in pieces:
                    text, how = _lanes("step").step(piece.lane, piece.text, piece.last)
                    verdicts.append(wit.Verdict(text, endings[how]))
            except Failure as failure:
                _fail(failure)
            return verdicts

        def close(self, number: int) -> None:
            _lanes("close").close(number)

    return Tokens


def _lanes(call: str) -> Lanes:
    lanes = _started(call).lanes
    if lanes is None:
        raise Permanent("no-handler", "the operator handles no tokens")
    return lanes


def _fail(failure: Failure) -> NoReturn:
    raise Err(types.Failure(_CLASSES[failure.kind], failure.code, failure.message)) from failure


def _description(declared: Declared, config: str) -> Any:
    # A configuration that cannot be read is refused by the schema, and by `init`: who only asks what the operator is,
    # with an empty one, gets an answer.
    outputs = () if callable(declared.outputs) else declared.outputs
    try:
        outputs = declared.named_outputs(read_config(declared.config, config))
    except Failure:
        pass
    except Exception as error:
        _fail(Permanent("exception", shown(error, declared.root)))
    reads = types.Fields(0)
    for field in declared.reads:
        reads |= _FIELDS[field]
    return types.Description(
        declared.name,
        declared.version,
        declared.schema,
        reads,
        list(outputs),
        [_metric(metric) for metric in declared.metrics],
        ["tokens"] if declared.tokens else [],
        [],
    )


def _metric(metric: Metric) -> Any:
    return types.Metric(metric.name, _KINDS[metric.kind], metric.help, list(metric.labels), list(metric.bounds))
