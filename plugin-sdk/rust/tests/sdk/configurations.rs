//! A configuration is one type: its schema, its defaults and its errors come from it.

use std::collections::BTreeMap;

use serde_json::json;
use tidegate_sdk::config::config_schema;
use tidegate_sdk::json::Paths;
use tidegate_sdk::prelude::*;
use tidegate_sdk::read_config;

const MOST: u64 = 1 << 40;

/// How records are judged.
#[derive(Debug, PartialEq, Configuration)]
struct Judge {
    /// How many
    /// may come.
    #[config(range = 1..=MOST)]
    most: u64,
    #[config(default = 0.5, range = 0.0..=1.0)]
    share: f64,
    #[config(default = -3, range = -5..)]
    shift: i32,
    /// What they are called.
    #[config(default = "none", length = 1..=8)]
    r#type: String,
    #[config(name = "not-these", default, length = ..=2, each(length = 2..))]
    refused: Vec<String>,
    /// What then.
    #[config(default)]
    then: Then,
    quiet: Option<bool>,
    paths: Paths,
    #[config(default)]
    parts: BTreeMap<String, Part>,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Configuration)]
enum Then {
    /// They end.
    #[default]
    DropThem,
    #[config(name = "keep")]
    GoOn,
}

#[derive(Debug, PartialEq, Configuration)]
struct Part {
    weights: Vec<u8>,
}

#[test]
fn the_schema_is_made_from_the_type() {
    let schema: serde_json::Value = serde_json::from_str(&config_schema::<Judge>()).unwrap();
    let part = json!({
        "type": "object",
        "properties": {"weights": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}}},
        "required": ["weights"],
        "additionalProperties": false,
    });
    let expected = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "description": "How records are judged.",
        "properties": {
            "most": {"type": "integer", "minimum": 1, "maximum": 1_099_511_627_776_u64, "description": "How many may come."},
            "share": {"type": "number", "minimum": 0.0, "maximum": 1.0, "default": 0.5},
            "shift": {"type": "integer", "minimum": -5, "maximum": i32::MAX, "default": -3},
            "type": {
                "type": "string", "minLength": 1, "maxLength": 8, "default": "none",
                "description": "What they are called.",
            },
            "not-these": {
                "type": "array", "items": {"type": "string", "minLength": 2}, "maxItems": 2, "default": [],
            },
            "then": {
                "enum": ["drop-them", "keep"], "default": "drop-them",
                "description": "What then.\nOne of them.\n`drop-them`: They end.",
            },
            "quiet": {"type": "boolean"},
            "paths": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            "parts": {"type": "object", "additionalProperties": part, "default": {}},
        },
        "required": ["most"],
        "additionalProperties": false,
    });
    assert_eq!(schema, expected, "{schema:#}");
}

#[test]
fn what_is_not_there_is_the_default() {
    let judge: Judge = read_config(r#"{"most": 1099511627776}"#).unwrap();
    let expected = Judge {
        most: MOST,
        share: 0.5,
        shift: -3,
        r#type: "none".into(),
        refused: Vec::new(),
        then: Then::DropThem,
        quiet: None,
        paths: Paths::all(),
        parts: BTreeMap::new(),
    };
    assert_eq!(judge, expected);
}

#[test]
fn what_is_shown_is_read_as_the_same() {
    let text = r#"{"most":7,"share":1,"shift":-5,"type":"eight ßs","not-these":["ab"],"then":"keep","quiet":false,"paths":["a.b"],"parts":{"x":{"weights":[0,255]}}}"#;
    let judge: Judge = read_config(text).unwrap();
    assert_eq!(judge.then, Then::GoOn);
    assert_eq!(judge.parts["x"].weights, [0, 255]);
    assert_eq!(
        read_config::<Judge>(&judge.show().to_string()).unwrap(),
        judge
    );
}

#[test]
fn an_error_names_the_key_the_value_and_what_would_be_right() {
    let cases = [
        (json!({}), "config key `most` is missing"),
        (json!([]), "config is [], expected a table"),
        (
            json!({"most": 0}),
            "config key `most` is 0, expected at least 1",
        ),
        (
            json!({"most": 1_099_511_627_777_u64}),
            "config key `most` is 1099511627777, expected at most 1099511627776",
        ),
        (
            json!({"most": -1}),
            "config key `most` is -1, expected a whole number from 0 to 18446744073709551615",
        ),
        (
            json!({"most": 1, "share": 1.5}),
            "config key `share` is 1.5, expected at most 1.0",
        ),
        (
            json!({"most": 1, "shift": -6}),
            "config key `shift` is -6, expected at least -5",
        ),
        (
            json!({"most": 1, "type": ""}),
            "config key `type` has 0 characters, expected at least 1",
        ),
        (
            json!({"most": 1, "not-these": ["ab", "a"]}),
            "config key `not-these[1]` has 1 characters, expected at least 2",
        ),
        (
            json!({"most": 1, "then": "go-on"}),
            r#"config key `then` is "go-on", expected one of "drop-them", "keep""#,
        ),
        (
            json!({"most": 1, "parts": {"x": {"weights": [1, 256]}}}),
            "config key `parts.x.weights[1]` is 256, expected a whole number from 0 to 255",
        ),
        (
            json!({"most": 1, "parts": {"x": {"weight": 1}}}),
            "config key `parts.x.weight` is unknown, expected `weights`",
        ),
        (
            json!({"most": 1, "paths": ["a..b"]}),
            "`paths` has \"a..b\"",
        ),
    ];
    for (config, expected) in cases {
        let error = read_config::<Judge>(&config.to_string()).unwrap_err();
        assert!(error.contains(expected), "{config}: {error}");
    }
    let long = json!({"most": "é".repeat(1000)}).to_string();
    let error = read_config::<Judge>(&long).unwrap_err();
    assert!(
        error.len() < 400 && error.contains("é ..., expected a whole number"),
        "{error}"
    );
}

#[test]
fn a_default_is_held_against_its_own_bounds() {
    #[derive(Debug, Configuration)]
    struct Contradictory {
        #[config(default = 0, range = 1..)]
        most: u64,
    }
    let error = read_config::<Contradictory>("{}").unwrap_err();
    assert_eq!(
        error,
        "config key `most` is 0, expected at least 1 (this is its default)"
    );
    let read = read_config::<Contradictory>(r#"{"most": 2}"#).unwrap();
    assert_eq!(read.most, 2);
}

#[test]
fn an_operator_without_a_configuration_takes_an_empty_table() {
    for text in ["", "  ", "{}", "null"] {
        assert!(read_config::<NoConfig>(text).is_ok(), "{text:?}");
    }
    let error = read_config::<NoConfig>(r#"{"a":1}"#).unwrap_err();
    assert_eq!(error, "config key `a` is unknown, expected no key at all");
}
