#!/usr/bin/env python3
"""Texts a second of an embedding model and of a reranker, beside sentence-transformers on the same CPU and in the same run.

Makes two models of the shape of all-MiniLM-L6-v2 (6 layers, 384 wide, 12 heads) with made-up weights and a made-up
vocabulary, and asks for 32 texts of about --tokens tokens at a time: Tidegate through its gateway (`/v1/embeddings`,
`/v1/rerank`), sentence-transformers by a call. Both are asked in turns, --rounds times each for --seconds, and the best
round counts; what they answer is held against each other. Needs torch and sentence-transformers.
With --formats the embedding model is asked in each of these too (f16, int8, int4; the latter by `tidegate model convert`), in turns with
f32, and the cosines of its vectors with those of f32 are told.
Usage: benches/encoders.py [--tidegate target/release/tidegate] [--adapter cpu] [--rounds 3] [--seconds 10]
       [--tokens 64] [--formats f16,int8] [--output FILE]
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

BATCH = 32
VOCABULARY = 30_522
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def words():
    """Words that are a token each."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    named = [a + b + c + d for a in letters for b in letters for c in letters for d in "aeiou"]
    return named[: VOCABULARY - len(SPECIAL)]


def make_models(folder, program, formats):
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

    names = SPECIAL + words()
    config = BertConfig(
        vocab_size=len(names), hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12,
        max_position_embeddings=512,
    )
    tokenizer = Tokenizer(models.WordPiece({name: index for index, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ids = [(name, names.index(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", pad_token="[PAD]", sep_token="[SEP]", unk_token="[UNK]",
        model_max_length=512, model_input_names=["input_ids", "attention_mask", "token_type_ids"],
    )
    torch.manual_seed(7)
    one = {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    for name, kind, changes in [("embed", BertModel, {}), ("rerank", BertForSequenceClassification, one)]:
        model = kind(BertConfig(**(config.to_dict() | changes)))
        model.save_pretrained(folder / name)
        fast.save_pretrained(folder / name)
    for form in formats:
        source, target = folder / "embed", folder / f"embed-{form}"
        if form == "f16":
            BertModel.from_pretrained(source).half().save_pretrained(target)
            fast.save_pretrained(target)
        else:
            command = [program, "model", "convert", source, target, "--to", form, "--no-loss"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


PIPELINE = """
[pipeline]
name = "encoders"
[gateway]
address = "127.0.0.1:0"
max-body = "8MiB"
[model.embed]
path = "{folder}/embed"
[model.rerank]
path = "{folder}/rerank"
[source.texts]
type = "gateway"
models = ["embed"]
[source.pairs]
type = "gateway"
models = ["rerank"]
[[stage]]
name = "vector"
inputs = ["texts"]
embed = "embed"
text = "{{input}}"
[[stage]]
name = "order"
inputs = ["pairs"]
rerank = "rerank"
query = "{{query}}"
documents = "documents"
[sink.vectors]
type = "gateway"
inputs = ["vector"]
field = "answer"
[sink.rankings]
type = "gateway"
inputs = ["order"]
field = "answer"
"""


FORMAT = """
[model.embed-{form}]
path = "{folder}/embed-{form}"
[source.texts-{form}]
type = "gateway"
models = ["embed-{form}"]
[[stage]]
name = "vector-{form}"
inputs = ["texts-{form}"]
embed = "embed-{form}"
text = "{{input}}"
[sink.vectors-{form}]
type = "gateway"
inputs = ["vector-{form}"]
field = "answer"
"""


class Tidegate:
    def __init__(self, program, adapter, folder, formats):
        text = PIPELINE.format(folder=folder)
        text += "".join(FORMAT.format(folder=folder, form=form) for form in formats)
        text = text.replace('documents = "documents"', 'documents = "documents"\nfield = "answer"', 1)
        (folder / "pipeline.toml").write_text(text)
        command = [program, "run", "pipeline.toml", "--quiet", "--log", "info"]
        command += ["--adapter", adapter] if adapter else []
        self.log = open(folder / "log", "w+b")
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 300
        while True:
            said = (folder / "log").read_text()
            found = re.search(r"gateway listens (?:on |url=\"?)(http://[^\s\"]+)", said)
            if found:
                break
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"tidegate did not start:\n{said}")
            time.sleep(0.1)
        self.address = found.group(1)

    def ask(self, path, body):
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def embed(self, texts, model="embed"):
        answer = self.ask("/v1/embeddings", {"model": model, "input": texts})
        return [one["embedding"] for one in answer["data"]]

    def rerank(self, query, texts):
        answer = self.ask("/v1/rerank", {"model": "rerank", "query": query, "documents": texts})
        scores = [0.0] * len(texts)
        for result in answer["results"]:
            scores[result["index"]] = result["relevance_score"]
        return scores

    def end(self):
        self.process.terminate()
        self.process.wait()


class SentenceTransformers:
    def __init__(self, folder):
        from sentence_transformers import CrossEncoder, SentenceTransformer

        self.embedder = SentenceTransformer(str(folder / "embed"), device="cpu")
        self.ranker = CrossEncoder(str(folder / "rerank"), device="cpu")

    def embed(self, texts):
        return self.embedder.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False).tolist()

    def rerank(self, query, texts):
        return self.ranker.predict([(query, text) for text in texts], batch_size=BATCH, show_progress_bar=False).tolist()


def texts_of(source, named, tokens, count):
    """Of lengths around `tokens`, special ones included."""
    return [" ".join(source.choices(named, k=max(1, round(tokens * source.uniform(0.5, 1.5)) - 2))) for _ in range(count)]


def least_cosine(ours, batches, model):
    """Of the vectors of one model with those of the f32 one, which are of unit length as these are."""
    pairs = ((one, other) for batch in batches for one, other in zip(ours.embed(batch), ours.embed(batch, model)))
    return min(sum(x * y for x, y in zip(one, other)) for one, other in pairs)


def rate(ask, batches, seconds):
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        ask(batches[done % len(batches)])
        done += 1
    return done * BATCH / (time.perf_counter() - begun)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidegate", default="target/release/tidegate")
    parser.add_argument("--adapter", default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=[])
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    import sentence_transformers
    import torch

    source, named = random.Random(7), words()
    query = " ".join(source.choices(named, k=8))
    batches = [texts_of(source, named, arguments.tokens, BATCH) for _ in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program, formats = str(pathlib.Path(arguments.tidegate).resolve()), arguments.formats
        make_models(folder, program, formats)
        ours = Tidegate(program, arguments.adapter, folder, formats)
        theirs = SentenceTransformers(folder)
        apart = {"embed": 0.0, "rerank": 0.0}
        for batch in batches:
            pairs = zip(ours.embed(batch), theirs.embed(batch))
            found = max(abs(x - y) for one, other in pairs for x, y in zip(one, other))
            apart["embed"] = max(apart["embed"], found)
            found = max(abs(x - y) for x, y in zip(ours.rerank(query, batch), theirs.rerank(query, batch)))
            apart["rerank"] = max(apart["rerank"], found)
        cosines = {form: least_cosine(ours, batches[:2], f"embed-{form}") for form in formats}
        by_format = {form: [] for form in ["f32"] * bool(formats) + formats}
        rounds = {"tidegate": {"embed": [], "rerank": []}, "sentence-transformers": {"embed": [], "rerank": []}}
        for _ in range(arguments.rounds):
            for name, made in [("tidegate", ours), ("sentence-transformers", theirs)]:
                rounds[name]["embed"].append(rate(made.embed, batches, arguments.seconds))
                rerank = lambda batch: made.rerank(query, batch)
                rounds[name]["rerank"].append(rate(rerank, batches, arguments.seconds))
            for form, each in by_format.items():
                model = "embed" if form == "f32" else f"embed-{form}"
                each.append(rate(lambda batch: ours.embed(batch, model), batches, arguments.seconds))
        said = (folder / "log").read_text()
        ours.end()
    adapter = re.search(r"adapter=(.+?) kernels=\"?(\w+)", said)
    result = {
        "what": f"texts/s of 32 at a time, about {arguments.tokens} tokens each, best of {arguments.rounds} rounds",
        "adapter": adapter.group(1) if adapter else None,
        "kernels": adapter.group(2) if adapter else None,
        "cpus": os.cpu_count(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "sentence_transformers": sentence_transformers.__version__,
        "best": {name: {kind: round(max(each), 1) for kind, each in kinds.items()} for name, kinds in rounds.items()},
        "rounds": {name: {kind: [round(x, 1) for x in each] for kind, each in kinds.items()} for name, kinds in rounds.items()},
        "greatest_difference": apart,
        "embed_by_format": {form: {"best": round(max(each), 1), "rounds": [round(x, 1) for x in each]} for form, each in by_format.items()},
        "least_cosine_with_f32": cosines,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
