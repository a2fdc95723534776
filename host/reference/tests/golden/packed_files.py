"""Golden models as other quantizers publish them: GPTQ, AWQ, compressed-tensors, 8-bit floats.

The packing is that of the tools themselves:
- GPTQ: `QuantLinear.pack` of AutoGPTQ 0.7.1 (`qlinear_cuda_old.py`): words of eight (or four) elements of a column, zero
  points less one; `g_idx` names the group of each element;
- AWQ: `WQLinear_GEMM.from_linear` of autoawq 0.2.9: words of eight columns in the order 0, 2, 4, 6, 1, 3, 5, 7;
- compressed-tensors: `pack_to_int32` of the package itself;
- MXFP4: blocks and scales of gpt-oss's experts, which transformers' own `convert_moe_packed_tensors` reads back;
- 8-bit floats: torch's own `float8_e4m3fn`, scales as `weight_scale_inv` for blocks (transformers' finegrained_fp8) or
  `weight_scale` for rows.
What is expected is the source with what these tensors say, in float64.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


@dataclass
class Packed:
    name: str
    # The golden model it is made from.
    source: str
    # `quantization_config`.
    config: dict
    # From a matrix's name and itself: the tensors that take the place of `.weight`, and what they say.
    pack: Callable[[str, torch.Tensor], tuple[dict[str, torch.Tensor], torch.Tensor]] | None
    # What a name must hold to be packed.
    matrices: tuple[str, ...] = ("self_attn", "mlp")


def numbers(matrix: torch.Tensor, bits: int, groups: torch.Tensor, symmetric: bool, scale_type: torch.dtype):
    """Whole numbers `[rows, width]`, zero points and scales `[rows, groups]`, and what they say in float64."""
    most = 2**bits - 1
    rows, width = matrix.shape
    count = int(groups.max()) + 1
    zeros, scales = torch.zeros(rows, count, dtype=torch.int64), torch.zeros(rows, count, dtype=torch.float64)
    wide = matrix.to(torch.float64)
    for group in range(count):
        part = wide[:, groups == group]
        if symmetric:
            scales[:, group] = 2 * part.abs().amax(1) / most
            zeros[:, group] = (most + 1) // 2
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, group] = (high - low) / most
            zeros[:, group] = (-low / scales[:, group]).round().clamp(1, most)
    scales = scales.to(scale_type)
    each = scales.to(torch.float64)[:, groups]
    whole = ((wide / each).round() + zeros[:, groups]).clamp(0, most).to(torch.int64)
    return whole, zeros, scales, (whole - zeros[:, groups]).to(torch.float64) * each


def words(values: np.ndarray, bits: int, order=None) -> torch.Tensor:
    """`[n, m]` whole numbers to `[n / per, m]` words along the first axis."""
    per = 32 // bits
    order = order or list(range(per))
    out = np.zeros((values.shape[0] // per, values.shape[1]), dtype=np.uint32)
    for place in range(per):
        out |= values[order[place] :: per].astype(np.uint32) << np.uint32(bits * place)
    return torch.from_numpy(out.view(np.int32).copy())


def gptq(bits: int, size: int | None, symmetric: bool, by_order: bool = False, zeros_less: int = 1):
    def pack(name: str, matrix: torch.Tensor):
        width = matrix.shape[1]
        groups = torch.arange(width) // (size or width)
        if by_order:
            groups = groups[torch.randperm(width, generator=torch.Generator().manual_seed(len(name)))]
        whole, zeros, scales, said = numbers(matrix, bits, groups, symmetric, torch.float16)
        return {
            "qweight": words(whole.T.numpy(), bits),
            "qzeros": words((zeros - zeros_less).numpy(), bits).T.contiguous(),
            "scales": scales.T.contiguous(),
            "g_idx": groups.to(torch.int32),
        }, said

    return pack


def awq(size: int):
    def pack(name: str, matrix: torch.Tensor):
        groups = torch.arange(matrix.shape[1]) // size
        whole, zeros, scales, said = numbers(matrix, 4, groups, False, torch.float16)
        return {
            "qweight": words(whole.numpy(), 4, AWQ_ORDER).T.contiguous(),
            "qzeros": words(zeros.numpy(), 4, AWQ_ORDER).T.contiguous(),
            "scales": scales.T.contiguous(),
        }, said

    return pack


def compressed_words(bits: int, size: int | None, symmetric: bool):
    def pack(name: str, matrix: torch.Tensor):
        groups = torch.arange(matrix.shape[1]) // (size or matrix.shape[1])
        whole, zeros, scales, said = numbers(matrix, bits, groups, symmetric, torch.bfloat16)
        half = 2 ** (bits - 1)
        tensors = {
            "weight_packed": pack_to_int32((whole - half).to(torch.int8), bits),
            "weight_scale": scales,
            "weight_shape": torch.tensor(matrix.shape),
        }
        if not symmetric:
            tensors["weight_zero_point"] = pack_to_int32((zeros - half).to(torch.int8), bits, packed_dim=0).contiguous()
        return tensors, said

    return pack


def compressed_bytes():
    def pack(name: str, matrix: torch.Tensor):
        wide = matrix.to(torch.float64)
        scales = (wide.abs().amax(1, keepdim=True) / 127).to(torch.bfloat16)
        whole = (wide / scales.to(torch.float64)).round().clamp(-128, 127).to(torch.int8)
        return {"weight": whole, "weight_scale": scales}, whole.to(torch.float64) * scales.to(torch.float64)

    return pack


def fp8(block: tuple[int, int] | None):
    def pack(name: str, matrix: torch.Tensor):
        wide = matrix.to(torch.float64)
        rows, width = wide.shape
        high, across = block or (1, width)
        down, wide_blocks = -(-rows // high), -(-width // across)
        scales = torch.zeros(down, wide_blocks, dtype=torch.float32)
        each = torch.zeros_like(wide)
        for i in range(down):
            for j in range(wide_blocks):
                part = (slice(i * high, (i + 1) * high), slice(j * across, (j + 1) * across))
                scales[i, j] = wide[part].abs().max() / 448
                each[part] = scales[i, j].to(torch.float64)
        eight = (wide / each).to(torch.float32).to(torch.float8_e4m3fn)
        scale = "weight_scale_inv" if block else "weight_scale"
        return {"weight": eight, scale: scales}, eight.to(torch.float64) * each

    return pack


def mxfp4(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks `[experts, rows, width / 32, 16]` and scales `[experts, rows, width / 32]` of `[experts, width, rows]`."""
    groups = matrices.to(torch.float64).transpose(1, 2).unflatten(2, (-1, 32))
    exponents = groups.abs().amax(-1).log2().floor() - 2
    values = torch.tensor(FP4_VALUES, dtype=torch.float64)
    wanted = groups / 2 ** exponents[..., None]
    codes = (wanted[..., None] - values).abs().argmin(-1)
    # A zero keeps its sign.
    codes[(codes == 0) & (wanted < 0)] = 8
    blocks = codes[..., 0::2] | codes[..., 1::2] << 4
    return blocks.to(torch.uint8), (exponents + 127).to(torch.uint8)


def compressed(weights: dict, format: str, *ignored: str) -> dict:
    return {
        "quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
        "ignore": ["lm_head", *ignored],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}},
    }


PACKED = [
    Packed(
        "gptq-llama-int4", "llama-tied-sharded-f32",
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True},
        gptq(4, 32, True),
    ),
    Packed(
        "gptq-llama-int4-by-order", "llama-tied-sharded-f32",
        {"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": True, "sym": False},
        gptq(4, 8, False, by_order=True),
    ),
    Packed(
        "gptq-phi3-int8", "phi3-longrope-f16",
        {
            "quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False, "sym": True,
            "checkpoint_format": "gptq_v2",
        },
        gptq(8, None, True, zeros_less=0),
    ),
    Packed(
        "awq-qwen2-int4", "qwen2-bf16",
        {"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm", "zero_point": True},
        awq(16),
    ),
    Packed(
        "compressed-llama-int4", "llama-tied-sharded-f32",
        compressed({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}, "pack-quantized"),
        compressed_words(4, 32, True),
    ),
    Packed(
        "compressed-mistral-int4-zeros", "mistral-bf16",
        compressed({"num_bits": 4, "type": "int", "strategy": "channel", "symmetric": False}, "pack-quantized"),
        compressed_words(4, None, False),
    ),
    Packed(
        "compressed-llama-int8", "llama3-rope-bf16",
        compressed({"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}, "int-quantized"),
        compressed_bytes(),
    ),
    Packed(
        "fp8-qwen3-blocks", "qwen3-f16",
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 20]},
        fp8((16, 20)),
    ),
    Packed(
        "compressed-llama-fp8", "llama3-rope-bf16",
        compressed({"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}, "float-quantized"),
        fp8(None),
    ),
    # Experts, each by itself as they are published; what chooses them stays as it is.
    Packed(
        "gptq-qwen3-moe-int4", "qwen3-moe-all-window-bf16",
        {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False, "sym": False},
        gptq(4, 16, False),
        ("self_attn", "experts"),
    ),
    Packed(
        "awq-mixtral-int4", "mixtral-one-f32",
        {
            "quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True,
            "modules_to_not_convert": ["gate"],
        },
        awq(32),
        ("self_attn", "experts"),
    ),
    Packed(
        "compressed-qwen3-moe-int4", "qwen3-moe-all-window-bf16",
        compressed(
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}, "pack-quantized",
            "re:.*mlp.gate$",
        ),
        compressed_words(4, 32, True),
        ("self_attn", "experts"),
    ),
    Packed(
        "fp8-qwen3-moe-blocks", "qwen3-moe-f16",
        {
            "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 20],
            "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate", "model.layers.2.mlp.gate"],
        },
        fp8((16, 20)),
        ("self_attn", "experts", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    ),
    Packed(
        "gpt-oss-mxfp4", "gpt-oss-all-f16",
        {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
        None,
    ),
]


# A matrix of one expert, as its maker names it, and Mixtral's names of the three.
EXPERT = re.compile(r"(.*\.)(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")
MIXTRAL = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


def part_of(state: dict, name: str) -> torch.Tensor:
    """The part of transformers' state that a tensor of a file is: experts lie together there, each gate above its up."""
    expert = EXPERT.fullmatch(name)
    if not expert:
        return state[name.replace("block_sparse_moe.gate", "mlp.gate")]
    layer, index, matrix = expert.groups()
    matrix = MIXTRAL.get(matrix, matrix)
    if matrix == "down_proj":
        return state[f"{layer}mlp.experts.down_proj"][int(index)]
    gate, up = state[f"{layer}mlp.experts.gate_up_proj"][int(index)].chunk(2)
    return gate if matrix == "gate_proj" else up


def pack_model(packed: Packed, config: dict, state: dict, stored: dict):
    """`config.json` and the tensors of a packed model, and the state that they say. `stored` is as the source stores it."""
    config = config | {"quantization_config": packed.config}
    tensors, said = {}, {name: tensor.clone() for name, tensor in state.items()}
    for name, tensor in stored.items():
        if packed.pack is None and name.endswith(("gate_up_proj", "down_proj")):
            blocks, scales = mxfp4(tensor)
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks, scales
            says = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).to(torch.float64)
            assert says.shape == said[name].shape and (says - tensor).abs().max() < 0.2
            said[name] = says
            continue
        if packed.pack is None or not name.endswith(".weight") or tensor.ndim != 2 or not any(part in name for part in packed.matrices):
            tensors[name] = tensor
            continue
        parts, says = packed.pack(name, tensor)
        for part, value in parts.items():
            tensors[name.removesuffix("weight") + part] = value
        part = part_of(said, name)
        assert says.shape == part.shape
        part.copy_(says)
    return config, tensors, said
