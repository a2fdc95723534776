"""GGUF files of the golden encoders, written as llama.cpp's `convert_hf_to_gguf.py` writes them (`BertModel`, `NomicBertModel`).

Its conventions: the pooler is left out; norms, biases, positions and token types are f32; queries, keys and values of Nomic are one
tensor, as its maker publishes them; of a WordPiece vocabulary words begin with a mark and what continues them has none; nothing says
which activation a feed-forward layer has.
"""

import pathlib
import string
import zlib

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

import quantizer

NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
NOMIC_NAMES = {
    "self_attn.qkv": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_mlp_layernorm": "layer_output_norm",
}
EXACT = ("position_embd", "token_types")
BY_LLAMA_CPP = (Kind.Q2_K, Kind.Q3_K, Kind.Q5_K, Kind.IQ4_NL, Kind.IQ4_XS)
POOLINGS = {"mean": gguf.PoolingType.MEAN, "first": gguf.PoolingType.CLS, "last": gguf.PoolingType.LAST}


def write_encoder(file, family, folder: pathlib.Path, config, state) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """As `gguf_files.write_gguf`."""
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), file.architecture)
    metadata(writer, file, family, config)
    word_pieces(writer, config)
    nomic = file.architecture == "nomic-bert"
    origins, sums, held = {}, {}, {}
    for name, tensor in fused(state).items():
        if name.startswith("pooler"):
            continue
        stored = tensor.to(torch.float32).numpy()
        new = gguf_name(name, NAMES | NOMIC_NAMES if nomic else NAMES)
        stem = new.rpartition(".")[2] if new.startswith("blk") else new
        exact = stored.ndim == 1 or stem in EXACT
        kind = Kind.F32 if exact else file.kind(new, stored.shape[-1])
        data = quantizer.quantize(stored, kind) if kind in BY_LLAMA_CPP else gguf.quants.quantize(stored, kind)
        new += name[name.rindex(".") :]
        writer.add_tensor(new, data, raw_dtype=kind)
        origins[new] = name
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path = folder / "model.gguf"
    if file.ftype is not None:
        plain = path.rename(path.with_suffix(".plain"))
        quantizer.quantize_file(plain, path, file.ftype)
        plain.unlink()
    for tensor in gguf.GGUFReader(path).tensors:
        floats = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        back = torch.from_numpy(floats.reshape(tensor.shape[::-1].tolist()).copy())
        sums[tensor.name] = zlib.crc32(back.numpy().astype("<f4").tobytes())
        held[origins[tensor.name]] = back.to(torch.float64)
    return apart(held) | {name: tensor for name, tensor in state.items() if name.startswith("pooler")}, sums


def fused(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Queries, keys and values of Nomic as one."""
    out = {}
    for name, tensor in state.items():
        stem, _, part = name.rpartition("self_attn.")
        if part == "q_proj.weight":
            parts = [state[f"{stem}self_attn.{kind}_proj.weight"] for kind in "qkv"]
            out[f"{stem}self_attn.qkv.weight"] = torch.cat(parts)
        elif part not in ("k_proj.weight", "v_proj.weight"):
            out[name] = tensor
    return out


def apart(held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same back."""
    out = {}
    for name, tensor in held.items():
        if name.endswith("self_attn.qkv.weight"):
            stem = name.removesuffix("qkv.weight")
            out |= {f"{stem}{kind}_proj.weight": part for kind, part in zip("qkv", tensor.chunk(3))}
        else:
            out[name] = tensor
    return out


def gguf_name(name: str, names: dict[str, str]) -> str:
    stem, prefix = name[: name.rindex(".")], ""
    for layers in ("encoder.layer.", "layers."):
        if stem.startswith(layers):
            layer, stem = stem.removeprefix(layers).split(".", 1)
            prefix = f"blk.{layer}."
    return prefix + names[stem]


def metadata(writer: gguf.GGUFWriter, file, family, config) -> None:
    writer.add_name(file.name)
    writer.add_context_length(max(family.cases) if file.architecture == "nomic-bert" else config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(POOLINGS[family.pooling])
    writer.add_token_type_count(config.type_vocab_size)
    if file.architecture == "nomic-bert":
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def word_pieces(writer: gguf.GGUFWriter, config) -> None:
    """The vocabulary of `sentence_encoders`, letters and their continuations, and names for what is left."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = list(string.ascii_lowercase)
    tokens = special + [f"\u2581{letter}" for letter in letters] + letters
    kinds = [gguf.TokenType.CONTROL] * len(special) + [gguf.TokenType.NORMAL] * (len(tokens) - len(special))
    unused = [f"[PAD{index}]" for index in range(len(tokens), config.vocab_size)]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens + unused)
    writer.add_token_types(kinds + [gguf.TokenType.UNUSED] * len(unused))
    for name, add in [
        ("[PAD]", writer.add_pad_token_id), ("[UNK]", writer.add_unk_token_id), ("[CLS]", writer.add_bos_token_id),
        ("[SEP]", writer.add_sep_token_id),
    ]:
        add(special.index(name))
