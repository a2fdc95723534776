"""What sentence-transformers' CrossEncoder makes of pairs of texts with the golden models that score pairs.

Beside a model it writes `tokenizer.json` (letters and their continuations as word pieces) with `tokenizer_config.json`, and
`pairs.json`: `{"limit": L, "rankings": [{"query": "..", "documents": [".."], "scores": [..]}]}`, where pairs of more than L
tokens are cut.
"""

import json
import string

import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

DOCUMENTS = [
    "the river is wide",
    "",
    "a short one",
    "how wide is the river here and how deep is it there where the bridge stands",
    "bread",
    "?",
]
# One that is shorter than half of what a model takes, and one that is longer.
QUERIES = ["how wide", "how wide is the river at the old bridge in spring"]


def golden_pairs(family, folder) -> None:
    types = getattr(family.config, "type_vocab_size", 0)
    roberta = types == 1
    begin, pad, end, unknown = ("<s>", "<pad>", "</s>", "<unk>") if roberta else ("[CLS]", "[PAD]", "[SEP]", "[UNK]")
    names = [begin, pad, end, unknown] if roberta else [pad, unknown, begin, end]
    letters = list(string.ascii_lowercase)
    vocabulary = {name: index for index, name in enumerate(names + letters + ["##" + letter for letter in letters])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pair = f"{begin} $A {end} {end} $B {end}" if roberta else f"{begin} $A {end} $B:1 {end}:1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", pair=pair, special_tokens=[(begin, vocabulary[begin]), (end, vocabulary[end])]
    )
    limit = family.config.max_position_embeddings - (2 if roberta else 0)
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if types > 1 else [])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token=begin, pad_token=pad, sep_token=end, unk_token=unknown,
        model_max_length=limit, model_input_names=inputs,
    ).save_pretrained(folder)
    encoder = CrossEncoder(
        str(folder), device="cpu", max_length=limit, model_kwargs={"dtype": torch.float32},
    )
    rankings = []
    for query in QUERIES:
        scores = encoder.predict([(query, document) for document in DOCUMENTS], convert_to_numpy=True)
        rankings.append({"query": query, "documents": DOCUMENTS, "scores": [float(score) for score in scores]})
    (folder / "pairs.json").write_text(json.dumps({"limit": limit, "rankings": rankings}, indent=1) + "\n")
