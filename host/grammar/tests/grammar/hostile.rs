//! Structures from outside: wrong ones are errors that say why, excessive ones end at a limit.

use std::time::Duration;

use crate::common::{self, Random, allowed, compiler, tokens};
use proptest::prelude::*;
use tidegate_contract::Structure;
use tidegate_grammar::{Compiler, GrammarError, Limits, Vocabulary};

fn refusal(structure: &Structure) -> String {
    compiler().matcher(structure).unwrap_err().to_string()
}

fn schema(text: &str) -> Structure {
    Structure::JsonSchema(text.into())
}

fn regex(text: &str) -> Structure {
    Structure::Regex(text.into())
}

fn grammar(text: &str) -> Structure {
    Structure::Grammar(text.into())
}

/// Compiles and, if that works, goes some steps: an error is fine, a crash or an endless run is not.
fn survives(structure: &Structure) -> Result<usize, GrammarError> {
    let mut matcher = compiler().matcher(structure)?;
    let mut random = Random(7);
    let words = tokens().len().div_ceil(32);
    for step in 0..30 {
        if matcher.must_end() {
            return Ok(step);
        }
        let set = allowed(&mut matcher, words)?;
        matcher.accept(set[random.below(set.len())])?;
    }
    Ok(30)
}

#[test]
fn a_wrong_structure_is_refused_with_what_is_wrong() {
    for (structure, words) in [
        (schema("{"), "JSON Schema: EOF while parsing"),
        (schema("[]"), "JSON Schema: must be an object or a boolean"),
        (schema("false"), "JSON Schema: Unsatisfiable schema"),
        (schema(r#"{"type": "text"}"#), "text"),
        (
            schema(r#"{"type": "string", "enum": [1]}"#),
            "Unsatisfiable",
        ),
        (schema(r#"{"not": {"type": "string"}}"#), "not"),
        (
            schema(r#"{"oneOf": [{"type": "number"}, {"type": "integer"}]}"#),
            "coerce_one_of",
        ),
        (
            schema(r#"{"properties": {"a": {"items": 3}}}"#),
            "schema must be an object or boolean",
        ),
        (schema(r##"{"$ref": "#/$defs/none"}"##), "none"),
        (
            schema(r#"{"type": "string", "pattern": "("}"#),
            "regex parse error",
        ),
        (
            schema(r#"{"x-guidance": 1}"#),
            "x-guidance: must be an object",
        ),
        (schema(r#"{"x-guidance": {"sloppy": true}}"#), "sloppy"),
        (
            regex("a("),
            "regular expression: regex parse error:\n    a(\n     ^\nerror: unclosed group",
        ),
        (regex("a\\"), "incomplete escape sequence"),
        (regex("a)(?:b"), "unopened group"),
        (regex(r"\bword\b"), "word boundaries nowhere"),
        (
            regex("a^b"),
            "regular expression: anchors may stand at the beginning and the end only",
        ),
        (regex("(?=a)"), "look-around"),
        (regex(r"[a&&b]"), "regular expression: no text can be that"),
        (Structure::Choice(Vec::new()), "choices: the list is empty"),
        (grammar(" \n"), "grammar: the text is empty"),
        (grammar("start: other\n"), "other"),
        (grammar("begin: \"a\"\n"), "start"),
        (
            grammar("start: \"a\"\n  ?? |"),
            "grammar: 2(3): expecting rule",
        ),
        (grammar("start: /(/\n"), "regex parse error"),
        (
            grammar("start: <|none|>\n"),
            "grammar: not understood: missing special token",
        ),
    ] {
        let refusal = refusal(&structure);
        assert!(refusal.contains(words), "{structure:?}: {refusal}");
        assert!(
            refusal.len() < 700 && !refusal.contains("backtrace") && !refusal.contains("panic"),
            "{refusal}"
        );
    }
}

#[test]
fn nothing_is_fetched() {
    for uri in [
        "http://127.0.0.1:9/schema.json",
        "https://example.com/s",
        "file:///etc/passwd",
        "other.json",
    ] {
        let refusal = refusal(&schema(&format!(r#"{{"$ref": "{uri}"}}"#)));
        assert!(refusal.starts_with("JSON Schema: "), "{refusal}");
    }
}

#[test]
fn what_is_too_long_is_refused_unread() {
    let long = " ".repeat((256 << 10) + 1);
    assert_eq!(
        refusal(&schema(&long)),
        "JSON Schema of 262145 bytes exceeds the limit of 262144 bytes"
    );
    assert!(
        refusal(&Structure::Choice(vec!["a".into(); 200_000]))
            .starts_with("choices of 400000 bytes")
    );
}

#[test]
fn deep_structures_do_not_overflow_the_stack() {
    let nested =
        |depth: usize| format!("{}{{}}{}", r#"{"items":"#.repeat(depth), "}".repeat(depth));
    assert!(survives(&schema(&nested(50))).is_ok());
    assert!(refusal(&schema(&nested(5_000))).contains("recursion limit"));
    assert!(
        refusal(&regex(&format!(
            "{}a{}",
            "(".repeat(9_000),
            ")".repeat(9_000)
        )))
        .contains("nest")
    );
    let brackets = format!("start: {}\"a\"{}\n", "(".repeat(9_000), ")".repeat(9_000));
    assert!(refusal(&grammar(&brackets)).contains("nested"));
    // Chains: each definition needs the next.
    let mut chain = String::from(r##"{"$ref": "#/$defs/d0", "$defs": {"##);
    for i in 0..4_000 {
        chain.push_str(&format!(
            r##""d{i}": {{"items": {{"$ref": "#/$defs/d{}"}}}}, "##,
            i + 1
        ));
    }
    chain.push_str(r#""d4000": {"type": "null"}}}"#);
    let too_long = |structure| matches!(survives(&structure), Err(GrammarError::TooLong { .. }));
    assert!(!too_long(schema(&chain)));
    let mut references = String::from(r##"{"$ref": "#/$defs/d0", "$defs": {"##);
    for i in 0..4_000 {
        references.push_str(&format!(r##""d{i}": {{"$ref": "#/$defs/d{}"}}, "##, i + 1));
    }
    references.push_str(r#""d4000": {"type": "null"}}}"#);
    assert!(!too_long(schema(&references)));
    for letter in ["r", "T"] {
        let mut rules = format!("start: {letter}0\n");
        for i in 0..13_000 {
            rules.push_str(&format!("{letter}{i}: {letter}{} \"x\"\n", i + 1));
        }
        rules.push_str(&format!("{letter}13000: \"y\"\n"));
        assert!(!too_long(grammar(&rules)));
    }
}

#[test]
fn structures_without_end_are_refused_or_bounded() {
    let itself = survives(&schema(r##"{"$ref": "#"}"##));
    assert!(itself.is_err(), "{itself:?}");
    let circle = r##"{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##;
    assert!(survives(&schema(circle)).is_err());
    let endless = r##"{"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"], "additionalProperties": false}"##;
    let _ = survives(&schema(endless));
    let _ = survives(&grammar("start: start start | \"a\"\n"));
    let _ = survives(&grammar("start: start\n"));
    let _ = survives(&grammar("start: a\na: b\nb: a | \"x\"\n"));
}

#[test]
fn excessive_structures_end_at_a_limit() {
    for structure in [
        regex("(a*)*b"),
        regex("(a|aa)+$"),
        regex("((a{0,100}){0,100}){0,100}"),
        regex(&format!("{}{}", "a?".repeat(2_000), "a".repeat(2_000))),
        regex(".{1,100000}x"),
        regex("(.*a){30}"),
        regex(r"(\p{L}{1,50}\p{N}{1,50}){1,50}"),
        regex(".*a.{20}"),
        schema(r#"{"type": "string", "pattern": "(x+x+)+y"}"#),
        schema(r#"{"type": "string", "minLength": 100000000}"#),
        schema(r#"{"type": "array", "minItems": 1000000000, "items": {"type": "null"}}"#),
        schema(
            r#"{"type": "array", "maxItems": 1000000000, "items": {"type": "array", "maxItems": 1000000000}}"#,
        ),
        schema(
            r#"{"type": "integer", "multipleOf": 999999937, "minimum": -1e300, "maximum": 1e300}"#,
        ),
        schema(r#"{"type": "number", "minimum": 0.000000000000000000001, "multipleOf": 1e-300}"#),
        Structure::Choice(
            (0..20_000)
                .map(|i: u64| format!("{:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24))
                .collect(),
        ),
        schema(&format!(
            r#"{{"enum": [{}0]}}"#,
            (0..30_000).map(|i| format!("{i}, ")).collect::<String>()
        )),
        schema(&format!(
            r#"{{"properties": {{{}"z": {{}}}}}}"#,
            (0..2_000)
                .map(|i| format!(r#""p{i}": {{"type": "string"}}, "#))
                .collect::<String>()
        )),
        schema(&format!(
            r#"{{"allOf": [{}true]}}"#,
            r#"{"anyOf": [{"minLength": 1}, {"maxLength": 9}, {"pattern": "a"}]}, "#.repeat(40)
        )),
        schema(&format!(
            r#"{{"properties": {{"a": {{}}}}, "patternProperties": {{{}"z": true}}}}"#,
            (0..300)
                .map(|i| format!(r#""^.*{i}.*$": {{"type": "string"}}, "#))
                .collect::<String>()
        )),
        grammar(&format!("start: {}\"a\"\n", "\"a\"? ".repeat(5_000))),
        grammar("start: (((\"a\"~1000)~1000)~1000)~1000\n"),
        grammar("start: x x x x x x x x x x\nx: (x x)? | \"a\"*\n"),
    ] {
        let shown: String = format!("{structure:?}").chars().take(80).collect();
        let outcome = survives(&structure);
        if let Err(error) = outcome {
            assert!(
                !error.to_string().contains("not understood"),
                "{shown}: {error}"
            );
        }
    }
}

#[test]
fn the_time_to_compile_is_limited() {
    let vocabulary = Vocabulary::new(tokens(), &[common::END]).unwrap();
    let limits = Limits {
        time: Duration::from_micros(1),
        slow_for: Duration::ZERO,
        ..Limits::default()
    };
    let compiler = Compiler::with_limits(vocabulary, limits.clone());
    // Seconds of work.
    let large = schema(&format!(
        r#"{{"properties": {{{}"z": {{}}}}}}"#,
        (0..2_000)
            .map(|i| format!(r#""p{i}": {{"type": "string"}}, "#))
            .collect::<String>()
    ));
    let refused = GrammarError::TooSlow {
        kind: "JSON Schema",
        limit: limits.time,
    };
    assert_eq!(refused.to_string(), "JSON Schema is not compiled after 1µs");
    // Each time it is tried anew. Threads that were left behind hold their places: at last there is none.
    for _ in 0..4 {
        assert_eq!(compiler.matcher(&large).unwrap_err(), refused);
    }
    assert_eq!(
        compiler.matcher(&large).unwrap_err(),
        GrammarError::Busy { limit: 4 }
    );
}

#[test]
fn few_structures_are_kept_and_each_still_works() {
    let vocabulary = Vocabulary::new(tokens(), &[common::END]).unwrap();
    let compiler = Compiler::with_limits(
        vocabulary,
        Limits {
            kept: 2,
            ..Limits::default()
        },
    );
    for round in 0..3 {
        for text in ["a", "b", "c"] {
            let mut matcher = compiler.matcher(&regex(text)).unwrap();
            matcher
                .accept(common::byte_token(text.as_bytes()[0]))
                .unwrap();
            assert!(matcher.must_end(), "{round}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_as_a_structure_is_an_answer(text in "[a-c(){}\\[\\]|*+?^$.\\\\/\"':,<>~0-9 \n&%@#_-]{0,40}", which in 0..3) {
        let structure = match which {
            0 => regex(&text),
            1 => grammar(&format!("start: {text}\n")),
            _ => schema(&format!(r#"{{"type": "string", "pattern": {}}}"#, serde_json::to_string(&text).unwrap())),
        };
        if let Err(error) = survives(&structure) {
            prop_assert!(!error.to_string().contains("library failed"), "{structure:?}: {error}");
        }
    }
}
