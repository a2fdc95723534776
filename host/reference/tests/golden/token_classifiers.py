"""What transformers' token classification pipeline finds in texts with golden models that label tokens.

Beside a model it writes `tokenizer.json` with `tokenizer_config.json`, and `entities.json`: `{"found": [{"aggregation": "..", "text":
"..", "entities": [{"label": "..", "score": S, "start": A, "end": B}]}]}`, where `start` and `end` count characters.

Tokenizers are of three kinds: word pieces that lose case and accents (BERT, DistilBERT), pieces that begin with the space
before them as `▁` (XLM-RoBERTa), and bytes (ModernBERT). Pieces are short, so that labels change within words.
"""

import json
import string

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForTokenClassification, AutoTokenizer, PreTrainedTokenizerFast, pipeline

TEXTS = [
    "Anna lives in Berlin",
    "berlin, anna",
    "É à Zürich - ÀÉÎ",
    "漢字 anna 漢字漢",
    "😀 anna 👩‍👩‍👧 bob😀",
    "a b c d e f g h i j",
    "annaannabobbob zz berlin berlin",
    "  two  spaces  ",
    "x",
    "anna@berlin.de +49 30",
]
STRATEGIES = ["none", "simple", "first", "average", "max"]
# How far the likeliest label of a token or word must be before the next, and so before what rounding may make of it.
CLEAR = 1e-4


def word_pieces(size: int) -> tuple[Tokenizer, dict]:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = list(string.ascii_lowercase)
    words = ["anna", "in", "##er", "漢", "字", ",", "-", "."]
    vocabulary = names + words + letters + ["##" + letter for letter in letters]
    tokenizer = Tokenizer(models.WordPiece(numbered(vocabulary, size), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    framed(tokenizer, "[CLS]", "[SEP]")
    return tokenizer, dict(cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]")


def spaced_pieces(size: int) -> tuple[Tokenizer, dict]:
    """XLM-RoBERTa's: what is split at spaces begins with one."""
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = ["▁", "▁anna", "anna", "▁bob", "er", "lin", "▁in", "漢", "字", ",", ".", "@"] + list(string.ascii_lowercase)
    vocabulary = [(name, 0.0) for name in names] + [(piece, -float(len(pieces)) + len(piece)) for piece in pieces]
    assert len(vocabulary) <= size
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    framed(tokenizer, "<s>", "</s>")
    return tokenizer, dict(cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>")


def byte_pieces(size: int) -> tuple[Tokenizer, dict]:
    """ModernBERT's: bytes, a space that of what follows it."""
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "n"), ("an", "n"), ("ann", "a"), ("Ġ", "b"), ("e", "r"), ("Ġ", "anna"), ("Ã", "©")]
    vocabulary = names + alphabet + ["".join(merge) for merge in merges]
    tokenizer = Tokenizer(models.BPE(numbered(vocabulary, size), merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    framed(tokenizer, "[CLS]", "[SEP]")
    return tokenizer, dict(cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]")


def numbered(vocabulary: list[str], size: int) -> dict[str, int]:
    assert len(vocabulary) <= size, len(vocabulary)
    return {name: index for index, name in enumerate(vocabulary)}


def framed(tokenizer: Tokenizer, begin: str, end: str) -> None:
    names = [(name, tokenizer.token_to_id(name)) for name in (begin, end)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}", special_tokens=names)


TOKENIZERS = {"bert": word_pieces, "distilbert": word_pieces, "xlm-roberta": spaced_pieces, "modernbert": byte_pieces}


def golden_entities(family, folder) -> None:
    tokenizer, names = TOKENIZERS[family.config.model_type](family.config.vocab_size)
    limit = family.config.max_position_embeddings - (2 if family.config.model_type == "xlm-roberta" else 0)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=limit, model_input_names=["input_ids", "attention_mask"], **names,
    ).save_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for text in TEXTS:
        if len(tokenizer(text)["input_ids"]) > limit:
            continue
        clear(model, tokenizer, text)
        for strategy in STRATEGIES:
            recognize = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
            entities = [
                {
                    "label": entity["entity" if strategy == "none" else "entity_group"], "score": float(entity["score"]),
                    "start": entity["start"], "end": entity["end"],
                }
                for entity in recognize(text)
            ]
            found.append({"aggregation": strategy, "text": text, "entities": entities})
    counts = {strategy: sum(len(f["entities"]) for f in found if f["aggregation"] == strategy) for strategy in STRATEGIES}
    print(f"  {family.name}: {counts}")
    assert 1.5 * len(TEXTS) < counts["simple"] < counts["none"] and len({json.dumps(f["entities"]) for f in found}) > 2 * len(TEXTS)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    (folder / "entities.json").write_text(f'{{"found": [\n{lines}\n]}}\n')


def clear(model, tokenizer, text: str) -> None:
    with torch.no_grad():
        shares = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1)
    first, second = shares.topk(2).values.unbind(-1)
    assert (first - second).min() > CLEAR, text
