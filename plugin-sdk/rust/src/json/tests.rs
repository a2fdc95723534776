use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::*;

fn all(text: &str) -> Result<Vec<(String, String)>, JsonError> {
    let mut found = Vec::new();
    strings(text, |place, string| {
        found.push((place.join("."), string.decoded().into_owned()))
    })?;
    Ok(found)
}

#[test]
fn strings_come_with_their_places() {
    let text = r#"{"a":"1","b":{"c":["2",{"d":"3"}],"e":4},"f\"":"5"}"#;
    let found = all(text).unwrap();
    let expected = [("a", "1"), ("b.c", "2"), ("b.c.d", "3"), ("f\"", "5")];
    assert_eq!(
        found,
        expected.map(|(place, value)| (place.to_owned(), value.to_owned()))
    );
}

#[test]
fn a_path_covers_what_is_beneath_it() {
    let paths = Paths::new(&["b.c", "f"]);
    let place = |path: &'static str| path.split('.').map(Cow::Borrowed).collect::<Vec<_>>();
    assert!(paths.cover(&place("b.c")));
    assert!(paths.cover(&place("b.c.d")));
    assert!(paths.cover(&place("f")));
    assert!(!paths.cover(&place("b")));
    assert!(!paths.cover(&place("b.cd")));
    assert!(!paths.cover(&[]));
    assert!(Paths::all().cover(&[]));
}

#[test]
fn an_impossible_path_is_named() {
    let error = Paths::configured("paths", Some(&["a..b".to_owned()])).unwrap_err();
    assert!(
        error.contains("`paths`") && error.contains("\"a..b\""),
        "{error}"
    );
    assert!(
        Paths::configured("paths", Some(&[]))
            .unwrap_err()
            .contains("empty list")
    );
    assert!(Paths::configured("paths", None).unwrap().is_all());
}

#[test]
fn what_is_not_changed_stays_byte_for_byte() {
    let text = " {\"n\" : 1.0e+05 ,\t\"a\":\"x\\u0041\\/\", \"b\" :\"y\" }\n";
    let mut edits = Edits::default();
    strings(text, |place, string| {
        if place == ["b"] {
            edits.replace(&string, "q\"\u{1}\n");
        }
    })
    .unwrap();
    let expected = " {\"n\" : 1.0e+05 ,\t\"a\":\"x\\u0041\\/\", \"b\" :\"q\\\"\\u0001\\n\" }\n";
    assert_eq!(edits.apply(text), expected);
}

#[test]
fn surrogates_are_read_as_pairs() {
    let found = all(r#"["\ud83d\ude00","\ud83d","\ude00x","\ud83d\u0041"]"#).unwrap();
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["😀", "\u{fffd}", "\u{fffd}x", "\u{fffd}A"]);
}

#[test]
fn what_is_not_json_is_refused_where_it_goes_wrong() {
    let cases = [
        ("", 0),
        ("{", 1),
        ("[1,]", 3),
        ("{\"a\" 1}", 5),
        ("01", 1),
        ("1.", 2),
        ("-", 1),
        ("\"a", 2),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 5),
        ("tru", 0),
        ("{}x", 2),
        ("\"\n\"", 1),
        ("[1 2]", 3),
        ("{a:1}", 1),
    ];
    for (text, at) in cases {
        assert_eq!(all(text).unwrap_err().at, at, "{text:?}");
    }
    let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
    assert_eq!(all(&deep).unwrap_err().expected, "less nesting");
}

#[test]
fn members_come_as_they_stand() {
    let mut found = Vec::new();
    members(
        r#" {"a" : 1.50 , "b":{"c":[1, 2]},"\u0064":"x\n"} "#,
        |name, value| {
            found.push((name.into_owned(), value));
        },
    )
    .unwrap();
    let expected = [("a", "1.50"), ("b", r#"{"c":[1, 2]}"#), ("d", r#""x\n""#)];
    assert_eq!(
        found,
        expected.map(|(name, value)| (name.to_owned(), value))
    );
    assert_eq!(members("[1]", |_, _| {}).unwrap_err().expected, "an object");
    assert_eq!(members("{} {}", |_, _| {}).unwrap_err().at, 3);
    assert!(members(r#"{"a":}"#, |_, _| {}).is_err());
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Turns every string value around: what the walker should do, done the slow way.
fn reversed(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(text.chars().rev().collect::<String>()),
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), reversed(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn walk_reversed(text: &str) -> String {
    let mut edits = Edits::default();
    strings(text, |_, string| {
        edits.replace(&string, &string.decoded().chars().rev().collect::<String>());
    })
    .unwrap();
    edits.apply(text)
}

fn seeded() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(0x7469_6465),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn edits_agree_with_taking_the_value_apart(value in json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let edited: Value = serde_json::from_str(&walk_reversed(&text)).unwrap();
        // Read back first: serde_json does not keep the last digit of every number.
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(edited, reversed(&value));
    }

    #[test]
    fn a_text_is_json_exactly_when_serde_says_so(text in "[ \\[\\]{}\",:0-9a-fntrue.+\\-\\\\u\n]{0,24}") {
        let serde = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        // serde_json skips strings it ignores without reading their surrogates; here they read as U+FFFD.
        prop_assert_eq!(all(&text).is_ok(), serde, "{}", text);
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = all(&text);
    }
}
