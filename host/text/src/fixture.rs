//! Small tokenizers for this crate's tests.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::Tokenizer;
use crate::token_bytes::byte_characters;

const SPECIAL: [&str; 5] = [
    "<|bos|>",
    "<|eos|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
];

pub(crate) const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}\
                        {% if add_generation_prompt %}<|assistant|>{% endif %}";

/// The token of one byte in [`byte_level`].
pub(crate) fn byte_token(byte: u8) -> u32 {
    u32::from(byte) + SPECIAL.len() as u32
}

/// Special tokens 0 to 4, the 256 bytes, then a few merges ("he", "ll", "hell"+"o" only as one).
pub(crate) fn byte_level_json() -> Value {
    let characters = byte_characters();
    let mut vocabulary = serde_json::Map::new();
    for (id, name) in SPECIAL.iter().enumerate() {
        vocabulary.insert((*name).into(), json!(id));
    }
    for byte in 0..=255u8 {
        vocabulary.insert(
            characters[usize::from(byte)].to_string(),
            json!(byte_token(byte)),
        );
    }
    let merges = ["h e", "l l", "ll o", "he llo", "Ġ w", "Ġ Ġ"];
    for merge in merges {
        let id = vocabulary.len();
        vocabulary.insert(merge.replace(' ', ""), json!(id));
    }
    let added: Vec<Value> = (0..SPECIAL.len())
        .map(|id| json!({"id": id, "content": SPECIAL[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}))
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges},
    })
}

pub(crate) fn config_json() -> Value {
    json!({"bos_token": "<|bos|>", "eos_token": {"content": "<|eos|>"}, "chat_template": TEMPLATE})
}

pub(crate) fn byte_level() -> Tokenizer {
    let config = config_json().to_string();
    Tokenizer::from_parts(
        byte_level_json().to_string().as_bytes(),
        Some(config.as_bytes()),
        None,
    )
    .unwrap()
}

/// The same with these tokens, added and not special.
pub(crate) fn with_added(names: &[&str]) -> Tokenizer {
    let mut json = byte_level_json();
    let first = json["model"]["vocab"].as_object().unwrap().len();
    let added = json["added_tokens"].as_array_mut().unwrap();
    for (id, name) in (first..).zip(names) {
        added.push(json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false}));
    }
    let config = config_json().to_string();
    Tokenizer::from_parts(json.to_string().as_bytes(), Some(config.as_bytes()), None).unwrap()
}

/// As Llama 2's: words begin with `▁`, characters outside the vocabulary are bytes, a leading space is stripped.
pub(crate) fn byte_fallback() -> Tokenizer {
    let mut vocabulary = serde_json::Map::new();
    for name in ["<unk>", "<s>", "</s>"] {
        let id = vocabulary.len();
        vocabulary.insert(name.into(), json!(id));
    }
    for byte in 0..=255u8 {
        let id = vocabulary.len();
        vocabulary.insert(format!("<0x{byte:02X}>"), json!(id));
    }
    for name in ["▁", "a", "b", "ab", "▁a", "▁ab"] {
        let id = vocabulary.len();
        vocabulary.insert(name.into(), json!(id));
    }
    let added: Vec<Value> = ["<unk>", "<s>", "</s>"].iter().enumerate()
        .map(|(id, name)| json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}))
        .collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary, "merges": ["a b", "▁ a", "▁ ab"]},
    });
    let config = json!({"bos_token": "<s>", "eos_token": "</s>"}).to_string();
    Tokenizer::from_parts(json.to_string().as_bytes(), Some(config.as_bytes()), None).unwrap()
}

/// As BERT's, with padding to 128 and truncation to 256 baked in, as sentence-transformers does.
pub(crate) fn word_piece() -> Tokenizer {
    let names = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "[", "]", "cl", "##s", "c", "se",
        "##p", "s", "ℝ",
    ];
    let vocabulary: serde_json::Map<String, Value> = (0..)
        .zip(names)
        .map(|(id, name)| (name.into(), json!(id)))
        .collect();
    let added: Vec<Value> = (0..4)
        .map(|id| json!({"id": id, "content": names[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}))
        .collect();
    let special = |id: usize| json!({"SpecialToken": {"id": names[id], "type_id": 0}});
    let json = json!({
        "version": "1.0", "added_tokens": added,
        "truncation": {"direction": "Right", "max_length": 256, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [special(2), {"Sequence": {"id": "A", "type_id": 0}}, special(3)],
            "pair": [special(2), {"Sequence": {"id": "A", "type_id": 0}}, special(3), {"Sequence": {"id": "B", "type_id": 1}},
                {"SpecialToken": {"id": names[3], "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    Tokenizer::from_parts(json.to_string().as_bytes(), None, None).unwrap()
}

/// Names of tokens of every kind of tokenizer, the bytes from `<0x00>` first; the last two are special.
pub(crate) fn names_of_all_kinds() -> Vec<String> {
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    let others = [
        "\u{fffd}", "▁", "▁▁", "▁a", "a", "b", "ab", "aab", "é", "€", "😀", "END", " ", "", ".",
        " .", "n't", "##ing", "##.", "[", "a</w>", "</w>", "</w>b", "|", "<0x0a>", "<0xZZ>", "<0x",
        "Ġ", "Ġa", "â", "Ĥ", "¬", "ð", "Ł", "ĺ", "Ģ", "<pad>", "</s>",
    ];
    bytes.chain(others.map(str::to_owned)).collect()
}

/// The tokenizer of [`names_of_all_kinds`] with a decoder, or with none.
pub(crate) fn decoding(decoder: &Value) -> Tokenizer {
    let names = names_of_all_kinds();
    let special = names.len() - 2..names.len();
    let added: Vec<Value> = special
        .map(|id| json!({"id": id, "content": names[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}))
        .collect();
    let vocabulary: serde_json::Map<String, Value> = (0..)
        .zip(names)
        .map(|(id, name)| (name, json!(id)))
        .collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "\u{fffd}"},
    });
    Tokenizer::from_parts(json.to_string().as_bytes(), None, None).unwrap()
}

pub(crate) fn shared() -> Arc<Tokenizer> {
    static SHARED: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(byte_level())))
}

pub(crate) fn shared_byte_fallback() -> Arc<Tokenizer> {
    static SHARED: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(byte_fallback())))
}
