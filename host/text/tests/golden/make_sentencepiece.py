"""Writes sentencepiece.json: small SentencePiece BPE vocabularies as GGUF's tables, and what sentencepiece makes of texts.

    python -m venv env && env/bin/pip install sentencepiece==0.2.3
    env/bin/python make_sentencepiece.py

The vocabularies are trained on this file and make_golden.py: one as Llama 2's (a space before the text), one as Gemma's
(none, runs of spaces and a line break as symbols of their own).
"""

import io
import json
import pathlib

import sentencepiece

HERE = pathlib.Path(__file__).parent
TEXTS = ["", " ", "a", "Hello, world!", "  two  spaces  ", "ünïcödé 漢字 😀👍🏽", "it's we'll 12345 1.5e-3", "tab\tnew\nline\r\n\n",
         "The vocabularies are trained", "templates of published models", "x = {'a': [1, 2, 3]}\n    return x\n", "ﬁne ½ Å",
         "▁ already ▁▁ marked", "\u0000\u0007\ufdd0", "a" * 70, "messages" * 20, "\n\n\n", " leading", "trailing ", "日本語テキスト", "Straße  naïve café",
         "for message in messages:\n        print(message['content'])\n"]
WORDS = ["model", "token", " ", "  ", "é", "the", "The", "\n", "😀", ".", "12", "'s", "ing", "template", "_", "日", "x"]


def texts():
    yield from TEXTS
    state = 1
    for _ in range(180):
        words = []
        for _ in range(3 + state % 9):
            state = (state * 48271) % 2147483647
            words.append(WORDS[state % len(WORDS)])
        yield "".join(words)


def train(**options):
    lines = []
    for name in ("make_golden.py", "make_sentencepiece.py"):
        lines += (HERE / name).read_text().splitlines()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4), model_writer=model, model_type="bpe", byte_fallback=True, vocab_size=600,
        hard_vocab_limit=False, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.99,
        split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def tables(processor, user_defined):
    types = []
    for id in range(processor.vocab_size()):
        if processor.is_unknown(id):
            types.append(2)
        elif processor.is_control(id):
            types.append(3)
        elif processor.is_byte(id):
            types.append(6)
        elif processor.id_to_piece(id) in user_defined:
            types.append(4)
        else:
            types.append(1)
    # As llama.cpp's converter: what a user has defined is found in the text as it is.
    tokens = [processor.id_to_piece(id) for id in range(processor.vocab_size())]
    tokens = [token.replace("▁", " ") if type == 4 else token for token, type in zip(tokens, types)]
    return {"tokens": tokens, "scores": [processor.get_score(id) for id in range(processor.vocab_size())], "types": types,
            "bos": processor.bos_id(), "eos": processor.eos_id(), "unknown": processor.unk_id()}


def main():
    golden = {}
    symbols = ["▁▁", "▁▁▁▁", "\n"]
    for name, prefix, options in [("llama", True, {}), ("gemma", False, {"user_defined_symbols": symbols})]:
        processor = train(add_dummy_prefix=prefix, **options)
        user_defined = options.get("user_defined_symbols", [])
        cases = []
        for text in texts():
            if user_defined and "▁" in text:
                continue  # the mark in a text is no space for the symbols that are found before it is normalized
            ids = processor.encode(text)
            cases.append({"text": text, "ids": ids, "decoded": processor.decode(ids)})
        golden[name] = {"space_prefix": prefix, "tables": tables(processor, user_defined), "cases": cases}
    text = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    (HERE / "sentencepiece.json").write_text(text.replace('{"text"', '\n{"text"') + "\n")


main()
