#!/usr/bin/env python3
"""The operator of tests/toolchains by each toolchain: time to start, records a second, memory.

measure.py [--rounds 3] [--seconds 4] [--partitions 40] [--output FILE]; first `cargo build --release -p tidegate-cli`,
`cargo xtask operators` and, for Python and SpiderMonkey, `cargo xtask toolchains`. Toolchains take turns in each round;
medians are printed. Records a second are those of a run of about so many seconds, without the time that a run over one
record takes. Linux.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CONTRACT = "1.0.0"
MOST_RECORDS = 4_000_000
TOOLCHAINS = [
    "none",
    "c",
    "go",
    "quickjs",
    "quickjs-plain",
    "spidermonkey",
    "spidermonkey-plain",
    "python",
    "python-plain",
]

PIPELINE = """
[pipeline]
name = "measure"
workers = 1
summary = "summary.json"
[source.in]
type = "file"
paths = ["in-*.txt"]
format = "raw"
{stage}
[sink.out]
type = "file"
path = "out.txt"
format = "raw"
"""
STAGE = """
[[stage]]
name = "uppercase"
operator = "{component}"
grants = []
ungranted = "trap"
limits = {{ deadline = "30s" }}
"""


def component(toolchain: str) -> pathlib.Path:
    return TARGET / "operators" / f"uppercase-{toolchain}-{CONTRACT}.wasm"


class Workspace:
    """A pipeline in a directory of its own."""

    def __init__(self, directory: pathlib.Path, toolchain: str, partitions: int, records: int):
        self.directory = directory
        stage = "" if toolchain == "none" else STAGE.format(component=component(toolchain))
        (directory / "pipeline.toml").write_text(PIPELINE.format(stage=stage))
        line = "a line of some words " * 9 + "and 10.\n"
        for partition in range(partitions):
            # In pieces: what this process holds is counted for those that it starts.
            with open(directory / f"in-{partition}.txt", "w", encoding="ascii") as file:
                for _ in range(records // partitions):
                    file.write(line)

    def run(self) -> dict:
        """One run from the beginning; what is compiled stays."""
        state = self.directory / "state"
        for path in [self.directory / "out.txt", self.directory / "summary.json"]:
            path.unlink(missing_ok=True)
        if state.is_dir():
            for path in state.iterdir():
                if path.name != "compiled":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        began = time.monotonic()
        command = [TARGET / "release" / "tidegate", "run", "--quiet", "pipeline.toml"]
        process = subprocess.Popen(command, cwd=self.directory, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - began
        if status != 0:
            sys.exit(f"tidegate run ended with {status}")
        return {"wall": took, "cpu": usage.ru_utime + usage.ru_stime, "rss": usage.ru_maxrss / 1024}


def throughput(directory: pathlib.Path, toolchain: str, start: dict, seconds: float) -> dict:
    """A run that is long enough: the first tells how many records that takes."""
    records = 10_000
    while True:
        place = directory / f"of-{records}"
        place.mkdir()
        workspace = Workspace(place, toolchain, 1, records)
        shutil.copytree(directory / "one" / "state" / "compiled", place / "state" / "compiled", dirs_exist_ok=True)
        took = workspace.run()
        wall = max(took["wall"] - start["wall"], 0.01)
        if wall >= seconds / 2 or records >= MOST_RECORDS:
            cpu = took["cpu"] - start["cpu"]
            return {"records": records, "records_per_s": records / wall, "cpu_s_per_million": cpu / records * 1e6}
        shutil.rmtree(place)
        records = min(MOST_RECORDS, int(records * min(10, 1.2 * seconds / wall)))


def measure(toolchain: str, arguments: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "one").mkdir()
        one = Workspace(directory / "one", toolchain, 1, 1)
        cold, warm = one.run(), one.run()
        compiled = directory / "one" / "state" / "compiled"
        compiled.mkdir(mode=0o700, exist_ok=True)
        (directory / "wide").mkdir()
        wide = Workspace(directory / "wide", toolchain, arguments.partitions, 100 * arguments.partitions)
        shutil.copytree(compiled, directory / "wide" / "state" / "compiled")
        spread = wide.run()
        return {
            "cold_start_s": cold["wall"],
            "cold_start_cpu_s": cold["cpu"],
            "warm_start_s": warm["wall"],
            **throughput(directory, toolchain, warm, arguments.seconds),
            "rss_mib": warm["rss"],
            "rss_of_partitions_mib": spread["rss"],
            "run_of_partitions_s": spread["wall"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--partitions", type=int, default=40)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    toolchains = [name for name in TOOLCHAINS if name == "none" or component(name).exists()]
    rounds = {name: [] for name in toolchains}
    for _ in range(arguments.rounds):
        for name in toolchains:
            rounds[name].append(measure(name, arguments))
    result = {"partitions": arguments.partitions, "load": os.getloadavg(), "toolchains": {}}
    for name, measured in rounds.items():
        median = {key: statistics.median(one[key] for one in measured) for key in measured[0]}
        size = 0 if name == "none" else component(name).stat().st_size
        result["toolchains"][name] = {"bytes": size, **median, "rounds": measured}
        print(
            f"{name:18} {size:>10} B  cold {median['cold_start_s']:6.2f} s ({median['cold_start_cpu_s']:5.2f} CPU)"
            f"  warm {median['warm_start_s']:5.2f} s  {median['records_per_s']:>9.0f} records/s"
            f"  {median['cpu_s_per_million']:6.2f} CPU-s per million  {median['rss_mib']:5.0f} MiB"
            f"  {arguments.partitions} partitions {median['rss_of_partitions_mib']:5.0f} MiB {median['run_of_partitions_s']:5.2f} s"
        )
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
