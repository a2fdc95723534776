#!/usr/bin/env python3
"""How fast models decode by what they are stored in, and what experts cost beside layers of their size.

Makes files with made-up numbers of the shape of `--random 125M` in several formats, and of such a model with experts beside one whose
layers are as wide as the experts that a token goes through. Runs `tidegate model bench` on each in turn, several rounds, and
`tidegate model plan` for the bytes that a step of the models with and without experts reads. Needs numpy and 2 GB of disk.
Usage: benches/formats.py [--tidegate target/release/tidegate] [--directory /tmp] [--rounds 3] [--output FILE]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import loading

SMALL = loading.Shape(32_000, 768, 3072, 12, 12, 12, 64)
CHOSEN, EXPERTS, INSIDE = 4, 32, 768
MODELS = {
    **{kind: (kind, SMALL) for kind in ["q8_0", "q4_0", "q4_K", "q6_K", "q5_K", "iq4_nl", "f16", "gptq", "awq", "fp8"]},
    "experts": ("f16", SMALL._replace(inside=INSIDE, experts=EXPERTS, chosen=CHOSEN)),
    "as wide as the chosen": ("f16", SMALL._replace(inside=INSIDE * CHOSEN)),
}
BATCHES = [1, 8, 32]


def tidegate(arguments, *command):
    done = subprocess.run([arguments.tidegate, "model", *command, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def rates(arguments, model):
    batches = ",".join(map(str, BATCHES))
    told = tidegate(
        arguments, "bench", "--adapter", "cpu", "--batches", batches, "--contexts", "128", "--seconds", arguments.seconds, str(model)
    )
    return {
        "kernels": told["kernels"], "weights_bytes": told["weights_bytes"], "prefill": told["prefill_tokens_per_s"],
        "decode": told["decode_tokens_per_s"],
    }


def bytes_read(arguments, model, device, batch):
    step = tidegate(arguments, "plan", "--device", device, "--batch", str(batch), str(model))["decode"]
    return {of: sum(dispatch[of] for dispatch in step["dispatches"]) for of in ["needed_bytes", "read_bytes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", default="2")
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    root, results, paths = arguments.directory / "formats", {}, {}
    root.mkdir(parents=True)
    try:
        for name in arguments.only.split(","):
            directory = root / name
            directory.mkdir()
            paths[name] = loading.write(MODELS[name][0], directory, MODELS[name][1])
            results[name] = {"rounds": []}
        for _ in range(arguments.rounds):
            for name, path in paths.items():
                results[name]["rounds"].append(rates(arguments, path))
                print(name, json.dumps(results[name]["rounds"][-1]), file=sys.stderr)
        for name in ["experts", "as wide as the chosen"]:
            if name in paths:
                results[name]["h100"] = {batch: bytes_read(arguments, paths[name], "h100", batch) for batch in BATCHES}
    finally:
        shutil.rmtree(root)
    text = json.dumps(results, indent=1)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
