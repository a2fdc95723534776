#!/usr/bin/env python3
"""What the page costs a running pipeline: CPU time of the host with somebody who looks against without, in turns.

    cargo build --release --workspace --bins && cargo xtask operators
    python3 benches/page/run.py [--rate 10000] [--seconds 10] [--rounds 6] > benches/results/DATE-MACHINE-page.json

A file grows by so many records a second; five operator stages and a file sink take them. One who looks follows
GET /v1/live, as the page does. The share is of one core.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
STAGES = [
    ("abuse", "drop-abuse", '{ paths = ["text"], words = ["idiot"] }'),
    ("redact", "redact-pii", '{ paths = ["text"] }'),
    ("intent", "route-intent", '{ action = "label", rules = [{ output = "ask", any = ["where*"], path = "text" }] }'),
    ("again", "redact-pii", '{ paths = ["text"] }'),
    ("last", "drop-abuse", '{ paths = ["text"], words = ["never"] }'),
]


def pipeline():
    stages = "".join(
        f'[[stage]]\nname = "{name}"\noperator = "{TARGET}/operators/{operator}.wasm"\nconfig = {config}\n'
        for name, operator, config in STAGES
    )
    return (
        '[pipeline]\nname = "page-cost"\nstate = "state"\n[source.in]\ntype = "file"\npaths = ["in.jsonl"]\nkey = "k"\n'
        f'{stages}[sink.out]\ntype = "file"\npath = "out.jsonl"\n'
    )


def feed(path, rate, ended):
    """Writes so many records a second, in pieces of a twentieth."""
    number = 0
    due = time.monotonic()
    with path.open("a") as file:
        while not ended.is_set():
            lines = []
            for _ in range(rate // 20):
                number += 1
                lines.append(f'{{"k":"c{number % 100}","text":"where is my order {number}? write to a@b.example"}}\n')
            file.write("".join(lines))
            file.flush()
            due += 0.05
            time.sleep(max(0.0, due - time.monotonic()))


def cpu(pid):
    """Seconds of CPU that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Viewer:
    """One who looks."""

    def __init__(self, admin):
        host, port = admin["address"].rsplit(":", 1)
        self.bytes = 0
        self.socket = socket.create_connection((host, int(port)))
        head = f"GET /v1/live HTTP/1.1\r\nHost: {admin['address']}\r\nAuthorization: Bearer {admin['token']}\r\n\r\n"
        self.socket.sendall(head.encode())
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while data := self.socket.recv(1 << 16):
            self.bytes += len(data)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        (work / "pipeline.toml").write_text(pipeline())
        (work / "in.jsonl").touch()
        host = subprocess.Popen(
            [TARGET / "release/tidegate", "run", "--quiet", "--until", "forever", "pipeline.toml"], cwd=work
        )
        ended = threading.Event()
        feeder = threading.Thread(target=feed, args=(work / "in.jsonl", arguments.rate, ended))
        try:
            while not (work / "state/admin.json").exists():
                if host.poll() is not None:
                    sys.exit("the host has ended")
                time.sleep(0.1)
            admin = json.loads((work / "state/admin.json").read_text())
            feeder.start()
            time.sleep(5)
            shares = {"without": [], "with": []}
            seen = []
            for turn in range(arguments.rounds * 2):
                # Without, with, with, without: what drifts weighs on both.
                looks = turn % 4 in (1, 2)
                viewer = Viewer(admin) if looks else None
                time.sleep(1)
                before, began = cpu(host.pid), time.monotonic()
                time.sleep(arguments.seconds)
                share = (cpu(host.pid) - before) / (time.monotonic() - began)
                shares["with" if looks else "without"].append(round(share, 4))
                if viewer:
                    viewer.close()
                    seen.append(viewer.bytes)
            written = sum(1 for _ in (work / "out.jsonl").open())
        finally:
            ended.set()
            host.terminate()
            host.wait()
    medians = {name: statistics.median(values) for name, values in shares.items()}
    json.dump(
        {
            "records_per_second": arguments.rate,
            "stages": len(STAGES),
            "records_written": written,
            "cores_used": shares,
            "median": medians,
            "page_costs_percent_of_a_core": round((medians["with"] - medians["without"]) * 100, 2),
            "bytes_sent_a_second": round(statistics.median(seen) / (arguments.seconds + 1)),
        },
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == "__main__":
    main()
