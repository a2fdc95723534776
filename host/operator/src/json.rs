//! JSON of which every reader makes the same: the SDKs of five languages read it, each with its language's own reader.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tidegate_telemetry::plain;

/// Longest key that is shown, in bytes.
const KEY_BYTES: usize = 128;

/// Whether a text is JSON that means one thing: UTF-8 without half a pair of surrogates, at most 127 deep, no key of an
/// object there twice. Of such keys one reader takes the first, another the last.
pub fn check(text: &str) -> Result<(), String> {
    let read = serde_json::from_str::<OneMeaning>(text);
    // What one reader alone takes is no JSON for the others; a key or a text with two meanings is said by itself.
    read.map(drop).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => error.to_string(),
        _ => format!("the configuration is not JSON: {error}"),
    })
}

struct OneMeaning;

impl<'de> Deserialize<'de> for OneMeaning {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneMeaning, D::Error> {
        from.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = OneMeaning;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_bool<E>(self, _: bool) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_i64<E>(self, _: i64) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_u64<E>(self, _: u64) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_f64<E>(self, _: f64) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_str<E>(self, _: &str) -> Result<OneMeaning, E> {
        Ok(OneMeaning)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneMeaning, A::Error> {
        while items.next_element::<OneMeaning>()?.is_some() {}
        Ok(OneMeaning)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OneMeaning, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if seen.contains(&key) {
                let key = plain(&key, KEY_BYTES);
                return Err(A::Error::custom(format_args!(
                    "the key \"{key}\" is there twice"
                )));
            }
            seen.insert(key);
            members.next_value::<OneMeaning>()?;
        }
        Ok(OneMeaning)
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_two_readers_may_take_for_two_things_is_refused() {
        for right in [
            "{}",
            r#"{"a": {"b": 1}, "b": [{"b": 2}, {"b": 3}], "A": null, "\u00e4": -1.5e3, "": true}"#,
            r#"{"a": "\ud83d\ude00", "a ": 18446744073709551616}"#,
        ] {
            check(right).unwrap_or_else(|why| panic!("{right}: {why}"));
        }
        for (wrong, why) in [
            (
                r#"{"a": 1, "a": 1}"#,
                "the key \"a\" is there twice at line 1 column ",
            ),
            (
                r#"{"a": [{"b": {}, "c": 0, "b": {}}]}"#,
                "the key \"b\" is there twice",
            ),
            (r#"{"a": 1, "\u0061": 2}"#, "the key \"a\" is there twice"),
            (
                "{\"\": 1,\n\"\": 2}",
                "the key \"\" is there twice at line 2",
            ),
            (r#"{"a": "\ud83d"}"#, "hex escape"),
            (r#"{"a": "\ude00"}"#, "hex escape"),
            (r#"{"\ud83d": 1}"#, "hex escape"),
            (r#"{"a": "\ud83d\ud83d"}"#, "hex escape"),
            ("{} {}", "trailing characters"),
            ("", "EOF"),
        ] {
            let said = check(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(check(&deep).unwrap_err().contains("recursion limit"));
    }
}
