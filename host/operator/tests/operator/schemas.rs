//! A configuration is held against the schema that its operator describes, before `init`; and no schema, however
//! hostile, takes the host more than a bounded time.

use std::time::{Duration, Instant};

use tidegate_contract::OperatorError;
use tidegate_operator::{Change, ComponentSlot, SlotOptions};

use crate::made::{Made, WORLDS, World};
use crate::support::*;

/// An operator with this schema and this configuration, whose `init` would trap.
fn start(schema: &str, config: &str) -> Result<(), OperatorError> {
    let made = Made::new(World::Packed).schema(schema);
    let options = SlotOptions {
        config: config.into(),
        limits: patient(),
        ..SlotOptions::new("made")
    };
    ComponentSlot::new(&ENGINE, options, &made.bytes(), "made.wasm").map(drop)
}

#[track_caller]
fn refused(schema: &str, config: &str, why: &str) {
    let began = Instant::now();
    let text = start(schema, config).unwrap_err().to_string();
    assert!(text.contains(why), "{text}");
    assert!(text.len() < 4000, "{} bytes", text.len());
    // Seconds are for a busy machine; what is not bounded takes years.
    assert!(began.elapsed() < Duration::from_secs(60));
}

const LANGUAGES: &str = r#"{"type": "object", "required": ["language"], "additionalProperties": false,
    "properties": {"language": {"enum": ["de", "en"]}, "rules": {"type": "array", "items": {"type": "object",
        "properties": {"weight": {"type": "number", "minimum": 0}}}}}}"#;

#[test]
fn a_configuration_that_does_not_fit_is_refused_by_key_and_what_is_expected() {
    start(
        LANGUAGES,
        r#"{"language": "de", "rules": [{"weight": 1.5}]}"#,
    )
    .unwrap();
    refused(
        LANGUAGES,
        "{}",
        "made.wasm does not fit the slot: config: missing properties 'language'",
    );
    refused(
        LANGUAGES,
        r#"{"language": "fr"}"#,
        "config.language: value must be one of 'de', 'en'",
    );
    refused(
        LANGUAGES,
        r#"{"language": "de", "rules": [{"weight": 1}, {"weight": -1}, {"weight": "x"}]}"#,
        "config.rules[1].weight: must be >=0, but got -1; config.rules[2].weight: want number, but got string",
    );
    refused(
        LANGUAGES,
        r#"{"language": "de", "lanugage": "en"}"#,
        "config: additionalProperties 'lanugage' not allowed; there are language, rules",
    );
    let within = r##"{"properties": {"a b/c": {"$ref": "#/$defs/part"}}, "$defs": {"part": {
        "properties": {"weight": {}}, "additionalProperties": false}}}"##;
    refused(
        within,
        r#"{"a b/c": {"wieght": 1}}"#,
        "config.a b/c: additionalProperties 'wieght' not allowed; there are weight",
    );
}

#[test]
fn a_configuration_is_held_against_the_schema_before_init_and_at_deployment() {
    for world in WORLDS {
        let made = Made::new(world)
            .schema(LANGUAGES)
            .code("init", "(unreachable)");
        let options = |config: &str| SlotOptions {
            config: config.into(),
            limits: patient(),
            ..SlotOptions::new("made")
        };
        let error = |config| {
            ComponentSlot::new(&ENGINE, options(config), &made.bytes(), "made.wasm")
                .unwrap_err()
                .to_string()
        };
        assert!(
            error("{}").contains("config: missing properties"),
            "{}",
            error("{}")
        );
        let fits = error(r#"{"language": "de"}"#);
        assert!(fits.contains("does not start: init: trap"), "{fits}");
        let good = Made::new(world).schema(LANGUAGES).bytes();
        let slot =
            ComponentSlot::new(&ENGINE, options(r#"{"language": "de"}"#), &good, "a").unwrap();
        let narrower = LANGUAGES.replace(r#""de", "en""#, r#""en""#);
        let narrower = Made::new(world).schema(narrower).bytes();
        let error = slot.deploy(&narrower, "b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "b does not fit the slot: config.language: value must be 'en'"
        );
        // What a component says can be seen whatever configuration it wants.
        let described = ENGINE
            .compile(&good, "a")
            .unwrap()
            .describe(Default::default());
        assert_eq!(described.unwrap().config_schema, LANGUAGES);
    }
}

#[test]
fn a_configuration_that_two_languages_may_read_otherwise_never_reaches_an_operator() {
    for world in WORLDS {
        let made = Made::new(world).code("describe", "(unreachable)").bytes();
        for (config, why) in [
            (
                r#"{"a": 1, "b": {"c": 1, "c": 2}}"#,
                "the key \"c\" is there twice at line 1 column ",
            ),
            (r#"{"a": "\ud83d"}"#, "hex escape"),
            (r#"{"a": 1"#, "EOF"),
        ] {
            let options = SlotOptions {
                config: config.into(),
                ..SlotOptions::new("made")
            };
            let error = ComponentSlot::new(&ENGINE, options, &made, "made.wasm").unwrap_err();
            let OperatorError::Unfit { why: said, .. } = &error else {
                panic!("{error}");
            };
            assert!(said.starts_with("config: ") && said.contains(why), "{said}");
        }
    }
    // One that is deployed neither.
    let good = Made::new(World::Packed).bytes();
    let options = SlotOptions {
        limits: patient(),
        ..SlotOptions::new("made")
    };
    let slot = ComponentSlot::new(&ENGINE, options, &good, "a").unwrap();
    let change = Change {
        component: None,
        label: "a",
        config: Some(r#"{"a": 1, "a": 2}"#),
    };
    let deployed = slot.deploy_within(&change, patient().deadline);
    let error = deployed.unwrap_err().to_string();
    assert!(
        error.contains("config: the key \"a\" is there twice"),
        "{error}"
    );
}

#[test]
fn a_schema_is_json_and_a_schema() {
    refused("", "{}", "its configuration schema is not JSON: ");
    refused("{", "{}", "its configuration schema is not JSON: ");
    refused("[]", "{}", "its configuration schema is not an object");
    refused(
        r#"{"type": "table"}"#,
        "{}",
        "describe: its configuration schema is none: type: ",
    );
    refused(
        r#"{"properties": {"a": {"$ref": "https://example.org/a"}}}"#,
        "{}",
        "refers to \"https://example.org/a\", and may refer to #, #ANCHOR and #/$defs/NAME alone",
    );
    refused(
        r#"{"$ref": "file:///etc/passwd"}"#,
        "{}",
        "and may refer to #, #ANCHOR and #/$defs/NAME alone",
    );
    refused(r##"{"$ref": "#/none"}"##, "{}", "its configuration schema ");
    refused(
        r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#,
        "{}",
        "has the dialect \"http://json-schema.org/draft-07/schema#\", expected ",
    );
    refused(
        r#"{"$id": "https://example.org/a"}"#,
        "{}",
        "has an $id, which it may not have",
    );
    refused(
        r#"{"allOf": [{"$anchor": "a"}, {"$anchor": "a"}]}"#,
        "{}",
        "its configuration schema ",
    );
}

#[test]
fn a_schema_whose_references_double_is_refused_by_the_steps_it_takes() {
    let mut schema = r##"{"$ref": "#/$defs/d40", "$defs": {"d0": {}"##.to_owned();
    for n in 1..=40 {
        let before = format!(r##"{{"$ref": "#/$defs/d{}"}}"##, n - 1);
        schema += &format!(r#", "d{n}": {{"allOf": [{before}, {before}]}}"#);
    }
    schema += "}}";
    refused(
        &schema,
        "{}",
        "takes more than 100000 steps for this configuration",
    );
    // Along a configuration that is deep.
    let twice = r##"{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}"##;
    start(twice, r#"{"a": {"a": 1}}"#).unwrap();
    let deep = format!("{}1{}", r#"{"a":"#.repeat(25), "}".repeat(25));
    refused(
        twice,
        &deep,
        "takes more than 100000 steps for this configuration",
    );
    refused(r##"{"$ref": "#"}"##, "{}", "goes deeper than 128");
    refused(
        r##"{"$defs": {"a": {"$dynamicRef": "#b", "$dynamicAnchor": "b"}}, "$ref": "#/$defs/a"}"##,
        "{}",
        "goes deeper than 128",
    );
    let values: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let long = format!(r#"{{"items": {{"enum": [{}]}}}}"#, values.join(","));
    let config = format!("{{\"a\": [{}]}}", "1,".repeat(1000) + "1");
    let nested = format!(r#"{{"properties": {{"a": {long}}}}}"#);
    refused(&nested, &config, "takes more than 100000 steps");
    // Counting the characters of a long text, again and again.
    let text = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 17));
    let length = [r#"{"minLength": 1, "maxLength": 1000000}"#; 100].join(",");
    let counted = format!(r#"{{"properties": {{"a": {{"allOf": [{length}]}}}}}}"#);
    refused(&counted, &text, "takes more than 100000 steps");
}

#[test]
fn a_schema_of_very_many_parts_is_refused_before_it_is_compiled() {
    let all = |count: usize| format!(r#"{{"allOf": [{}]}}"#, vec!["true"; count].join(","));
    start(&all(1999), "{}").unwrap();
    let why = "has more than 2000 schemas, which is the limit";
    refused(&all(2000), "{}", why);
    refused(&all(50_000), "{}", why);
    let elsewhere = r##"{"x": {"y": {}}, "allOf": [{"$ref": "#/x/y"}]}"##;
    refused(elsewhere, "{}", "refers to \"#/x/y\", and may refer to #, ");
}

#[test]
fn what_is_data_in_a_schema_is_not_read_as_a_schema() {
    let data = r##"{"pattern": "*.log", "$ref": "https://example.org/a", "$id": "https://example.org/b", "$anchor": "a",
        "patternProperties": {"(": {}}, "$schema": "http://json-schema.org/draft-07/schema#"}"##;
    for keyword in [
        format!(r#""default": {data}"#),
        format!(r#""enum": [{data}, {data}]"#),
        format!(r#""const": {data}"#),
        format!(r#""examples": [{data}, [{data}]]"#),
    ] {
        let schema = format!(
            r##"{{"$anchor": "a", "properties": {{"a": {{{keyword}}}, "default": {{"type": "string"}}}}}}"##
        );
        start(&schema, &format!(r#"{{"a": {data}}}"#)).unwrap();
        // A property of that name has a schema all the same.
        refused(&schema, r#"{"default": 1}"#, "config.default: ");
    }
    let bad = r#"{"properties": {"default": {"pattern": "*"}}}"#;
    refused(bad, "{}", "has the regular expression \"*\": ");
    // Within what is kept for later, too.
    for place in [r#""$defs": {"default": "#, r#""contentSchema": {"not": "#] {
        let schema = format!(r#"{{{place}{{"$id": "https://example.org/a"}}}}}}"#);
        refused(&schema, "{}", "has an $id, which it may not have");
    }
}

#[test]
fn regular_expressions_of_a_schema_are_few_and_small() {
    let pattern =
        |pattern: &str| format!(r#"{{"properties": {{"a": {{"pattern": {pattern:?}}}}}}}"#);
    refused(
        &pattern("^a+$"),
        r#"{"a": "b"}"#,
        "config.a: 'b' does not match pattern",
    );
    // What a backtracking matcher would take forever for.
    start(
        &pattern("^(a+)+$"),
        &format!(r#"{{"a": "{}"}}"#, "a".repeat(5000)),
    )
    .unwrap();
    refused(&pattern("("), "{}", "has the regular expression \"(\": ");
    refused(
        &pattern(r"(\w{100}){100}"),
        "{}",
        "which takes more than 1 MiB",
    );
    refused(
        &pattern(&"a".repeat(2000)),
        "{}",
        "has a regular expression of 2000 bytes, limit 1024: ",
    );
    let many: Vec<String> = (0..65).map(|n| format!(r#""{n}": {{}}"#)).collect();
    refused(
        &format!(r#"{{"patternProperties": {{{}}}}}"#, many.join(",")),
        "{}",
        "has more than 64 regular expressions",
    );
}

#[test]
fn a_deep_schema_ends_in_an_answer() {
    for keyword in [r#"{"not": "#, r#"{"properties": {"a": "#, r#"{"allOf": ["#] {
        let closing = match keyword {
            r#"{"not": "# => "}",
            r#"{"allOf": ["# => "]}",
            _ => "}}",
        };
        let depth = if closing.len() == 1 { 120 } else { 60 };
        let schema = format!("{}{{}}{}", keyword.repeat(depth), closing.repeat(depth));
        // Refused or not, it ends; on a thread with the usual stack.
        std::thread::spawn(move || start(&schema, "{}").err().map(|error| error.to_string()))
            .join()
            .unwrap();
    }
    let deeper = format!("{}{{}}{}", r#"{"not": "#.repeat(1000), "}".repeat(1000));
    refused(
        &deeper,
        "{}",
        "its configuration schema is not JSON: recursion limit",
    );
}
