"""GGUF files of the golden models, written as llama.cpp's `convert_hf_to_gguf.py` writes them.

Its conventions, by family:
- llama, smollm3: the rows of queries and keys (and their biases) are permuted within each head, so that the pairs that turn
  together lie side by side (`LlamaModel.permute`); llama3's stretch is the tensor `rope_freqs.weight`, by whose elements
  the frequencies are divided;
- phi3: the fused projections stay fused, gate and up are `ffn_up`; longrope is two tensors and `attn_factor`;
- experts: the matrices of all experts of a layer are one tensor of three dimensions, and the gate of the shared expert has
  one; a mixtral is a llama;
- gpt-oss: gate and up, whose rows come in turn, are cut apart, the router's and the experts' biases too; the norm before the
  feed-forward layer is `post_attention_norm`; slope and limit of the gate are not written (llama.cpp knows 1.702 and 7);
- gemma: 1 is added to the norms' weights; the score's scale is not written (llama.cpp knows `head_dim ** -0.5`).
Vectors are f32 in all of them.
"""

import math
import pathlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

import quantizer

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "self_attn.sinks": "attn_sinks",
    "mlp.experts.gate": "ffn_gate_exps",
    "mlp.experts.up": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
GPT_OSS_NAMES = {"post_attention_layernorm": "post_attention_norm"}


@dataclass
class Gguf:
    name: str
    # The golden model it is made from.
    source: str
    architecture: str
    # The type of a matrix, by its GGUF name and width.
    kind: Callable[[str, int], Kind]
    # What GGUF cannot say, so that the file means a model with these changes to the configuration.
    changes: dict = field(default_factory=dict)
    # Whether `source` is made for this file alone and not kept.
    passing: bool = False
    # Tensors of a part, where the model is cut into several.
    part: int = 0
    # Whether the vocabulary is byte-level BPE that does not say how it splits texts, as files before May 2024.
    without_pre: bool = False
    # What llama.cpp makes of the whole file by itself (`enum llama_ftype`), as its tool llama-quantize does.
    ftype: int | None = None
    # Whether texts are asked of sentence-transformers too.
    texts: bool = False
    # Of a decoder for embeddings: how its rows are pooled.
    pooling: gguf.PoolingType | None = None


def always(kind: Kind) -> Callable[[str, int], Kind]:
    return lambda name, width: kind


def mixed(name: str, width: int) -> Kind:
    """As llama.cpp mixes them in Q4_K_M: q4_K, of some tensors q6_K, and others where the width is no multiple of 256."""
    if width % 256:
        return Kind.Q8_0 if "attn" in name else Kind.Q4_0
    return Kind.Q6_K if name == "token_embd" or "attn_v" in name else Kind.Q4_K


def mostly(kind: Kind, narrow: Kind) -> Callable[[str, int], Kind]:
    """One format, and another where the width is no multiple of 256, as llama.cpp falls back."""
    return lambda name, width: narrow if width % 256 else kind


def experts_in_mxfp4(name: str, width: int) -> Kind:
    """As gpt-oss is published: the experts in MXFP4, all else in bf16."""
    return Kind.MXFP4 if "exps" in name else Kind.BF16


# What the package has no code for, or random blocks are no model of: quantized by llama.cpp itself.
BY_LLAMA_CPP = (Kind.Q2_K, Kind.Q3_K, Kind.Q5_K, Kind.IQ4_NL, Kind.IQ4_XS)

FILES = [
    Gguf("gguf-llama-f32", "llama-tied-sharded-f32", "llama", always(Kind.F32)),
    Gguf("gguf-llama-q8_0", "llama-tied-sharded-f32", "llama", always(Kind.Q8_0)),
    Gguf("gguf-llama-q4_0", "llama-tied-sharded-f32", "llama", always(Kind.Q4_0)),
    Gguf("gguf-llama-q4_k", "llama-wide", "llama", mixed, passing=True),
    Gguf("gguf-llama3-rope-bf16", "llama3-rope-bf16", "llama", always(Kind.BF16)),
    Gguf("gguf-llama-linear-bias-f16", "llama-linear-bias-f16", "llama", always(Kind.F16)),
    Gguf("gguf-smollm3-bf16", "smollm3-four", "smollm3", always(Kind.BF16), passing=True),
    Gguf("gguf-qwen2-bf16", "qwen2-bf16", "qwen2", always(Kind.BF16)),
    Gguf("gguf-qwen3-f16", "qwen3-f16", "qwen3", always(Kind.F16)),
    Gguf("gguf-phi3-longrope-f16", "phi3-longrope-f16", "phi3", always(Kind.F16)),
    Gguf("gguf-gemma2-bf16", "gemma2-f32", "gemma2", always(Kind.BF16), {"query_pre_attn_scalar": 8}),
    Gguf("gguf-gemma3-bf16", "gemma3-bf16", "gemma3", always(Kind.BF16), {"query_pre_attn_scalar": 8}),
    Gguf("gguf-mixtral-q8_0", "mixtral-one-f32", "llama", always(Kind.Q8_0)),
    Gguf("gguf-mixtral-bf16", "mixtral-bf16", "llama", always(Kind.BF16), {"sliding_window": None}),
    Gguf("gguf-qwen2moe-f16", "qwen2-moe-f16", "qwen2moe", always(Kind.F16), {"layer_types": ["full_attention"] * 3}),
    Gguf("gguf-qwen3moe-f16", "qwen3-moe-f16", "qwen3moe", always(Kind.F16)),
    Gguf(
        "gguf-gpt-oss-bf16", "gpt-oss-one-bf16", "gpt-oss", always(Kind.BF16), {"swiglu_limit": 7.0},
    ),
    Gguf("gguf-gpt-oss-mxfp4", "gpt-oss-all-f16", "gpt-oss", experts_in_mxfp4, {"swiglu_limit": 7.0}),
    Gguf("gguf-llama-q8_0-parts", "llama-tied-sharded-f32", "llama", always(Kind.Q8_0), part=8),
    # MOSTLY_Q4_K_M.
    Gguf("gguf-llama-q4_k_m", "llama-tied-sharded-f32", "llama", always(Kind.F32), ftype=15),
    # The same of experts.
    Gguf("gguf-qwen3moe-q4_k_m", "qwen3-moe-wide", "qwen3moe", always(Kind.F32), passing=True, ftype=15),
    Gguf("gguf-llama-q4_1", "llama-tied-sharded-f32", "llama", always(Kind.Q4_1)),
    Gguf("gguf-llama-q5_0", "llama-tied-sharded-f32", "llama", always(Kind.Q5_0), without_pre=True),
    Gguf("gguf-llama-q5_1", "llama-tied-sharded-f32", "llama", always(Kind.Q5_1)),
    Gguf("gguf-llama-iq4_nl", "llama-tied-sharded-f32", "llama", always(Kind.IQ4_NL)),
    Gguf("gguf-llama-q2_k", "llama-wide", "llama", mostly(Kind.Q2_K, Kind.IQ4_NL), passing=True),
    Gguf("gguf-llama-q3_k", "llama-wide", "llama", mostly(Kind.Q3_K, Kind.IQ4_NL), passing=True),
    Gguf("gguf-llama-q5_k", "llama-wide", "llama", mostly(Kind.Q5_K, Kind.Q5_1), passing=True),
    Gguf("gguf-llama-iq4_xs", "llama-wide", "llama", mostly(Kind.IQ4_XS, Kind.IQ4_NL), passing=True),
    Gguf("gguf-llama-q8_k", "llama-wide", "llama", mostly(Kind.Q8_K, Kind.Q5_0), passing=True),
]

# Encoders: `gguf_encoders`.
ENCODER_FILES = [
    Gguf("gguf-bert-f16", "bert-f16", "bert", always(Kind.F16), texts=True),
    Gguf("gguf-bert-first-token-q8_0", "bert-even", "bert", always(Kind.Q8_0), passing=True),
    Gguf("gguf-bert-q4_0", "bert-even", "bert", always(Kind.Q4_0), passing=True),
    Gguf("gguf-bert-q5_1", "bert-even", "bert", always(Kind.Q5_1), passing=True),
    # MOSTLY_Q4_K_M.
    Gguf("gguf-bert-q4_k_m", "bert-wide", "bert", always(Kind.F32), passing=True, ftype=15),
    Gguf("gguf-nomic-bert-f16", "nomic-bert-f16", "nomic-bert", always(Kind.F16)),
    Gguf("gguf-nomic-bert-q8_0", "nomic-bert-even", "nomic-bert", always(Kind.Q8_0), passing=True),
    Gguf(
        "gguf-qwen3-embedding-bf16", "qwen3-embedding-bf16", "qwen3", always(Kind.BF16),
        pooling=gguf.PoolingType.LAST,
    ),
]


def write_gguf(
    file: Gguf, folder: pathlib.Path, config, state: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """Writes `model.gguf`; returns the state that the file holds, in float64, under the names it came by, and the CRC-32 of
    every tensor's dequantized elements (little-endian f32, queries and keys in the order they came in) by its new name."""
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), file.architecture, split_max_tensors=file.part)
    metadata(writer, file, config)
    if file.pooling is not None:
        writer.add_pooling_type(file.pooling)
    (byte_level_vocabulary if file.without_pre else vocabulary)(writer, config)
    gemma = file.architecture.startswith("gemma")
    others = GEMMA_NAMES if gemma else GPT_OSS_NAMES if file.architecture == "gpt-oss" else {}
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    held, sums, origins = {}, {}, {}
    for name, tensor in apart(state).items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stored = tensor.to(torch.float32)
        permuted = file.architecture in ("llama", "smollm3") and any(p in name for p in ("q_proj", "k_proj"))
        if permuted:
            stored = stored[interleave(len(stored), head)]
        if gemma and "norm" in name:
            stored = stored + 1
        new = gguf_name(name, others)
        # As `modify_tensors` squeezes what has one row.
        array = stored.squeeze(0).numpy() if "shared_expert_gate" in name else stored.numpy()
        # llama.cpp quantizes no router.
        exact = array.ndim == 1 or "ffn_gate_inp" in new or name.endswith("bias")
        kind = Kind.F32 if exact else file.kind(new, array.shape[-1])
        if kind in (Kind.Q4_K, Kind.Q6_K):
            data = random_blocks(kind, new, array.shape)
        elif kind == Kind.Q8_K:
            data = quantizer.q8_k(array)
        elif kind in BY_LLAMA_CPP:
            data = quantizer.quantize(array, kind)
        else:
            data = gguf.quants.quantize(array, kind)
        new += name[name.rindex(".") :]
        writer.add_tensor(new, data, raw_dtype=kind)
        floats = quantizer.from_q8_k(data) if kind == Kind.Q8_K else gguf.quants.dequantize(data, kind)
        back = torch.from_numpy(floats.reshape(stored.shape))
        if permuted:
            back = back[interleave(len(back), head).argsort()]
        origins[new] = (name, head if permuted else None)
        sums[new] = zlib.crc32(back.numpy().astype("<f4").tobytes())
        back = back.to(torch.float64)
        held[name] = back - 1 if gemma and "norm" in name else back
    for name, factors in rope_factors(config, head).items():
        writer.add_tensor(name, np.array(factors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if file.ftype is not None:
        held, sums = quantized_whole(folder / "model.gguf", file.ftype, origins)
    if "lm_head.weight" in state and config.tie_word_embeddings:
        held["lm_head.weight"] = held["model.embed_tokens.weight"]
    return together(held), sums


def apart(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gate and up of experts, which transformers keeps together, by themselves; every name ends in what it is."""
    out = {}
    gpt_oss = any(name.endswith("sinks") for name in state)
    for name, tensor in state.items():
        stem, _, part = name.rpartition(".experts.")
        if gpt_oss and stem:
            # [experts, columns, rows], or [experts, rows] of a bias.
            kind = "bias" if part.endswith("bias") else "weight"
            rows = tensor if kind == "bias" else tensor.transpose(1, 2)
            if part.startswith("down"):
                out[f"{stem}.experts.down_proj.{kind}"] = rows.contiguous()
            else:
                out[f"{stem}.experts.gate.{kind}"] = rows[:, 0::2].contiguous()
                out[f"{stem}.experts.up.{kind}"] = rows[:, 1::2].contiguous()
        elif name.endswith("sinks"):
            out[f"{name}.weight"] = tensor
        elif part == "gate_up_proj":
            gate, up = tensor.chunk(2, dim=1)
            out[f"{stem}.experts.gate.weight"], out[f"{stem}.experts.up.weight"] = gate.contiguous(), up.contiguous()
        elif part == "down_proj":
            out[f"{name}.weight"] = tensor
        else:
            out[name] = tensor
    return out


def together(held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same back."""
    out = {}
    gpt_oss = any(name.endswith("sinks.weight") for name in held)
    for name, tensor in held.items():
        stem, _, part = name.rpartition(".experts.")
        if gpt_oss and stem:
            which, kind = part.split(".")
            if which == "up":
                continue
            if which == "gate":
                tensor = torch.stack([tensor, held[f"{stem}.experts.up.{kind}"]], dim=2).flatten(1, 2)
            whole = "down_proj" if which == "down_proj" else "gate_up_proj"
            whole += "_bias" if kind == "bias" else ""
            out[f"{stem}.experts.{whole}"] = tensor if kind == "bias" else tensor.transpose(1, 2).contiguous()
        elif name.endswith("sinks.weight"):
            out[name.removesuffix(".weight")] = tensor
        elif name.endswith(".experts.gate.weight"):
            stem = name.removesuffix("gate.weight")
            out[stem + "gate_up_proj"] = torch.cat([tensor, held[f"{stem}up.weight"]], dim=1)
        elif name.endswith(".experts.down_proj.weight"):
            out[name.removesuffix(".weight")] = tensor
        elif not name.endswith(".experts.up.weight"):
            out[name] = tensor
    return out


def quantized_whole(
    path: pathlib.Path, ftype: int, origins: dict[str, tuple[str, int | None]]
) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """Has llama.cpp quantize a file of a llama, and reads what it holds then."""
    plain = path.rename(path.with_suffix(".plain"))
    quantizer.quantize_file(plain, path, ftype)
    plain.unlink()
    held, sums = {}, {}
    for tensor in gguf.GGUFReader(path).tensors:
        floats = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        back = torch.from_numpy(floats.reshape(tensor.shape[::-1].tolist()).copy())
        name, head = origins[tensor.name]
        if head:
            back = back[interleave(len(back), head).argsort()]
        sums[tensor.name] = zlib.crc32(back.numpy().astype("<f4").tobytes())
        held[name] = back.to(torch.float64)
    return held, sums


def gguf_name(name: str, others: dict[str, str]) -> str:
    stem = name[: name.rindex(".")]
    prefix = ""
    if stem.startswith("model.layers."):
        _, _, layer, stem = stem.split(".", 3)
        prefix = f"blk.{layer}."
    return prefix + (others.get(stem) or NAMES[stem])


def interleave(rows: int, head: int) -> torch.Tensor:
    """Of every head's rows: the first, the first of its second half, the second, ..."""
    return torch.arange(rows).reshape(-1, 2, head // 2).transpose(1, 2).flatten()


def random_blocks(kind: Kind, name: str, shape: tuple) -> np.ndarray:
    """Blocks of random bytes with scales that make weights of about the usual size: the package cannot quantize to them."""
    rows, width = shape
    random = np.random.default_rng(zlib.crc32(name.encode()))
    size = {Kind.Q4_K: 144, Kind.Q6_K: 210}[kind]
    blocks = random.integers(0, 256, (rows, width // 256, size), dtype=np.uint8)
    unit = random.uniform(0.5, 1.0, blocks.shape[:2]) * 2 / width**0.5

    def put(at: int, values: np.ndarray) -> None:
        blocks[:, :, at : at + 2] = values.astype("<f2")[:, :, None].view(np.uint8)

    if kind == Kind.Q4_K:
        # d · s · q - dmin · m, of about equal size.
        put(0, unit / 8 / 32)
        put(2, unit / 32)
    else:
        # d · s · (q - 32), s in -128..127.
        put(208, unit / 16 / 64)
    return blocks.reshape(rows, -1)


def rope_factors(config, head: int) -> dict[str, list[float]]:
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        return {"rope_factors_long.weight": rope["long_factor"], "rope_factors_short.weight": rope["short_factor"]}
    if rope.get("rope_type") != "llama3":
        return {}
    # `LlamaModel.generate_extra_tensors`.
    factors = []
    low, high = (rope["original_max_position_embeddings"] / rope[f"{end}_freq_factor"] for end in ("low", "high"))
    for i in range(0, head, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head)
        if wavelength < high:
            factors.append(1)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"]
            )
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return {"rope_freqs.weight": factors}


def metadata(writer: gguf.GGUFWriter, file: Gguf, config) -> None:
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    writer.add_name(file.name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if file.architecture in ("qwen2moe", "qwen3moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if file.architecture == "gpt-oss":
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if file.architecture == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if file.architecture in ("llama", "qwen3", "qwen3moe", "gemma2", "gemma3", "gpt-oss"):
        writer.add_key_length(head)
        writer.add_value_length(head)
    if file.architecture in ("llama", "smollm3"):
        writer.add_rope_dimension_count(head)
    if file.architecture == "phi3":
        original = rope["original_max_position_embeddings"]
        stretch = config.max_position_embeddings / original
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head))
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)))
        writer.add_sliding_window(config.sliding_window or 0)
    if file.architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        writer.add_sliding_window(config.sliding_window)
    if file.architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        # Only where it is not 6 and 10,000, which llama.cpp takes for granted.
        writer.add_uint32("gemma3.attention.sliding_window_pattern", 3)
        writer.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])


def vocabulary(writer: gguf.GGUFWriter, config) -> None:
    """Enough of one that the file is whole: single pieces without merges."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"▁{i}" for i in range(3, config.vocab_size)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([2, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)


def byte_level_vocabulary(writer: gguf.GGUFWriter, config) -> None:
    """Pieces of byte-level BPE with a merge, and without `tokenizer.ggml.pre`."""
    pieces = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:?!'\"-") + ["Ġ", "Ċ", "th"]
    tokens = ["<unk>", "<s>", "</s>"] + pieces
    tokens += [f"<{i}>" for i in range(len(tokens), config.vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([2, 3, 3] + [1] * len(pieces) + [5] * (len(tokens) - 3 - len(pieces)))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
