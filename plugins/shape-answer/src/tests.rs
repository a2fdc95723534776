use serde_json::{Value, json};
use tidegate_sdk::testing::{Harness, TestRecord};

use super::*;

const MODEL: &str = r#"{"name":"support-8m","digest":"sha256:ab","finish":"stop","prompt_tokens":31,"tokens":9,"attempt":1,"seed":7,"timings_ms":{"queued":1.5,"prefill":2,"decode":30},"operators":[{"slot":"redact","name":"redact-pii","version":"0.1.0","digest":"sha256:cd"}]}"#;

fn record() -> TestRecord {
    TestRecord::of(r#"{"order": "A-1", "id": 17.0, "customer": {"id": "c9", "name": "[NAME_1]"}, "text": "hi"}"#)
        .with_attribute("answer", "Hello \"you\"\n")
        .with_attribute("model", MODEL)
}

fn shaped(config: Value, record: TestRecord) -> String {
    let mut operator = Harness::<ShapeAnswer>::start(config).unwrap();
    operator.run_one(record).record().text().unwrap().to_owned()
}

fn reason(config: Value, record: TestRecord) -> String {
    let mut operator = Harness::<ShapeAnswer>::start(config).unwrap();
    operator.run_one(record).reason().unwrap().to_owned()
}

#[test]
fn everything_known_is_in_the_value() {
    assert_eq!(
        shaped(json!({"keep": ["id", "order"]}), record()),
        concat!(
            r#"{"id":17.0,"order":"A-1","answer":"Hello \"you\"\n","#,
            r#""model":{"name":"support-8m","digest":"sha256:ab","finish":"stop","prompt_tokens":31,"tokens":9,"attempt":1,"seed":7},"#,
            r#""operators":[{"slot":"redact","name":"redact-pii","version":"0.1.0","digest":"sha256:cd"}],"#,
            r#""timings_ms":{"queued":1.5,"prefill":2,"decode":30}}"#
        )
    );
}

#[test]
fn parts_are_switched_off_one_by_one() {
    let config = json!({"model": false, "operators": false, "timings": false, "answer": "reply"});
    assert_eq!(shaped(config, record()), r#"{"reply":"Hello \"you\"\n"}"#);
    let config = json!({"operators": false, "timings": false});
    let value: Value = serde_json::from_str(&shaped(config, record())).unwrap();
    assert_eq!(value.as_object().unwrap().len(), 2);
    assert!(value["model"].get("timings_ms").is_none());
}

#[test]
fn kept_members_are_found_by_their_path() {
    let config = json!({"keep": ["customer.id", "customer", "absent", "order.x"], "model": false, "operators": false, "timings": false});
    assert_eq!(
        shaped(config, record()),
        r#"{"id":"c9","customer":{"id": "c9", "name": "[NAME_1]"},"absent":null,"x":null,"answer":"Hello \"you\"\n"}"#
    );
}

#[test]
fn text_is_the_answer_alone() {
    assert_eq!(
        shaped(json!({"format": "text"}), record()),
        "Hello \"you\"\n"
    );
    let bare = TestRecord::of([0xff]).with_attribute("answer", "ok");
    assert_eq!(shaped(json!({"format": "text"}), bare), "ok");
}

#[test]
fn an_answer_without_a_model_is_still_shaped() {
    let bare = TestRecord::of("not JSON").with_attribute("answer", "ok");
    assert_eq!(shaped(json!({}), bare), r#"{"answer":"ok"}"#);
}

#[test]
fn what_cannot_be_shaped_says_why() {
    assert!(reason(json!({}), TestRecord::of("{}")).contains("no attribute `answer`"));
    let text = TestRecord::of("plain").with_attribute("answer", "ok");
    assert!(
        reason(json!({"keep": ["id"]}), text)
            .contains("cannot keep \"id\" of the value: not JSON at byte 0")
    );
    let null = TestRecord::default().with_attribute("answer", "ok");
    assert_eq!(reason(json!({"keep": ["id"]}), null), "value is null");
    let model = TestRecord::of("{}")
        .with_attribute("answer", "ok")
        .with_attribute("model", "[]");
    assert!(reason(json!({}), model).contains("attribute `model`"));
    let answer = TestRecord::of("{}").with_attribute("answer", [0xff]);
    assert!(reason(json!({}), answer).contains("not UTF-8"));
}

#[test]
fn a_wrong_configuration_is_named() {
    let error = |config: Value| Harness::<ShapeAnswer>::start(config).unwrap_err().message;
    assert!(error(json!({"keep": ["answer"]})).contains("called \"answer\""));
    assert!(error(json!({"keep": ["id", "customer.id"]})).contains("called \"id\""));
    assert!(error(json!({"keep": ["a."]})).contains("\"a.\""));
    assert!(
        error(json!({"answer": ""})).contains("`answer` has 0 characters, expected at least 1")
    );
    assert!(error(json!({"timing": true})).contains("`timing`"));
    assert!(
        error(json!({"format": "xml"})).contains("is \"xml\", expected one of \"json\", \"text\"")
    );
}
