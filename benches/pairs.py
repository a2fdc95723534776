#!/usr/bin/env python3
"""Two builds of tidegate side by side on llvmpipe: both at once, each on a core of its own, and then with the cores swapped.

The speed of a machine with other work changes within seconds, and builds in turns do not meet the same. Two at once do; each has
half of the machine. Runs `tidegate model bench` for the shape of 125M and of one as people use them (0.5B: 14 query heads over 2) in
int8, and for the time to ready in turns, with all cores. Needs two cores, and for the 0.5B numpy and 1 GB of disk.
Usage: benches/pairs.py --before PROGRAM [--now target/release/tidegate] [--rounds 4] [--ready] [--directory /tmp] [--output FILE]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SMALL = ["--random", "125M", "--quant", "int8"]
SECONDS = "6"


def begin(program, core, bench):
    command = [program, "model", "bench", "--adapter", "cpu", "--json", *bench]
    environment = dict(os.environ)
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
        environment["LP_NUM_THREADS"] = "1"
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    output, errors = process.communicate(timeout=1200)
    if process.returncode != 0:
        sys.exit(errors)
    report = json.loads(output)
    kept = ["context", "prefill_tokens_per_s", "decode_tokens_per_s", "prefill_kernels", "decode_kernels"]
    return {
        "contexts": [{key: context[key] for key in kept} for context in report["contexts"]],
        "time_to_ready_s": report["time_to_ready_s"],
    }


def together(arguments, number, bench):
    cores = [number % 2, 1 - number % 2]
    running = [begin(program, core, bench) for program, core in zip([arguments.before, arguments.now], cores)]
    before, now = [told(process) for process in running]
    return {"before": before, "now": now}


def ratios(rounds):
    """What `now` makes for each token of `before`, of every round: of prompts, and of answers by batch, by context."""
    of = {}
    for one in rounds:
        for before, now in zip(one["before"]["contexts"], one["now"]["contexts"]):
            at = of.setdefault(before["context"], {})
            at.setdefault("prefill", []).append(now["prefill_tokens_per_s"] / before["prefill_tokens_per_s"])
            for batch, rate in before["decode_tokens_per_s"].items():
                at.setdefault(batch, []).append(now["decode_tokens_per_s"][batch] / rate)
    return {context: {key: [round(value, 2) for value in sorted(values)] for key, values in at.items()} for context, at in of.items()}


def side_by_side(arguments):
    """Prompts and answers of both shapes, by name."""
    import loading  # Needs numpy.

    # Vocabulary, width, width inside, layers, heads, heads of keys and values, size of a head.
    people = loading.Shape(151_936, 896, 4864, 24, 14, 2, 64)
    results = {}
    with tempfile.TemporaryDirectory(prefix="pairs-", dir=arguments.directory) as directory:
        model = str(loading.write("q8_0", pathlib.Path(directory), people))
        benches = {
            "125M": [*SMALL, "--seconds", SECONDS, "--contexts", "128,2048", "--batches", "1,8,32"],
            "0.5B": [model, "--seconds", SECONDS, "--contexts", "2048", "--batches", "1,8"],
        }
        for name, bench in benches.items():
            rounds = [together(arguments, number, bench) for number in range(arguments.rounds)]
            results[name] = {"rounds": rounds, "ratios": ratios(rounds)}
            print(name, json.dumps(results[name]["ratios"]), file=sys.stderr)
    return results


def in_turns(arguments):
    """Times to ready of every round, by program."""
    ready = {"before": [], "now": []}
    for _ in range(arguments.rounds):
        for name, program in [("before", arguments.before), ("now", arguments.now)]:
            bench = [*SMALL, "--seconds", "0.3", "--contexts", "128", "--batches", "1"]
            ready[name].append(told(begin(program, None, bench))["time_to_ready_s"])
    for name, times in ready.items():
        medians = {kind: round(statistics.median(time[kind] for time in times), 2) for kind in ["cold", "warm"]}
        print("ready", name, json.dumps(medians), file=sys.stderr)
    return ready


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--now", type=pathlib.Path, default=pathlib.Path("target/release/tidegate"))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ready", action="store_true", help="nothing but the time to ready")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp"))
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {} if arguments.ready else side_by_side(arguments)
    results["ready"] = in_turns(arguments)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
