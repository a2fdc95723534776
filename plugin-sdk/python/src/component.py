"""What the component exports. The module that `tidegate build` makes of a project imports it:

    import redact
    from tidegate.component import exported
    Packed = exported(redact)

It is apart from what operators use, so that interfaces that the contract gets later can join.
"""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any, NoReturn, Optional

from componentize_py_types import Err  # type: ignore[import-not-found]
from wit_world import exports  # type: ignore[import-not-found]
from wit_world.imports import types  # type: ignore[import-not-found]

from .configuration import read_config
from .failures import BAD_CONFIGURATION, PERMANENT, TRANSIENT, Failure, Permanent, shown
from .metrics import Metric
from .operators import Declared, only_operator
from .runner import Runner

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


def exported(module: ModuleType) -> Any:
    """The class that the component exports for the operator of a module."""
    declared = only_operator(module)

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
                if _Started.runner is None:
                    raise Permanent("not-started", "`process` was called before `init`")
                return _Started.runner.process(batch)
            except Failure as failure:
                _fail(failure)

    # What is there when the component is written stays for good. To look for garbage among it would take time, and memory
    # of each instance, which shares what it does not write to.
    gc.collect()
    gc.freeze()
    return Packed


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
        [],
        [],
    )


def _metric(metric: Metric) -> Any:
    return types.Metric(metric.name, _KINDS[metric.kind], metric.help, list(metric.labels), list(metric.bounds))
