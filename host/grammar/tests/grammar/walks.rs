//! Whatever is taken from the masks becomes what was asked for.

use std::sync::OnceLock;

use crate::common::{self, END, OTHER_END, compiler, tokens, walk};
use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;
use tidegate_contract::Structure;
use tidegate_grammar::Compiler;

const SCHEMAS: [&str; 16] = [
    r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"], "additionalProperties": false}"#,
    r#"{"enum": ["red", "green", 3, null, {"a": [1]}, "é😀"]}"#,
    r#"{"const": {"k": "v\n\"q\""}}"#,
    r#"{"type": "array", "items": {"type": "number", "minimum": -2.5, "exclusiveMaximum": 7}, "minItems": 2, "maxItems": 4}"#,
    r##"{"$defs": {"node": {"type": "object", "properties": {"value": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["value", "next"], "additionalProperties": false}}, "$ref": "#/$defs/node"}"##,
    r#"{"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}"#,
    r#"{"type": "string", "minLength": 3, "maxLength": 5}"#,
    r#"{"type": "array", "prefixItems": [{"type": "string", "enum": ["a", "ab"]}, {"type": "integer"}], "items": false, "minItems": 2}"#,
    r#"{"anyOf": [{"type": "integer", "multipleOf": 7}, {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"], "additionalProperties": false}]}"#,
    r#"{"type": "object", "additionalProperties": {"type": "integer"}}"#,
    r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "boolean"}}, "required": ["b"]}"#,
    r#"{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"enum": [1, 2]}}, "required": ["b"]}]}"#,
    r#"{"type": ["string", "null"], "maxLength": 2}"#,
    r#"{"type": "object", "properties": {"deep": {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, "minItems": 1}},
        "required": ["list"], "additionalProperties": false}}, "required": ["deep"], "additionalProperties": false}"#,
    r#"{"type": "object"}"#,
    "true",
];

const PATTERNS: [&str; 14] = [
    "[a-z]{1,8}",
    r"\d{4}-\d{2}-\d{2}",
    "(foo|bar)+",
    "^(yes|no)$",
    "",
    "a*",
    "é😀?",
    r"\p{Greek}{2}/[^/]{1,3}",
    r#""[^"\\]*""#,
    "(?i)ok",
    r"(?x) a  b # a comment",
    "(?P<stop>x)y",
    "a.c",
    r"\w+@\w+\.(com|org)",
];

fn shared() -> &'static Compiler {
    static SHARED: OnceLock<Compiler> = OnceLock::new();
    SHARED.get_or_init(compiler)
}

fn random_text(structure: &Structure, seed: u64, free: usize) -> String {
    let mut matcher = shared().matcher(structure).unwrap();
    let text = walk(&mut matcher, &tokens(), &[END, OTHER_END], seed, free);
    String::from_utf8(text).unwrap()
}

#[test]
fn every_schema_pattern_and_list_can_be_followed() {
    for schema in SCHEMAS {
        random_text(&Structure::JsonSchema(schema.into()), 1, 8);
    }
    for pattern in PATTERNS {
        random_text(&Structure::Regex(pattern.into()), 1, 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_walk_through_a_schema_is_valid_json(index in 0..SCHEMAS.len(), seed: u64, free in 0usize..60) {
        let text = random_text(&Structure::JsonSchema(SCHEMAS[index].into()), seed, free);
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            // JSON has no largest number, the parser has.
            Err(error) if error.to_string().starts_with("number out of range") => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {text}"))),
        };
        let schema: Value = serde_json::from_str(SCHEMAS[index]).unwrap();
        prop_assert!(common::is_valid(&value, &schema, &schema), "{text} against {schema}");
    }

    #[test]
    fn a_walk_through_a_pattern_matches_it(index in 0..PATTERNS.len(), seed: u64, free in 0usize..20) {
        let text = random_text(&Structure::Regex(PATTERNS[index].into()), seed, free);
        let whole = Regex::new(&format!("^(?:{}\n)$", PATTERNS[index])).or_else(|_| Regex::new(PATTERNS[index])).unwrap();
        let exact = Regex::new(&format!(r"\A(?:{})\z", PATTERNS[index]));
        let matches = match exact {
            Ok(exact) => exact.is_match(&text),
            // A comment at the end swallows the bracket.
            Err(_) => whole.find(&text).is_some_and(|found| found.len() == text.len()),
        };
        prop_assert!(matches, "{text:?} against {}", PATTERNS[index]);
    }

    #[test]
    fn a_walk_through_choices_is_one_of_them(
        choices in proptest::collection::vec("[aé\"\\\\/\n\u{7f}\u{1}😀]{0,4}", 1..6), seed: u64,
    ) {
        let text = random_text(&Structure::Choice(choices.clone()), seed, 12);
        prop_assert!(choices.contains(&text), "{text:?} of {choices:?}");
    }

    #[test]
    fn every_choice_can_be_made(choices in proptest::collection::vec("[ab/\"é]{0,5}", 1..6)) {
        let matcher = shared().matcher(&Structure::Choice(choices.clone())).unwrap();
        for choice in &choices {
            let mut matcher = matcher.clone();
            for byte in choice.bytes() {
                matcher.accept(common::byte_token(byte)).unwrap();
            }
            matcher.accept(END).unwrap();
        }
    }
}
