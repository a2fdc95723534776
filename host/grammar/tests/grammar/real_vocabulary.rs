//! The same with the tokens of a real model, whose tokens are words and parts of characters.

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use std::sync::OnceLock;
use tidegate_contract::Structure;
use tidegate_grammar::{Compiler, Vocabulary};
use tidegate_text::Tokenizer;

use crate::common;

struct Real {
    tokenizer: Tokenizer,
    tokens: Vec<Option<Vec<u8>>>,
    end: u32,
    compiler: Compiler,
}

fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/support-bot/model");
        let tokenizer = Tokenizer::from_dir(dir).unwrap();
        let tokens: Vec<Option<Vec<u8>>> = (0..tokenizer.vocabulary() as u32)
            .map(|id| tokenizer.token_bytes(id))
            .collect();
        let end = tokenizer.eos().unwrap();
        let compiler = Compiler::new(Vocabulary::new(tokens.clone(), &[end]).unwrap());
        Real {
            tokenizer,
            tokens,
            end,
            compiler,
        }
    })
}

const TICKET: &str = r#"{"type": "object", "properties": {"intent": {"enum": ["refund", "delivery", "other"]},
    "urgent": {"type": "boolean"}, "reply": {"type": "string", "maxLength": 200}},
    "required": ["intent", "urgent", "reply"], "additionalProperties": false}"#;

#[test]
fn an_answer_as_the_tokenizer_splits_it_is_accepted() {
    let real = real();
    let text =
        r#"{"intent": "refund", "urgent": false, "reply": "Your refund is on its way, señor 😀."}"#;
    let mut matcher = real
        .compiler
        .matcher(&Structure::JsonSchema(TICKET.into()))
        .unwrap();
    for token in real.tokenizer.encode_literal(text).unwrap() {
        matcher.accept(token).unwrap();
    }
    assert!(matcher.must_end());
    let mut matcher = real
        .compiler
        .matcher(&Structure::JsonSchema(TICKET.into()))
        .unwrap();
    let wrong = real
        .tokenizer
        .encode_literal(r#"{"intent": "refusal""#)
        .unwrap();
    let accepted = matcher.accepts(&wrong).unwrap();
    assert!(accepted > 0 && accepted < wrong.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_walk_through_a_schema_is_valid_json(seed: u64, free in 0usize..60) {
        let real = real();
        let mut matcher = real.compiler.matcher(&Structure::JsonSchema(TICKET.into())).unwrap();
        let text = common::walk(&mut matcher, &real.tokens, &[real.end], seed, free);
        let value: Value = serde_json::from_slice(&text).unwrap();
        let schema: Value = serde_json::from_str(TICKET).unwrap();
        prop_assert!(common::is_valid(&value, &schema, &schema), "{value}");
    }
}
