"""Reads the corpus, renders chats, and packs them into rows of equal length for training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

PROMPT_WEIGHT = 0.15
SLOT_WEIGHT = 2.0
DECISION_WEIGHT = 4.0
DECISION_TOKENS = 4


def read(path: Path) -> list[dict]:
    """All dialogues of one JSON-lines file."""
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def prompt(record: dict) -> str:
    """The chat up to the answer, exactly as the chat template renders it."""
    system = f"<|system|>{record['system']}" if record["system"] else ""
    return f"<|bos|>{system}<|user|>{record['content']}<|assistant|>"


def encode(tokenizer: Tokenizer, records: list[dict]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Token ids and the loss weight of each token.

    The prompt weighs least and copied slots twice as much as other words of the answer. The first tokens of
    the answer and those after a slot weigh most: there it decides what it is about.
    """
    prompts = tokenizer.encode_batch([prompt(r) for r in records], add_special_tokens=False)
    answers = tokenizer.encode_batch([r["answer"] + "<|eos|>" for r in records], add_special_tokens=False)
    out = []
    for record, before, after in zip(records, prompts, answers, strict=True):
        answer_weights = np.ones(len(after.ids), np.float32)
        spans = []
        for slot in record["slots"]:
            at = record["answer"].find(slot)
            if at >= 0:
                spans.append((at, at + len(slot)))
        since = 0
        for i, (start, end) in enumerate(after.offsets):
            if any(start < b and end > a for a, b in spans):
                answer_weights[i], since = SLOT_WEIGHT, 0
            elif since < DECISION_TOKENS:
                answer_weights[i], since = DECISION_WEIGHT, since + 1
        ids = np.array(before.ids + after.ids, np.int32)
        out.append((ids, np.concatenate([np.full(len(before.ids), PROMPT_WEIGHT, np.float32), answer_weights])))
    return out


def pack(examples: list[tuple[np.ndarray, np.ndarray]], length: int) -> dict[str, np.ndarray]:
    """Puts examples into rows [R, length] by best fit. `segment` numbers them from 1, 0 is padding."""
    open_rows: dict[int, list[list[int]]] = {n: [] for n in range(length + 1)}
    rows: list[list[int]] = []
    for index, (ids, _) in enumerate(examples):
        need = len(ids)
        if need > length:
            continue
        for room in range(need, length + 1):
            if open_rows[room]:
                row = open_rows[room].pop()
                break
        else:
            room, row = length, []
            rows.append(row)
        row.append(index)
        if room - need >= 40:
            open_rows[room - need].append(row)
    shape = (len(rows), length)
    tokens, segment, position = np.zeros(shape, np.int16), np.zeros(shape, np.int8), np.zeros(shape, np.int16)
    weight = np.zeros(shape, np.float16)
    for r, row in enumerate(rows):
        at = 0
        for s, index in enumerate(row, start=1):
            ids, weights = examples[index]
            n = len(ids)
            tokens[r, at:at + n], segment[r, at:at + n], position[r, at:at + n] = ids, s, np.arange(n)
            # weight[i] belongs to the prediction of token i + 1.
            weight[r, at:at + n - 1] = weights[1:]
            at += n
    return {"tokens": tokens, "segment": segment, "position": position, "weight": weight}
