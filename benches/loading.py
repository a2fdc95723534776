#!/usr/bin/env python3
"""How long a model of 1B parameters takes to load, and how much memory, by what it is stored in.

Makes a file of the shape of `--random 1B` in each format with made-up numbers, runs `tidegate model bench` on it with
`--log info` and takes the time until the line that says it is loaded, the greatest memory of its own until then (a
software adapter's is part of it; pages of the mapped file are not), and the bytes of weights, KV cache and activations that the device
holds. Needs numpy and 3 GB of disk.
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
import typing

import numpy


class Shape(typing.NamedTuple):
    vocabulary: int
    hidden: int
    inside: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    # Of each layer, `inside` wide each, and how many of them a token goes through.
    experts: int = 0
    chosen: int = 0

    def config(self):
        """config.json."""
        of_experts = {
            "architectures": ["Qwen3MoeForCausalLM"], "num_experts": self.experts, "num_experts_per_tok": self.chosen,
            "moe_intermediate_size": self.inside, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
        }
        return {
            "architectures": ["LlamaForCausalLM"], "vocab_size": self.vocabulary, "hidden_size": self.hidden,
            "intermediate_size": self.inside, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "head_dim": self.head, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1,
        } | (of_experts if self.experts else {})

    def matrices(self):
        """Name in safetensors, name in GGUF (of models without experts), rows, width."""
        hidden, query, keys = self.hidden, self.heads * self.head, self.kv_heads * self.head
        yield "model.embed_tokens", "token_embd", self.vocabulary, hidden
        for layer in range(self.layers):
            long, short = f"model.layers.{layer}.", f"blk.{layer}."
            yield long + "self_attn.q_proj", short + "attn_q", query, hidden
            yield long + "self_attn.k_proj", short + "attn_k", keys, hidden
            yield long + "self_attn.v_proj", short + "attn_v", keys, hidden
            yield long + "self_attn.o_proj", short + "attn_output", hidden, query
            if self.experts:
                yield long + "mlp.gate", None, self.experts, hidden
            for of in [f"experts.{expert}." for expert in range(self.experts)] or [""]:
                yield long + f"mlp.{of}gate_proj", short + "ffn_gate", self.inside, hidden
                yield long + f"mlp.{of}up_proj", short + "ffn_up", self.inside, hidden
                yield long + f"mlp.{of}down_proj", short + "ffn_down", hidden, self.inside

    def norms(self):
        """Name in safetensors, name in GGUF (of models without experts), width."""
        yield "model.norm", "output_norm", self.hidden
        for layer in range(self.layers):
            long, short = f"model.layers.{layer}.", f"blk.{layer}."
            yield long + "input_layernorm", short + "attn_norm", self.hidden
            yield long + "post_attention_layernorm", short + "ffn_norm", self.hidden
            if self.experts:
                yield long + "self_attn.q_norm", None, self.head
                yield long + "self_attn.k_norm", None, self.head


ONE_BILLION = Shape(128_256, 2048, 8192, 16, 32, 8, 64)
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


def write_safetensors(kind, directory, shape):
    tensors = [(f"{name}.weight", "F16", numpy.ones(width, numpy.float16)) for name, _, width in shape.norms()]
    for name, _, rows, width in shape.matrices():
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
    config = shape.config() | ({} if kind == "f16" else {"quantization_config": PACKED[kind]})
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_gguf(kind, directory, shape):
    number, elements, size, places = BLOCKS[kind]

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = [
        ("general.architecture", 8, text("llama")), ("llama.block_count", 4, struct.pack("<I", shape.layers)),
        ("llama.context_length", 4, struct.pack("<I", 4096)), ("llama.embedding_length", 4, struct.pack("<I", shape.hidden)),
        ("llama.feed_forward_length", 4, struct.pack("<I", shape.inside)), ("llama.attention.head_count", 4, struct.pack("<I", shape.heads)),
        ("llama.attention.head_count_kv", 4, struct.pack("<I", shape.kv_heads)), ("llama.rope.freq_base", 6, struct.pack("<f", 5e5)),
        ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)), ("llama.vocab_size", 4, struct.pack("<I", shape.vocabulary)),
    ]
    tensors = [(f"{name}.weight", 0, [width], width * 4, None) for _, name, width in shape.norms()]
    for _, name, rows, width in shape.matrices():
        tensors.append((f"{name}.weight", number, [width, rows], rows * width // elements * size, rows))
    path, at = directory / "model.gguf", 0
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        for name, kind_of, value in keys:
            file.write(text(name) + struct.pack("<I", kind_of) + value)
        for name, kind_of, extents, length, _ in tensors:
            file.write(text(name) + struct.pack("<I", len(extents)) + struct.pack(f"<{len(extents)}Q", *extents))
            file.write(struct.pack("<IQ", kind_of, at))
            at += length + -length % 32
        for _, _, extents, length, rows in tensors:
            file.write(b"\0" * (-file.tell() % 32))
            if rows is None:
                file.write(numpy.ones(extents, numpy.float32).tobytes())
                continue
            blocks = RANDOM.integers(0, 256, (length // size, size), dtype=numpy.uint8)
            for place in places:
                blocks[:, place : place + 2] = numpy.frombuffer(SCALE.tobytes(), numpy.uint8)
            blocks.tofile(file)
    return path


def write(kind, directory, shape):
    """A model of a shape in one of FORMATS; what `tidegate` is given."""
    return write_gguf(kind, directory, shape) if kind in BLOCKS else write_safetensors(kind, directory, shape)


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
    held = [re.findall(r"(\w+_bytes)=(\d+)", line) for line in plain if "model loaded" in line][0]
    losses = [line.split("INFO ")[-1] for line in plain if "it is held as" in line]
    held = {of: int(count) for of, count in held}
    return {"seconds": took, "own_bytes": most, **held, "share": most / sum(held.values()), "reencoded": losses}


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
            model = write(kind, directory, ONE_BILLION)
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
