#!/usr/bin/env python3
"""What the gateway costs: the same requests to a bare engine and over HTTP to `tidegate run`, in turns.

At 1, 8 and 32 streams: tokens/s, time to the first token, time between tokens, medians of the rounds and their ratios.
Then requests/s of GET /v1/models. Then the same requests to tidegate and to llama.cpp's own server on the same adapter,
in turns, with a model of 125M parameters and random weights in Q8_0; llama_server.py says what that needs.

Each request has a number of its own in its prompt, so that none is answered from what an earlier one left; what is asked
of both in a turn is the same. Speculation is as usual between engine and gateway, and off beside llama.cpp's server.

Some fifteen minutes, and with llama.cpp's server more than an hour; --short takes a few minutes. Builds what it needs. Linux.
"""

import argparse
import contextlib
import datetime
import functools
import json
import os
import pathlib
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

import llama_server

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LOAD = TARGET / "release/gateway-load"
TIDEGATE = pathlib.Path(os.environ.get("TIDEGATE", TARGET / "release/tidegate"))
# Longest time for a server to be there, and for a turn beyond what it measures.
START = 180
PATIENCE = 900
FULL = {"rounds": 5, "warm": 3.0, "seconds": 20.0, "llama_rounds": 3, "llama_warm": 30.0, "llama_seconds": 120.0}
SHORT = {"rounds": 1, "warm": 1.0, "seconds": 3.0, "llama_rounds": 1, "llama_warm": 5.0, "llama_seconds": 30.0}

PIPELINE = """[pipeline]
name = "bench"
workers = 1

[gateway]
address = "127.0.0.1:{port}"

[source.chat]
type = "gateway"

[model.bench]
path = "{model}"
sequences = 32
{context}

[[stage]]
name = "answer"
model = "bench"
messages = true
{stage}

[sink.reply]
type = "gateway"

[admin]
address = "off"
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def serving(name, command, port, place, environment=None):
    """A server that answers on a port, until the block ends: its URL and its process."""
    url = f"http://127.0.0.1:{port}/v1"
    with open(place / f"{name}.log", "w+") as said:
        process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=said, cwd=place, env=environment)

        def ended():
            said.seek(0)
            return f"{name} ended ({process.returncode}): {said.read()[-4000:]}"

        try:
            until = time.monotonic() + START
            while not answers(f"{url}/models"):
                if process.poll() is not None:
                    raise SystemExit(ended())
                if time.monotonic() > until:
                    raise SystemExit(f"{name} does not answer after {START} s")
                time.sleep(0.1)
            yield url, process
            if process.poll() is not None:
                raise SystemExit(ended())
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def tidegate(model, place, context="", stage=""):
    port = free_port()
    pipeline = place / "pipeline.toml"
    pipeline.write_text(PIPELINE.format(port=port, model=model, context=context, stage=stage))
    return serving("tidegate", [TIDEGATE, "run", "--quiet", pipeline], port, place)


def load(*arguments):
    """Runs the load; what it found, and how much of a core it took itself."""
    before, began = children(), time.monotonic()
    done = subprocess.run([LOAD, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=PATIENCE)
    cores = (children() - before) / (time.monotonic() - began)
    return {**json.loads(done.stdout), "cores_of_load": round(cores, 3)}


def of_server(process, *arguments):
    """Runs the load on a server of ours or of others."""
    before = cpu(process)
    found = load(*arguments)
    return {**found, "cpu_s": round(cpu(process) - before, 2)}


def children():
    """CPU seconds of the processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu(process):
    """CPU seconds of a process."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine():
    cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).partition(":")[2].strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.release(), "load_1_min": round(os.getloadavg()[0], 1)}


def place_of_results():
    known = re.search("EPYC|Xeon|Ryzen|Core", machine()["cpu"])
    name = f"{known[0].lower() if known else 'cpu'}-{os.cpu_count()}cpu"
    return ROOT / "benches/results" / f"{datetime.date.today()}-{name}-gateway.json"


def said_by(*command):
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip()


def summary(turns, one, other):
    """Medians of both, and the ratio of the first to the second."""
    found = []
    for streams in sorted({turn["streams"] for turn in turns}):
        row = {"streams": streams}
        for figure, of in FIGURES.items():
            both = {}
            for who in (one, other):
                values = [of(turn[who]) for turn in turns if turn["streams"] == streams]
                values = [value for value in values if value is not None]
                both[who] = round(statistics.median(values), 3) if values else None
            known = both[one] and both[other]
            row[figure] = {**both, "ratio": round(both[one] / both[other], 4) if known else None}
        found.append(row)
    return found


FIGURES = {
    # Of the one that answers, without the load; on a software adapter with the model.
    "cpu_us_per_token": lambda found: found["cpu_s"] / found["tokens_in_all"] * 1e6 if found.get("cpu_s") else None,
    "tokens_per_s": lambda found: found["tokens_per_s"],
    "first_ms_p50": lambda found: found["first_ms"]["p50"],
    "first_ms_p99": lambda found: found["first_ms"]["p99"],
    "between_ms_p50": lambda found: found["between_ms"]["p50"],
    "between_ms_p99": lambda found: found["between_ms"]["p99"],
}


class Bench:
    def __init__(self, options):
        self.options = options
        self.turns = 0
        self.results = {
            "date": time.strftime("%Y-%m-%d %H:%M"),
            "machine": machine(),
            "commit": said_by("git", "rev-parse", "HEAD"),
            "changed": bool(said_by("git", "status", "--porcelain", "--untracked-files=no")),
            "versions": {"tidegate": said_by(TIDEGATE, "--version")},
            "options": {name: value for name, value in vars(options).items() if name not in ("keep", "llama_server")},
        }

    def keep(self, **found):
        self.results.update(found)
        self.options.keep.parent.mkdir(parents=True, exist_ok=True)
        self.options.keep.write_text(json.dumps(self.results, indent=1, default=str) + "\n")

    def turn(self, kind, streams, number, clients, arguments):
        """One turn of everyone, with the same requests; who begins changes with the rounds."""
        self.turns += 1
        same = ["--streams", streams, "--first", self.turns * 100_000, *arguments]
        turn = {"streams": streams, "round": number + 1, "load_1_min": round(os.getloadavg()[0], 1)}
        order = list(clients.items())
        for name, command in reversed(order) if number % 2 else order:
            turn[name] = command(*same)
            rate, between = turn[name]["tokens_per_s"], turn[name]["between_ms"]["p99"]
            print(f"{kind}, {streams} streams, {name}: {rate:.1f} tokens/s, p99 between tokens {between} ms", flush=True)
        return turn

    def gateway(self, place):
        options = self.options
        period = ["--warm", options.warm, "--seconds", options.seconds]
        model = ROOT / "examples/support-bot/model"
        turns = []

        def bare(*same):
            return load("bare", "--model", model, "--sequences", 32, *same)

        def gateway(*same):
            # Begun anew as well: what an engine learns of its steps it has to learn in both.
            with tidegate(model, place) as (url, process):
                return of_server(process, "http", url, *same)

        for number in range(options.rounds):
            for streams in options.streams:
                arguments = ["--max-tokens", options.max_tokens, *period]
                clients = {"bare": bare, "gateway": gateway}
                turns.append(self.turn("gateway", streams, number, clients, arguments))
                self.keep(gateway={"summary": summary(turns, "gateway", "bare"), "turns": turns})
        lists = []
        with tidegate(model, place) as (url, _):
            for number in range(options.rounds):
                for connections in options.streams:
                    found = load("models", url, "--connections", connections, *period)
                    lists.append({"connections": connections, "round": number + 1, **found})
                    print(f"/v1/models, {connections} connections: {found['requests_per_s']:.0f} requests/s", flush=True)
            self.keep(models=lists)

    def llama(self, place, server):
        options = self.options
        model = llama_server.model()
        context = options.llama_context
        arguments = ["--max-tokens", options.llama_max_tokens, "--prompt", "q{n}"]
        arguments += ["--warm", options.llama_warm, "--seconds", options.llama_seconds]
        self.results["versions"]["llama-server"] = llama_server.version(server)
        port, turns = free_port(), []
        command = llama_server.command(server, model, port, max(options.llama_streams), context)
        with (
            tidegate(model, place, f"context = {context}", 'speculative = "off"') as ours,
            serving("llama-server", command, port, place, llama_server.environment()) as theirs,
        ):
            servers = {"tidegate": ours, "llama-server": theirs}
            # An answer each that does not count: the first compiles shaders.
            for url, _ in servers.values():
                load("http", url, "--max-tokens", 2, "--prompt", "first", "--warm", 0, "--seconds", 0.001)
            clients = {name: functools.partial(of_server, process, "http", url) for name, (url, process) in servers.items()}
            for number in range(options.llama_rounds):
                for streams in options.llama_streams:
                    turns.append(self.turn("llama-server", streams, number, clients, arguments))
                    self.keep(llama={"summary": summary(turns, "tidegate", "llama-server"), "turns": turns})


def build():
    cargo = ["cargo", "build", "--release"]
    subprocess.run([*cargo, "-p", "tidegate-cli"], check=True, cwd=ROOT)
    subprocess.run([*cargo, "-p", "tidegate-benches", "--bin", "gateway-load"], check=True, cwd=ROOT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one round of seconds: whether it works, no figures")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--llama-streams", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--llama-max-tokens", type=int, default=16)
    parser.add_argument("--llama-context", type=int, default=256, help="positions of each sequence, of both")
    for name, value in FULL.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value))
    parser.add_argument("--only", choices=["gateway", "llama"], help="one of the two comparisons")
    parser.add_argument("--llama-server", type=pathlib.Path, help="one that was built before; else it is built")
    parser.add_argument("--no-build", action="store_true", help="of tidegate and the load")
    parser.add_argument("--keep", type=pathlib.Path, help="default: benches/results/DATE-MACHINE-gateway.json; with --short under target")
    options = parser.parse_args()
    for name, value in (SHORT if options.short else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.keep is None:
        options.keep = TARGET / "gateway/short.json" if options.short else place_of_results()
    if not options.no_build:
        build()
    # Before anything is measured: building takes the machine.
    server = None
    if options.only != "gateway":
        server = options.llama_server or llama_server.build()
    bench = Bench(options)
    with tempfile.TemporaryDirectory() as place:
        if options.only != "llama":
            bench.gateway(pathlib.Path(place))
    if server:
        with tempfile.TemporaryDirectory() as place:
            bench.llama(pathlib.Path(place), server)
    print(f"kept in {options.keep}")


if __name__ == "__main__":
    main()
