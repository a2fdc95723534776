"""Runs an operator natively, in pytest or unittest, through the same encoding as in WebAssembly.

    operator = Harness(keep_filled)
    assert operator.run_one(TestRecord("")).is_drop
    assert operator.run_one(TestRecord("four")).record.header_text("bytes") == "4"

Records are packed into a batch with the fields that the operator reads, and no others, as the host does; its answer is
checked and applied as the host does. What only the built component does, a trap, a deadline, memory without end, shows in
`tidegate test`, which runs the same cases in the sandbox.
"""

from .answers import Refused
from .cases import run_cases
from .harness import Answer, Harness
from .lanes import OpenLane, TestLane, Through
from .records import TestRecord

__all__ = ["Answer", "Harness", "OpenLane", "Refused", "TestLane", "TestRecord", "Through", "run_cases"]
