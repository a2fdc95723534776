use serde_json::{Value, json};
use tidegate_sdk::testing::{Answer, Harness, TestRecord};

use super::*;

fn redact(config: Value, record: TestRecord) -> Answer {
    Harness::<RedactPii>::start(config).unwrap().run_one(record)
}

fn map(answer: &Answer) -> Value {
    serde_json::from_str(answer.record().attribute_text(ATTRIBUTE).unwrap()).unwrap()
}

#[test]
fn text_is_redacted_with_stable_placeholders() {
    let text = "mail a@b.com or c@d.com, a@b.com is better. Call +46 8 928 571 38; \
                card 4111 1111 1111 1111, DE89370400440532013000, ssn 123-45-6789 from 10.0.0.1 \
                at https://joe:pw@example.com/x";
    let answer = redact(json!({}), TestRecord::of(text));
    assert_eq!(
        answer.record().text().unwrap(),
        "mail [EMAIL_1] or [EMAIL_2], [EMAIL_1] is better. Call [PHONE_1]; \
         card [CARD_1], [IBAN_1], ssn [SSN_1] from [IP_1] at https://[URL_CREDENTIALS_1]@example.com/x"
    );
    assert_eq!(
        map(&answer),
        json!({
            "[EMAIL_1]": "a@b.com", "[EMAIL_2]": "c@d.com", "[PHONE_1]": "+46 8 928 571 38",
            "[CARD_1]": "4111 1111 1111 1111", "[IBAN_1]": "DE89370400440532013000", "[SSN_1]": "123-45-6789",
            "[IP_1]": "10.0.0.1", "[URL_CREDENTIALS_1]": "joe:pw",
        })
    );
}

#[test]
fn what_has_no_personal_data_passes() {
    for text in [
        "",
        "hello",
        "{}",
        r#"{"id": 12, "text": "hello [EMAIL_1]"}"#,
        "[1,2]",
    ] {
        assert!(redact(json!({}), TestRecord::of(text)).is_pass(), "{text}");
    }
    assert!(redact(json!({}), TestRecord::default()).is_pass());
}

#[test]
fn a_json_value_stays_as_it_stands_but_for_its_strings() {
    let value = r#"{ "z":1.50, "text":"caf\u00e9 a@b.com \"x\"", "a":{"list":["c@d.com",null]} }"#;
    let answer = redact(json!({}), TestRecord::of(value));
    assert_eq!(
        answer.record().text().unwrap(),
        r#"{ "z":1.50, "text":"café [EMAIL_1] \"x\"", "a":{"list":["[EMAIL_2]",null]} }"#
    );
}

#[test]
fn only_the_configured_members_are_redacted() {
    let value = json!({"order": "374 780 163", "text": "374 780 163", "deep": {"note": "a@b.com"}})
        .to_string();
    let answer = redact(json!({"paths": ["text", "deep"]}), TestRecord::of(value));
    assert_eq!(
        answer.record().json::<Value>().unwrap(),
        json!({"order": "374 780 163", "text": "[PHONE_1]", "deep": {"note": "[EMAIL_1]"}})
    );
}

#[test]
fn text_that_is_no_json_is_redacted_whatever_the_paths() {
    let answer = redact(
        json!({"paths": ["text"]}),
        TestRecord::of(r#"{"text": broken a@b.com"#),
    );
    assert_eq!(
        answer.record().text().unwrap(),
        r#"{"text": broken [EMAIL_1]"#
    );
}

#[test]
fn only_the_configured_types_are_redacted() {
    let answer = redact(json!({"types": ["ip"]}), TestRecord::of("a@b.com 10.0.0.1"));
    assert_eq!(answer.record().text().unwrap(), "a@b.com [IP_1]");
}

#[test]
fn named_members_are_redacted_there_and_in_the_texts() {
    let value = json!({
        "name": "Maria Lopez",
        "text": "Hi, MARIA LOPEZ here (maria.lopez@example.com). Maria, again: Maria. Marias",
    });
    let answer = redact(
        json!({"paths": ["text"], "fields": {"name": "NAME"}}),
        TestRecord::of(value.to_string()),
    );
    assert_eq!(
        answer.record().json::<Value>().unwrap(),
        json!({"name": "[NAME_1]", "text": "Hi, [NAME_2] here ([EMAIL_1]). [NAME_3], again: [NAME_3]. Marias"})
    );
    assert_eq!(
        map(&answer),
        json!({"[NAME_1]": "Maria Lopez", "[NAME_2]": "MARIA LOPEZ", "[EMAIL_1]": "maria.lopez@example.com", "[NAME_3]": "Maria"})
    );
}

#[test]
fn placeholders_in_the_text_are_not_given_out() {
    let answer = redact(json!({}), TestRecord::of("[EMAIL_1] wrote to a@b.com"));
    assert_eq!(
        answer.record().text().unwrap(),
        "[EMAIL_1] wrote to [EMAIL_2]"
    );
    let escaped = r#"{"a":"\u005bEMAIL_1]","b":"a@b.com","name":"[NAME_1]"}"#;
    let answer = redact(json!({"fields": {"name": "NAME"}}), TestRecord::of(escaped));
    assert_eq!(
        answer.record().json::<Value>().unwrap(),
        json!({"a": "[EMAIL_1]", "b": "[EMAIL_2]", "name": "[NAME_2]"})
    );
}

#[test]
fn a_second_redaction_keeps_the_first_map() {
    let record = TestRecord::of("[EMAIL_1] and c@d.com")
        .with_attribute(ATTRIBUTE, r#"{"[EMAIL_1]":"a@b.com"}"#);
    let answer = redact(json!({}), record);
    assert_eq!(answer.record().text().unwrap(), "[EMAIL_1] and [EMAIL_2]");
    assert_eq!(
        map(&answer),
        json!({"[EMAIL_1]": "a@b.com", "[EMAIL_2]": "c@d.com"})
    );
    let broken = TestRecord::of("a@b.com").with_attribute(ATTRIBUTE, "{");
    assert!(
        redact(json!({}), broken)
            .reason()
            .unwrap()
            .contains("`pii.map`")
    );
}

#[test]
fn numbers_of_a_json_value_are_redacted_too() {
    let value =
        r#"{"card": 4111111111111111, "amount": 4111111111111112, "pin": 1234, "rate": 1.5}"#;
    let config = json!({"fields": {"pin": "PIN", "rate": "RATE"}});
    let answer = redact(config, TestRecord::of(value));
    assert_eq!(
        answer.record().text().unwrap(),
        r#"{"card": "[CARD_1]", "amount": 4111111111111112, "pin": "[PIN_1]", "rate": "[RATE_1]"}"#
    );
    assert_eq!(
        map(&answer),
        json!({"[CARD_1]": 4111111111111111u64, "[PIN_1]": 1234, "[RATE_1]": "1.5"})
    );
}

#[test]
fn a_string_that_is_json_stays_so_and_what_is_escaped_in_it_is_found() {
    let arguments = r#"{"to":"Zo\u00eb \"Z\" Ng","note":"\u00e5da\nada\u0040b.com","card":4111111111111111,"bob@b.com":[1]}"#;
    let value = json!({"name": "Zoë", "call": {"arguments": arguments}, "text": "{zoë: a@b.com}"});
    let answer = redact(
        json!({"fields": {"name": "NAME"}}),
        TestRecord::of(value.to_string()),
    );
    let redacted: Value = answer.record().json().unwrap();
    let within: Value =
        serde_json::from_str(redacted["call"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(
        within,
        json!({"to": "[NAME_1] \"Z\" Ng", "note": "åda\n[EMAIL_1]", "card": "[CARD_1]", "[EMAIL_2]": [1]})
    );
    assert_eq!(redacted["text"], "{[NAME_2]: [EMAIL_3]}");
    // What was hidden is not hidden again.
    let value = json!({"text": r#"{"at": "https://u:p@h.io/\n"}"#});
    let answer = redact(json!({}), TestRecord::of(value.to_string()));
    assert_eq!(map(&answer), json!({"[URL_CREDENTIALS_1]": "u:p"}));
    // A placeholder that is escaped there is not given out.
    let value = json!({"text": r#"["\u005bEMAIL_1]", "a@b.com"]"#});
    let answer = redact(json!({}), TestRecord::of(value.to_string()));
    assert!(answer.record().text().unwrap().contains("[EMAIL_2]"));
}

#[test]
fn json_within_json_is_looked_through_as_deep_as_it_goes() {
    let config = json!({"fields": {"name": "NAME"}});
    // As functions in clouds, Python and PHP write what a call gave.
    let body = r#"{"name":"Zo\u00eb","url":"https:\/\/u:p@h.io","Zo\u00eb":[4111111111111111]}"#;
    let content = json!({"statusCode": 200, "body": body}).to_string();
    let value = json!({"name": "Zoë", "messages": [{"role": "tool", "content": content}]});
    let answer = redact(config.clone(), TestRecord::of(value.to_string()));
    let redacted: Value = answer.record().json().unwrap();
    let content = redacted["messages"][0]["content"].as_str().unwrap();
    let content: Value = serde_json::from_str(content).unwrap();
    let body: Value = serde_json::from_str(content["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        body,
        json!({"name": "[NAME_1]", "url": "https://[URL_CREDENTIALS_1]@h.io", "[NAME_1]": ["[CARD_1]"]})
    );
    // Every string of JSON in a string, down to a bound; a placeholder that stands there is not given out.
    let mut text = r#"["Zo\u00eb", "\u005bNAME_1]"]"#.to_owned();
    for depth in 1..tidegate_sdk::json::MAX_NESTED - 1 {
        let value = json!({"name": "Zoë", "text": text});
        let answer = redact(config.clone(), TestRecord::of(value.to_string()));
        let redacted: Value = answer.record().json().unwrap();
        let mut within = redacted["text"].clone();
        for _ in 1..depth {
            let text = within.as_str().unwrap();
            within = serde_json::from_str::<Value>(text).unwrap()["a"].take();
        }
        let within: Value = serde_json::from_str(within.as_str().unwrap()).unwrap();
        assert_eq!(within, json!(["[NAME_2]", "[NAME_1]"]), "{depth}");
        text = json!({"a": text}).to_string();
    }
    // A text that was quoted twice.
    let value = json!({"name": "Zoë", "text": r#""Zo\u00eb""#});
    let answer = redact(config, TestRecord::of(value.to_string()));
    let redacted: Value = answer.record().json().unwrap();
    assert_eq!(redacted["text"], "\"[NAME_1]\"");
}

#[test]
fn nesting_without_an_end_costs_no_instance() {
    let mut text = "a@b.com \\ \"x\"".to_owned();
    for _ in 0..3000 {
        // A backslash and a quote without a second backslash, so that it does not double.
        text = format!(
            "[\"{}\"]",
            text.replace('\\', "\\u005c").replace('"', "\\u0022")
        );
        if text.len() > 1 << 20 {
            break;
        }
    }
    let answer = redact(json!({}), TestRecord::of(json!({"text": text}).to_string()));
    assert!(!answer.is_pass());
}

#[test]
fn what_cannot_be_read_does_not_go_on_unseen() {
    assert!(
        redact(json!({}), TestRecord::of([0xff]))
            .reason()
            .unwrap()
            .contains("not UTF-8")
    );
    assert!(redact(json!({"binary": "pass"}), TestRecord::of([0xff])).is_pass());
}

#[test]
fn a_wrong_configuration_is_named() {
    let error = |config: Value| Harness::<RedactPii>::start(config).unwrap_err().message;
    let types = error(json!({"types": ["email", "mail"]}));
    assert!(
        types.contains("`types[1]` is \"mail\"") && types.contains("\"url-credentials\""),
        "{types}"
    );
    assert!(error(json!({"types": []})).contains("`types` has 0 entries"));
    let label = error(json!({"fields": {"customer.name": "name"}}));
    assert!(
        label.contains("`fields.customer.name` is \"name\""),
        "{label}"
    );
    assert!(error(json!({"fields": {"a..b": "NAME"}})).contains("a..b"));
    assert!(error(json!({"path": ["text"]})).contains("`path`"));
    assert!(error(json!({"binary": "drop"})).contains("is \"drop\""));
}
