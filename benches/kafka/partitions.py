#!/usr/bin/env python3
"""The same records through the filter operator, in one process, from topics of 1, 50 and 500 partitions, in turns.

First as fast as it goes, from a full topic: CPU seconds per million records, memory, and the time until the first output,
with the start. Then at a pace, where every batch is small; then with nothing to do. The output has four partitions, so that
what grows is what the input's partitions cost.

Builds what it needs and starts the broker of the tests; needs `cargo xtask operators`. Says what it found as it goes, and
keeps it where --keep says, as JSON. Linux.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

import run


def memory(process):
    """MiB: the most and the last that were resident, and address space."""
    fields = {"VmHWM": "peak_mib", "VmRSS": "resident_mib", "VmSize": "virtual_mib"}
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    lines = (line.split() for line in status)
    return {fields[line[0][:-1]]: round(int(line[1]) / 1024) for line in lines if line and line[0][:-1] in fields}


def cpu(process):
    """Seconds."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, options, brokers):
        self.options, self.brokers = options, brokers
        self.topics = 0

    def topic(self, partitions):
        self.topics += 1
        name = f"partitions-{os.getpid()}-{self.topics}"
        run.ask(self.brokers, "topic", name, partitions)
        return name

    def job(self, input, output):
        names = {"brokers": self.brokers, "input": input, "output": output, "group": f"group-of-{output}"}
        return {**names, "delivery": "exactly-once", "work": self.options.work, "interval": 100, "linger": "5"}

    def fast(self, input, records):
        output = self.topic(4)
        kept = records if self.options.work == "pass" else records - (records + 9) // 10
        with run.running("tidegate", self.job(input, output)) as process:
            seen = run.ask(self.brokers, "watch", output, kept, process.pid, "0")
            found = memory(process)
        run.ask(self.brokers, "remove", output)
        whole = seen["whole"]
        count = whole["share"] * records
        return {
            "records_per_s": round(count / whole["seconds"]),
            "cpu_s_per_million": round(whole["cpu_s"] / count * 1e6, 2),
            "cpu_s_with_start": round(seen["cpu_s_with_start"], 2),
            "until_first_s": round(seen["until_first_s"], 2),
            **found,
        }

    def paced(self, partitions, rate):
        input, output = self.topic(partitions), self.topic(4)
        seconds = self.options.seconds
        with run.running("tidegate", self.job(input, output)) as process:
            # Until it runs, and every partition has had records.
            run.ask(self.brokers, "pace", input, output, rate, 2, 1)
            before = cpu(process)
            found = run.ask(self.brokers, "pace", input, output, rate, 1, seconds - 1)
            took = cpu(process) - before
            time.sleep(1)
            before = cpu(process)
            time.sleep(seconds)
            idle = cpu(process) - before
            found = {**found, **memory(process)}
        for topic in [input, output]:
            run.ask(self.brokers, "remove", topic)
        return {
            "cpu_s_per_million": round(took / (rate * seconds) * 1e6, 2),
            "idle_cpu_percent": round(idle / seconds * 100, 2),
            **found,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 50, 500])
    parser.add_argument("--records", type=int, default=1_000_000, help="of the runs as fast as it goes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rates", nargs="*", type=int, default=[5_000, 20_000], help="records/s of the paces")
    parser.add_argument("--seconds", type=int, default=10, help="seconds at a pace")
    parser.add_argument("--work", default="filter", choices=["pass", "filter"])
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--brokers", help="of a broker that runs")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    if not options.no_build:
        cargo = ["cargo", "build", "--release", "--workspace"]
        subprocess.run([*cargo, "--bins"], check=True, cwd=run.ROOT)
        subprocess.run([*cargo, "--example", "kafka-bench"], check=True, cwd=run.ROOT)
    if options.brokers:
        return measure(options, options.brokers)
    with run.broker() as (brokers, _):
        measure(options, brokers)


def measure(options, brokers):
    known = {name: value for name, value in vars(options).items() if name not in ["keep", "brokers"]}
    results = {"machine": run.machine(), "options": known, "fast": [], "paced": []}

    def keep(kind, what, found):
        found = {**what, **found, "load_1_min": round(os.getloadavg()[0], 1)}
        results[kind].append(found)
        print(json.dumps(found), flush=True)
        if options.keep:
            options.keep.write_text(json.dumps(results, indent=1) + "\n")

    bench = Bench(options, brokers)
    inputs = {}
    for partitions in options.partitions:
        inputs[partitions] = bench.topic(partitions)
        run.ask(brokers, "fill", inputs[partitions], options.records)
    for number in range(options.rounds):
        for partitions, input in inputs.items():
            keep("fast", {"partitions": partitions, "round": number + 1}, bench.fast(input, options.records))
    for input in inputs.values():
        run.ask(brokers, "remove", input)
    for rate in options.rates:
        for partitions in options.partitions:
            keep("paced", {"partitions": partitions, "rate": rate}, bench.paced(partitions, rate))


if __name__ == "__main__":
    main()
