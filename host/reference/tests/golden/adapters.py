"""Golden adapters: low-rank adapters (LoRA) of the golden models, as peft 0.21.2 writes them.

Each base has a folder under `adapters/`, with a folder for each adapter (`adapter_config.json` and
`adapter_model.safetensors`, as `save_pretrained` names and lays them out), and beside them what is expected, as beside a
model: every case of `golden.json` names its adapter. What is expected is the base in float64, of a quantized file what the
file holds, with the adapter as peft reads it back.
"""

import json
import pathlib
import shutil
import tempfile
import zlib
from dataclasses import dataclass, field, replace

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from families import BF16, DECODERS, F16, F32
from gguf_files import FILES, write_gguf
from packed_files import PACKED, pack_model

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]


@dataclass
class Adapter:
    name: str
    # Of `LoraConfig`.
    config: dict
    # How its tensors are stored.
    dtype: torch.dtype = F32


@dataclass
class Adapted:
    """Adapters of a golden model, in any of the lists."""

    base: str
    adapters: list[Adapter] = field(default_factory=list)


def adapter(name, r, alpha, targets, dtype=F32, **more) -> Adapter:
    return Adapter(name, {"r": r, "lora_alpha": alpha, "target_modules": targets, **more}, dtype)


# Every kind of module by itself, odd ranks, both scalings, some layers, and what patterns say of one module.
KINDS = [
    adapter("query", 1, 3, ["q_proj"]),
    adapter("key", 3, 2, ["k_proj"], F16),
    adapter("value", 8, 16, ["v_proj"], BF16),
    adapter("output", 17, 8, ["o_proj"], use_rslora=True),
    adapter("gate", 3, 7, ["gate_proj"]),
    adapter("up", 8, 8, ["up_proj"]),
    adapter("down", 1, 1, ["down_proj"], use_rslora=True),
    adapter("all", 8, 12, ATTENTION + MLP, F16),
    adapter("wide", 17, 20, ATTENTION + MLP, use_rslora=True),
    adapter("one-layer", 3, 5, ATTENTION + MLP, layers_to_transform=[1], layers_pattern="layers"),
    adapter("by-expression", 5, 10, r".*layers\.0\.(self_attn\.(q|v)_proj|mlp\.up_proj)"),
    adapter(
        "patterns",
        4,
        6,
        ATTENTION + MLP,
        rank_pattern={"k_proj": 9, r"layers\.1\.mlp\.gate_proj": 2},
        alpha_pattern={"down_proj": 11, "k_proj": 3},
    ),
]
FEW = [KINDS[7], KINDS[8], KINDS[9]]

ADAPTED = [
    Adapted("llama-odd-f16", KINDS),
    Adapted("llama-tied-sharded-f32", FEW),
    Adapted("llama-linear-bias-f16", FEW),
    Adapted("qwen2-bf16", FEW),
    Adapted("qwen3-f16", FEW),
    Adapted("gemma2-f32", FEW),
    Adapted("phi3-bf16", [adapter("fused", 5, 9, ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])]),
    Adapted("qwen3-moe-f16", [adapter("attention", 3, 6, ATTENTION)]),
    Adapted("gguf-llama-q8_0", FEW),
    Adapted("gguf-llama-q4_0", FEW),
    Adapted("gptq-llama-int4", FEW),
    Adapted("compressed-llama-int8", FEW),
]


def base_model(name: str, here: pathlib.Path, load):
    """A golden model in float64, of a quantized file with what the file holds."""
    for file in FILES:
        if file.name == name:
            family = next(family for family in DECODERS if family.name == file.source)
            model = load(replace(family, dtype=F32), here / file.source, **file.changes)
            with tempfile.TemporaryDirectory() as folder:
                held, _ = write_gguf(file, pathlib.Path(folder), model.config, model.state_dict())
            model.load_state_dict(held)
            return model
    for packed in PACKED:
        if packed.name == name:
            family = next(family for family in DECODERS if family.name == packed.source)
            source = here / packed.source
            model = load(family, source)
            stored = {key: tensor for file in source.glob("*.safetensors") for key, tensor in load_file(file).items()}
            _, _, said = pack_model(packed, json.loads((source / "config.json").read_text()), model.state_dict(), stored)
            model.load_state_dict(said)
            return model
    family = next(family for family in DECODERS if family.name == name)
    return load(family, here / name)


def write_adapter(adapter: Adapter, model, folder: pathlib.Path) -> None:
    """An adapter as it is published."""
    torch.manual_seed(zlib.crc32(f"{folder.parent.name}/{adapter.name}".encode()))
    made = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **adapter.config))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                # So that each matrix has about a quarter of the adapted one's say, whatever the scale.
                parameter.normal_(0, 0.4 / parameter.shape[-1] ** 0.5)
    made.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_model.safetensors"
    tensors = {name: tensor.to(adapter.dtype) for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = folder.parent.name
    for key in ("target_modules",):
        if isinstance(config[key], list):
            config[key].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    made.unload()


def golden_adapters(adapted: Adapted, here: pathlib.Path, load, run, write) -> None:
    folder = here / "adapters" / adapted.base
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cases, expected = [], []
    golden = json.loads((here / adapted.base / "golden.json").read_text())
    case = golden["cases"][0]
    tokens = torch.tensor([case["tokens"]])
    positions = case["positions"]
    plain = run(base_model(adapted.base, here, load), tokens)[positions]
    for adapter in adapted.adapters:
        write_adapter(adapter, base_model(adapted.base, here, load), folder / adapter.name)
        model = PeftModel.from_pretrained(base_model(adapted.base, here, load), folder / adapter.name)
        model = model.to(torch.float64).eval()
        logits = run(model, tokens)[positions]
        moved = (logits - plain).abs().max().item()
        print(f"  {adapted.base}: with {adapter.name} a logit moves by {moved:.3f}")
        assert moved > 1e-3, adapter.name
        cases.append({"adapter": adapter.name, "context": case["context"], "tokens": case["tokens"], "positions": positions})
        expected.append(logits)
    write(folder, {"cases": cases}, expected)
