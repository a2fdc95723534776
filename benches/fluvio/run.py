#!/usr/bin/env python3
"""The same filter through Tidegate's operator boundary and through Fluvio's SmartModule engine, in turns.

Builds both, runs each three times in turns and prints the smallest figure of each: nanoseconds per record, in batches of
256, by the bytes of a value. Needs `rustup target add wasm32-unknown-unknown wasm32-wasip1` and `cargo xtask operators`.
With a path as argument the figures are kept there too, as JSON.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SIZES = ["128", "1024", "8192"]
OWN = TARGET / "fluvio"


def cargo(*arguments, **options):
    subprocess.run(["cargo", *arguments], check=True, **options)


def fluvio():
    module = OWN / "wasm32-wasip1/release/fluvio_filter.wasm"
    program = OWN / "release/fluvio-engine-bench"
    printed = subprocess.run([program, module], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(printed)


def tidegate():
    # Criterion keeps its estimates; of its samples the smallest mean is what the other program prints.
    arguments = ["bench", "-p", "tidegate-benches", "--bench", "boundary", "--", "--noplot", "boundary/filter/sdk"]
    cargo(*arguments, cwd=ROOT, stdout=subprocess.DEVNULL)
    figures = {}
    for size in SIZES:
        sample = TARGET / "criterion/boundary_filter/sdk" / size / "new/sample.json"
        sample = json.loads(sample.read_text())
        figures[size] = min(time / count for time, count in zip(sample["times"], sample["iters"]))
    return figures


def main():
    environment = {**os.environ, "CARGO_TARGET_DIR": str(OWN)}
    cargo("build", "--release", "-p", "fluvio-engine-bench", cwd=HERE, env=environment)
    cargo("build", "--release", "-p", "fluvio-filter", "--target", "wasm32-wasip1", cwd=HERE, env=environment)
    runs = [(tidegate(), fluvio()) for _ in range(3)]
    best = {
        name: {size: round(min(run[index][size] for run in runs), 1) for size in SIZES}
        for index, name in enumerate(["tidegate", "fluvio"])
    }
    print(json.dumps(best, indent=1))
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps({"ns_per_record": best, "runs": runs}, indent=1) + "\n")


main()
