#!/usr/bin/env python3
"""What traces cost: the same lines through the same operator, with traces and without, in turns.

Needs `cargo build --release --workspace --bins && cargo xtask operators`. The collector is one that takes everything, in a
process of its own. Prints JSON: records a second by the clock, and microseconds of CPU time a record, each run's and the
best of each kind.
"""

import argparse
import http.server
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

PIPELINE = """
[pipeline]
name = "cost"
workers = 1
{telemetry}
[source.lines]
type = "file"
paths = ["{lines}"]
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "file"
path = "out.jsonl"
"""


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes everything, and looks at nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def collect(told):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    told.put(server.server_address[1])
    server.serve_forever()


def run(telemetry, lines, records):
    """Seconds by the clock and of CPU time that a run takes, start and end included."""
    with tempfile.TemporaryDirectory() as directory:
        pipeline = PIPELINE.format(
            telemetry=telemetry, lines=lines, operators=ROOT / "target/operators"
        )
        pathlib.Path(directory, "pipeline.toml").write_text(pipeline)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        command = [ROOT / "target/release/tidegate", "run", "--json", "pipeline.toml"]
        done = subprocess.run(command, cwd=directory, check=True, capture_output=True)
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        summary = json.loads(done.stdout)
        assert summary["records"]["out"] == records, summary
        return {
            "records_per_second": round(records / seconds),
            "cpu_us_per_record": round(cpu / records * 1e6, 3),
            "p99_ms": summary["latency_ms"]["p99"],
        }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments = arguments.parse_args()
    told = multiprocessing.Queue()
    collector = multiprocessing.Process(target=collect, args=(told,), daemon=True)
    collector.start()
    url = f"http://127.0.0.1:{told.get()}"
    kinds = {
        "off": "",
        "sample 0.01": f'[telemetry.traces]\nendpoint = "{url}"\n',
        "sample 1.0": f'[telemetry.traces]\nendpoint = "{url}"\nsample = 1.0\n',
    }
    runs = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as directory:
        lines = pathlib.Path(directory, "lines.jsonl")
        with lines.open("w") as file:
            for n in range(arguments.records):
                file.write(f'{{"n":{n},"text":"Where is my parcel? Mail u{n}@example.com"}}\n')
        for _ in range(arguments.rounds):
            for kind, telemetry in kinds.items():
                runs[kind].append(run(telemetry, lines, arguments.records))
    best = {
        kind: {
            "records_per_second": max(run["records_per_second"] for run in of),
            "cpu_us_per_record": min(run["cpu_us_per_record"] for run in of),
            "p99_ms": min(run["p99_ms"] for run in of),
        }
        for kind, of in runs.items()
    }
    print(json.dumps({"best": best, "runs": runs, "cores": os.cpu_count()}, indent=1))
    collector.terminate()


if __name__ == "__main__":
    main()
