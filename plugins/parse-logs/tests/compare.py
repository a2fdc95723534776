"""Holds parse-logs against a regular expression: every line of a log, through the component in a pipeline.

    python3 tests/compare.py LOG [--operator parse-logs.wasm] [--tidegate tidegate]

Prints how many lines there were, how many were read alike and what differs; ends with 1 if anything differs or is lost.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

LINE = re.compile(
    rb'(?P<remote>[^ ]+) (?P<ident>[^ ]+) (?P<user>.+?) \[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)"'
    rb' (?P<status>[0-9]{3}) (?P<bytes>[0-9]{1,18}|-)'
    rb'(?: "(?P<referrer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)(?:"|$))?'
)
REQUEST = re.compile(rb"([^ ]+) ([^ ?]*)(?:\?([^ ]*))? (HTTP/[^ ]*)")
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|[\"\\bfnrtv])")
MEANT = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

PIPELINE = """
[pipeline]
name = "compare"

[source.log]
type = "file"
paths = [{log}]
format = "raw"

[[stage]]
name = "parse"
operator = {operator}

[sink.lines]
type = "file"
path = "lines.jsonl"
format = "json"

[dead-letters]
type = "file"
path = "dead.jsonl"
"""


def text(raw):
    """A field as the operator has it: none for `-`, without the server's escapes."""
    if raw is None or raw == b"-":
        return None

    def meant(match):
        escape = match[1]
        if escape[:1] == b"x":
            return bytes([int(escape[1:], 16)])
        return MEANT.get(escape, escape)

    return ESCAPE.sub(meant, raw).decode("utf-8", "replace")


def expected(line):
    """What a line should become; none if it is no line of an access log."""
    match = LINE.fullmatch(line)
    if not match:
        return None
    request = REQUEST.fullmatch(match["request"])
    method, path, query, protocol = request.groups() if request else (None,) * 4
    at = datetime.strptime(match["time"].decode(), "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)
    return {
        "remote": text(match["remote"]),
        "ident": text(match["ident"]),
        "user": text(match["user"]),
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "method": text(method),
        "path": text(path),
        "query": text(query),
        "protocol": text(protocol),
        "request": None if request else text(match["request"]),
        "status": int(match["status"]),
        "bytes": None if match["bytes"] == b"-" else int(match["bytes"]),
        "referrer": text(match["referrer"]),
        "agent": text(match["agent"]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--operator", type=Path, default=Path(__file__).parent.parent / "parse-logs.wasm")
    parser.add_argument("--tidegate", default="tidegate")
    options = parser.parse_args()
    lines = options.log.read_bytes().splitlines()
    wanted = [expected(line) for line in lines]
    with tempfile.TemporaryDirectory() as directory:
        paths = {name: json.dumps(str(getattr(options, name).resolve())) for name in ("log", "operator")}
        Path(directory, "pipeline.toml").write_text(PIPELINE.format(**paths))
        began = time.monotonic()
        subprocess.run([options.tidegate, "run", "pipeline.toml"], cwd=directory, check=True)
        took = time.monotonic() - began
        came = [json.loads(line) for line in Path(directory, "lines.jsonl").read_bytes().splitlines()]
        dead = Path(directory, "dead.jsonl")
        dead = dead.read_bytes().splitlines() if dead.exists() else []
    alike = [one for one in wanted if one is not None]
    differ = [(one, other) for one, other in zip(alike, came) if one != other]
    for one, other in differ[:10]:
        print(f"expected {json.dumps(one)}\n    came {json.dumps(other)}")
    refused = len(wanted) - len(alike)
    print(
        f"{len(lines)} lines: {len(came)} read, {len(dead)} dead letters; by the expression {len(alike)} and {refused}; "
        f"{len(differ)} differ; {took:.2f} s"
    )
    is_right = not differ and len(came) == len(alike) and len(dead) == refused and len(came) + len(dead) == len(lines)
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
