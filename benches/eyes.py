#!/usr/bin/env python3
"""What it costs to be seen: the same binary with everything on against everything off, in turns.

    cargo build --release --workspace --bins && cargo xtask operators
    benches/eyes.py > benches/results/DATE-MACHINE-eyes.json             about 7 minutes
    benches/eyes.py --instructions > benches/results/DATE-MACHINE-eyes-instructions.json

Off: no [telemetry], a log as text, nobody looks. On: traces, metrics to a collector each 5 s, a log as JSON, one who scrapes
/metrics each 5 s, and one who follows the page. On with all traces is on with sample = 1.0. Each turn has two parts:

- a file, as fast as it goes: records a second, and microseconds of CPU time a record, start and end included;
- a file that grows by so many records a second: the 99th percentile from read to committed.

The kinds take turns, and each round has them the other way round. With --instructions nothing depends on the clock: it
counts instructions of a record by valgrind's callgrind, from file to file without an operator, which cannot be compiled
there; so the share is the largest there can be. There is no audit in it: it has lines of questions to models.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import multiprocessing
import os
import pathlib
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LOOKS = 5.0
STAGE = """
[[stage]]
name = "redact"
operator = "{target}/operators/redact-pii.wasm"
config = {{ paths = ["text"] }}
"""
PIPELINE = """
[pipeline]
name = "eyes"
workers = 1
state = "state"
{telemetry}
[source.lines]
type = "file"
paths = ["{lines}"]
{stage}
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


def telemetry(url, sample):
    """The tables of a pipeline file for this part of the traces; none for no telemetry at all."""
    if sample is None:
        return ""
    return (
        f'[telemetry.traces]\nendpoint = "{url}"\nsample = {sample}\n'
        f'[telemetry.metrics]\nendpoint = "{url}"\ninterval = "5s"\n'
    )


def line(number):
    return f'{{"n":{number},"text":"Where is my parcel? Mail u{number}@example.com"}}\n'


class Looks:
    """One who scrapes, and one who follows the page, while a host runs."""

    def __init__(self, work):
        self.work, self.ended = work, threading.Event()
        self.scrapes = self.bytes = 0
        self.threads = [threading.Thread(target=of) for of in (self.scrape, self.follow)]
        for thread in self.threads:
            thread.start()

    def admin(self):
        """The address and the token, once the host has told them."""
        while not self.ended.is_set():
            with contextlib.suppress(OSError, ValueError):
                return json.loads((self.work / "state/admin.json").read_text())
            time.sleep(0.01)
        return None

    def scrape(self):
        admin = self.admin()
        while admin and not self.ended.is_set():
            # The host may end at any time.
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(admin["address"], timeout=5)
                headers = {"Authorization": f"Bearer {admin['token']}"}
                connection.request("GET", "/metrics", headers=headers)
                answer = connection.getresponse()
                answer.read()
                self.scrapes += answer.status == 200
                connection.close()
            self.ended.wait(LOOKS)

    def follow(self):
        admin = self.admin()
        if not admin:
            return
        host, port = admin["address"].rsplit(":", 1)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as stream:
            stream.sendall(
                f"GET /v1/live HTTP/1.1\r\nHost: {admin['address']}\r\nAuthorization: Bearer {admin['token']}\r\n\r\n".encode()
            )
            stream.settimeout(1)
            while not self.ended.is_set():
                with contextlib.suppress(TimeoutError):
                    data = stream.recv(1 << 16)
                    if not data:
                        return
                    self.bytes += len(data)

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class Work:
    """A directory with a pipeline file, and a host in it."""

    def __init__(self, directory, tables, lines, stage=True):
        self.path = pathlib.Path(directory)
        self.on = bool(tables)
        stage = STAGE.format(target=TARGET) if stage else ""
        text = PIPELINE.format(telemetry=tables, lines=lines, stage=stage)
        (self.path / "pipeline.toml").write_text(text)

    def start(self, *more):
        command = [TARGET / "release/tidegate", "run", "--json"]
        command += ["--log-format", "json"] if self.on else []
        with (self.path / "log").open("w") as log:
            return subprocess.Popen(
                [*command, *more, "pipeline.toml"], cwd=self.path, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ended(self, host, looks, records):
        """What the host says at its end, of which so many records are expected."""
        said, _ = host.communicate()
        if looks:
            looks.end()
            assert looks.scrapes and looks.bytes, "nobody has looked"
        summary = json.loads(said)
        assert host.returncode == 0 and summary["records"]["out"] == records, summary
        return summary


def fast(tables, lines, records):
    """As fast as it goes."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(directory, tables, lines)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        host = work.start()
        work.ended(host, Looks(work.path) if work.on else None, records)
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            "records_per_second": round(records / seconds),
            "cpu_us_per_record": round(cpu / records * 1e6, 3),
        }


def paced(tables, rate, seconds):
    """At so many records a second, handed over in pieces of a fiftieth."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(directory, tables, "in.jsonl")
        (work.path / "in.jsonl").touch()
        host = work.start("--until", "forever")
        looks = Looks(work.path) if work.on else None
        while not (work.path / "state/admin.json").exists():
            assert host.poll() is None, (work.path / "log").read_text()
            time.sleep(0.01)
        number, due = 0, time.monotonic()
        with (work.path / "in.jsonl").open("a") as file:
            for _ in range(int(seconds * 50)):
                file.write("".join(line(number + more) for more in range(rate // 50)))
                file.flush()
                number += rate // 50
                due += 0.02
                time.sleep(max(0.0, due - time.monotonic()))
        last = time.monotonic() + 60
        while sum(1 for _ in (work.path / "out.jsonl").open()) < number:
            assert time.monotonic() < last and host.poll() is None, (work.path / "log").read_text()
            time.sleep(0.1)
        host.send_signal(signal.SIGTERM)
        summary = work.ended(host, looks, number)
        return {"p99_ms": summary["latency_ms"]["p99"], "p50_ms": summary["latency_ms"]["p50"]}


def instructions(tables, records):
    """Instructions of a run over so many records, without an operator."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        with (path / "in.jsonl").open("w") as file:
            file.writelines(line(number) for number in range(records))
        Work(directory, tables, "in.jsonl", stage=False)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}/counted", TARGET / "release/tidegate"]
            + ["run", "--quiet", "pipeline.toml"],
            cwd=path,
            check=True,
            capture_output=True,
            text=True,
        )
        assert sum(1 for _ in (path / "out.jsonl").open()) == records
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def count(kinds, records):
    few = 1000
    counted = {}
    for kind, tables in kinds.items():
        # What a start costs falls out.
        whole, start = instructions(tables, records), instructions(tables, few)
        counted[kind] = round((whole - start) / (records - few))
    off = counted["off"]
    return {
        "records": records,
        "instructions_per_record": counted,
        "more_percent": {kind: round((of - off) / off * 100, 2) for kind, of in counted.items()},
    }


def turns(kinds, arguments):
    runs = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as directory:
        lines = pathlib.Path(directory, "lines.jsonl")
        with lines.open("w") as file:
            file.writelines(line(number) for number in range(arguments.records))
        # The operator is compiled once, and what is read is in memory.
        fast("", lines, arguments.records)
        for turn in range(arguments.rounds):
            order = list(kinds) if turn % 2 == 0 else list(reversed(kinds))
            for kind in order:
                run = fast(kinds[kind], lines, arguments.records)
                run |= paced(kinds[kind], arguments.rate, arguments.seconds)
                runs[kind].append(run)
                print(kind, run, file=sys.stderr)
    medians = {
        kind: {figure: round(statistics.median(run[figure] for run in of), 3) for figure in of[0]}
        for kind, of in runs.items()
    }
    off = medians["off"]
    return {
        "records": arguments.records,
        "paced_records_per_second": arguments.rate,
        "median": medians,
        "more_percent": {
            kind: {figure: round((of[figure] / off[figure] - 1) * 100, 2) for figure in of if off[figure]}
            for kind, of in medians.items()
        },
        "runs": runs,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, help="of a run as fast as it goes, and of one that is counted")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--instructions", action="store_true")
    arguments = parser.parse_args()
    told = multiprocessing.Queue()
    collector = multiprocessing.Process(target=collect, args=(told,), daemon=True)
    collector.start()
    url = f"http://127.0.0.1:{told.get()}"
    kinds = {"off": None, "on": 0.01, "on with all traces": 1.0}
    kinds = {kind: telemetry(url, sample) for kind, sample in kinds.items()}
    began = time.monotonic()
    found = count(kinds, arguments.records) if arguments.instructions else turns(kinds, arguments)
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "took_seconds": round(time.monotonic() - began),
    }
    print(json.dumps(about | found, indent=1))
    collector.terminate()


if __name__ == "__main__":
    main()
