use proptest::prelude::*;
use serde_json::Value;
use tidegate_codec::{Decoder, DecoderOptions, Format};

use crate::{decode, keys, values};

fn options() -> DecoderOptions {
    DecoderOptions::default()
}

fn keyed(path: &str) -> DecoderOptions {
    DecoderOptions {
        key: Some(path.into()),
        ..options()
    }
}

fn reason(options: DecoderOptions, piece: &[u8]) -> String {
    let (batch, reasons) = decode(options, &[piece]);
    assert!(batch.is_empty());
    reasons.concat()
}

fn accepts(text: &str) -> bool {
    decode(options(), &[text.as_bytes()]).1.is_empty()
}

/// Documents, some of them damaged.
fn documents() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<f64>().prop_map(|number| format!("{number:e}")),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        "\"([a-z]|\\\\[nrtbf\"/\\\\]|\\\\u[0-9a-fA-F]{4}|é|漢|😀){0,12}\"",
    ];
    let document = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            proptest::collection::vec(("[a-c]{1,2}", inner), 0..5).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    let damage = (
        "[\\[\\]{}:,\"0-9eE+.\\-\\\\tru \\x00-\\x1f]{0,2}",
        any::<prop::sample::Index>(),
        any::<bool>(),
    );
    (document, damage).prop_map(|(document, (insert, at, cut))| {
        let borders: Vec<usize> = document
            .char_indices()
            .map(|(at, _)| at)
            .chain([document.len()])
            .collect();
        let at = *at.get(&borders);
        if cut {
            format!("{}{insert}", &document[..at])
        } else {
            format!("{}{insert}{}", &document[..at], &document[at..])
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn it_accepts_what_serde_json_accepts(text in documents()) {
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(accepts(&text), expected, "{}", text);
    }

    #[test]
    fn a_key_is_what_serde_json_finds(text in documents()) {
        let Ok(document) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
        let (batch, reasons) = decode(keyed("a.b"), &[text.as_bytes()]);
        match document.get("a").and_then(|a| a.get("b")) {
            Some(Value::String(key)) => prop_assert_eq!(keys(&batch), vec![Some(key.clone())]),
            Some(Value::Bool(key)) => prop_assert_eq!(keys(&batch), vec![Some(key.to_string())]),
            // Numbers keep their text.
            Some(Value::Number(_)) => prop_assert_eq!(batch.len(), 1),
            Some(_) => prop_assert_eq!(reasons.len(), 1),
            // "a" given twice: the path may have been found in the first of them.
            None => {}
        }
    }
}

#[test]
fn the_value_keeps_its_bytes() {
    let line = r#" {"n" : 1.10, "big":123456789012345678901234567890, "é":"\u00e9"}"#;
    let (batch, reasons) = decode(options(), &[line.as_bytes()]);
    assert_eq!((values(&batch), reasons), (vec![line.to_owned()], vec![]));
}

#[test]
fn reasons_name_the_place_and_the_value() {
    assert_eq!(
        reason(options(), br#"{"a":1,"b":22 "c":3}"#),
        "not JSON: expected `,` or `}` at column 15, found `\"`"
    );
    assert_eq!(
        reason(options(), b"hello"),
        "not JSON: expected a value at column 1, found `h`"
    );
    assert_eq!(
        reason(options(), b"{\"a\":"),
        "not JSON: expected a value at column 6, found the end"
    );
    assert_eq!(
        reason(options(), b"{} x"),
        "not JSON: expected the end of the value at column 4, found `x`"
    );
    assert_eq!(
        reason(options(), b"\"a\tb\""),
        "not JSON: expected no raw control character in a string at column 3, found '\\t'"
    );
    assert_eq!(
        reason(options(), b"{\"a\":\"b\xff\"}"),
        "not UTF-8: byte 0xff at 7"
    );
    assert_eq!(reason(options(), b""), "empty value");
    let deep = "[".repeat(200);
    assert_eq!(
        reason(options(), deep.as_bytes()),
        "not JSON: expected at most 127 levels of nesting at column 128, found `[`"
    );
}

#[test]
fn missing_and_null_fields_are_refused() {
    let needs = || DecoderOptions {
        required: vec!["customer".into(), "order.id".into()],
        ..options()
    };
    assert_eq!(
        reason(needs(), br#"{"order":{"id":1}}"#),
        "field customer is missing"
    );
    assert_eq!(
        reason(needs(), br#"{"customer":null,"order":{"id":1}}"#),
        "field customer is null"
    );
    assert_eq!(
        reason(needs(), br#"{"customer":1,"order":[{"id":1}]}"#),
        "field order.id is missing"
    );
    assert_eq!(
        reason(needs(), br#""customer""#),
        "field customer is missing"
    );
    let (batch, _) = decode(needs(), &[br#"{"customer":1,"order":{"id":{}}}"#]);
    assert_eq!(batch.len(), 1);
}

#[test]
fn keys_are_scalars_as_they_are_written() {
    let lines: [&[u8]; 5] = [
        br#"{"k":"plain"}"#,
        br#"{"k":"esc\"\u00e9"}"#,
        br#"{"k":1.50}"#,
        br#"{"k":false}"#,
        br#"{"k":"first","\u006b":"last"}"#,
    ];
    let (batch, _) = decode(keyed("k"), &lines);
    let expected = ["plain", "esc\"é", "1.50", "false", "last"].map(|key| Some(key.to_owned()));
    assert_eq!(keys(&batch), expected);
    assert_eq!(
        reason(keyed("k"), br#"{"k":[1, 2]}"#),
        "field k cannot be a key: [1, 2]"
    );
    assert_eq!(
        reason(keyed("k"), br#"{"k":"\ud800"}"#),
        r#"field k cannot be a key: "\ud800""#
    );
    assert_eq!(reason(keyed("k"), br#"{"j":1}"#), "field k is missing");
}

#[test]
fn event_times_are_text_or_milliseconds() {
    let timed = || DecoderOptions {
        event_time: Some("at".into()),
        ..options()
    };
    let lines: [&[u8]; 2] = [br#"{"at":"1970-01-01T00:00:01.5Z"}"#, br#"{"at":1500}"#];
    let (batch, _) = decode(timed(), &lines);
    let times: Vec<_> = batch
        .view()
        .records()
        .map(|record| record.event_time())
        .collect();
    assert_eq!(times, [Some(1_500_000), Some(1_500_000)]);
    assert_eq!(
        reason(timed(), br#"{"at":"yesterday"}"#),
        "field at is no time: yesterday, expected RFC 3339 text or integer milliseconds"
    );
    assert!(reason(timed(), br#"{"at":1.5}"#).starts_with("field at is no time: 1.5"));
    assert!(reason(timed(), br#"{"at":99999999999999999}"#).starts_with("field at is no time"));
}

#[test]
fn options_that_cannot_be_met_are_refused() {
    let raw = DecoderOptions {
        format: Format::Raw,
        ..keyed("k")
    };
    assert_eq!(Decoder::new(raw).unwrap_err().option, "format");
    let endless = DecoderOptions {
        max_record: 1 << 40,
        ..options()
    };
    assert_eq!(Decoder::new(endless).unwrap_err().option, "max-record");
}
