use proptest::prelude::*;
use redact_pii::RedactPii;
use serde_json::{Value, json};
use tidegate_sdk::testing::{Answer, Harness, TestRecord};

use super::*;

fn restore(config: Value, record: TestRecord) -> Answer {
    Harness::<RestorePii>::start(config)
        .unwrap()
        .run_one(record)
}

fn record(value: &str) -> TestRecord {
    let map = json!({"[EMAIL_1]": "a@b.com", "[NAME_1]": "Joe \"[EMAIL_1]\" Ng\n", "[CARD_1]": 4111111111111111u64});
    TestRecord::of(value).with_attribute(ATTRIBUTE, map.to_string())
}

#[test]
fn originals_come_back_once_and_the_map_goes() {
    let answer = restore(
        json!({}),
        record("to [EMAIL_1], [NAME_1]: [EMAIL_2] [ [EMAIL_1"),
    );
    assert_eq!(
        answer.record().text().unwrap(),
        "to a@b.com, Joe \"[EMAIL_1]\" Ng\n: [EMAIL_2] [ [EMAIL_1"
    );
    assert_eq!(answer.record().attribute_text(ATTRIBUTE), None);
}

#[test]
fn a_json_value_stays_valid() {
    let answer = restore(
        json!({}),
        record(r#"{"n": 1.0, "a": "[NAME_1]", "c": "[CARD_1]", "d": "no [CARD_1]"}"#),
    );
    assert_eq!(
        answer.record().text().unwrap(),
        r#"{"n": 1.0, "a": "Joe \"[EMAIL_1]\" Ng\n", "c": 4111111111111111, "d": "no 4111111111111111"}"#
    );
}

#[test]
fn a_string_that_is_json_stays_valid_too() {
    let arguments = r#"{"to": "[NAME_1]", "card": "[CARD_1]", "not": "\"[CARD_1]\"", "[EMAIL_1]": ["[EMAIL_1]"]}"#;
    let value = json!({"arguments": arguments, "text": "[1] [NAME_1]", "list": "{[NAME_1]}"});
    let answer = restore(json!({}), record(&value.to_string()));
    let restored: Value = answer.record().json().unwrap();
    let name = "Joe \"[EMAIL_1]\" Ng\n";
    let within: Value = serde_json::from_str(restored["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(
        within,
        json!({"to": name, "card": 4111111111111111u64, "not": "\"4111111111111111\"", "a@b.com": ["a@b.com"]})
    );
    assert_eq!(restored["text"], format!("[1] {name}"));
    assert_eq!(restored["list"], format!("{{{name}}}"));
}

#[test]
fn json_in_a_string_of_json_stays_valid_as_deep_as_it_goes() {
    let mut text =
        r#"{"to":"[NAME_1]","card":"[CARD_1]","[EMAIL_1]":"[EMAIL_1]","[CARD_1]":1}"#.to_owned();
    let whole = json!({"to": "Joe \"[EMAIL_1]\" Ng\n", "card": 4111111111111111u64, "a@b.com": "a@b.com", "4111111111111111": 1});
    for depth in 0..4 {
        let answer = restore(json!({}), record(&json!({"body": text}).to_string()));
        let restored: Value = answer.record().json().unwrap();
        let mut within = restored["body"].clone();
        for _ in 0..depth {
            let text = within.as_str().unwrap();
            within = serde_json::from_str::<Value>(text).unwrap()["body"].take();
        }
        let within: Value = serde_json::from_str(within.as_str().unwrap()).unwrap();
        assert_eq!(within, whole, "{depth}");
        text = json!({"body": text}).to_string();
    }
}

#[test]
fn only_the_configured_members_are_restored() {
    let answer = restore(
        json!({"paths": ["answer"]}),
        record(r#"{"answer":"[EMAIL_1]","text":"[EMAIL_1]"}"#),
    );
    assert_eq!(
        answer.record().text().unwrap(),
        r#"{"answer":"a@b.com","text":"[EMAIL_1]"}"#
    );
}

#[test]
fn attributes_are_restored_where_configured() {
    let with_answer = || record("[EMAIL_1]").with_attribute("answer", "hello [EMAIL_1]");
    let answer = restore(json!({"attributes": ["answer"]}), with_answer());
    assert_eq!(
        answer.record().attribute_text("answer"),
        Some("hello a@b.com")
    );
    let answer = restore(json!({}), with_answer());
    assert_eq!(
        answer.record().attribute_text("answer"),
        Some("hello [EMAIL_1]")
    );
}

#[test]
fn without_a_map_a_record_passes() {
    assert!(restore(json!({}), TestRecord::of("[EMAIL_1]")).is_pass());
    let broken = TestRecord::of("x").with_attribute(ATTRIBUTE, "[]");
    assert!(
        restore(json!({}), broken)
            .reason()
            .unwrap()
            .contains("`pii.map`")
    );
    let binary = TestRecord::of([0xff]).with_attribute(ATTRIBUTE, "{}");
    assert_eq!(
        restore(json!({}), binary).record().value(),
        Some(&[0xff][..])
    );
}

#[test]
fn a_wrong_configuration_is_named() {
    let error = |config: Value| Harness::<RestorePii>::start(config).unwrap_err().message;
    assert!(error(json!({"attributes": ["pii.map"]})).contains("`attributes`"));
    assert!(error(json!({"paths": []})).contains("`paths` is an empty list"));
    assert!(error(json!({"x": 1})).contains("`x`"));
}

mod tokens;

/// Texts full of what is redacted, and of what looks like placeholders.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a@b.com".to_owned()),
        Just("c@d.org".to_owned()),
        Just("+46 8 928 571 38".to_owned()),
        Just("4111 1111 1111 1111".to_owned()),
        Just("10.0.0.1".to_owned()),
        Just("https://u:p@h.io/".to_owned()),
        Just("Maria Lopez".to_owned()),
        Just("maria".to_owned()),
        "\\[(EMAIL|NAME|CARD)_[1-4]\\]",
        " |, |\n|\"|\\\\|\\[|\\]",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x7265_7374),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_redacted_is_restored_exactly(text in text(), name in text(), number in 0u64..=9_999_999_999_999_999_999) {
        let values = [
            text.clone(),
            json!({"name": name, "text": text, "list": [text, 4111111111111111u64, number]}).to_string(),
        ];
        for value in values {
            let config = json!({"fields": {"name": "NAME"}});
            let mut redact = Harness::<RedactPii>::start(config).unwrap();
            let redacted = redact.run_one(TestRecord::of(value.clone())).record().clone();
            let restored = restore(json!({}), redacted);
            let restored = restored.record();
            prop_assert_eq!(restored.attribute_text(ATTRIBUTE), None);
            match serde_json::from_str::<Value>(&value) {
                Ok(json) => prop_assert_eq!(restored.json::<Value>().unwrap(), json),
                Err(_) => prop_assert_eq!(restored.text().unwrap(), value),
            }
        }
    }
}
