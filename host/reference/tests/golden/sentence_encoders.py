"""What sentence-transformers makes of texts with golden models that make vectors.

Beside a model it writes `tokenizer.json` (letters and their continuations as word pieces) with `tokenizer_config.json`, and
`texts.json`: `{"texts": [".."], "vectors": [[..]], "named": {"query": [[..]]}}`, the last with each of the model's prompts before them.
"""

import json
import string
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

TEXTS = ["how wide", "the river is wide", "?", "bread", "how wide is the river here"]


def golden_texts(family, folder, model=None) -> None:
    """A decoder's texts end with a token, an encoder's begin with one too. `model`, where transformers does not read the
    folder's own configuration."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    if family.config.pad_token_id == 1:
        # The RoBERTa family counts positions by what is not padding.
        names = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    letters = list(string.ascii_lowercase)
    vocabulary = {name: index for index, name in enumerate(names + letters + ["##" + letter for letter in letters])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]" if family.pooling == "last" else "[CLS] $A [SEP]",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", sep_token="[SEP]",
        model_max_length=family.config.max_position_embeddings, model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.save_pretrained(folder)
    with tempfile.TemporaryDirectory() as readable:
        if model:
            model.to(torch.float32).save_pretrained(readable)
            tokenizer.save_pretrained(readable)
        read = readable if model else str(folder)
        encoder = SentenceTransformer(read, device="cpu", model_kwargs={"dtype": torch.float32})

    def vectors(name: str | None) -> list[list[float]]:
        # One by one: nothing is padded.
        each = [encoder.encode(text, prompt_name=name, normalize_embeddings=True, convert_to_numpy=True) for text in TEXTS]
        return [[float(x) for x in vector] for vector in each]

    made = {"texts": TEXTS, "vectors": vectors(None)}
    said = family.files.get("config_sentence_transformers.json")
    if said:
        made["named"] = {name: vectors(name) for name in said["prompts"]}
    (folder / "texts.json").write_text(json.dumps(made) + "\n")
