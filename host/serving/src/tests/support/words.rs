//! Tokens that are bytes.

use std::sync::{Arc, OnceLock};

use serde_json::json;
use tidegate_text::Tokenizer;

pub(crate) const EOS: u32 = 1;
/// Special tokens before the 256 bytes.
const SPECIAL: [&str; 4] = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"];
pub(crate) const VOCABULARY: usize = 256 + SPECIAL.len();

pub(crate) fn byte(byte: u8) -> u32 {
    u32::from(byte) + SPECIAL.len() as u32
}

pub(crate) fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(byte).collect()
}

/// The prompt of one message of the user.
pub(crate) fn prompt(content: &str) -> Vec<u32> {
    let mut tokens = vec![0, 2];
    tokens.extend(bytes(content));
    tokens.push(3);
    tokens
}

/// The parts of [`tokenizer`]: `tokenizer.json` and `tokenizer_config.json`.
pub(super) fn parts() -> (serde_json::Value, serde_json::Value) {
    let mut vocabulary = serde_json::Map::new();
    for (id, name) in SPECIAL.iter().enumerate() {
        vocabulary.insert((*name).into(), json!(id));
    }
    let mut next = 256;
    for value in 0..=255u8 {
        let plain = matches!(value, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if plain { u32::from(value) } else { next };
        next += u32::from(!plain);
        vocabulary.insert(
            char::from_u32(code).unwrap().to_string(),
            json!(byte(value)),
        );
    }
    let special = |id: usize| {
        json!({"id": id, "content": SPECIAL[id], "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": (0..SPECIAL.len()).map(special).collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    let config = json!({"bos_token": "<|bos|>", "eos_token": "<|eos|>",
            "chat_template": "{% if messages[0].content != 'nothing' %}{{ bos_token }}{% for m in messages %}\
                <|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>{% endif %}"});
    (tokenizer, config)
}

/// A token is a byte; a prompt is `<|bos|><|user|>content<|assistant|>`, three tokens more than its bytes.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let make = || {
        let (tokenizer, config) = parts();
        let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
        Arc::new(
            Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap(),
        )
    };
    Arc::clone(TOKENIZER.get_or_init(make))
}

/// The same with a template for pairs: `<|bos|>first<|eos|>second<|eos|>`, the second of type 1.
pub(crate) fn pairing() -> Arc<Tokenizer> {
    let (mut tokenizer, config) = parts();
    let special =
        |id: usize, kind: u32| json!({"SpecialToken": {"id": SPECIAL[id], "type_id": kind}});
    let sequence = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let known = |id: usize| json!({"id": SPECIAL[id], "ids": [id], "tokens": [SPECIAL[id]]});
    tokenizer["post_processor"] = json!({"type": "TemplateProcessing",
        "single": [special(0, 0), sequence("A", 0), special(1, 0)],
        "pair": [special(0, 0), sequence("A", 0), special(1, 0), sequence("B", 1), special(1, 1)],
        "special_tokens": {SPECIAL[0]: known(0), SPECIAL[1]: known(1)}});
    let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
    Arc::new(Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap())
}

/// Of [`words`]: a word with its space.
pub(crate) const PARIS: u32 = 6;

/// As Llama 2's, of a few words that begin with `▁`: a text begins with a space, which the decoder takes away.
pub(crate) fn words() -> Arc<Tokenizer> {
    let names = [
        "<unk>",
        "<s>",
        "</s>",
        "▁",
        "▁The",
        "▁capital",
        "▁Paris",
        "▁is",
    ];
    let vocabulary: serde_json::Map<String, serde_json::Value> = (0..)
        .zip(names)
        .map(|(id, name)| (name.to_owned(), json!(id)))
        .collect();
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let sequence = |key: &str, all: Vec<serde_json::Value>| json!({"type": "Sequence", key: all});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "post_processor": null,
        "added_tokens": (0..3).map(|id| json!({"id": id, "content": names[id], "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true})).collect::<Vec<_>>(),
        "normalizer": sequence("normalizers", vec![json!({"type": "Prepend", "prepend": "▁"}), replace(" ", "▁")]),
        "pre_tokenizer": {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext", "invert": false},
        "decoder": sequence("decoders", vec![replace("▁", " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"}),
            json!({"type": "Strip", "content": " ", "start": 1, "stop": 0})]),
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    let config = json!({"bos_token": "<s>", "eos_token": "</s>"});
    let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
    Arc::new(Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap())
}
