#!/usr/bin/env python3
"""Tidegate against llama.cpp's Vulkan backend on the same adapter and its CPU backend, in turns, like for like: int8 with Q8_0, int4
with Q4_0.

run.py [--rounds 3] [--steps 8] [--before PROGRAM] [--output FILE]; first `cargo build --release -p tidegate-cli`. --before is an earlier
build of tidegate that takes its turns, too. What is fetched goes to target/llama: node-llama-cpp 3.22.1 with its prebuilt
binaries from npm, and the gguf package from PyPI. Needs node 20.
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
WORK = ROOT / "target" / "llama"
PACKAGES = ["node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64-vulkan@3.22.1", "@node-llama-cpp/linux-x64@3.22.1"]
PAIRS = [("int8", "q8_0"), ("int4", "q4_0")]
RATES = ["decode_tokens_per_s", "prefill_tokens_per_s"]


def prepare() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    if not all((WORK / "node_modules" / package.rsplit("@", 1)[0]).exists() for package in PACKAGES):
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


def tidegate(program: pathlib.Path, quant: str) -> dict:
    command = [program, "model", "bench", "--random", "125M", "--quant", quant, "--json", "--seconds", "1"]
    command += ["--batches", "1", "--contexts", "128"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(output)
    return {
        "decode_tokens_per_s": report["decode_tokens_per_s"]["1"],
        "prefill_tokens_per_s": report["prefill_tokens_per_s"],
    }


def llama(backend: str, kind: str, steps: int) -> dict:
    environment = dict(os.environ, GGML_VK_VISIBLE_DEVICES="0")
    command = ["node", HERE / "measure.mjs", WORK, WORK / f"125M-{kind}.gguf", str(steps), backend]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="tokens that llama.cpp decodes in a round")
    parser.add_argument("--output", type=pathlib.Path, default=WORK / "results.json")
    parser.add_argument("--before", type=pathlib.Path, help="an earlier build of tidegate")
    arguments = parser.parse_args()
    prepare()
    contenders = {"tidegate": lambda quant, _: tidegate(ROOT / "target" / "release" / "tidegate", quant)}
    if arguments.before:
        contenders["before"] = lambda quant, _: tidegate(arguments.before.resolve(), quant)
    for backend in ("vulkan", "cpu"):
        contenders[f"llama.cpp {backend}"] = lambda _, kind, backend=backend: llama(backend, kind, arguments.steps)
    rounds = []
    for number in range(arguments.rounds):
        for quant, kind in PAIRS:
            one = {name: measure(quant, kind) for name, measure in contenders.items()}
            rounds.append({"round": number, "quant": quant, **one})
            rates = [f"{name} {of['decode_tokens_per_s']:.2f}" for name, of in one.items()]
            print(f"round {number}, {quant}: decode {', '.join(rates)}", flush=True)
    summary = {}
    for quant, _ in PAIRS:
        of = [one for one in rounds if one["quant"] == quant]
        for rate in RATES:
            medians = {name: statistics.median(one[name][rate] for one in of) for name in contenders}
            summary[f"{quant} {rate}"] = medians
            print(f"{quant} {rate}: {', '.join(f'{name} {median:.2f}' for name, median in medians.items())}")
    arguments.output.write_text(json.dumps({"summary": summary, "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
