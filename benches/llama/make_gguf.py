"""Writes a GGUF of the shape of `tidegate model bench --random 125M` with random weights.

make_gguf.py q8_0|q4_0 FILE; needs the packages gguf and numpy, which run.py installs.
"""

import sys

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, INTERMEDIATE, VOCABULARY, CONTEXT = 12, 768, 12, 2048, 32_000, 4096
KINDS = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def main(kind: str, path: str) -> None:
    quantization = KINDS[kind]
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(VOCABULARY)

    # A vocabulary that llama.cpp takes: three special tokens, 256 bytes, and made-up words.
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [2, 3, 3] + [6] * 256
    tokens += [f"w{index}" for index in range(len(tokens), VOCABULARY)]
    types += [1] * (VOCABULARY - len(types))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    # For servers: messages as they are.
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")

    def matrix(name: str, rows: int, width: int) -> None:
        values = random.standard_normal((rows, width), dtype=np.float32) * width**-0.5
        writer.add_tensor(name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(HIDDEN, dtype=np.float32))

    matrix("token_embd.weight", VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight")
        for part in ("q", "k", "v", "output"):
            matrix(f"{block}.attn_{part}.weight", HIDDEN, HIDDEN)
        norm(f"{block}.ffn_norm.weight")
        matrix(f"{block}.ffn_gate.weight", INTERMEDIATE, HIDDEN)
        matrix(f"{block}.ffn_up.weight", INTERMEDIATE, HIDDEN)
        matrix(f"{block}.ffn_down.weight", HIDDEN, INTERMEDIATE)
    norm("output_norm.weight")
    matrix("output.weight", VOCABULARY, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
