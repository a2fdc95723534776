"""The host's log: `log.info("...")`.

A component imports it only if `operator.toml` grants it: `grants = ["log"]`. Without the grant, and outside of a test,
lines go to standard error, which the host also logs, without their level.
"""

from __future__ import annotations

import sys
from typing import Callable, List, Optional, Tuple

LEVELS = ("trace", "debug", "info", "warn", "error")

Sink = Callable[[int, str], None]


def _to_standard_error(level: int, message: str) -> None:
    print(f"{LEVELS[level]}: {message}", file=sys.stderr)


def _find() -> Optional[Sink]:
    try:
        from wit_world.imports import log as host  # type: ignore[import-not-found]
    except ImportError:
        return None
    levels = (host.Level.TRACE, host.Level.DEBUG, host.Level.INFO, host.Level.WARN, host.Level.ERROR)

    def write(level: int, message: str) -> None:
        host.write(levels[level], message)

    return write


_sink: Sink = _find() or _to_standard_error


def _write(level: int, message: str) -> None:
    # The host takes UTF-8; half of a pair of surrogates is none.
    _sink(level, str(message).encode("utf-8", "backslashreplace").decode())


def trace(message: str) -> None:
    """For following single records."""
    _write(0, message)


def debug(message: str) -> None:
    """For finding a fault."""
    _write(1, message)


def info(message: str) -> None:
    """Worth knowing."""
    _write(2, message)


def warn(message: str) -> None:
    """Worth looking at."""
    _write(3, message)


def error(message: str) -> None:
    """Something failed."""
    _write(4, message)


def keep(lines: List[Tuple[str, str]]) -> Callable[[], None]:
    """Keeps lines in a list, until what it returns is called."""
    global _sink
    before = _sink
    _sink = lambda level, message: lines.append((LEVELS[level], message))  # noqa: E731

    def end() -> None:
        global _sink
        _sink = before

    return end
