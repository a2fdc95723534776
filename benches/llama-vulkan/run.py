#!/usr/bin/env python3
"""Tidegate against llama.cpp's Vulkan backend on the same adapter, in turns, like for like: int8 with Q8_0, int4 with Q4_0.

run.py [--rounds 3] [--steps 8] [--output FILE]; first `cargo build --release -p tidegate-cli`. What it fetches goes to
target/llama-vulkan: node-llama-cpp 3.22.1 with its prebuilt Vulkan binary from npm, and the gguf package from PyPI. Needs node 20.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "llama-vulkan"
PACKAGES = ["node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64-vulkan@3.22.1"]
PAIRS = [("int8", "q8_0"), ("int4", "q4_0")]
RATES = ["decode_tokens_per_s", "prefill_tokens_per_s"]


def prepare() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    if not (WORK / "node_modules" / "@node-llama-cpp" / "linux-x64-vulkan").exists():
        (WORK / "package.json").write_text('{ "private": true }\n')
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"]
        subprocess.run(install + PACKAGES, cwd=WORK, check=True)
    python = WORK / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", WORK / "venv"], check=True)
    if subprocess.run([python, "-c", "import gguf"], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "gguf"], check=True)
    for _, kind in PAIRS:
        model = WORK / f"125M-{kind}.gguf"
        if not model.exists():
            part = model.with_suffix(".part")
            subprocess.run([python, HERE / "make_gguf.py", kind, part], check=True)
            part.rename(model)


def tidegate(quant: str) -> dict:
    program = ROOT / "target" / "release" / "tidegate"
    command = [program, "model", "bench", "--random", "125M", "--quant", quant, "--json", "--seconds", "1"]
    command += ["--batches", "1", "--contexts", "128"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(output)
    return {
        "decode_tokens_per_s": report["decode_tokens_per_s"]["1"],
        "prefill_tokens_per_s": report["prefill_tokens_per_s"],
    }


def llama(kind: str, steps: int) -> dict:
    environment = dict(os.environ, GGML_VK_VISIBLE_DEVICES="0")
    command = ["node", HERE / "measure.mjs", WORK, WORK / f"125M-{kind}.gguf", str(steps)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="tokens that llama.cpp decodes in a round")
    parser.add_argument("--output", type=pathlib.Path, default=WORK / "results.json")
    arguments = parser.parse_args()
    prepare()
    rounds = []
    for number in range(arguments.rounds):
        for quant, kind in PAIRS:
            one = {"round": number, "quant": quant, "tidegate": tidegate(quant), "llama.cpp": llama(kind, arguments.steps)}
            rounds.append(one)
            rates = [f"{name} {one[name]['decode_tokens_per_s']:.2f}" for name in ("tidegate", "llama.cpp")]
            print(f"round {number}, {quant}: decode {', '.join(rates)}", flush=True)
    summary = {}
    for quant, _ in PAIRS:
        of = [one for one in rounds if one["quant"] == quant]
        for rate in RATES:
            medians = [statistics.median(one[name][rate] for one in of) for name in ("tidegate", "llama.cpp")]
            summary[f"{quant} {rate}"] = {"tidegate": medians[0], "llama.cpp": medians[1], "ratio": medians[0] / medians[1]}
            print(f"{quant} {rate}: tidegate {medians[0]:.2f}, llama.cpp {medians[1]:.2f}, ratio {medians[0] / medians[1]:.2f}")
    arguments.output.write_text(json.dumps({"summary": summary, "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
