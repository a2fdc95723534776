"""The judgement: are the slot values of a held-out ticket in the answer, and is it an answer to that intent?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

import corpus
from model import Config, Parameters, greedy
from templates import INTENTS

ANSWER_TOKENS = 96
PROMPT_TOKENS = 160
CONTACT = re.compile(r"\[(?:EMAIL|PHONE)_\d\]")
PLACEHOLDER = re.compile(r"\[[A-Z]+_\d\]")


@dataclass
class Judgement:
    """Counts over the judged tickets."""

    tickets: int = 0
    all_slots: int = 0
    right_intent: int = 0
    foreign_placeholder: int = 0
    per_slot: dict[str, list[int]] = field(default_factory=dict)
    failures: list[tuple[dict, str]] = field(default_factory=list)
    wrong_intent: list[tuple[dict, str]] = field(default_factory=list)

    def summary(self) -> str:
        """One line with the counts."""
        parts = ", ".join(f"{k} {a}/{b}" for k, (a, b) in sorted(self.per_slot.items()))
        return f"all slots {self.all_slots}/{self.tickets} ({parts}), intent {self.right_intent}/{self.tickets}, foreign placeholders {self.foreign_placeholder}"


def occurs(slot: str, text: str) -> bool:
    """True where the slot stands in the text as a whole: not as a part of a longer word or number."""
    return re.search(r"(?<![A-Za-z0-9])" + re.escape(slot) + r"(?![A-Za-z0-9])", text) is not None


def intent_of(answer: str, slots: list[str]) -> str:
    """The intent whose answer has the most three-word sequences in common with this one. Used to judge, never to answer."""
    for s in slots:
        answer = answer.replace(s, "")

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[a-z]+", text.lower())
        return set(zip(words, words[1:], words[2:]))

    found = shingles(answer)
    return max(INTENTS, key=lambda i: max(len(found & shingles(a.replace("{thing}", ""))) / len(shingles(a)) for a in i.answers)).name


def answers(c: Config, p: Parameters, tokenizer: Tokenizer, prompts: list[str], batch: int = 64) -> list[str]:
    """Greedy answers to rendered chats."""
    eos = tokenizer.token_to_id("<|eos|>")
    out = []
    for at in range(0, len(prompts), batch):
        part = prompts[at:at + batch]
        ids = [tokenizer.encode(t, add_special_tokens=False).ids[:PROMPT_TOKENS] for t in part]
        tokens = np.zeros((batch, PROMPT_TOKENS), np.int32)
        lengths = np.ones(batch, np.int32)
        for i, row in enumerate(ids):
            tokens[i, :len(row)], lengths[i] = row, len(row)
        result = np.asarray(greedy(c, p, jnp.asarray(tokens), jnp.asarray(lengths), ANSWER_TOKENS))
        for row in result[:len(part)].tolist():
            out.append(tokenizer.decode(row[:row.index(eos)] if eos in row else row, skip_special_tokens=False))
    return out


def judge(c: Config, p: Parameters, tokenizer: Tokenizer, records: list[dict]) -> Judgement:
    """Answers every record and counts. A ticket counts only if all its required slots are in the answer."""
    result = Judgement()
    for record, answer in zip(records, answers(c, p, tokenizer, [corpus.prompt(r) for r in records]), strict=True):
        result.tickets += 1
        right = True
        kinds = [(s, "name" if record["answer"].startswith(f"Hello {s},") else "order" if re.search(r"\d", s) and " " not in s and f"order {s}" in record["answer"] else "product") for s in record["required"]]
        kinds += [(s, "contact") for s in record["slots"] if CONTACT.fullmatch(s)]
        for slot, kind in kinds:
            hit = occurs(slot, answer)
            count = result.per_slot.setdefault(kind, [0, 0])
            count[0] += hit
            count[1] += 1
            right &= hit or kind == "contact"
        if any(x not in record["content"] for x in PLACEHOLDER.findall(answer)):
            result.foreign_placeholder += 1
            right = False
        result.all_slots += right
        if not right:
            result.failures.append((record, answer))
        if intent_of(answer, record["slots"]) == record["intent"]:
            result.right_intent += 1
        else:
            result.wrong_intent.append((record, answer))
    return result
