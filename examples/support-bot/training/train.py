"""Trains the model on the packed corpus and exports it. Stopped at any time, it goes on from its last checkpoint.

    python train.py --corpus target/support-bot --model examples/support-bot/model

The run is a function of the seed: row order and mixing are drawn from the seed and the step number, never
from a running generator, so a resumed run sees the same batches as one that was never stopped. Each
phase starts with a share of copying exercises, which makes the model learn to copy from the prompt.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import corpus
from judge import judge
from model import Config, Parameters, forward, initial_parameters

# From this step on the products of the corpus are wide: mostly words that are no product words, so that copying
# a name cannot be replaced by knowing it.
WIDE_FROM = 1000
# From this step on the tokens that decide what an answer is about weigh more than its other words.
DECISION_FROM = 1400
# From this step on product words and order numbers are made so that every token of the vocabulary gets copied.
LAST_FROM = 2000
PHASES = ((0, ""), (WIDE_FROM, "_wide"), (LAST_FROM, "_last"))

State = tuple[Parameters, Parameters, Parameters]


def loss(c: Config, p: Parameters, batch: dict[str, jax.Array]) -> jax.Array:
    """Weighted mean cross-entropy per token, in nats."""
    segment = batch["segment"]
    t = segment.shape[1]
    mask = (segment[:, :, None] == segment[:, None, :]) & jnp.tril(jnp.ones((t, t), bool))
    hidden, _ = forward(c, p, batch["tokens"], batch["position"], mask)
    embedding = p["model.embed_tokens.weight"]
    hidden = hidden[:, :-1]
    # The target's logit as a dot product of its own row: picking it out of all logits is slow backwards.
    picked = jnp.sum(hidden * embedding[batch["tokens"][:, 1:]], axis=-1)
    nats = jax.nn.logsumexp(hidden @ embedding.T, axis=-1) - picked
    weight = batch["weight"][:, :-1]
    return jnp.sum(nats * weight) / jnp.sum(weight)


def learning_rate(step: jax.Array, steps: int, peak: float) -> jax.Array:
    """Linear warm-up over 100 steps, then a cosine down to 3 % of the peak."""
    warm = jnp.minimum(step / 100.0, 1.0)
    progress = jnp.clip((step - 100.0) / (steps - 100.0), 0.0, 1.0)
    return peak * warm * (0.03 + 0.97 * 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(3,))
def update(c: Config, steps: int, peak: float, state: State, batch: dict[str, jax.Array], step: jax.Array) -> tuple[State, jax.Array]:
    """One AdamW step (0.9, 0.98) with the gradient clipped to norm 1 and decay 0.05 on matrices."""
    p, first, second = state
    value, gradient = jax.value_and_grad(lambda q: loss(c, q, batch))(p)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradient.values()))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    rate = learning_rate(step, steps, peak)
    n = step + 1.0
    new: State = ({}, {}, {})
    for name, g in gradient.items():
        g = g * scale
        m = 0.9 * first[name] + 0.1 * g
        v = 0.98 * second[name] + 0.02 * g * g
        change = (m / (1 - 0.9**n)) / (jnp.sqrt(v / (1 - 0.98**n)) + 1e-8)
        decay = 0.05 if p[name].ndim == 2 else 0.0
        new[0][name] = p[name] - rate * (change + decay * p[name])
        new[1][name], new[2][name] = m, v
    return new, value


@partial(jax.jit, static_argnums=0)
def answer_loss(c: Config, p: Parameters, batch: dict[str, jax.Array]) -> jax.Array:
    """Mean cross-entropy of the answers alone."""
    return loss(c, p, batch | {"weight": (batch["weight"] >= 1.0).astype(jnp.float32)})


def take(rows: dict[str, np.ndarray], index: np.ndarray) -> dict[str, jax.Array]:
    """Rows of the packed arrays in the types that the step wants."""
    return {k: jnp.asarray(v[index], jnp.float32 if k == "weight" else jnp.int32) for k, v in rows.items()}


def choose(count: int, seed: int, start: int, n: int) -> np.ndarray:
    """Rows `start .. start + n` of an endless sequence of seeded permutations of `count` rows."""
    out = []
    while n > 0:
        epoch, at = divmod(start, count)
        part = np.random.default_rng((seed, epoch)).permutation(count)[at:at + n]
        out.append(part)
        start, n = start + len(part), n - len(part)
    return np.concatenate(out)


def copy_rows(step: int, batch: int) -> int:
    """How many rows of this step's batch are copying exercises: a share that falls to none in each phase."""
    if step < WIDE_FROM:
        return round(batch * 0.375 * (1.0 - step / WIDE_FROM))
    first, length = (WIDE_FROM, 800.0) if step < LAST_FROM else (LAST_FROM, 400.0)
    return round(batch * 0.25 * max(0.0, 1.0 - (step - first) / length))


def mixed_batch(rows: dict[str, dict[str, np.ndarray]], step: int, batch: int, seed: int) -> dict[str, jax.Array]:
    """The rows of this step: dialogues and copying exercises of the phase that it belongs to."""
    number, (first, suffix) = max((i, phase) for i, phase in enumerate(PHASES) if step >= phase[0])
    seed += 2 * number
    copies_before, copies = sum(copy_rows(s, batch) for s in range(first, step)), copy_rows(step, batch)
    dialogues, exercises = rows["train" + suffix], rows["copy" + suffix]
    out = take(dialogues, choose(len(dialogues["tokens"]), seed, (step - first) * batch - copies_before, batch - copies))
    if copies:
        extra = take(exercises, choose(len(exercises["tokens"]), seed + 1, copies_before, copies))
        out = {k: jnp.concatenate([v, extra[k]]) for k, v in out.items()}
    if step < DECISION_FROM:
        out["weight"] = jnp.where(out["weight"] == corpus.DECISION_WEIGHT, 1.0, out["weight"])
    return out


def save_checkpoint(path: Path, state: State, step: int, seconds: float) -> None:
    """Writes the whole state to a temporary file and renames it, so that a kill leaves the old one."""
    arrays = {f"{i}/{k}": np.asarray(v) for i, part in enumerate(state) for k, v in part.items()}
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, step=step, seconds=seconds, **arrays)
    os.replace(temporary, path)


def load_checkpoint(path: Path) -> tuple[State, int, float]:
    """The state, the number of steps done and the seconds that they took."""
    with np.load(path) as f:
        parts: State = ({}, {}, {})
        for key in f.files:
            if "/" in key:
                i, name = key.split("/", 1)
                parts[int(i)][name] = jnp.asarray(f[key])
        return parts, int(f["step"]), float(f["seconds"])


def export(c: Config, p: Parameters, tokenizer: Tokenizer, out: Path) -> None:
    """Writes model.safetensors in f16 and config.json under the names that Hugging Face uses."""
    out.mkdir(parents=True, exist_ok=True)
    weights = {k: np.asarray(v).astype(np.float16) for k, v in sorted(p.items())}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    ids = [tokenizer.token_to_id(t) for t in ("<|bos|>", "<|eos|>", "<|pad|>")]
    (out / "config.json").write_text(json.dumps(c.to_hugging_face(*ids, "float16"), indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path("target/support-bot"))
    parser.add_argument("--model", type=Path, default=Path("examples/support-bot/model"))
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--stop-at", type=int, help="end before this step without changing the schedule")
    parser.add_argument("--batch", type=int, default=16, help="rows a step")
    parser.add_argument("--length", type=int, default=192, help="tokens a row")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--every", type=int, default=200, help="steps between held-out checks and checkpoints")
    args = parser.parse_args()

    c = Config()
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    rows = {n: corpus.pack(corpus.encode(tokenizer, corpus.read(args.corpus / f"{n}.jsonl")), args.length) for n in ("train", "copy", "train_wide", "copy_wide", "train_last", "copy_last", "held_out")}
    held_out = corpus.read(args.corpus / "held_out.jsonl")
    counts = {n: len(r["tokens"]) for n, r in rows.items()}
    checkpoint = args.corpus / "checkpoint.npz"
    if checkpoint.exists():
        state, start, seconds = load_checkpoint(checkpoint)
        print(f"resumed at step {start} after {seconds:.0f} s", flush=True)
    else:
        p = initial_parameters(c, args.seed)
        state, start, seconds = (p, {k: jnp.zeros_like(v) for k, v in p.items()}, {k: jnp.zeros_like(v) for k, v in p.items()}), 0, 0.0
    print(f"{sum(v.size for v in state[0].values())} parameters, rows {counts}", flush=True)

    began = time.monotonic() - seconds
    last = min(args.steps, args.stop_at or args.steps)
    for step in range(start, last):
        batch = mixed_batch(rows, step, args.batch, args.seed)
        state, value = update(c, args.steps, args.rate, state, batch, jnp.float32(step))
        done = step + 1
        if done % 20 == 0:
            print(f"step {done} loss {float(value):.4f} wall {time.monotonic() - began:.0f} s", flush=True)
        if done % args.every == 0 or done == last:
            save_checkpoint(checkpoint, state, done, time.monotonic() - began)
            export(c, state[0], tokenizer, args.model)
            batches = [take(rows["held_out"], np.arange(i, i + args.batch)) for i in range(0, min(counts["held_out"], 128) - args.batch + 1, args.batch)]
            nats = float(np.mean([answer_loss(c, state[0], b) for b in batches]))
            result = judge(c, state[0], tokenizer, held_out[:192])
            print(f"step {done} held-out loss {nats:.4f} {result.summary()} wall {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
