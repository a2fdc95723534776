"""Trains the byte-level BPE tokenizer on the corpus and writes its two files.

    python train_tokenizer.py --corpus target/support-bot --out examples/support-bot/model

Digits are always single tokens, so that a number is copied digit by digit. The placeholders of the
redaction are ordinary added tokens: they stay in the text when an answer is decoded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|pad|>", "<|bos|>", "<|eos|>", "<|system|>", "<|user|>", "<|assistant|>")
PLACEHOLDERS = tuple(f"[{kind}_{i}]" for kind in ("NAME", "EMAIL", "PHONE", "CARD", "IBAN", "SSN", "IP") for i in (1, 2, 3))
VOCABULARY = 2048

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def texts(corpus: Path) -> Iterator[str]:
    """The messages and answers that the merges are counted on."""
    with open(corpus / "train.jsonl", encoding="utf-8") as f:
        for number, line in enumerate(f):
            if number >= 60_000:
                return
            record = json.loads(line)
            yield record["system"]
            yield record["content"]
            yield record["answer"]


def without_placeholders(lines: Iterator[str]) -> Iterator[str]:
    """Removes placeholders: they are whole tokens already and need no merges."""
    for line in lines:
        for p in PLACEHOLDERS:
            line = line.replace(p, "")
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path("target/support-bot"))
    parser.add_argument("--out", type=Path, default=Path("examples/support-bot/model"))
    args = parser.parse_args()

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(PLACEHOLDERS), min_frequency=2, show_progress=False,
        special_tokens=list(SPECIAL_TOKENS), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(without_placeholders(texts(args.corpus)), trainer)
    tokenizer.add_tokens([AddedToken(p, normalized=False, special=False) for p in PLACEHOLDERS])
    assert tokenizer.get_vocab_size() == VOCABULARY, tokenizer.get_vocab_size()

    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "clean_up_tokenization_spaces": False,
        "bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>", "chat_template": CHAT_TEMPLATE,
    }
    (args.out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    print(f"{tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
