use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

use super::*;
use crate::LaneKind;

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

/// What the marks of a text say, with each text of JSON on a line of its own.
fn read(text: &str) -> String {
    let (mut read, mut shown, mut undecided) = (Nesting::default(), String::new(), String::new());
    for character in text.chars() {
        read.read(character, &mut |mark| match mark {
            Mark::Text(text) => {
                shown.push_str(&std::mem::take(&mut undecided));
                shown.push(text);
            }
            Mark::Escape => {}
            Mark::Undecided(text) => undecided.push(text),
            Mark::Decided => undecided.clear(),
            Mark::Between => {
                shown.push_str(&std::mem::take(&mut undecided));
                if !shown.ends_with('\n') && !shown.is_empty() {
                    shown.push('\n');
                }
            }
            Mark::Word(text) => shown.push(text),
        });
    }
    shown + &undecided
}

#[test]
fn the_texts_of_json_are_read_without_escapes_however_deep_they_stand() {
    for (text, texts) in [
        (
            "plain \\u0041 {\"a\": \"b\"}",
            "plain \\u0041 {\"a\": \"b\"}",
        ),
        (
            r#"{"n\u0061me":"h\u006ft","x":[1, true,-2.5e3,"a\n\"\/"]}"#,
            "name\nhot\nx\n1\ntrue\n-2.5e3\na\n\"/\n",
        ),
        (
            r#"{"b":"{\"to\":\"Zo\\u00eb\",\"n\":[7]}"}"#,
            "b\nto\nZoë\nn\n7\n",
        ),
        (
            r#"{"b":"he said \"no\" to [1]"}"#,
            "b\nhe said \"no\" to [1]\n",
        ),
        (
            r#"{"p":"\ud83d\ude00","h":"\ud83d\u0041\ud83dx\ud83d","bad":"\u00zz"}"#,
            "p\n😀\nh\n\u{fffd}A\u{fffd}x\u{fffd}\nbad\n\u{fffd}zz\n",
        ),
        (
            "{\"a\":1}\n{\"b\":\"c\"} and so on",
            "a\n1\n\nb\nc\n and so on",
        ),
        // What goes wrong is no JSON from there on.
        ("{\"a\": the \"b\\u0041\"", "a\nthe \"b\\u0041\""),
        ("[1] says \"x\\u0041\"", "[1] says \"x\\u0041\""),
        ("[to be \"x\\u0041\"", "[to be \"x\\u0041\""),
        ("[[], {\"a\":\"\\u0041\"},]", "a\nA\n"),
        ("{} [", "{} ["),
        ("[12", "[12"),
        (r#"{"a":"["}"#, "a\n[\n"),
    ] {
        assert_eq!(read(text), texts, "{text}");
    }
    let deep = "[".repeat(MAX_DEPTH + 1) + "\"a\"";
    assert_eq!(read(&deep), deep);
}

#[test]
fn what_is_put_into_json_keeps_it_json() {
    let put = |before: &str, kind| {
        let mut nesting = Nesting::of(kind);
        nesting.saw(before);
        nesting.put("a\"b")
    };
    for (before, escaped) in [
        ("", "a\"b"),
        ("say \"", "a\"b"),
        ("{\"a", r#"a\"b"#),
        ("{\"a\":\"", r#"a\"b"#),
        ("{\"a\":\"b\",", "a\"b"),
        // Where a value comes it is one.
        ("{\"a\":", r#""a\"b""#),
        (r#"{"a":"{\"b\":"#, r#"\"a\\\"b\""#),
        (r#"{"a":"{\"b\":\""#, r#"a\\\"b"#),
        (r#"{"a":"{\u0022b\u0022:\u0022"#, r#"a\\\"b"#),
        (r#"{"a":"{\"b\":\"[\\\""#, r#"a\\\\\\\"b"#),
        (r#"{"a":"{\"b\":\"c\"} "#, r#"a\"b"#),
        (r#"{"a":"he said \""#, r#"a\"b"#),
    ] {
        assert_eq!(put(before, LaneKind::Content), escaped, "{before}");
    }
    for before in ["", "to \"", "{"] {
        assert_eq!(put(before, LaneKind::Arguments(0)), r#"a\"b"#, "{before}");
    }
    assert_eq!(put("{\"a\":", LaneKind::Arguments(0)), r#""a\"b""#);
    // What goes on behind it is read as before.
    let mut nesting = Nesting::default();
    nesting.saw("{\"a\":");
    nesting.put_number();
    nesting.saw(",\"b\":\"");
    assert_eq!(nesting.escapes(), 1);
    // There is an end to it.
    let mut text = "\"x".to_owned();
    for _ in 0..MAX_NESTED + 2 {
        text = format!("[{}", escape(&text, 1));
        text.insert(1, '"');
    }
    let mut nesting = Nesting::default();
    nesting.saw(&text);
    assert_eq!(nesting.escapes(), MAX_NESTED);
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0x6e65_7374), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_put_anywhere_into_nested_json_is_found_there(
        names in prop::collection::vec("[a\"\\\\é/ ]{0,4}", 1..5), text in any::<String>(), unicode in any::<bool>(),
    ) {
        // `{"name":"{\"name\":\"...@..."}"}`, and the text in the place of the mark.
        let whole = names.iter().rev().fold("@".to_owned(), |within, name| {
            let object = serde_json::json!({name: within}).to_string();
            match unicode {
                true => object.replace('\u{e9}', "\\u00e9"),
                false => object,
            }
        });
        let (before, behind) = whole.split_once('@').unwrap();
        let mut nesting = Nesting::default();
        nesting.saw(before);
        prop_assert_eq!(nesting.escapes(), names.len());
        let whole = format!("{before}{}{behind}", nesting.put(&text));
        let mut value = Value::String(whole);
        for name in &names {
            value = serde_json::from_str::<Value>(value.as_str().unwrap()).unwrap()[name].take();
        }
        prop_assert_eq!(value, Value::String(text));
    }
}
