#!/usr/bin/env python3
"""A filter and an echo through the SDK of each language, in the plain world, as a native closure, and through peers.

Builds what is measured and runs it; prints a table, and with a path as argument keeps the raw figures there, as JSON:
nanoseconds per record in batches of 256 by mode and bytes of a value, memory, time to start. Needs the toolchains of the
languages (`tidegate build --install` in a directory here installs one), `cargo build --release -p tidegate-cli` and
`cargo xtask operators`. Peers are measured with --peers: Benthos (benches/benthos, by Go) and Fluvio
(benches/fluvio, which brings a wasmtime of its own).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tidegate/toolchains"
WIT = ROOT / "wit/tidegate.wit"
WORLD = "plain-operator-alone"
LANGUAGES = ["c", "go", "js", "python"]
MEASURED = ["filter 200", "filter 1024", "echo 200", "echo 1024"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def built(language):
    """The operator in this language, by its SDK."""
    directory = HERE / language
    run(TARGET / "release/tidegate", "sdk", directory, stdout=subprocess.DEVNULL)
    run(TARGET / "release/tidegate", "build", directory)
    return directory / "measure-boundary.wasm"


def plain_js():
    """The operator in the plain world, by QuickJS."""
    made = TARGET / "measure-plain-js.wasm"
    program = CACHE / "componentize-qjs-0.4.5/node_modules/.bin/componentize-qjs"
    arguments = ["--sync", "--module-root", ".", "-n", WORLD, "-w", WIT, "--stub-wasi", "-j", "plain.js", "-o", made]
    run(program, *arguments, cwd=HERE / "plain/js", stdout=subprocess.DEVNULL)
    return made


def plain_python():
    """The same, by componentize-py."""
    made = TARGET / "measure-plain-python.wasm"
    packages = CACHE / "componentize-py-0.25.1"
    arguments = ["-d", WIT, "-w", WORLD, "componentize", "plain", "-p", ".", "-o", made]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    program = packages / "bin/componentize-py"
    run(program, *arguments, cwd=HERE / "plain/python", stdout=subprocess.DEVNULL, env=environment)
    return made


def tidegate():
    components = {"Rust": TARGET / "operators/bench-operator.wasm"}
    components |= {language: built(language) for language in LANGUAGES}
    components["Rust, plain world"] = TARGET / "operators/bench-plain.wasm"
    components["js, plain world"] = plain_js()
    components["python, plain world"] = plain_python()
    # With the program's features, so that nothing is compiled twice.
    bench = ["cargo", "bench", "-p", "tidegate-cli", "-p", "tidegate-benches", "--bench", "sdk", "--"]
    given = [f"{name}={path.resolve()}" for name, path in components.items()]
    return json.loads(run(*bench, *given, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout)


def benthos():
    own = TARGET / "benthos"
    directory = ROOT / "benches/benthos"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(own)}
    wasm = ["--target", "wasm32-unknown-unknown"]
    run("cargo", "build", "--release", *wasm, cwd=directory / "operator", env=environment)
    run("go", "build", "-o", own / "bench", ".", cwd=directory)
    module = own / "wasm32-unknown-unknown/release/benthos_operator.wasm"
    return json.loads(run(own / "bench", module, stdout=subprocess.PIPE, text=True).stdout)


def show(figures):
    print("| ns per record, shortest (median) | " + " | ".join(MEASURED) + " | instance, KiB | start, ms |")
    print("|---" * (len(MEASURED) + 3) + "|")
    for name, found in figures.items():
        cells = []
        for measured in MEASURED:
            each = found["ns_per_record"].get(measured)
            cells.append(f"{each['shortest']:.0f} ({each['median']:.0f})" if each else "")
        memory = found.get("resident_bytes")
        cells.append(f"{memory / 1024:.0f}" if memory else "")
        cells.append(str(found.get("start_from_cache_ms", "")))
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", type=pathlib.Path)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    figures = tidegate()
    if options.peers:
        figures |= benthos()
        run(sys.executable, ROOT / "benches/fluvio/run.py")
    show(figures)
    if options.output:
        options.output.write_text(json.dumps(figures, indent=1) + "\n")


main()
