//! Prompts and texts against what `transformers` makes of them: `golden/make_golden.py` wrote the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tidegate_text::{ChatMessage, Detokenizer, PromptError, Tokenizer};

#[derive(Deserialize)]
struct Golden {
    templates: BTreeMap<String, String>,
    chats: Vec<Chat>,
    texts: Vec<Text>,
}

#[derive(Deserialize)]
struct Chat {
    template: String,
    messages: Vec<Message>,
    text: Option<String>,
    tokens: Option<Vec<u32>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    tokens: Vec<u32>,
    decoded: String,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden() -> Golden {
    serde_json::from_slice(&std::fs::read(directory().join("golden.json")).unwrap()).unwrap()
}

fn tokenizer(template: Option<&str>) -> Tokenizer {
    let json = std::fs::read(directory().join("tokenizer.json")).unwrap();
    let config = br#"{"bos_token": "<|bos|>", "eos_token": "<|eos|>"}"#;
    Tokenizer::from_parts(&json, Some(config), template).unwrap()
}

#[test]
fn prompts_are_those_of_transformers() {
    let golden = golden();
    for (name, source) in &golden.templates {
        let tokenizer = tokenizer(Some(source));
        let mut cases = 0;
        for chat in golden.chats.iter().filter(|chat| &chat.template == name) {
            cases += 1;
            let messages: Vec<ChatMessage<'_>> = chat
                .messages
                .iter()
                .map(|m| ChatMessage {
                    role: &m.role,
                    content: &m.content,
                })
                .collect();
            match &chat.error {
                Some(error) => {
                    let refused = tokenizer.render_chat(&messages).unwrap_err();
                    assert_eq!(refused, PromptError::Refused(error.clone()), "{name}");
                }
                None => {
                    assert_eq!(
                        Some(tokenizer.render_chat(&messages).unwrap()),
                        chat.text,
                        "{name}"
                    );
                    assert_eq!(
                        Some(tokenizer.encode_chat(&messages).unwrap()),
                        chat.tokens,
                        "{name}"
                    );
                }
            }
        }
        assert_eq!(cases, 4, "{name}");
    }
}

#[test]
fn texts_are_encoded_decoded_and_streamed_as_by_transformers() {
    let tokenizer = Arc::new(tokenizer(None));
    for case in golden().texts {
        assert_eq!(
            tokenizer.encode(&case.text).unwrap(),
            case.tokens,
            "{:?}",
            case.text
        );
        assert_eq!(tokenizer.decode(&case.tokens).unwrap(), case.decoded);
        let mut detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
        let mut streamed = String::new();
        case.tokens
            .iter()
            .for_each(|token| detokenizer.push(*token, &mut streamed));
        detokenizer.finish(&mut streamed);
        assert_eq!(streamed, case.decoded);
    }
}
