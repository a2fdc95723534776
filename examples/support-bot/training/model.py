"""The model in JAX: Llama layers as Hugging Face lays them out, plus greedy decoding.

Shapes: B rows, T tokens, D hidden, H query heads, K key-value heads, G = H / K, E head size, V vocabulary.
Projection weights are [out, in] as in the exported file, so that no name or shape changes on export.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

Parameters = dict[str, jax.Array]


@dataclass(frozen=True)
class Config:
    """Sizes of the model. `tokens` is the longest context."""

    vocabulary: int = 2048
    hidden: int = 128
    intermediate: int = 384
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    tokens: int = 512
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-5

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def to_hugging_face(self, bos: int, eos: int, pad: int, dtype: str) -> dict:
        """The content of config.json."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": self.vocabulary,
            "hidden_size": self.hidden, "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head,
            "max_position_embeddings": self.tokens, "rope_theta": self.rope_theta, "rms_norm_eps": self.norm_epsilon,
            "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
            "initializer_range": 0.02, "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad, "torch_dtype": dtype,
        }


def from_hugging_face(config: dict) -> Config:
    """Reads the sizes back from config.json."""
    return Config(
        vocabulary=config["vocab_size"], hidden=config["hidden_size"], intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"], heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"],
        tokens=config["max_position_embeddings"], rope_theta=config["rope_theta"], norm_epsilon=config["rms_norm_eps"],
    )


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight."""
    kv = c.kv_heads * c.head
    out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c.vocabulary, c.hidden), "model.norm.weight": (c.hidden,)}
    for i in range(c.layers):
        p = f"model.layers.{i}."
        out |= {
            p + "input_layernorm.weight": (c.hidden,), p + "post_attention_layernorm.weight": (c.hidden,),
            p + "self_attn.q_proj.weight": (c.hidden, c.hidden), p + "self_attn.k_proj.weight": (kv, c.hidden),
            p + "self_attn.v_proj.weight": (kv, c.hidden), p + "self_attn.o_proj.weight": (c.hidden, c.hidden),
            p + "mlp.gate_proj.weight": (c.intermediate, c.hidden), p + "mlp.up_proj.weight": (c.intermediate, c.hidden),
            p + "mlp.down_proj.weight": (c.hidden, c.intermediate),
        }
    return out


def initial_parameters(c: Config, seed: int) -> Parameters:
    """Normal weights of variance 1/fan-in, smaller where a layer writes to the residual stream; norms are 1."""
    rng = np.random.default_rng(seed)
    out: Parameters = {}
    for name, shape in shapes(c).items():
        if len(shape) == 1:
            value = np.ones(shape)
        elif "embed" in name:
            value = rng.normal(0.0, 0.04, shape)
        else:
            scale = shape[1] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                scale /= (2 * c.layers) ** 0.5
            value = rng.normal(0.0, scale, shape)
        out[name] = jnp.asarray(value, jnp.float32)
    return out


def rms_norm(x: jax.Array, weight: jax.Array, epsilon: float) -> jax.Array:
    """x [..., D] scaled to unit mean square, times weight [D]."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def rotary(c: Config, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine [..., 1, E] of the rotary embedding at positions [...]."""
    frequency = c.rope_theta ** (-jnp.arange(0, c.head, 2, dtype=jnp.float32) / c.head)
    angle = positions[..., None].astype(jnp.float32) * frequency
    angle = jnp.concatenate([angle, angle], axis=-1)[..., None, :]
    return jnp.cos(angle), jnp.sin(angle)


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """The rotate-half form: the second half of the head, negated, stands before the first."""
    a, b = jnp.split(x, 2, axis=-1)
    return x * cos + jnp.concatenate([-b, a], axis=-1) * sin


def projections(c: Config, p: Parameters, layer: str, x: jax.Array, cos: jax.Array, sin: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Query [..., H, E], key and value [..., K, E] of the normed input x [..., D]."""
    q = (x @ p[layer + "self_attn.q_proj.weight"].T).reshape(*x.shape[:-1], c.heads, c.head)
    k = (x @ p[layer + "self_attn.k_proj.weight"].T).reshape(*x.shape[:-1], c.kv_heads, c.head)
    v = (x @ p[layer + "self_attn.v_proj.weight"].T).reshape(*x.shape[:-1], c.kv_heads, c.head)
    return rotate(q, cos, sin), rotate(k, cos, sin), v


def attend(c: Config, q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """q [B, T, H, E] over k and v [B, S, K, E] where mask [B, T, S] allows; gives [B, T, D]."""
    b, t = q.shape[:2]
    group = c.heads // c.kv_heads
    q = q.transpose(0, 2, 1, 3) * c.head**-0.5
    k = jnp.repeat(k.transpose(0, 2, 3, 1), group, axis=1)
    v = jnp.repeat(v.transpose(0, 2, 1, 3), group, axis=1)
    scores = jnp.matmul(q, k) + jnp.where(mask, 0.0, -1e9)[:, None]
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True)))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return jnp.matmul(weights, v).transpose(0, 2, 1, 3).reshape(b, t, c.hidden)


def feed_forward(p: Parameters, layer: str, x: jax.Array) -> jax.Array:
    """SwiGLU of x [..., D]."""
    gate = jax.nn.silu(x @ p[layer + "mlp.gate_proj.weight"].T)
    return (gate * (x @ p[layer + "mlp.up_proj.weight"].T)) @ p[layer + "mlp.down_proj.weight"].T


def forward(c: Config, p: Parameters, tokens: jax.Array, positions: jax.Array, mask: jax.Array) -> tuple[jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """Final hidden states [B, T, D] and each layer's keys and values, for tokens [B, T]."""
    x = p["model.embed_tokens.weight"][tokens]
    cos, sin = rotary(c, positions)
    cache = []
    for i in range(c.layers):
        layer = f"model.layers.{i}."
        q, k, v = projections(c, p, layer, rms_norm(x, p[layer + "input_layernorm.weight"], c.norm_epsilon), cos, sin)
        x = x + attend(c, q, k, v, mask) @ p[layer + "self_attn.o_proj.weight"].T
        x = x + feed_forward(p, layer, rms_norm(x, p[layer + "post_attention_layernorm.weight"], c.norm_epsilon))
        cache.append((k, v))
    return rms_norm(x, p["model.norm.weight"], c.norm_epsilon), cache


@partial(jax.jit, static_argnums=(0, 4))
def greedy(c: Config, p: Parameters, tokens: jax.Array, lengths: jax.Array, steps: int) -> jax.Array:
    """Greedy continuation [B, steps] of right-padded prompts [B, T] of the given lengths [B]."""
    b, t = tokens.shape
    rows = jnp.arange(b)
    causal = jnp.broadcast_to(jnp.tril(jnp.ones((t, t), bool)), (b, t, t))
    hidden, cache = forward(c, p, tokens, jnp.broadcast_to(jnp.arange(t), (b, t)), causal)
    pad = [(0, 0), (0, steps), (0, 0), (0, 0)]
    # Keys of the padding are overwritten by the continuation before the mask ever shows them.
    cache = [(jnp.pad(k, pad), jnp.pad(v, pad)) for k, v in cache]
    embedding = p["model.embed_tokens.weight"]
    first = jnp.argmax(hidden[rows, lengths - 1] @ embedding.T, axis=-1)

    def step(carry: tuple, n: jax.Array) -> tuple[tuple, jax.Array]:
        cache, token = carry
        position = lengths + n
        x = embedding[token][:, None]
        cos, sin = rotary(c, position[:, None])
        mask = (jnp.arange(t + steps)[None] <= position[:, None])[:, None]
        updated = []
        for i, (keys, values) in enumerate(cache):
            layer = f"model.layers.{i}."
            q, k, v = projections(c, p, layer, rms_norm(x, p[layer + "input_layernorm.weight"], c.norm_epsilon), cos, sin)
            keys, values = keys.at[rows, position].set(k[:, 0]), values.at[rows, position].set(v[:, 0])
            x = x + attend(c, q, keys, values, mask) @ p[layer + "self_attn.o_proj.weight"].T
            x = x + feed_forward(p, layer, rms_norm(x, p[layer + "post_attention_layernorm.weight"], c.norm_epsilon))
            updated.append((keys, values))
        x = rms_norm(x[:, 0], p["model.norm.weight"], c.norm_epsilon)
        return (updated, jnp.argmax(x @ embedding.T, axis=-1)), token

    _, out = jax.lax.scan(step, (cache, first), jnp.arange(steps))
    return out.T
