"""Judges the exported model, answers one ticket, or writes the golden answers for other engines.

    python evaluate.py --model examples/support-bot/model --corpus target/support-bot --count 1000
    python evaluate.py --ticket '{"name": "[NAME_1]", "product": "Kettle", "order": "A-1234", "text": "It broke."}'
    python evaluate.py --golden examples/support-bot/training/golden.json

The judgement reads the exported f16 weights, computes in float32 and decodes greedily, on held-out lines:
sentence templates, product words and slot values that training never saw.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jinja2 import Environment
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import corpus
import reference
from generate import render_content
from judge import answers, judge
from model import Config, Parameters, from_hugging_face
from train import answer_loss, take

GOLDEN = (
    ("[NAME_1]", "Waffle Iron", "A-48213", "My parcel never turned up. Write to [EMAIL_1] please."),
    ("[NAME_1]", "Quoovy Telescope 640", "100-2837465", "Hello, the lid is cracked, it arrived in two pieces."),
    ("", "", "", "Why is my transfer still pending?"),
    ("[NAME_2]", "", "#90211", "Please cancel this, I clicked the wrong button. [NAME_2]"),
    ("[NAME_1]", "Skyo Hammock", "TG58291", "I was billed twice, call [PHONE_1]."),
)


def load(model: Path) -> tuple[Config, Parameters, Tokenizer]:
    """The exported model, widened to float32, with its sizes and tokenizer."""
    c = from_hugging_face(json.loads((model / "config.json").read_text()))
    p = {k: jnp.asarray(v, jnp.float32) for k, v in load_file(model / "model.safetensors").items()}
    return c, p, Tokenizer.from_file(str(model / "tokenizer.json"))


def held_out_loss(c: Config, p: Parameters, tokenizer: Tokenizer, records: list[dict], length: int = 192, batch: int = 16) -> float:
    """Mean cross-entropy of the held-out answers, in nats a token."""
    rows = corpus.pack(corpus.encode(tokenizer, records), length)
    total = weight = 0.0
    for at in range(0, len(rows["tokens"]), batch):
        index = np.arange(at, min(at + batch, len(rows["tokens"])))
        tokens = float((rows["weight"][index] >= 1.0).sum())
        total += float(answer_loss(c, p, take(rows, index))) * tokens
        weight += tokens
    return total / weight


def render(model: Path, content: str) -> str:
    """The chat of one user message, rendered by the chat template of tokenizer_config.json."""
    config = json.loads((model / "tokenizer_config.json").read_text())
    template = Environment().from_string(config["chat_template"])
    return template.render(
        messages=[{"role": "user", "content": content}], add_generation_prompt=True, bos_token=config["bos_token"], eos_token=config["eos_token"],
    )


def write_golden(model: Path, out: Path) -> None:
    """Writes rendered chats, their ids and the first 24 greedy ids of the float64 reference."""
    c, _, tokenizer = load(model)
    weights = reference.load(model / "model.safetensors")
    eos = tokenizer.token_to_id("<|eos|>")
    cases = []
    for fields in GOLDEN:
        text = render(model, render_content(*fields))
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        answer, leads = reference.continue_greedily(c, weights, ids, 24, eos)
        last = reference.logits(c, weights, ids)[-1]
        top = np.argsort(last)[::-1][:5]
        cases.append({
            "fields": dict(zip(("name", "product", "order", "text"), fields)), "prompt": text, "prompt_ids": ids,
            "answer_ids": answer, "answer": tokenizer.decode(answer, skip_special_tokens=False), "smallest_lead": round(min(leads), 4),
            "first_logits": {str(int(i)): round(float(last[i]), 4) for i in top},
        })
    out.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n", encoding="utf-8")
    print(f"{len(cases)} cases in {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("examples/support-bot/model"))
    parser.add_argument("--corpus", type=Path, default=Path("target/support-bot"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--show", type=int, default=5, help="failures to print")
    parser.add_argument("--ticket", help="a ticket as JSON, to be answered")
    parser.add_argument("--golden", type=Path, help="write golden answers there")
    args = parser.parse_args()
    if args.golden:
        write_golden(args.model, args.golden)
        return
    c, p, tokenizer = load(args.model)
    if args.ticket:
        t = json.loads(args.ticket)
        content = render_content(t.get("name", ""), t.get("product", ""), t.get("order", ""), t["text"])
        print(answers(c, p, tokenizer, [render(args.model, content)], batch=1)[0])
        return
    records = corpus.read(args.corpus / "held_out.jsonl")[:args.count]
    print(f"held-out loss {held_out_loss(c, p, tokenizer, records):.4f} nats a token of the answers")
    result = judge(c, p, tokenizer, records)
    print(result.summary())
    for title, cases in (("slots wrong", result.failures), ("intent wrong", result.wrong_intent)):
        for record, answer in cases[:args.show]:
            print(f"--- {title} ({record['intent']})\n{record['content']}\n>>> {answer}")


if __name__ == "__main__":
    main()
