"""Makes the golden models: tiny random Llama models and the logits the transformers library gives for them.

Run once, with the versions below, from this folder; the results are committed:

    python -m venv .venv
    .venv/bin/pip install torch==2.15.0 transformers==5.23.0
    .venv/bin/python make_golden.py

Each folder gets `config.json` and `model.safetensors` as the library saves them, and `golden.json`:
`{"prompts": [{"tokens": [..], "logits": "<file>"}]}`; a logits file is `[tokens, vocabulary]` little-endian f32. The stored
weights (f32, f16 or bf16) are widened to float64 without loss and the model is run in float64, so the golden logits
differ from the true ones by the last rounding to f32 only.
"""

import json
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent

# name, stored dtype, configuration
MODELS = [
    (
        "gqa-tied-f32",
        torch.float32,
        dict(
            vocab_size=101, hidden_size=32, intermediate_size=86, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=True,
        ),
    ),
    (
        "odd-heads-untied-f16",
        torch.float16,
        dict(
            vocab_size=67, hidden_size=42, intermediate_size=43, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=3, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=False,
        ),
    ),
    (
        "theta-bf16",
        torch.bfloat16,
        dict(
            vocab_size=96, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
            num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        ),
    ),
]
PROMPT_LENGTHS = [5, 13]


def main() -> None:
    for index, (name, dtype, settings) in enumerate(MODELS):
        torch.manual_seed(1000 + index)
        folder = HERE / name
        # Wide initial weights: near-zero ones would leave logits that any decoder gets right.
        config = LlamaConfig(
            **settings, max_position_embeddings=64, initializer_range=0.3, bos_token_id=1, eos_token_id=2, pad_token_id=None
        )
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if key.endswith("norm.weight"):
                    parameter.uniform_(0.5, 1.5)
        model = model.to(dtype)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)

        model = model.to(torch.float64).eval()
        # The rotary frequencies are a buffer that was made in f32: make it again in f64.
        theta = config.rope_parameters["rope_theta"]
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
        model.model.rotary_emb.inv_freq = theta ** (-half / config.head_dim)
        forward_in_float64(model)
        prompts = []
        for number, length in enumerate(PROMPT_LENGTHS):
            tokens = torch.randint(0, config.vocab_size, (1, length))
            with torch.no_grad():
                logits = model(tokens).logits[0]
            assert logits.dtype == torch.float64
            file = f"logits-{number}.f32"
            (folder / file).write_bytes(logits.to(torch.float32).numpy().astype("<f4").tobytes())
            prompts.append({"tokens": tokens[0].tolist(), "logits": file})
        (folder / "golden.json").write_text(json.dumps({"prompts": prompts}) + "\n")


def forward_in_float64(model: LlamaForCausalLM) -> None:
    """The library computes norms and rotary tables in f32 whatever the model's dtype; here they stay in f64."""

    def norm(module, hidden):
        variance = hidden.pow(2).mean(-1, keepdim=True)
        return module.weight * hidden * torch.rsqrt(variance + module.variance_epsilon)

    def rotary(module, hidden, position_ids):
        angles = position_ids[:, :, None].to(torch.float64) * module.inv_freq[None, None, :]
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = norm.__get__(module)
        if type(module).__name__ == "LlamaRotaryEmbedding":
            module.forward = rotary.__get__(module)


if __name__ == "__main__":
    main()
