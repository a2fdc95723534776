#!/usr/bin/env python3
"""What a pinned prefix saves of the time to the first token, on the demo's model behind the gateway.

Starts `tidegate run` anew for each round, with a stage whose system message is about 400 tokens long, pinned or not, and asks it twice
over HTTP: the first request finds a cold cache, but for what is pinned, and the second finds the prefix either way. Prints the medians, and
writes every round to a file.
Usage: benches/pinned.py [--tidegate target/release/tidegate] [--rounds 9] [--replicas 1] [--output FILE]
"""

import argparse
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
SENTENCES = [
    "Refunds take a week.", "Parcels take three days.", "The shop is closed on Sunday.", "Never promise what the shop cannot keep.",
    "Ask for the order number.", "Be kind and short.", "Returns are free within a month.", "A broken item is replaced.",
]
PIPELINE = """
[pipeline]
name = "pinned"
state = "state"
[gateway]
address = "127.0.0.1:{port}"
[source.chat]
type = "gateway"
[model.support]
path = {model}
adapters = {adapters}
sequences = 4
context = 512
[[stage]]
name = "answer"
model = "support"
messages = true
system = {system}
pin-prefix = {pinned}
max-tokens = 16
[sink.reply]
type = "gateway"
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, text):
    """Seconds until the first text comes, and tokens of the prompt."""
    body = {"model": "support", "stream": True, "max_tokens": 8, "temperature": 0, "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    began, first, tokens = time.perf_counter(), None, 0
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if first is None and any(one["delta"].get("content") for one in event["choices"]):
                first = time.perf_counter() - began
            tokens = (event.get("usage") or {}).get("prompt_tokens", tokens)
    if first is None:
        raise SystemExit("an answer without text")
    return first, tokens


def one_round(arguments, pinned):
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        system = " ".join(SENTENCES * arguments.times)
        pipeline = PIPELINE.format(port=port, model=json.dumps(str(ROOT / "examples/support-bot/model")), system=json.dumps(system),
                                   adapters=json.dumps(["cpu"] * arguments.replicas), pinned=json.dumps(pinned))
        pathlib.Path(directory, "pipeline.toml").write_text(pipeline)
        running = subprocess.Popen([arguments.tidegate, "run", "--quiet", "pipeline.toml"], cwd=directory,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            until = time.monotonic() + 120
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz/ready", timeout=5):
                        break
                except (urllib.error.URLError, OSError):
                    if running.poll() is not None or time.monotonic() > until:
                        raise SystemExit(f"it does not run: {running.stderr.read()}")
                    time.sleep(0.05)
            cold, tokens = ask(port, "where is my parcel")
            warm, _ = ask(port, "may I return it")
        finally:
            running.terminate()
            running.wait(60)
    return {"pinned": pinned, "prompt_tokens": tokens, "cold_s": cold, "warm_s": warm}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tidegate", default=ROOT / "target/release/tidegate", type=pathlib.Path)
    parser.add_argument("--rounds", default=9, type=int)
    parser.add_argument("--replicas", default=1, type=int)
    parser.add_argument("--times", default=6, type=int, help="how often the sentences stand in the system message")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.tidegate = arguments.tidegate.resolve()
    # By turns, so that whatever else runs on the machine is in both.
    rounds = [one_round(arguments, pinned) for _ in range(arguments.rounds) for pinned in (False, True)]
    medians = {
        name: {when: statistics.median(one[f"{when}_s"] for one in rounds if one["pinned"] == pinned) for when in ("cold", "warm")}
        for name, pinned in (("not pinned", False), ("pinned", True))
    }
    print(json.dumps({"prompt_tokens": rounds[0]["prompt_tokens"], "first_token_s": medians}, indent=1))
    if arguments.output:
        found = {"date": time.strftime("%Y-%m-%d"), "machine": f"{os.cpu_count()} CPUs, {platform.machine()}",
                 "command": f"benches/pinned.py --rounds {arguments.rounds} --replicas {arguments.replicas}",
                 "first_token_s": medians, "rounds": rounds}
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
