"""The golden models: a configuration for every family, and what can be left out of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from transformers import (
    BertConfig,
    DistilBertConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    ModernBertConfig,
    NomicBertConfig,
    Phi3Config,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    RobertaConfig,
    SmolLM3Config,
    XLMRobertaConfig,
)

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


@dataclass
class Family:
    name: str
    architecture: str
    config: object
    # How weights are stored.
    dtype: torch.dtype
    # Decoders: (context, tokens); encoders: tokens.
    cases: list
    # What can be switched off: changes to the configuration, or `weights`, a function on the state dictionary.
    features: dict[str, dict] = field(default_factory=dict)
    # Rewrites config.json from the layout of transformers 5 to that in which most models were published.
    hub: Callable[[dict], dict] | None = None
    # Norms store weight - norm_offset.
    norm_offset: float = 0.0
    # Largest file.
    shard: str | None = None
    # Encoders: "mean", "first", "last", "classes" or, of each token, "tokens".
    pooling: str = "classes"
    # Encoders: whether tokens are of two types.
    pairs: bool = False
    # Encoders: whether sentence-transformers is asked for vectors of texts as well.
    texts: bool = False
    # config.json has keys that transformers does not read.
    foreign: bool = False
    # Files beside the model.
    files: dict[str, dict] = field(default_factory=dict)


def hub(scaling_key: str = "rope_type") -> Callable[[dict], dict]:
    """`rope_theta` and `rope_scaling` at the top, `torch_dtype`, no layer types."""

    def rewrite(text: dict) -> dict:
        rope = text.pop("rope_parameters")
        text["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        if "partial_rotary_factor" in rope:
            text["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        text["rope_scaling"] = None if kind == "default" else {scaling_key: kind, **rope}
        text["torch_dtype"] = text.pop("dtype")
        text.pop("layer_types", None)
        return text

    return rewrite


def hub_qwen2(text: dict) -> dict:
    """Names a window that is not used."""
    return hub()(text) | {"sliding_window": 8}


def hub_phi3(text: dict) -> dict:
    original = text["rope_parameters"].pop("original_max_position_embeddings", None)
    text = hub("type")(text)
    if original:
        text["original_max_position_embeddings"] = original
    return text


def hub_gemma3(text: dict) -> dict:
    ropes = text.pop("rope_parameters")
    text["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
    text["rope_theta"] = ropes["full_attention"].pop("rope_theta")
    text["rope_scaling"] = ropes["full_attention"]
    text.pop("layer_types")
    text.pop("_sliding_window_pattern", None)
    text["sliding_window_pattern"] = 3
    text["torch_dtype"] = text.pop("dtype")
    return text


def hub_moe(text: dict) -> dict:
    """Experts are counted by the name that the first files have."""
    text = hub()(text)
    text["num_experts"] = text.pop("num_local_experts", None) or text.pop("num_experts")
    return text


def filled(ending: str, value: float) -> dict:
    """Tensors of this name are all `value`."""

    def change(state: dict) -> dict:
        assert any(name.endswith(ending) for name in state), ending
        return {name: torch.full_like(t, value) if name.endswith(ending) else t for name, t in state.items()}

    return {"weights": change}


def hub_gpt_oss(text: dict) -> dict:
    """As it was published: layer types written out."""
    types = text["layer_types"]
    return hub()(text) | {"layer_types": types}


def last_expert(ending: str) -> dict:
    """Of the tensor of this name the last expert's part is 0."""

    def change(state: dict) -> dict:
        names = [name for name in state if name.endswith(ending)]
        assert names, ending
        for name in names:
            state[name] = state[name].clone()
            state[name][-1] = 0
        return state

    return {"weights": change}


def shapes(vocabulary, hidden, intermediate, layers, heads, kv_heads, **more) -> dict:
    common = dict(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
        max_position_embeddings=64,
    )
    return common | more


PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}

DECODERS = [
    Family(
        "llama-tied-sharded-f32",
        "LlamaForCausalLM",
        LlamaConfig(**shapes(80, 32, 64, 2, 4, 2, head_dim=8, rms_norm_eps=1e-6, tie_word_embeddings=True)),
        F32,
        [(64, 5), (64, 29)],
        shard="50KB",
    ),
    Family(
        # No width is a multiple of four.
        "llama-odd-f16",
        "LlamaForCausalLM",
        LlamaConfig(**shapes(67, 42, 43, 3, 6, 3, head_dim=6, rms_norm_eps=1e-5)),
        F16,
        [(64, 5), (64, 24)],
        hub=hub(),
    ),
    Family(
        "llama3-rope-bf16",
        "LlamaForCausalLM",
        LlamaConfig(
            **shapes(72, 32, 40, 2, 4, 1, head_dim=16, rms_norm_eps=1e-5),
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
            },
        ),
        BF16,
        [(64, 40)],
        {"rope scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}},
        hub=hub(),
    ),
    Family(
        "llama-linear-bias-f16",
        "LlamaForCausalLM",
        LlamaConfig(
            **shapes(64, 24, 40, 2, 3, 3, attention_bias=True),
            rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        ),
        F16,
        [(64, 30)],
        {
            "rope scaling": {"rope_parameters": PLAIN_ROPE},
            "query bias": filled("q_proj.bias", 0.0),
            "value bias": filled("v_proj.bias", 0.0),
            "output bias": filled("o_proj.bias", 0.0),
        },
        hub=hub("type"),
    ),
    Family(
        "llama-yarn-bf16",
        "LlamaForCausalLM",
        LlamaConfig(
            **shapes(64, 32, 40, 2, 2, 1, max_position_embeddings=256),
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64,
            },
        ),
        BF16,
        [(256, 40)],
        {
            "rope scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
            "attention factor": {
                "rope_parameters": {
                    "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64,
                    "attention_factor": 1.0,
                }
            },
        },
    ),
    Family(
        "smollm3-bf16",
        "SmolLM3ForCausalLM",
        SmolLM3Config(
            **shapes(64, 32, 40, 3, 4, 2, tie_word_embeddings=True, no_rope_layers=[1, 0, 1]),
            rope_parameters=PLAIN_ROPE,
        ),
        BF16,
        [(64, 26)],
        {"layer without rope": {"no_rope_layers": [1, 1, 1]}},
        hub=hub(),
    ),
    Family(
        "mistral-bf16",
        "MistralForCausalLM",
        MistralConfig(
            **shapes(64, 24, 48, 3, 4, 2, head_dim=8, sliding_window=9), rope_parameters=PLAIN_ROPE
        ),
        BF16,
        [(64, 7), (64, 40)],
        {
            "window": {"sliding_window": None},
            "window one shorter": {"sliding_window": 8},
            "window one longer": {"sliding_window": 10},
        },
        hub=hub(),
    ),
    Family(
        "qwen2-bf16",
        "Qwen2ForCausalLM",
        Qwen2Config(
            **shapes(64, 32, 48, 2, 4, 2, tie_word_embeddings=True, sliding_window=8, use_sliding_window=False),
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        BF16,
        [(64, 30)],
        {
            "query bias": filled("q_proj.bias", 0.0),
            "value bias": filled("v_proj.bias", 0.0),
            # Adds the same to every score but for the turning by position.
            "key bias": filled("k_proj.bias", 0.0),
        },
        hub=hub_qwen2,
    ),
    Family(
        "qwen2-window-f16",
        "Qwen2ForCausalLM",
        Qwen2Config(
            **shapes(64, 24, 40, 3, 4, 2, sliding_window=8, use_sliding_window=True, max_window_layers=1),
            rope_parameters=PLAIN_ROPE,
        ),
        F16,
        [(64, 30)],
        {
            "windows": {"layer_types": ["full_attention"] * 3},
            "first layer without window": {"layer_types": ["sliding_attention"] * 3},
        },
        hub=hub(),
    ),
    Family(
        "qwen3-f16",
        "Qwen3ForCausalLM",
        Qwen3Config(**shapes(64, 24, 40, 2, 4, 2, head_dim=16, tie_word_embeddings=True), rope_parameters=PLAIN_ROPE),
        F16,
        [(64, 28)],
        {"query norm's weight": filled("q_norm.weight", 1.0), "key norm's weight": filled("k_norm.weight", 1.0)},
        hub=hub(),
    ),
    Family(
        "phi3-bf16",
        "Phi3ForCausalLM",
        Phi3Config(**shapes(64, 24, 40, 2, 3, 3, sliding_window=10), rope_parameters=PLAIN_ROPE),
        BF16,
        [(64, 30)],
        {"window": {"sliding_window": None}},
        hub=hub_phi3,
    ),
    Family(
        "phi3-longrope-f16",
        "Phi3ForCausalLM",
        Phi3Config(
            **shapes(64, 32, 40, 2, 2, 1, original_max_position_embeddings=16),
            rope_parameters={
                "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                "original_max_position_embeddings": 16,
                "short_factor": [1.0, 1.1, 1.3, 1.2, 1.6, 2.0], "long_factor": [1.0, 1.5, 2.2, 4.0, 9.0, 16.0],
            },
        ),
        F16,
        # The first is within the original context and turns by the short factors.
        [(16, 15), (64, 40)],
        {
            "long factors": {
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}
            },
            "attention factor": {
                "rope_parameters": {
                    "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                    "original_max_position_embeddings": 16, "attention_factor": 1.0,
                    "short_factor": [1.0, 1.1, 1.3, 1.2, 1.6, 2.0], "long_factor": [1.0, 1.5, 2.2, 4.0, 9.0, 16.0],
                }
            },
            "long apart from short": {
                "rope_parameters": {
                    "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                    "original_max_position_embeddings": 16,
                    "short_factor": [1.0, 1.1, 1.3, 1.2, 1.6, 2.0], "long_factor": [1.0, 1.1, 1.3, 1.2, 1.6, 2.0],
                }
            },
        },
        hub=hub_phi3,
    ),
    Family(
        "gemma2-f32",
        "Gemma2ForCausalLM",
        Gemma2Config(
            **shapes(
                64, 24, 32, 2, 4, 2, head_dim=8, query_pre_attn_scalar=20, sliding_window=9,
                attn_logit_softcapping=4.0, final_logit_softcapping=5.0, tie_word_embeddings=True,
            ),
            rope_parameters=PLAIN_ROPE,
        ),
        F32,
        [(64, 8), (64, 30)],
        {
            "attention softcap": {"attn_logit_softcapping": None},
            "logit softcap": {"final_logit_softcapping": None},
            "attention scale": {"query_pre_attn_scalar": 8},
            "window": {"layer_types": ["full_attention"] * 2},
            "alternation": {"layer_types": ["full_attention", "sliding_attention"]},
            "gelu": {"hidden_activation": "silu"},
            "tanh in gelu": {"hidden_activation": "gelu"},
            "norm after attention": filled("post_attention_layernorm.weight", 0.0),
        },
        hub=hub(),
        norm_offset=1.0,
    ),
    Family(
        "gemma3-bf16",
        "Gemma3ForCausalLM",
        Gemma3TextConfig(
            **shapes(
                64, 24, 40, 3, 4, 2, head_dim=8, query_pre_attn_scalar=20, sliding_window=9, tie_word_embeddings=True,
                sliding_window_pattern=3,
            ),
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        ),
        BF16,
        [(64, 8), (64, 40)],
        {
            "attention scale": {"query_pre_attn_scalar": 8},
            "windows": {"layer_types": ["full_attention"] * 3},
            "query norm's weight": filled("q_norm.weight", 0.0),
            "key norm's weight": filled("k_norm.weight", 0.0),
            "norm after the feed-forward layer": filled("post_feedforward_layernorm.weight", 0.0),
            "local rope": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
                    "sliding_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
                }
            },
            "global rope's scaling": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                }
            },
        },
        hub=hub_gemma3,
        norm_offset=1.0,
    ),
]


DECODERS += [
    Family(
        # Heads of 40 that do not divide the width; no width or count is a multiple of four.
        "qwen3-moe-f16",
        "Qwen3MoeForCausalLM",
        Qwen3MoeConfig(
            **shapes(67, 42, 43, 3, 3, 1, head_dim=40, tie_word_embeddings=True),
            rope_parameters=PLAIN_ROPE, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=22,
            norm_topk_prob=True, mlp_only_layers=[1],
        ),
        F16,
        [(64, 5), (64, 28)],
        {
            "weights that sum to 1": {"norm_topk_prob": False},
            "one expert fewer": {"num_experts_per_tok": 2},
            "the last expert": last_expert("experts.down_proj"),
            "query norm's weight": filled("q_norm.weight", 1.0),
        },
        hub=hub_moe,
    ),
    Family(
        # Every expert is chosen, and weights are shares of all; every second layer has experts. As transformers 5 writes it.
        "qwen3-moe-all-window-bf16",
        "Qwen3MoeForCausalLM",
        Qwen3MoeConfig(
            **shapes(50, 64, 96, 3, 4, 2, head_dim=96), rope_parameters=PLAIN_ROPE, num_experts=4,
            num_experts_per_tok=4, moe_intermediate_size=32, norm_topk_prob=False, decoder_sparse_step=2,
            use_sliding_window=True, sliding_window=9, attention_bias=True,
        ),
        BF16,
        [(64, 30)],
        {
            "window": {"sliding_window": None},
            "output bias": filled("o_proj.bias", 0.0),
            "one expert fewer": {"num_experts_per_tok": 3},
        },
    ),
    Family(
        "mixtral-bf16",
        "MixtralForCausalLM",
        MixtralConfig(
            **shapes(70, 24, 36, 2, 4, 2, head_dim=8, sliding_window=11), num_local_experts=8, num_experts_per_tok=2,
            rope_parameters=PLAIN_ROPE,
        ),
        BF16,
        [(64, 7), (64, 40)],
        {
            "window": {"sliding_window": None},
            "one expert fewer": {"num_experts_per_tok": 1},
            "the last gate and up": last_expert("experts.gate_up_proj"),
        },
        hub=hub(),
    ),
    Family(
        # One expert, which every row goes through; no window.
        "mixtral-one-f32",
        "MixtralForCausalLM",
        MixtralConfig(
            **shapes(64, 32, 64, 2, 4, 2), num_local_experts=1, num_experts_per_tok=1, rope_parameters=PLAIN_ROPE
        ),
        F32,
        [(64, 20)],
        hub=hub(),
    ),
    Family(
        # Heads of 40 that do not divide the width; no width or count is a multiple of four. No window.
        "mixtral-odd-f16",
        "MixtralForCausalLM",
        MixtralConfig(
            **shapes(67, 42, 23, 2, 3, 1, head_dim=40), num_local_experts=5, num_experts_per_tok=3,
            rope_parameters=PLAIN_ROPE,
        ),
        F16,
        [(64, 5), (64, 28)],
        {"one expert fewer": {"num_experts_per_tok": 2}, "the last expert": last_expert("experts.down_proj")},
        hub=hub(),
    ),
    Family(
        # One expert, whose share is always 1; heads of 96.
        "qwen3-moe-one-bf16",
        "Qwen3MoeForCausalLM",
        Qwen3MoeConfig(
            **shapes(45, 42, 43, 2, 2, 1, head_dim=96, tie_word_embeddings=True), rope_parameters=PLAIN_ROPE,
            num_experts=1, num_experts_per_tok=1, moe_intermediate_size=22, norm_topk_prob=True,
        ),
        BF16,
        [(64, 5), (64, 26)],
        {"the only expert": last_expert("experts.down_proj")},
        hub=hub_moe,
    ),
    Family(
        # Heads of 40; all experts are chosen, and none of the counts is a multiple of four.
        "qwen2-moe-all-bf16",
        "Qwen2MoeForCausalLM",
        Qwen2MoeConfig(
            **shapes(67, 80, 43, 2, 2, 1), rope_parameters=PLAIN_ROPE, num_experts=3, num_experts_per_tok=3,
            moe_intermediate_size=18, shared_expert_intermediate_size=27, norm_topk_prob=True,
        ),
        BF16,
        [(64, 6), (64, 27)],
        {
            "one expert fewer": {"num_experts_per_tok": 2},
            "shared expert": filled("shared_expert.down_proj.weight", 0.0),
        },
        hub=hub_moe,
    ),
    Family(
        "qwen2-moe-f16",
        "Qwen2MoeForCausalLM",
        Qwen2MoeConfig(
            **shapes(66, 32, 48, 3, 4, 2, sliding_window=8, use_sliding_window=True, max_window_layers=2),
            rope_parameters=PLAIN_ROPE, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=18,
            shared_expert_intermediate_size=27, mlp_only_layers=[2],
        ),
        F16,
        [(64, 6), (64, 30)],
        {
            "windows": {"layer_types": ["full_attention"] * 3},
            "weights that are shares of all": {"norm_topk_prob": True},
            "shared expert": filled("shared_expert.down_proj.weight", 0.0),
            "gate of the shared expert": filled("shared_expert_gate.weight", 0.0),
            "key bias": filled("k_proj.bias", 0.0),
        },
        hub=hub_moe,
    ),
]


def gpt_oss_rope(factor: float, truncate: bool) -> dict:
    # Such that the ends of the ramp lie between the few frequencies that there are.
    return {
        "rope_type": "yarn", "rope_theta": 150.0, "factor": factor, "beta_fast": 4.0, "beta_slow": 0.3125,
        "truncate": truncate, "original_max_position_embeddings": 32,
    }


# What gpt-oss alone has, left out one by one.
GPT_OSS = {
    "sinks": filled("self_attn.sinks", -1e4),
    "query bias": filled("q_proj.bias", 0.0),
    "output bias": filled("o_proj.bias", 0.0),
    "router bias": filled("router.bias", 0.0),
    "biases of gate and up": filled("gate_up_proj_bias", 0.0),
    "biases of down": filled("down_proj_bias", 0.0),
    "slope of the gate": {"swiglu_alpha": 1.0},
    "limit of gate and up": {"swiglu_limit": 1e9},
    "the last expert": last_expert("experts.down_proj"),
}

DECODERS += [
    Family(
        # One expert for each row. Heads of 10 that do not divide the width; no width or count is a multiple of four.
        "gpt-oss-one-bf16",
        "GptOssForCausalLM",
        GptOssConfig(
            **shapes(67, 42, 23, 3, 6, 2, head_dim=10, sliding_window=7), num_local_experts=5, num_experts_per_tok=1,
            rope_parameters=gpt_oss_rope(2.0, False), swiglu_limit=1.5,
        ),
        BF16,
        [(64, 5), (64, 29)],
        GPT_OSS
        | {
            "windows": {"layer_types": ["full_attention"] * 3},
            "one position of the window": {"sliding_window": 6},
            "ends of the ramp as they are": {"rope_parameters": gpt_oss_rope(2.0, True)},
        },
        hub=hub_gpt_oss,
    ),
    Family(
        # Every expert is chosen; heads of 40; widths that blocks of 32 divide. As transformers 5 writes it.
        "gpt-oss-all-f16",
        "GptOssForCausalLM",
        GptOssConfig(
            **shapes(50, 64, 32, 2, 3, 1, head_dim=40, sliding_window=9), num_local_experts=4, num_experts_per_tok=4,
            rope_parameters=gpt_oss_rope(4.0, False), swiglu_limit=1.0,
        ),
        F16,
        [(64, 30)],
        GPT_OSS | {"windows": {"layer_types": ["full_attention"] * 2}, "one expert fewer": {"num_experts_per_tok": 3}},
    ),
]


# Of blocks of 256: only for a GGUF file, whose weights are others.
WIDE = Family(
    "llama-wide",
    "LlamaForCausalLM",
    LlamaConfig(**shapes(48, 256, 32, 1, 2, 1, head_dim=32), rope_parameters=PLAIN_ROPE),
    F32,
    [(64, 24)],
)

# The same, with experts.
WIDE_EXPERTS = Family(
    "qwen3-moe-wide",
    "Qwen3MoeForCausalLM",
    Qwen3MoeConfig(
        **shapes(48, 256, 256, 1, 8, 2, head_dim=32), rope_parameters=PLAIN_ROPE, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=256, norm_topk_prob=True,
    ),
    F32,
    [(64, 24)],
    {"one expert fewer": {"num_experts_per_tok": 1}},
)

# With the layers that do not turn where llama.cpp has them, every fourth: only for a GGUF file.
FOUR = Family(
    "smollm3-four",
    "SmolLM3ForCausalLM",
    SmolLM3Config(
        **shapes(64, 32, 40, 4, 4, 2, tie_word_embeddings=True, no_rope_layers=[1, 1, 1, 0]),
        rope_parameters=PLAIN_ROPE,
    ),
    BF16,
    [(64, 26)],
    {"layer without rope": {"no_rope_layers": [1, 1, 1, 1]}},
    hub=hub(),
)


def encoder_shapes(**more) -> dict:
    common = dict(
        vocab_size=64,
        hidden_size=24,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        max_position_embeddings=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return common | more


def distilbert_shapes(**more) -> dict:
    common = dict(
        vocab_size=64, dim=30, hidden_dim=37, n_layers=2, n_heads=3, max_position_embeddings=40, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0,
    )
    return common | more


def modernbert_shapes(**more) -> dict:
    """Of 4 layers the middle two see 3 positions to each side."""
    common = dict(
        vocab_size=64, hidden_size=30, intermediate_size=37, num_hidden_layers=4, num_attention_heads=3,
        max_position_embeddings=48, local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2,
    )
    return common | more


def pooled(mode: str, width: int = 24) -> dict[str, object]:
    """The files of sentence-transformers beside a model that makes vectors."""
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(zip(kinds, ["", "1_Pooling", "2_Normalize"]))
    ]
    return {"modules.json": modules, "1_Pooling/config.json": {"word_embedding_dimension": width, f"pooling_mode_{mode}": True}}


def prompts(usual: str | None, **named: str) -> dict[str, object]:
    """What sentence-transformers puts before texts, by name, and where nothing is said."""
    return {"config_sentence_transformers.json": {"prompts": named, "default_prompt_name": usual}}


def hub_modernbert(text: dict) -> dict:
    """As it was published: which layers see all, and both bases, by keys of their own."""
    ropes = text.pop("rope_parameters")
    types = text.pop("layer_types")
    assert types == ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    text["global_attn_every_n_layers"] = 2
    text["global_rope_theta"] = ropes["full_attention"]["rope_theta"]
    text["local_rope_theta"] = ropes["sliding_attention"]["rope_theta"]
    text["torch_dtype"] = text.pop("dtype")
    return text


def hub_nomic(text: dict) -> dict:
    """As its maker publishes it: keys of GPT-2."""
    rope = text.pop("rope_parameters")
    names = {
        "hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head", "max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon",
    }
    text = {names.get(key, key): value for key, value in text.items()}
    for key in ["hidden_act", "head_dim"]:
        text.pop(key)
    return text | {
        "activation_function": "swiglu", "rotary_emb_base": rope["rope_theta"], "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": 2.0,
        "max_trained_positions": 44, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        "prenorm": False, "use_rms_norm": False, "causal": False, "parallel_block": False,
    }


def cross_encoder(function: str, section: bool):
    """Names the function of the score as sentence-transformers does: in a section, or by the key of older files."""
    name = f"torch.nn.modules.{function}"
    more = {"sentence_transformers": {"activation_fn": name}} if section else {"sbert_ce_default_activation_function": name}
    return lambda config: config | more


ONE_LABEL = {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}}
LABELS = {"id2label": {0: "calm", 1: "rude", 2: "spam"}, "label2id": {"calm": 0, "rude": 1, "spam": 2}}


def labels(*names: str) -> dict:
    return {"id2label": dict(enumerate(names)), "label2id": {name: index for index, name in enumerate(names)}}


ENTITIES = labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
PRIVATE = labels("O", "EMAIL", "NAME", "ACCOUNT-NUMBER")

ENCODERS = [
    Family("bert-f16", "BertModel", BertConfig(**encoder_shapes()), F16, [1, 7, 40], pooling="mean"),
    Family(
        # As sentence-transformers publishes a model whose vector is that of the first token.
        "bert-first-token-bf16",
        "BertModel",
        BertConfig(**encoder_shapes(hidden_act="gelu_new")),
        BF16,
        [3, 21],
        pooling="first",
        texts=True,
        files=pooled("cls_token")
        | {
            "1_Pooling/config.json": {
                "word_embedding_dimension": 24, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
                "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
            }
        },
    ),
    Family(
        # 40 rows of positions are 38 tokens: the first stands at 2.
        "roberta-f16",
        "RobertaModel",
        RobertaConfig(
            **encoder_shapes(type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2)
        ),
        F16,
        [1, 38],
        pooling="mean",
        texts=True,
    ),
    Family(
        # Heads of 40; no other width or count is a multiple of four.
        "xlm-roberta-bf16",
        "XLMRobertaModel",
        XLMRobertaConfig(
            **encoder_shapes(
                vocab_size=67, hidden_size=80, intermediate_size=43, num_attention_heads=2, type_vocab_size=1,
                layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2,
            )
        ),
        BF16,
        [1, 9, 38],
        pooling="first",
        files=pooled("cls_token", 80),
        texts=True,
    ),
    Family(
        "bert-classes-f32",
        "BertForSequenceClassification",
        BertConfig(**encoder_shapes(num_hidden_layers=1, **LABELS)),
        F32,
        [2, 33],
    ),
    Family(
        "roberta-classes-bf16",
        "RobertaForSequenceClassification",
        RobertaConfig(
            **encoder_shapes(
                type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2, **LABELS
            )
        ),
        BF16,
        [2, 33],
    ),
    Family(
        "bert-relevance-f16",
        "BertForSequenceClassification",
        BertConfig(**encoder_shapes(num_attention_heads=2, **ONE_LABEL)),
        F16,
        [3, 7, 40],
        hub=cross_encoder("linear.Identity", section=False),
        pairs=True,
    ),
    Family(
        # One token type: both texts of a pair are alike.
        "roberta-relevance-bf16",
        "XLMRobertaForSequenceClassification",
        XLMRobertaConfig(
            **encoder_shapes(
                type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2, **ONE_LABEL
            )
        ),
        BF16,
        [4, 38],
        hub=cross_encoder("activation.Sigmoid", section=True),
    ),
    Family(
        "distilbert-f16", "DistilBertModel", DistilBertConfig(**distilbert_shapes()), F16, [1, 7, 40], pooling="mean",
        texts=True,
    ),
    Family(
        # One head of 96.
        "distilbert-head-of-96-bf16",
        "DistilBertModel",
        DistilBertConfig(**distilbert_shapes(vocab_size=67, dim=96, n_layers=1, n_heads=1)),
        BF16,
        [1, 7, 40],
        pooling="mean",
    ),
    Family(
        "distilbert-classes-bf16",
        "DistilBertForSequenceClassification",
        DistilBertConfig(**distilbert_shapes(**LABELS)),
        BF16,
        [2, 33],
    ),
    Family(
        "modernbert-bf16", "ModernBertModel", ModernBertConfig(**modernbert_shapes()), BF16, [1, 7, 48], pooling="mean",
        texts=True,
    ),
    Family(
        # One head of 96, in a layer that sees all and one that sees 3 positions to each side.
        "modernbert-head-of-96-f16",
        "ModernBertModel",
        ModernBertConfig(**modernbert_shapes(vocab_size=67, hidden_size=96, num_hidden_layers=2, num_attention_heads=1)),
        F16,
        [1, 9, 48],
        pooling="mean",
    ),
    Family(
        "modernbert-classes-f32",
        "ModernBertForSequenceClassification",
        ModernBertConfig(
            **modernbert_shapes(
                norm_bias=True, classifier_bias=True, classifier_pooling="mean", global_attn_every_n_layers=2,
                rope_parameters={
                    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
                },
                **LABELS,
            )
        ),
        F32,
        [2, 33],
        hub=hub_modernbert,
    ),
    Family(
        "modernbert-relevance-f16",
        "ModernBertForSequenceClassification",
        ModernBertConfig(**modernbert_shapes(**ONE_LABEL)),
        F16,
        [3, 40],
        hub=cross_encoder("activation.Sigmoid", section=True),
    ),
    Family(
        "nomic-bert-f16",
        "NomicBertModel",
        NomicBertConfig(
            vocab_size=64, hidden_size=30, intermediate_size=37, num_hidden_layers=2, num_attention_heads=3,
            max_position_embeddings=48, type_vocab_size=2,
        ),
        F16,
        [1, 9, 44],
        hub=hub_nomic,
        foreign=True,
        pooling="mean",
        pairs=True,
        texts=True,
    ),
    Family(
        # Heads of 40.
        "nomic-bert-heads-of-40-bf16",
        "NomicBertModel",
        NomicBertConfig(
            vocab_size=67, hidden_size=80, intermediate_size=43, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=48, type_vocab_size=2,
        ),
        BF16,
        [1, 9, 44],
        hub=hub_nomic,
        foreign=True,
        pooling="mean",
        pairs=True,
    ),
    Family(
        "bert-entities-f16",
        "BertForTokenClassification",
        BertConfig(**encoder_shapes(vocab_size=70, num_attention_heads=2, num_hidden_layers=1, **ENTITIES)),
        F16,
        [1, 7, 40],
        pooling="tokens",
    ),
    Family(
        "roberta-entities-bf16",
        "XLMRobertaForTokenClassification",
        XLMRobertaConfig(
            **encoder_shapes(
                type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2, **ENTITIES
            )
        ),
        BF16,
        [1, 38],
        pooling="tokens",
    ),
    Family(
        # Labels that say nothing of where a part begins.
        "distilbert-entities-f32",
        "DistilBertForTokenClassification",
        DistilBertConfig(**distilbert_shapes(vocab_size=70, n_layers=1, **PRIVATE)),
        F32,
        [1, 33],
        pooling="tokens",
    ),
    Family(
        # A dense layer and a norm before the scores.
        "modernbert-entities-bf16",
        "ModernBertForTokenClassification",
        ModernBertConfig(**modernbert_shapes(vocab_size=271, hidden_size=24, **ENTITIES)),
        BF16,
        [1, 9, 48],
        pooling="tokens",
    ),
    Family(
        # A decoder whose last row is the vector, as Qwen3-Embedding is published.
        "qwen3-embedding-bf16",
        "Qwen3Model",
        Qwen3Config(**shapes(64, 24, 40, 2, 4, 2, head_dim=16), rope_parameters=PLAIN_ROPE),
        BF16,
        [1, 9, 40],
        hub=lambda text: hub()(text) | {"architectures": ["Qwen3ForCausalLM"]},
        pooling="last",
        files=pooled("lasttoken") | prompts(None, query="find what answers this: ", document=""),
        texts=True,
    ),
    Family(
        # A window, and no norms of heads; the mean of rows that see what is before them.
        "mistral-embedding-f16",
        "MistralModel",
        MistralConfig(**shapes(64, 24, 40, 2, 4, 2, sliding_window=10), rope_parameters=PLAIN_ROPE),
        F16,
        [4, 40],
        hub=hub(),
        pooling="mean",
        files=pooled("mean_tokens") | prompts("passage", query="query: ", passage="passage: "),
        texts=True,
    ),
]

# What GGUF files are made from and is not kept: encoders whose widths are multiples of 32, or of 256.
PASSING_ENCODERS = [
    Family(
        "bert-even",
        "BertModel",
        BertConfig(**encoder_shapes(hidden_size=64, intermediate_size=96, num_attention_heads=2)),
        F16,
        [1, 7, 40],
        pooling="first",
    ),
    Family(
        "bert-wide",
        "BertModel",
        BertConfig(**encoder_shapes(hidden_size=256, intermediate_size=160, num_attention_heads=4, num_hidden_layers=1)),
        F16,
        [1, 40],
        pooling="mean",
    ),
    Family(
        "nomic-bert-even",
        "NomicBertModel",
        NomicBertConfig(
            vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=48, type_vocab_size=2,
        ),
        F16,
        [1, 9, 44],
        hub=hub_nomic,
        foreign=True,
        pooling="mean",
        pairs=True,
    ),
]
