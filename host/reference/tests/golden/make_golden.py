"""Makes the golden models: tiny random models of every family, and what the transformers library makes of them.

Run once, with the versions below, from this folder; the results are committed:

    python -m venv .venv
    .venv/bin/pip install torch==2.15.0 transformers==5.23.0 gguf==0.19.0 compressed-tensors==0.20.0 \
        sentence-transformers==6.2.0 peft==0.21.2 accelerate==1.15.0
    npm install --ignore-scripts --no-save @node-llama-cpp/linux-x64@3.22.1
    .venv/bin/python make_golden.py [NAME ...]

Each folder is a model as its maker would publish it: `config.json` and `model.safetensors` (or shards with an index, or
`model.gguf`, or its parts), and beside it what is expected:

- `golden.json`: `{"features": [..], "cases": [{"context": C, "tokens": [..], "positions": [..]}]}` for decoders, where the
  rotary tables are those of a context of C positions; `{"cases": [{"tokens": [..]}]}` for encoders, with `"types"` where
  tokens are of several types;
- of adapters (`adapters/BASE/ADAPTER`, see `adapters.py`) each case also has `"adapter"`;
- of a GGUF file also `"dequantized"`: the CRC-32 of every tensor as the gguf package dequantizes it; of a packed model as
  its definition does;
- of a model that scores pairs also `pairs.json`: texts and their scores by sentence-transformers (`cross_encoders.py`);
- of one that labels tokens also `entities.json`: texts and what transformers' pipeline finds in them (`token_classifiers.py`);
- of some that make vectors `texts.json`: texts and their vectors by sentence-transformers (`sentence_encoders.py`);
- `expected.f64`, little-endian f64: for every case, the logits `[positions, vocabulary]`; the vector `[width]`, or a vector for each
  token `[tokens, width]`.

What is expected is computed in float64 throughout: the stored weights (f32, f16, bf16) are widened without loss, and
wherever the library goes to f32 whatever the model's type (norms, softmax, rotary tables) it stays in f64 here
(`InFloat64`). One rounding of the library is kept, since it is part of what it computes: the factor of Gemma's embedding,
sqrt(hidden), is rounded to the type the weights are stored in.

`features` names what was switched off, one at a time, to see that it moves the logits: a decoder that leaves one out fails.
"""

import copy
import json
import pathlib
import shutil
import sys
import tempfile
import zlib
from dataclasses import replace

import torch
import transformers
from torch.overrides import TorchFunctionMode

from adapters import ADAPTED, golden_adapters
from cross_encoders import golden_pairs
from families import DECODERS, ENCODERS, FOUR, PASSING_ENCODERS, WIDE, WIDE_EXPERTS
from gguf_encoders import write_encoder
from gguf_files import ENCODER_FILES, FILES, write_gguf
from packed_files import PACKED, pack_model, part_of
from sentence_encoders import golden_texts
from token_classifiers import golden_entities
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
# How far a feature that is left out must move some logit; the tests' tolerances are far below.
VISIBLE = 1e-3


class InFloat64(TorchFunctionMode):
    """Whatever asks for f32 gets f64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def wide(value):
            return torch.float64 if value is torch.float32 else value

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


def main() -> None:
    wanted = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for family in DECODERS:
        if not wanted or family.name in wanted:
            make(family)
            golden_decoder(family)
            print(family.name, size(HERE / family.name))
    for family in ENCODERS:
        if not wanted or family.name in wanted:
            make(family)
            golden_encoder(family)
            print(family.name, size(HERE / family.name))
    for file in FILES:
        if not wanted or file.name in wanted:
            golden_gguf(file)
            print(file.name, size(HERE / file.name))
    for file in ENCODER_FILES:
        if not wanted or file.name in wanted:
            golden_gguf_encoder(file)
            print(file.name, size(HERE / file.name))
    for packed in PACKED:
        if not wanted or packed.name in wanted:
            golden_packed(packed)
            print(packed.name, size(HERE / packed.name))
    for adapted in ADAPTED:
        name = f"adapters/{adapted.base}"
        if not wanted or name in wanted:
            golden_adapters(adapted, HERE, load, run, write)
            print(name, size(HERE / name))


def size(folder: pathlib.Path) -> str:
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{total / 1024:.1f} KiB"


# --- models ---------------------------------------------------------------------------------------------------------


def make(family) -> None:
    """Writes a model's folder."""
    torch.manual_seed(zlib.crc32(family.name.encode()))
    folder = HERE / family.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = getattr(transformers, family.architecture)._from_config(family.config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            randomize(name, parameter, family)
    model = model.to(family.dtype)
    model.save_pretrained(folder, max_shard_size=family.shard or "5GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    text = json.loads((folder / "config.json").read_text())
    text.pop("transformers_version", None)
    if family.hub:
        text = family.hub(text)
    (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")


def randomize(name: str, parameter: torch.Tensor, family) -> None:
    """Weights that every part of the model shows through: nothing is 0 or 1, and attention is not nearly uniform."""
    if parameter.ndim == 1 and name.endswith("bias"):
        parameter.normal_(0, 0.4)
    elif parameter.ndim == 1:
        low = 0.5 - family.norm_offset
        parameter.uniform_(low, low + 1)
    elif "embed" in name:
        parameter.normal_(0, 0.7)
    elif family.pooling == "tokens" and name == "classifier.weight":
        # Labels that change from token to token, whatever the rows have in common.
        parameter.normal_(0, 4 / parameter.shape[-1] ** 0.5)
        parameter -= parameter.mean(0)
    else:
        # Of experts, which lie one after another, as of any other matrix.
        parameter.normal_(0, 1.3 / parameter.shape[-1] ** 0.5)


def load(family, folder, weights=None, **changes):
    """A model in float64, read from its folder as anybody would, with changes to its configuration or weights."""
    config = copy.deepcopy(family.config) if family.foreign else transformers.AutoConfig.from_pretrained(folder)
    for key, value in changes.items():
        assert hasattr(config, key), key
        setattr(config, key, value)
    with InFloat64():
        model = getattr(transformers, family.architecture).from_pretrained(
            # Experts one by one: the products of several at once know no f64.
            folder, config=config, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
        )
    if weights:
        model.load_state_dict(weights(model.state_dict()))
    for module in model.modules():
        if hasattr(module, "embed_scale"):
            exact = torch.tensor(module.scalar_embed_scale, dtype=torch.float64)
            module.embed_scale = exact.to(family.dtype).to(torch.float64)
    return model.eval()


# --- what is expected -----------------------------------------------------------------------------------------------


def golden_decoder(family) -> None:
    folder = HERE / family.name
    cases, expected = [], []
    for context, length in family.cases:
        tokens = torch.randint(0, family.config.vocab_size, (1, length))
        logits = run(load(family, folder), tokens)
        positions = sorted({0, 1, length // 3, length // 2, 2 * length // 3, length - 1})
        cases.append({"context": context, "tokens": tokens[0].tolist(), "positions": positions})
        expected.append(logits[positions])
    tokens = torch.tensor([cases[-1]["tokens"]])
    for feature, changes in family.features.items():
        moved = (run(load(family, folder, **copy.deepcopy(changes)), tokens)[positions] - expected[-1]).abs().max().item()
        print(f"  {family.name}: without {feature} a logit moves by {moved:.3f}")
        assert moved > VISIBLE, feature
    features = list(family.features)
    if family.norm_offset and family.dtype is not torch.float32:
        feature = "rounding of the embedding's factor"
        moved = (run(load(replace(family, dtype=torch.float32), folder), tokens)[positions] - expected[-1]).abs().max().item()
        print(f"  {family.name}: without {feature} a logit moves by {moved:.3f}")
        assert moved > VISIBLE, feature
        features.append(feature)
    write(folder, {"features": features, "cases": cases}, expected)


def run(model, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), InFloat64():
        logits = model(tokens, use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    return logits


def golden_encoder(family) -> None:
    folder = HERE / family.name
    model = load(family, folder)
    cases, expected = [], []
    for length in family.cases:
        tokens = torch.randint(3, family.config.vocab_size, (1, length))
        # Nothing is padded: with a mask of ones the RoBERTa family counts positions from the padding token's id on.
        given = {"attention_mask": torch.ones_like(tokens)}
        types = (torch.arange(length) > length // 3).long()[None]
        if family.pairs:
            given["token_type_ids"] = types
        vector = encode(family, model, tokens, given)
        cases.append({"tokens": tokens[0].tolist()} | ({"types": types[0].tolist()} if family.pairs else {}))
        expected.append(vector)
    write(folder, {"cases": cases}, expected)
    if family.pooling == "tokens":
        golden_entities(family, folder)
    if family.config.num_labels == 1:
        golden_pairs(family, folder)
    for file, text in family.files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(text, indent=1) + "\n")
    if family.texts:
        golden_texts(family, folder, model if family.foreign else None)


def encode(family, model, tokens: torch.Tensor, given: dict) -> torch.Tensor:
    """The vector of a text, or the scores of it or of each of its tokens."""
    with torch.no_grad(), InFloat64():
        out = model(tokens, **given)
    if family.pooling == "mean":
        vector = out.last_hidden_state[0].mean(0)
        vector = vector / vector.norm()
    elif family.pooling == "last":
        vector = out.last_hidden_state[0, -1]
        vector = vector / vector.norm()
    elif family.pooling == "first":
        vector = out.last_hidden_state[0, 0]
        vector = vector / vector.norm()
    else:
        vector = out.logits[0]
    assert vector.dtype == torch.float64
    return vector


def golden_gguf_encoder(file) -> None:
    """As `golden_gguf`, of an encoder."""
    family = next(family for family in ENCODERS + PASSING_ENCODERS if family.name == file.source)
    if file.passing:
        make(family)
        golden_encoder(family)
    source, folder = HERE / file.source, HERE / file.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = load(family, source)
    if file.pooling is None:
        held, sums = write_encoder(file, family, folder, model.config, model.state_dict())
    else:
        state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        held, sums = write_gguf(file, folder, model.config, state)
        held = {name.removeprefix("model."): tensor for name, tensor in held.items()}
    model.load_state_dict(held)
    golden = json.loads((source / "golden.json").read_text())
    expected = []
    for case in golden["cases"]:
        tokens = torch.tensor([case["tokens"]])
        given = {"attention_mask": torch.ones_like(tokens)}
        if family.pairs:
            given["token_type_ids"] = torch.tensor([case["types"]])
        expected.append(encode(family, model, tokens, given))
    write(folder, {"cases": golden["cases"], "dequantized": sums}, expected)
    if file.texts:
        # sentence-transformers reads the same model as a directory.
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            model.to(torch.float32).save_pretrained(directory)
            golden_texts(family, directory)
            shutil.copy(directory / "texts.json", folder)
    if file.passing:
        shutil.rmtree(source)


def golden_gguf(file) -> None:
    """A GGUF file has its source's tokens; what is expected is the source with the tensors that the file holds."""
    family = next(family for family in DECODERS + [WIDE, WIDE_EXPERTS, FOUR] if family.name == file.source)
    if file.passing:
        make(family)
        golden_decoder(family)
    source, folder = HERE / file.source, HERE / file.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # llama.cpp's factor of Gemma's embedding is f32 whatever the weights are.
    model = load(replace(family, dtype=torch.float32), source, **file.changes)
    held, sums = write_gguf(file, folder, model.config, model.state_dict())
    model.load_state_dict(held)
    golden = json.loads((source / "golden.json").read_text())
    expected = []
    for case in golden["cases"]:
        expected.append(run(model, torch.tensor([case["tokens"]]))[case["positions"]])
    write(folder, {"cases": golden["cases"], "dequantized": sums}, expected)
    if file.passing:
        shutil.rmtree(source)


def golden_packed(packed) -> None:
    """A packed model has its source's tokens; what is expected is the source with what its packed tensors say."""
    family = next(family for family in DECODERS if family.name == packed.source)
    source, folder = HERE / packed.source, HERE / packed.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    stored = {name: tensor for file in source.glob("*.safetensors") for name, tensor in load_file(file).items()}
    model = load(family, source)
    config = json.loads((source / "config.json").read_text())
    config, tensors, said = pack_model(packed, config, model.state_dict(), stored)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    model.load_state_dict(said)
    golden = json.loads((source / "golden.json").read_text())
    expected = []
    for case in golden["cases"]:
        expected.append(run(model, torch.tensor([case["tokens"]]))[case["positions"]])
    sums = {}
    for name in stored:
        tensor, name = in_order(name, part_of(said, name).to(torch.float32), tensors)
        sums[name] = zlib.crc32(tensor.numpy().tobytes())
    write(folder, {"cases": golden["cases"], "dequantized": sums}, expected)


def in_order(name: str, tensor: torch.Tensor, written: dict) -> tuple[torch.Tensor, str]:
    """A tensor in the order in which its parts are read, with the name it has in the file: gpt-oss's experts one after another,
    of each gate, then up, and the rows of their matrices one after another."""
    if f"{name}_blocks" in written:
        tensor, name = tensor.transpose(1, 2).contiguous(), f"{name}_blocks"
    if "experts.gate_up_proj" in name:
        tensor = torch.cat([tensor[:, 0::2], tensor[:, 1::2]], dim=1)
    return tensor, name


def write(folder: pathlib.Path, golden: dict, expected: list) -> None:
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    values = torch.cat([e.flatten() for e in expected])
    assert values.isfinite().all()
    (folder / "expected.f64").write_bytes(values.numpy().astype("<f8").tobytes())


if __name__ == "__main__":
    main()
