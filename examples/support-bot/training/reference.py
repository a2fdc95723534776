"""The model in plain numpy and float64, written from the definition of a Llama layer.

Slow and simple on purpose: `golden.json`, which other engines are tested against, comes from here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from model import Config

Weights = dict[str, np.ndarray]


def load(path: Path) -> Weights:
    """The exported weights, widened to float64."""
    return {k: v.astype(np.float64) for k, v in load_file(path).items()}


def norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    """RMS norm of x [T, D]."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def rotate(c: Config, x: np.ndarray) -> np.ndarray:
    """Rotary embedding of x [T, heads, E] at positions 0 .. T: pairs are (i, i + E/2)."""
    half = c.head // 2
    angle = np.arange(len(x))[:, None] * c.rope_theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def logits(c: Config, w: Weights, tokens: list[int]) -> np.ndarray:
    """Logits [T, V] of every position."""
    x = w["model.embed_tokens.weight"][tokens]
    t = len(tokens)
    for i in range(c.layers):
        p = f"model.layers.{i}."
        h = norm(x, w[p + "input_layernorm.weight"], c.norm_epsilon)
        q = rotate(c, (h @ w[p + "self_attn.q_proj.weight"].T).reshape(t, c.heads, c.head))
        k = rotate(c, (h @ w[p + "self_attn.k_proj.weight"].T).reshape(t, c.kv_heads, c.head))
        v = (h @ w[p + "self_attn.v_proj.weight"].T).reshape(t, c.kv_heads, c.head)
        mixed = np.empty_like(q)
        for head in range(c.heads):
            shared = head // (c.heads // c.kv_heads)
            scores = q[:, head] @ k[:, shared].T / np.sqrt(c.head)
            scores[np.triu_indices(t, 1)] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            mixed[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ v[:, shared]
        x = x + mixed.reshape(t, c.hidden) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, w[p + "post_attention_layernorm.weight"], c.norm_epsilon)
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
    return norm(x, w["model.norm.weight"], c.norm_epsilon) @ w["model.embed_tokens.weight"].T


def continue_greedily(c: Config, w: Weights, tokens: list[int], count: int, eos: int) -> tuple[list[int], list[float]]:
    """Up to `count` greedy tokens (ending with `eos`) and the lead of each over the second best, in logits."""
    out: list[int] = []
    leads: list[float] = []
    while len(out) < count and (not out or out[-1] != eos):
        last = logits(c, w, tokens + out)[-1]
        second, first = np.sort(last)[-2:]
        out.append(int(np.argmax(last)))
        leads.append(float(first - second))
    return out, leads
