//! From tokens to text as it comes: whole characters, and nothing of a stop string.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tidegate_contract::GgufVocabulary;
use tidegate_text::{Detokenizer, StopStrings, Tokenizer};

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name),
    )
    .unwrap()
}

/// A byte-level tokenizer and a SentencePiece one, each with the token of a byte.
fn tokenizers() -> Vec<(Arc<Tokenizer>, Vec<u32>)> {
    let byte_level = Tokenizer::from_parts(&golden("tokenizer.json"), None, None).unwrap();
    let sentencepiece: Value = serde_json::from_slice(&golden("sentencepiece.json")).unwrap();
    let tables = &sentencepiece["llama"]["tables"];
    let sentencepiece = Tokenizer::from_gguf(&GgufVocabulary {
        model: "llama".into(),
        tokens: serde_json::from_value(tables["tokens"].clone()).unwrap(),
        scores: serde_json::from_value(tables["scores"].clone()).unwrap(),
        types: serde_json::from_value(tables["types"].clone()).unwrap(),
        bos: Some(1),
        eos: Some(2),
        ..GgufVocabulary::default()
    })
    .unwrap();
    let with_bytes = |tokenizer: Tokenizer| {
        let of_byte = |byte: u8| {
            // The last one: SentencePiece has letters as tokens besides the bytes, which come first.
            (0..tokenizer.vocabulary() as u32)
                .find(|id| tokenizer.token_bytes(*id) == Some(vec![byte]))
                .unwrap()
        };
        let bytes = (0..=255).map(of_byte).collect();
        (Arc::new(tokenizer), bytes)
    };
    vec![with_bytes(byte_level), with_bytes(sentencepiece)]
}

/// What comes out with each token, and at the end; and whether a stop string came.
fn stream(tokenizer: &Arc<Tokenizer>, ids: &[u32], stops: &[&str]) -> (Vec<String>, bool) {
    let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
    let mut stop = StopStrings::new(stops);
    let mut parts = Vec::new();
    for id in ids {
        let (mut text, mut out) = (String::new(), String::new());
        detokenizer.push(*id, &mut text);
        let stopped = stop.push(&text, &mut out);
        parts.push(out);
        if stopped {
            return (parts, true);
        }
    }
    let (mut text, mut out) = (String::new(), String::new());
    detokenizer.finish(&mut text);
    stop.push(&text, &mut out);
    stop.finish(&mut out);
    parts.push(out);
    (parts, stop.stopped())
}

#[test]
fn a_stop_string_over_many_tokens_and_half_characters_stops_before_it() {
    for (tokenizer, bytes) in tokenizers() {
        let spell = |text: &str| -> Vec<u32> {
            text.bytes().map(|byte| bytes[usize::from(byte)]).collect()
        };
        let (parts, stopped) = stream(&tokenizer, &spell("Fine 😀€E€END more"), &["€END"]);
        assert!(stopped);
        assert_eq!(parts.concat(), "Fine 😀€E");
        // The smiley comes with its last byte, the first euro once it begins no stop string.
        assert_eq!(parts[4..9], [" ", "", "", "", "😀"]);
        assert!(parts[9..15].iter().all(String::is_empty));
        assert_eq!(parts[15], "€E");
        assert!(parts[16..].iter().all(String::is_empty));
        // The same in the tokenizer's own tokens.
        let ids = tokenizer.encode("Fine. {%- endfor %} more").unwrap();
        let (parts, stopped) = stream(&tokenizer, &ids, &["%- endfor"]);
        assert!(stopped && parts.len() >= 3);
        assert_eq!(parts.concat(), "Fine. {");
    }
}

#[test]
fn stray_bytes_hold_back_neither_text_nor_a_stop_string() {
    for (tokenizer, bytes) in tokenizers() {
        let spell = |text: &[u8]| -> Vec<u32> {
            text.iter().map(|byte| bytes[usize::from(*byte)]).collect()
        };
        let mut ids = spell("😀".as_bytes());
        ids.extend(spell(&[0xff]));
        ids.extend(tokenizer.encode("fine").unwrap());
        let upto = ids.len();
        ids.extend(tokenizer.encode("END").unwrap());
        ids.extend(tokenizer.encode("more").unwrap());
        let (parts, stopped) = stream(&tokenizer, &ids, &["END"]);
        assert!(stopped, "{parts:?}");
        assert_eq!(parts[..5], ["", "", "", "😀", "\u{fffd}"]);
        let text = parts.concat();
        assert_eq!(text.replace(' ', ""), "😀\u{fffd}fine");
        // What goes on from its first tokens has the same text.
        let mut resumed = Detokenizer::new(Arc::clone(&tokenizer));
        let mut again = String::new();
        ids[..upto]
            .iter()
            .for_each(|id| resumed.push(*id, &mut again));
        assert_eq!(again.trim_end(), text.trim_end());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_part_is_whole_characters_wherever_the_tokens_end(text in "[a-zé€😀 \n]{0,20}", splits in proptest::collection::vec(any::<bool>(), 20)) {
        for (tokenizer, bytes) in tokenizers() {
            // Some characters as bytes, some as the tokenizer has them.
            let mut ids = Vec::new();
            for (c, split) in text.chars().zip(splits.iter().cycle()) {
                match split {
                    true => ids.extend(c.to_string().bytes().map(|byte| bytes[usize::from(byte)])),
                    false => ids.extend(tokenizer.encode(&c.to_string()).unwrap()),
                }
            }
            let (parts, _) = stream(&tokenizer, &ids, &[]);
            prop_assert!(parts.iter().all(|part| !part.contains(char::REPLACEMENT_CHARACTER)), "{parts:?}");
            prop_assert_eq!(parts.concat(), tokenizer.decode(&ids).unwrap());
        }
    }
}
