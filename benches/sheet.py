#!/usr/bin/env python3
"""The cost sheets of benches/README.md: models of known shapes on four devices that need not be here.

Runs `tidegate model plan` for each and writes what a step comes to, as JSON, to the file that is named or to standard output.
Usage: benches/sheet.py [--tidegate target/release/tidegate] [--output FILE]
"""

import argparse
import json
import pathlib
import subprocess
import sys

DEVICES = ["h100", "4090", "m3", "igpu"]
MODELS = [("1B", "f16"), ("1B", "int8"), ("8B", "f16"), ("8B", "int4")]
BATCHES = [1, 8, 32]
CONTEXT = 2048
CHUNK = 256


def sheet(tidegate, device, model, quant, batch):
    command = [
        *(tidegate, "model", "plan", "--random", model, "--quant", quant, "--device", device),
        *("--batch", str(batch), "--context", str(CONTEXT), "--chunk", str(CHUNK), "--reproducible", "--json"),
    ]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def summary(step):
    """What a step comes to, without its dispatches."""
    kernels = {}
    for dispatch in step["dispatches"]:
        kernel = kernels.setdefault(dispatch["kernel"], {"dispatches": 0, "read_bytes": 0, "ms": 0.0})
        kernel["dispatches"] += 1
        kernel["read_bytes"] += dispatch["read_bytes"]
        kernel["ms"] += dispatch["seconds"] * 1e3
    products = [of["workgroups_each"] for of in step["dispatches"] if of["kernel"] == "matmul"]
    return {
        "rows": step["rows"],
        "dispatches": len(step["dispatches"]),
        "least_bytes": step["least_bytes"],
        "read_bytes": step["read_bytes"],
        "read_share": step["read_bytes"] / step["least_bytes"],
        "least_workgroups_each_of_products": min(products),
        "ms": {name: seconds * 1e3 for name, seconds in step["seconds"].items()},
        "passes": step["passes"],
        "tokens_per_s": step["rows"] / step["seconds"]["total"],
        "kernels": kernels,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    sheets = []
    for model, quant in MODELS:
        for device in DEVICES:
            of = {"model": model, "quant": quant, "device": device, "context": CONTEXT, "decode": {}}
            for batch in BATCHES:
                found = sheet(arguments.tidegate, device, model, quant, batch)
                of["kernels"] = found["kernels"]
                of["decode"][batch] = summary(found["decode"])
                of["prefill"] = summary(found["prefill"])
            sheets.append(of)
            decode = {batch: round(step["tokens_per_s"]) for batch, step in of["decode"].items()}
            print(model, quant, device, decode, round(of["prefill"]["tokens_per_s"]), file=sys.stderr)
    text = json.dumps(sheets, indent=1) + "\n"
    if arguments.output:
        arguments.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
