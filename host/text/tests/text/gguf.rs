//! Vocabularies as GGUF holds them against the tokenizers they come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tidegate_contract::GgufVocabulary;
use tidegate_text::{Detokenizer, Tokenizer};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Words, numbers, white space, scripts and special tokens in turns: 400 texts.
fn texts() -> Vec<String> {
    let parts = [
        "Where", " is", " my", " order", " #10482", "?", "\n", "\n\n", "  ", "\t", " I'll", "'re",
        "DON'T", " 3.14", "é", " señor", "漢字", "😀", "👍🏽", " ½", "<|user|>", "[INST]", " refund",
        "ing", "_", "://", "\u{a0}", "\u{200b}", "a\u{301}", "#",
    ];
    let mut state: u64 = 1;
    let mut next = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    (0..400)
        .map(|length| (0..length % 17).map(|_| parts[next(parts.len())]).collect())
        .collect()
}

/// A byte-level `tokenizer.json` as GGUF's tables.
fn tables(tokenizer: &Value, pre: &str) -> GgufVocabulary {
    let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap();
    let added = tokenizer["added_tokens"].as_array().unwrap();
    let id = |value: &Value| value.as_u64().unwrap() as usize;
    let count = vocabulary
        .values()
        .chain(added.iter().map(|token| &token["id"]))
        .map(id)
        .max()
        .unwrap()
        + 1;
    let mut tokens = vec![String::new(); count];
    let mut types = vec![5; count];
    for (name, place) in vocabulary {
        (tokens[id(place)], types[id(place)]) = (name.clone(), 1);
    }
    for token in added {
        let special = token["special"].as_bool().unwrap();
        tokens[id(&token["id"])] = token["content"].as_str().unwrap().into();
        types[id(&token["id"])] = if special { 3 } else { 4 };
    }
    let merges = tokenizer["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Value::String(pair) => pair.clone(),
            pair => format!(
                "{} {}",
                pair[0].as_str().unwrap(),
                pair[1].as_str().unwrap()
            ),
        });
    GgufVocabulary {
        model: "gpt2".into(),
        pre: Some(pre.into()),
        tokens,
        types,
        merges: merges.collect(),
        ..GgufVocabulary::default()
    }
}

#[test]
fn byte_level_tables_give_the_ids_of_their_tokenizer() {
    for (path, pre) in [
        ("tests/golden/tokenizer.json", "gpt-2"),
        ("../../examples/support-bot/model/tokenizer.json", "smollm"),
    ] {
        let path = directory().join(path);
        let own = Tokenizer::from_parts(&std::fs::read(&path).unwrap(), None, None).unwrap();
        let tokenizer = Tokenizer::from_gguf(&tables(&json(&path), pre)).unwrap();
        assert_eq!(tokenizer.vocabulary(), own.vocabulary());
        for text in texts() {
            let ids = own.encode(&text).unwrap();
            assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{text:?}");
            assert_eq!(
                tokenizer.encode_literal(&text).unwrap(),
                own.encode_literal(&text).unwrap(),
                "{text:?}"
            );
            assert_eq!(tokenizer.decode(&ids).unwrap(), own.decode(&ids).unwrap());
        }
        for id in 0..own.vocabulary() as u32 {
            assert_eq!(tokenizer.token_bytes(id), own.token_bytes(id), "{id}");
        }
    }
}

#[test]
fn sentencepiece_tables_give_the_ids_of_sentencepiece() {
    let golden = json(&directory().join("tests/golden/sentencepiece.json"));
    for (name, golden) in golden.as_object().unwrap() {
        let tables = &golden["tables"];
        let texts =
            |values: &Value| -> Vec<String> { serde_json::from_value(values.clone()).unwrap() };
        let id = |value: &Value| Some(value.as_u64().unwrap() as u32);
        let tokenizer = Arc::new(
            Tokenizer::from_gguf(&GgufVocabulary {
                model: "llama".into(),
                tokens: texts(&tables["tokens"]),
                scores: serde_json::from_value(tables["scores"].clone()).unwrap(),
                types: serde_json::from_value(tables["types"].clone()).unwrap(),
                bos: id(&tables["bos"]),
                eos: id(&tables["eos"]),
                unknown: id(&tables["unknown"]),
                add_space_prefix: golden["space_prefix"].as_bool(),
                ..GgufVocabulary::default()
            })
            .unwrap(),
        );
        for case in golden["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(tokenizer.encode(text).unwrap(), ids, "{name}: {text:?}");
            let decoded = case["decoded"].as_str().unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), decoded, "{name}: {text:?}");
            let mut streamed = String::new();
            let mut detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
            ids.iter()
                .for_each(|id| detokenizer.push(*id, &mut streamed));
            detokenizer.finish(&mut streamed);
            assert_eq!(streamed, decoded, "{name}: {text:?}");
            let bytes: Vec<u8> = ids
                .iter()
                .flat_map(|id| tokenizer.token_bytes(*id).unwrap())
                .collect();
            let prefix = if golden["space_prefix"] == true && !text.is_empty() {
                " "
            } else {
                ""
            };
            assert_eq!(
                String::from_utf8(bytes).unwrap(),
                format!("{prefix}{}", text.replace('▁', " ")),
                "{name}"
            );
        }
        let framed = tokenizer.encode_text("a").unwrap();
        assert_eq!(framed[0], id(&tables["bos"]).unwrap());
    }
}
