#!/usr/bin/env python3
"""Compiles components one after the other as the host does for a slot, as a whole and with the functions of those before.

    benches/compile.py [--tidegate FILE] [--turns N] A.wasm B.wasm ...

Each compilation is a child process of the program with one thread, as beside a stream on two cores. The shortest of N turns
is shown: CPU time, time on the clock, most memory.
"""

import argparse
import os
import struct
import threading
import time

MEMORY, SECONDS = 1 << 30, 600
HEAD = 36


def child(program, job, pieces):
    """What the compiler writes, with its CPU time, time and memory."""
    to, out = os.pipe(), os.pipe()
    began = time.monotonic()
    process = os.fork()
    if process == 0:
        os.dup2(to[0], 0)
        os.dup2(out[1], 1)
        for end in (*to, *out):
            os.close(end)
        arguments = ["tidegate", "compile-component", job, "guarded", str(MEMORY), str(SECONDS * 1000)]
        os.execve(program, arguments, {"RAYON_NUM_THREADS": "1"})
    os.close(to[0])
    os.close(out[1])

    def feed():
        with os.fdopen(to[1], "wb") as pipe:
            for piece in pieces:
                pipe.write(piece)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(out[0], "rb") as pipe:
        made = pipe.read()
    feeder.join()
    _, status, used = os.wait4(process, 0)
    if status != 0:
        raise SystemExit(f"{job}: the compiler ended with {status}")
    return made, (used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024)


def entries(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 32)
        yield data[at : at + 32], data[at : at + HEAD + length]
        at += HEAD + length


def knowing(program, known, component):
    made, took = child(program, "compile-knowing", [struct.pack("<Q", len(known)), known, component])
    (length,) = struct.unpack("<Q", made[-8:])
    artifact, report = made[: -8 - length], made[len(made) - 8 - length : -8]
    (used,) = struct.unpack_from("<I", report)
    fresh = dict(entries(report[4 + 4 * used :]))
    return artifact, {**dict(entries(known)), **fresh}, (used, len(fresh)), took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("components", nargs="+")
    given = parser.parse_args()
    least = lambda turns: "  ".join(
        f"{min(values):.2f} {unit}" for values, unit in zip(zip(*turns), ("CPU-s", "s", "MiB"))
    )
    known = b""
    for path in given.components:
        with open(path, "rb") as file:
            component = file.read()
        if component[4] == 1:
            component, _ = child(given.tidegate, "encode", [component])
        whole, with_known = [], []
        # In turns, so that what else runs meets both.
        for _ in range(given.turns):
            alone, took = child(given.tidegate, "compile", [component])
            whole.append(took)
            artifact, functions, (used, fresh), took = knowing(given.tidegate, known, component)
            with_known.append(took)
            if artifact != alone:
                raise SystemExit(f"{path}: what is compiled with known functions differs")
        print(f"{path}: {len(component)} bytes, machine code {len(alone)} bytes")
        print(f"  as a whole   {least(whole)}")
        print(f"  knowing      {least(with_known)}; {len(known)} bytes known, {used} functions used, {fresh} compiled", flush=True)
        known = b"".join(functions.values())


if __name__ == "__main__":
    main()
