#!/usr/bin/env python3
"""How long a model of 1B parameters takes to load, and how much memory, by what it is stored in.

Makes a file of the shape of `--random 1B` in each format with made-up numbers, runs `tidegate model bench` on it with
`--log info` and takes the time until the line that says it is loaded, the greatest memory of its own until then (a
software adapter's is part of it; pages of the mapped file are not), and the bytes of weights that the device holds. Needs numpy and 3 GB of disk.
Usage: benches/loading.py [--tidegate target/release/tidegate] [--directory /tmp] [--only FORMAT,...] [--output FILE]
"""

import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

import numpy

VOCABULARY, HIDDEN, INSIDE, LAYERS, HEADS, KV_HEADS, HEAD = 128_256, 2048, 8192, 16, 32, 8, 64
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": INSIDE,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
    "bos_token_id": 0, "eos_token_id": 1,
}
# GGUF formats: number, elements of a block, bytes, and where its f16 scales lie.
BLOCKS = {
    "q8_0": (8, 32, 34, [0]), "q4_0": (2, 32, 18, [0]), "q4_1": (3, 32, 20, [0, 2]), "q5_0": (6, 32, 22, [0]),
    "q5_1": (7, 32, 24, [0, 2]), "q2_K": (10, 256, 84, [80, 82]), "q3_K": (11, 256, 110, [108]),
    "q4_K": (12, 256, 144, [0, 2]), "q5_K": (13, 256, 176, [0, 2]), "q6_K": (14, 256, 210, [208]),
    "iq4_nl": (20, 32, 18, [0]), "iq4_xs": (23, 256, 136, [0]),
}
# As it is written in `quantization_config`.
PACKED = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "gptq-desc-act": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"},
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
FORMATS = ["f16", *PACKED, *BLOCKS]
RANDOM = numpy.random.default_rng(7)
SCALE = numpy.float16(0.002)


def matrices():
    """Name in safetensors, name in GGUF, rows, width."""
    yield "model.embed_tokens", "token_embd", VOCABULARY, HIDDEN
    for layer in range(LAYERS):
        long, short = f"model.layers.{layer}.", f"blk.{layer}."
        for name, gguf, rows, width in [
            ("self_attn.q_proj", "attn_q", HEADS * HEAD, HIDDEN),
            ("self_attn.k_proj", "attn_k", KV_HEADS * HEAD, HIDDEN),
            ("self_attn.v_proj", "attn_v", KV_HEADS * HEAD, HIDDEN),
            ("self_attn.o_proj", "attn_output", HIDDEN, HEADS * HEAD),
            ("mlp.gate_proj", "ffn_gate", INSIDE, HIDDEN),
            ("mlp.up_proj", "ffn_up", INSIDE, HIDDEN),
            ("mlp.down_proj", "ffn_down", HIDDEN, INSIDE),
        ]:
            yield long + name, short + gguf, rows, width


def norms():
    yield "model.norm", "output_norm"
    for layer in range(LAYERS):
        yield f"model.layers.{layer}.input_layernorm", f"blk.{layer}.attn_norm"
        yield f"model.layers.{layer}.post_attention_layernorm", f"blk.{layer}.ffn_norm"


def whole(*shape):
    return RANDOM.integers(0, 1 << 32, shape, dtype=numpy.uint32)


def scales(*shape):
    return numpy.full(shape, SCALE)


def halves(rows, width):
    return (RANDOM.integers(-100, 100, (rows, width), dtype=numpy.int16) * numpy.float32(2e-4)).astype(numpy.float16)


def packed(kind, rows, width):
    """The tensors of a matrix: ending, type, values."""
    groups = width // 128
    if kind in ("gptq", "gptq-desc-act"):
        order = numpy.arange(width, dtype=numpy.int32) // 128
        symmetric = numpy.full((groups, rows // 8), 0x77777777, dtype=numpy.uint32)
        return [
            ("qweight", "I32", whole(width // 8, rows)), ("qzeros", "I32", symmetric), ("scales", "F16", scales(groups, rows)),
            ("g_idx", "I32", order if kind == "gptq" else RANDOM.permutation(order)),
        ]
    if kind == "awq":
        return [
            ("qweight", "I32", whole(width, rows // 8)), ("qzeros", "I32", whole(groups, rows // 8)),
            ("scales", "F16", scales(groups, rows)),
        ]
    # No pattern of all ones in exponent and fraction, which is no number.
    eight = RANDOM.integers(0, 0x7F, (rows, width), dtype=numpy.uint8)
    return [("weight", "F8_E4M3", eight), ("weight_scale_inv", "F32", numpy.full((-(-rows // 128), groups), 1e-4, numpy.float32))]


def write_safetensors(kind, directory):
    tensors = [(f"{name}.weight", "F16", numpy.ones(HIDDEN, numpy.float16)) for name, _ in norms()]
    for name, _, rows, width in matrices():
        if kind == "f16" or "embed" in name:
            tensors.append((f"{name}.weight", "F16", halves(rows, width)))
        else:
            tensors += [(f"{name}.{end}", kind_of, values) for end, kind_of, values in packed(kind, rows, width)]
    header, at = {}, 0
    for name, kind_of, values in tensors:
        header[name] = {"dtype": kind_of, "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    with open(directory / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _, _, values in tensors:
            values.tofile(file)
    config = CONFIG if kind == "f16" else CONFIG | {"quantization_config": PACKED[kind]}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_gguf(kind, directory):
    number, elements, size, places = BLOCKS[kind]

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [
        ("general.architecture", 8, text("llama")), ("llama.block_count", 4, struct.pack("<I", LAYERS)),
        ("llama.context_length", 4, struct.pack("<I", 4096)), ("llama.embedding_length", 4, struct.pack("<I", HIDDEN)),
        ("llama.feed_forward_length", 4, struct.pack("<I", INSIDE)), ("llama.attention.head_count", 4, struct.pack("<I", HEADS)),
        ("llama.attention.head_count_kv", 4, struct.pack("<I", KV_HEADS)), ("llama.rope.freq_base", 6, struct.pack("<f", 5e5)),
        ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)), ("llama.vocab_size", 4, struct.pack("<I", VOCABULARY)),
    ]
    tensors = [(f"{name}.weight", 0, [HIDDEN], HIDDEN * 4, None) for _, name in norms()]
    tensors += [(f"{name}.weight", number, [width, rows], rows * width // elements * size, rows) for _, name, rows, width in matrices()]
    path, at = directory / "model.gguf", 0
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        for name, kind_of, value in keys:
            file.write(text(name) + struct.pack("<I", kind_of) + value)
        for name, kind_of, shape, length, _ in tensors:
            file.write(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape))
            file.write(struct.pack("<IQ", kind_of, at))
            at += length + -length % 32
        for _, _, shape, length, rows in tensors:
            file.write(b"\0" * (-file.tell() % 32))
            if rows is None:
                file.write(numpy.ones(HIDDEN, numpy.float32).tobytes())
                continue
            blocks = RANDOM.integers(0, 256, (length // size, size), dtype=numpy.uint8)
            for place in places:
                blocks[:, place : place + 2] = numpy.frombuffer(SCALE.tobytes(), numpy.uint8)
            blocks.tofile(file)
    return path


def own_memory(pid):
    """Bytes of a process and its children that are no pages of a file."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    kinds = re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status)
    return sum(int(kind) for kind in kinds) * 1024 + sum(map(own_memory, children))


def load(tidegate, model):
    command = [
        *(tidegate, "model", "bench", "--adapter", "cpu", "--log", "info", "--batches", "1", "--contexts", "64", "--seconds", "1"),
        *("--json", str(model)),
    ]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most, loaded, lines = 0, threading.Event(), []

    def watch():
        nonlocal most
        while not loaded.wait(0.02):
            most = max(most, own_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    took = None
    for line in process.stderr:
        lines.append(line)
        if took is None and "model loaded" in line:
            took = time.monotonic() - started
            loaded.set()
            process.terminate()
    loaded.set()
    watcher.join()
    process.stdout.read()
    process.wait()
    if took is None:
        sys.exit("".join(lines))
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
    held = [re.search(r"weights_bytes=(\d+)", line) for line in plain if "model loaded" in line]
    losses = [line.split("INFO ")[-1] for line in plain if "it is held as" in line]
    return {"seconds": took, "own_bytes": most, "weights_bytes": int(held[0][1]) if held[0] else None, "reencoded": losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp"))
    parser.add_argument("--only", default=",".join(FORMATS))
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    results = []
    for kind in arguments.only.split(","):
        directory = arguments.directory / f"loading-{kind}"
        directory.mkdir(parents=True)
        try:
            model = write_gguf(kind, directory) if kind in BLOCKS else write_safetensors(kind, directory)
            stored = sum(file.stat().st_size for file in directory.iterdir())
            result = {"format": kind, "stored_bytes": stored, **load(arguments.tidegate, model)}
        finally:
            shutil.rmtree(directory)
        results.append(result)
        print(json.dumps(result), file=sys.stderr)
    text = json.dumps(results, indent=1)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
