"""Write Tidegate operators in Python: one decorated function or class over a plain `Record`.

    from tidegate import DROP, Record, operator, replace

    @operator(name="keep-filled", reads=["value"])
    def keep_filled(record: Record):
        if not record.value:
            return DROP
        return replace(headers={"bytes": str(len(record.value))})

It is tested natively with `tidegate.testing`, and built to WebAssembly with `tidegate build`.
"""

from . import log
from .configuration import Length, Name, NoConfig, Range
from .draw import Random
from .failures import BadConfiguration, Failure, FieldError, Permanent, Transient
from .metrics import Counter, Gauge, Histogram
from .operators import Answer, operator
from .outcomes import (
    DROP,
    PASS,
    Add,
    Change,
    Data,
    Outcome,
    Piece,
    Remove,
    Set,
    dead_letter,
    micros,
    moment,
    piece,
    replace,
    retry,
    route,
    split,
)
from .record import Record, RecordId
from .tokens import End, Lane, Step, end

__version__ = "0.1.0"

__all__ = [
    "DROP",
    "PASS",
    "Add",
    "Answer",
    "BadConfiguration",
    "Change",
    "Counter",
    "Data",
    "End",
    "Failure",
    "FieldError",
    "Gauge",
    "Histogram",
    "Lane",
    "Length",
    "Name",
    "NoConfig",
    "Outcome",
    "Permanent",
    "Piece",
    "Random",
    "Range",
    "Record",
    "RecordId",
    "Remove",
    "Set",
    "Step",
    "Transient",
    "dead_letter",
    "end",
    "log",
    "micros",
    "moment",
    "operator",
    "piece",
    "replace",
    "retry",
    "route",
    "split",
]
