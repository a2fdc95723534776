#!/usr/bin/env python3
"""The same job from topic to topic by Tidegate, Kafka Streams and plain librdkafka, on one broker, in turns.

Records of 200 bytes, four partitions, one worker or thread. First as fast as it goes: records/s and CPU seconds per
million records as a reader of committed records sees them, of the whole run and of its second half, in which a JVM is
warm; the most memory; and by reading everything, that nothing is missing. Then at a pace that is the same for all, and
at half of what each did itself: the time from when a record is due to when such a reader has it.

The model is a mock: its calls take 200 ms, 150 more or less, and 1,024 of them run at once. Of the programs here only
Tidegate makes more than one call at a time in a thread.

About an hour; with --short ten minutes, exactly once only. Builds what it needs (Java 17, Maven) and starts the broker
of the tests; needs `cargo xtask operators`. Says what it found as it goes, and keeps it where --keep says, as JSON.
Linux.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
JAVA = TARGET / "kafka-streams"
PARTITIONS = 4
# Calls of the model that run at once.
CALLS = 1024

# What each guarantee is called in a pipeline file, Kafka Streams and the plain copy.
DELIVERIES = {
    "at-least-once": {"tidegate": 'delivery = "at-least-once"', "streams": "at_least_once"},
    "exactly-once": {"tidegate": 'delivery = "exactly-once"', "streams": "exactly_once_v2"},
}
TUNED = ["linger.ms=10", "batch.size=262144", "compression.type=lz4"]

PIPELINE = """[pipeline]
name = "bench"
workers = 1
cut-interval = "{interval}ms"
{delivery}
[source.in]
type = "kafka"
brokers = ["{brokers}"]
topic = "{input}"
group = "{group}"
format = "{format}"
{stage}
[sink.out]
type = "kafka"
brokers = ["{brokers}"]
topic = "{output}"
[admin]
address = "off"
"""
FILTER = """[[stage]]
name = "filter"
operator = "{operators}/bench-operator.wasm"
config = {{ mode = "filter" }}
"""
MODEL = """[model.mock]
path = "{model}"
[[stage]]
name = "ask"
model = "mock"
prompt = "{{n}}"
into = "member"
max-in-flight = {calls}
max-in-flight-per-key = {calls}
[dead-letters]
type = "kafka"
brokers = ["{brokers}"]
topic = "{dead}"
"""
# How much is measured, unless it is said otherwise.
FULL = {
    "records": 5_000_000,
    "model_records": 100_000,
    "rounds": 3,
    "warm": 15,
    "seconds": 20,
    "deliveries": list(DELIVERIES),
}
SHORT = {
    "records": 1_000_000,
    "model_records": 25_000,
    "rounds": 1,
    "warm": 5,
    "seconds": 10,
    "deliveries": ["exactly-once"],
}


def tidegate(job):
    stage = {"pass": "", "filter": FILTER, "model": MODEL}[job["work"]]
    places = {"operators": TARGET / "operators", "model": ROOT / "examples/support-bot/model", "calls": CALLS}
    stage = stage.format(**job, **places)
    delivery = DELIVERIES[job["delivery"]]["tidegate"]
    format = "json" if job["work"] == "model" else "raw"
    text = PIPELINE.format(**{**job, "delivery": delivery}, stage=stage, format=format)
    path = job["place"] / "pipeline.toml"
    path.write_text(text)
    if job["work"] == "model":
        return [TARGET / "release/tidegate-with-mock", path, job["place"] / "calls.jsonl", "1", CALLS]
    program = os.environ.get("TIDEGATE", TARGET / "release/tidegate")
    return [program, "run", "--quiet", path]


def streams(job, settings=()):
    if job["work"] == "model":
        return None
    guarantee = DELIVERIES[job["delivery"]]["streams"]
    # Half a gigabyte of heap is more than it needs, and keeps it from taking a quarter of the machine.
    return [
        "java", "-Xmx512m", "-cp", f"{JAVA}/classes:{JAVA}/dependency/*", "Copy",
        job["brokers"], job["input"], job["output"], job["group"], guarantee, str(job["interval"]), job["work"],
        job["place"] / "state", *settings,
    ]  # fmt: skip


def streams_tuned(job):
    return streams(job, TUNED)


def librdkafka(job):
    if job["work"] != "pass":
        return None
    names = [job["input"], job["output"], job["group"], job["delivery"], str(job["interval"]), job["linger"]]
    return [bench(), job["brokers"], "copy", *names]


CLIENTS = {"tidegate": tidegate, "streams": streams, "streams-tuned": streams_tuned, "librdkafka": librdkafka}


def bench():
    return TARGET / "release/examples/kafka-bench"


def ask(*arguments):
    """Runs the helper; what it prints."""
    done = subprocess.run([bench(), *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else None


def build():
    cargo = ["cargo", "build", "--release", "--workspace"]
    subprocess.run([*cargo, "--bins"], check=True, cwd=ROOT)
    subprocess.run([*cargo, "--example", "kafka-bench"], check=True, cwd=ROOT)
    goals = ["compile", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    subprocess.run(["mvn", "-q", "-B", "-f", HERE / "streams/pom.xml", f"-Dmade={JAVA}", *goals], check=True)


@contextlib.contextmanager
def broker():
    """Address and process of a broker."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([TARGET / "release/xtask", "kafka"], cwd=ROOT, **pipes) as xtask:
        for line in xtask.stdout:
            if line.startswith("TIDEGATE_KAFKA="):
                address = line.strip().partition("=")[2]
                break
        else:
            raise SystemExit("the broker did not start")
        children = pathlib.Path(f"/proc/{xtask.pid}/task/{xtask.pid}/children").read_text().split()
        try:
            # One that ran before is of nobody here: its CPU time is not known.
            yield address, children[0] if children else "0"
        finally:
            xtask.communicate("\n")


@contextlib.contextmanager
def running(client, job):
    """A client that copies, until the block ends; none if it does not do that."""
    with tempfile.TemporaryDirectory() as place:
        job["place"] = pathlib.Path(place)
        command = CLIENTS[client](job)
        if command is None:
            yield None
            return
        said = open(job["place"] / "said", "w+")
        with subprocess.Popen([*map(str, command)], stdout=said, stderr=said, cwd=place) as process:
            try:
                yield process
            finally:
                ended = process.poll()
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
        if ended is not None:
            said.seek(0)
            raise SystemExit(f"{client} ended ({ended}): {said.read()}")


class Bench:
    def __init__(self, options, brokers, process):
        self.options, self.brokers, self.process = options, brokers, process
        self.topics = 0
        self.inputs = {}

    def input(self, records):
        """A topic with so many records."""
        if records not in self.inputs:
            self.inputs[records] = self.topic()
            ask(self.brokers, "fill", self.inputs[records], records)
        return self.inputs[records]

    def topic(self):
        self.topics += 1
        name = f"bench-{os.getpid()}-{self.topics}"
        ask(self.brokers, "topic", name, PARTITIONS)
        return name

    def job(self, input, output, delivery, work, interval, linger):
        names = {"brokers": self.brokers, "input": input, "output": output, "group": f"group-of-{output}"}
        names["dead"] = f"{output}-dead"
        return {**names, "delivery": delivery, "work": work, "interval": interval, "linger": linger}

    def fast(self, client, delivery, work):
        records = self.options.model_records if work == "model" else self.options.records
        output = self.topic()
        kept = records - (records + 9) // 10 if work == "filter" else records
        job = self.job(self.input(records), output, delivery, work, 100, "10")
        if work == "model" and client == "tidegate":
            # The program with the mock does not make it by itself.
            ask(self.brokers, "topic", job["dead"], 1)
        with running(client, job) as process:
            if process is None:
                return None
            seen = ask(self.brokers, "watch", output, kept, process.pid, self.process)
            calls = job["place"] / "calls.jsonl"
            calls = {"calls": len(calls.read_text().splitlines())} if work == "model" else {}
        found = ask(self.brokers, "count", output, records, "some" if work == "filter" else "all")
        ask(self.brokers, "remove", output)
        rates = {}
        for part in ["whole", "second_half"]:
            took = seen[part]
            count = took["share"] * records
            rates[part] = {
                "records_per_s": round(count / took["seconds"]),
                "cpu_s_per_million": round(took["cpu_s"] / count * 1e6, 2),
            }
            if took["broker_cpu_s"] is not None:
                rates[part]["broker_cpu_s_per_million"] = round(took["broker_cpu_s"] / count * 1e6, 2)
        kept_too = ["until_first_s", "longest_pause_ms", "cpu_s_with_start", "peak_mib"]
        return {**rates, **{name: round(seen[name], 1) for name in kept_too}, **calls, **found}

    def paced(self, client, delivery, work, interval, rate):
        input, output = self.topic(), self.topic()
        job = self.job(input, output, delivery, work, interval, "1")
        with running(client, job) as process:
            if process is None:
                return None
            found = ask(self.brokers, "pace", input, output, rate, self.options.warm, self.options.seconds)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        for topic in [input, output]:
            ask(self.brokers, "remove", topic)
        peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
        return {**found, "peak_mib": round(int(peak) / 1024)}

    def bare(self, rate):
        """What sending and reading take without anything between them."""
        topic = self.topic()
        found = ask(self.brokers, "pace", topic, topic, rate, self.options.warm, self.options.seconds)
        ask(self.brokers, "remove", topic)
        return found


def machine():
    model = next(line for line in open("/proc/cpuinfo") if line.startswith("model name"))
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "cpu": model.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "system": platform.release(),
        "load_1_min": round(os.getloadavg()[0], 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="fewer records, one round, exactly once only")
    parser.add_argument("--records", type=int, help="of the runs as fast as it goes")
    parser.add_argument("--model-records", type=int, help="of those with the model")
    parser.add_argument("--rounds", type=int, help="in each, every client has its turn")
    parser.add_argument("--warm", type=int, help="seconds at a pace before it is measured")
    parser.add_argument("--seconds", type=int, help="seconds at a pace that are measured")
    parser.add_argument("--rate", type=int, default=20_000, help="records/s of the first pace; the second is half load")
    parser.add_argument("--clients", nargs="+", default=list(CLIENTS), choices=list(CLIENTS))
    parser.add_argument("--deliveries", nargs="+", choices=list(DELIVERIES))
    work = ["pass", "filter", "model"]
    parser.add_argument("--work", nargs="+", default=work, choices=work)
    parser.add_argument("--intervals", nargs="*", type=int, default=[100, 20], help="between commits, ms; none: no paces")
    parser.add_argument("--no-half-load", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    for name, value in (SHORT if options.short else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if not options.no_build:
        build()
    results = {"machine": machine(), "options": {**vars(options), "keep": None}, "fast": [], "paced": []}

    def keep(kind, what, found):
        if found is None:
            return
        found = {**what, **found, "load_1_min": round(os.getloadavg()[0], 1)}
        results[kind].append(found)
        print(json.dumps(found), flush=True)
        if options.keep:
            options.keep.write_text(json.dumps(results, indent=1) + "\n")

    with broker() as (brokers, process):
        bench = Bench(options, brokers, process)
        kinds = [(client, delivery) for delivery in options.deliveries for client in options.clients]
        for number in range(options.rounds):
            for work in options.work:
                for client, delivery in kinds:
                    what = {"client": client, "delivery": delivery, "work": work, "round": number + 1}
                    keep("fast", what, bench.fast(client, delivery, work))
        # Half of what each could do itself.
        half = {}
        for client, delivery in kinds:
            own = [run for run in results["fast"] if (run["client"], run["delivery"]) == (client, delivery)]
            rates = [run["whole"]["records_per_s"] for run in own if run["work"] == "pass"]
            if rates and not options.no_half_load:
                half[client, delivery] = int(statistics.median(rates) / 2)
        if options.intervals:
            keep("paced", {"client": "none"}, bench.bare(options.rate))
        for interval in options.intervals:
            for load in ["rate", "half"]:
                for client, delivery in kinds:
                    rate = options.rate if load == "rate" else half.get((client, delivery))
                    if rate is not None:
                        what = {"client": client, "delivery": delivery, "interval_ms": interval, "load": load}
                        keep("paced", what, bench.paced(client, delivery, "pass", interval, rate))


if __name__ == "__main__":
    main()
