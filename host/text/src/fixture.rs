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

pub(crate) fn shared() -> Arc<Tokenizer> {
    static SHARED: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(byte_level())))
}

pub(crate) fn shared_byte_fallback() -> Arc<Tokenizer> {
    static SHARED: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(byte_fallback())))
}
