use serde_json::{Value, json};
use tidegate_sdk::testing::{Harness, TestRecord};

use super::*;

fn start(config: Value) -> Harness<RouteIntent> {
    Harness::start(config).unwrap()
}

#[track_caller]
fn goes(operator: &mut Harness<RouteIntent>, value: impl ToString, output: Option<&str>) {
    let value = value.to_string();
    let answer = operator.run_one(TestRecord::of(value.clone()));
    assert_eq!(answer.output(), output, "{value}");
    assert_eq!(answer.record().header_text("intent"), output, "{value}");
    assert_eq!(answer.record().text().unwrap(), value);
}

#[test]
fn the_first_rule_that_fits_decides() {
    let mut operator = start(json!({"rules": [
        {"output": "billing", "any": ["refund*", "charged twice"], "none": ["no refund"]},
        {"output": "delivery", "all": ["where", "parcel"]},
        {"output": "complaint", "any": ["refund", "angry"]},
    ]}));
    goes(&mut operator, "I want a Refund!", Some("billing"));
    goes(&mut operator, "it was REFUNDED", Some("billing"));
    goes(&mut operator, "They charged,  twice", Some("billing"));
    goes(&mut operator, "charged me twice", None);
    goes(
        &mut operator,
        "no refund needed, I am angry",
        Some("complaint"),
    );
    goes(&mut operator, "so where is my parcel", Some("delivery"));
    goes(&mut operator, "where are my parcels", None);
    goes(&mut operator, "prerefund", None);
}

#[test]
fn a_rule_looks_at_its_path() {
    let mut operator = start(json!({"rules": [
        {"output": "technical", "any": ["crash*"], "path": "text"},
        {"output": "account", "any": ["crash"]},
    ]}));
    goes(
        &mut operator,
        json!({"text": "it crashes", "name": "x"}),
        Some("technical"),
    );
    goes(
        &mut operator,
        json!({"text": "hello", "name": "crash"}),
        Some("account"),
    );
    goes(&mut operator, json!({"crash": "hello"}), None);
}

#[test]
fn phrases_do_not_reach_from_one_string_into_the_next() {
    let mut operator = start(json!({"rules": [{"output": "billing", "any": ["charged twice"]}]}));
    goes(&mut operator, json!(["charged", "twice"]), None);
    goes(&mut operator, json!(["was charged twice"]), Some("billing"));
}

#[test]
fn an_apostrophe_belongs_to_its_word() {
    let mut operator = start(json!({"rules": [{"output": "technical", "any": ["doesn't work"]}]}));
    goes(&mut operator, "it doesn’t work", Some("technical"));
    goes(&mut operator, "'it doesn't work'", Some("technical"));
    goes(&mut operator, "doesn work", None);
}

#[test]
fn what_fits_no_rule_goes_to_the_default() {
    let mut operator =
        start(json!({"rules": [{"output": "billing", "any": ["x"]}], "default": "other"}));
    goes(&mut operator, "y", Some("other"));
    goes(&mut operator, "ÿ", Some("other"));
    let answer = operator.run_one(TestRecord::default());
    assert_eq!(answer.output(), Some("other"));
}

#[test]
fn labelling_keeps_records_on_the_main_output() {
    let rules = json!([{"output": "billing", "any": ["x"]}]);
    let mut operator = start(json!({"rules": rules, "action": "label", "header": "topic"}));
    let answer = operator.run_one(TestRecord::of("x").with_header("topic", "old"));
    assert_eq!(answer.output(), None);
    assert_eq!(answer.record().header_text("topic"), Some("billing"));
    assert_eq!(answer.record().headers().count(), 1);
}

#[test]
fn a_wrong_configuration_is_named() {
    let error = |config: Value| Harness::<RouteIntent>::start(config).unwrap_err().message;
    let wrong = error(
        json!({"rules": [{"output": "billing", "any": ["a"]}, {"output": "pass", "any": ["a"]}]}),
    );
    assert!(
        wrong.contains("`rules[1].output` is \"pass\", which is the main output"),
        "{wrong}"
    );
    assert!(error(json!({"rules": []})).contains("`rules` has 0 entries, expected at least 1"));
    assert!(error(json!({"rules": [{"any": ["a"]}]})).contains("`rules[0].output` is missing"));
    assert!(
        error(json!({"rules": [{"output": "billing", "none": ["a"]}]}))
            .contains("neither `any` nor `all`")
    );
    assert!(
        error(json!({"rules": [{"output": "billing", "any": ["?"]}]}))
            .contains("`rules[0].any` has \"?\"")
    );
    assert!(
        error(json!({"rules": [{"output": "billing", "any": ["a"], "path": ""}]}))
            .contains("rules[0].path")
    );
    assert!(
        error(json!({"rules": [{"output": "billing", "any": ["a"]}], "default": ""}))
            .contains("`default` is \"\", expected \"pass\" or a name of 1 to 128 bytes")
    );
    assert!(
        error(json!({"rules": [{"output": "billing", "any": "a"}]})).contains("`rules[0].any`")
    );
}

#[test]
fn the_outputs_are_those_that_the_configuration_names() {
    let rules = json!([
        {"output": "sales", "any": ["x"]},
        {"output": "returns", "any": ["y"]},
        {"output": "sales", "any": ["z"]},
    ]);
    let mut operator = start(json!({"rules": rules, "default": "rest"}));
    assert_eq!(operator.outputs(), ["sales", "returns", "rest"]);
    goes(&mut operator, "z", Some("sales"));
    goes(&mut operator, "none of these", Some("rest"));
    let labelled = start(json!({"rules": rules, "action": "label"}));
    assert!(labelled.outputs().is_empty());
}
