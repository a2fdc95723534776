//! Bytes as cases write them: text, or an object that says what they are.

use serde_json::{Value, json};

use super::read::only;

/// Most bytes that a `repeat` makes.
const REPEATED: usize = 64 << 20;

/// The bytes that a value stands for; none for null.
pub(super) fn read(value: &Value) -> Result<Option<Vec<u8>>, String> {
    let expected = "a text, null, or an object of base64, repeat and times, or json";
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Object(members) if members.contains_key("base64") => {
            only(value, &["base64"])?;
            let text = members["base64"].as_str();
            let decoded = text.and_then(decode);
            decoded.ok_or_else(|| format!("is {value}, expected base64 with padding"))?
        }
        Value::Object(members) if members.contains_key("repeat") => {
            only(value, &["repeat", "times"])?;
            let Some(text) = members["repeat"].as_str() else {
                return Err(format!("is {value}, expected a text that is repeated"));
            };
            text.repeat(times(value, REPEATED / text.len().max(1))?)
                .into_bytes()
        }
        Value::Object(members) if members.contains_key("json") => {
            only(value, &["json"])?;
            members["json"].to_string().into_bytes()
        }
        other => return Err(format!("is {other}, expected {expected}")),
    }))
}

/// The member `times`.
pub(super) fn times(value: &Value, most: usize) -> Result<usize, String> {
    let times = value["times"].as_u64().map(usize::try_from);
    match times {
        Some(Ok(times)) if times <= most => Ok(times),
        _ => Err(format!(
            "has the times {}, expected a whole number, at most {most}",
            value["times"]
        )),
    }
}

/// The one way to write bytes that they are compared in.
pub(super) fn canonical(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => text.into(),
        Some((bytes, Err(_))) => json!({"base64": encode(bytes)}),
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648, section 4.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            text.push(match digit <= group.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]),
                false => '=',
            });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let padding = text
        .iter()
        .rev()
        .take_while(|digit| **digit == b'=')
        .count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text[..text.len() - padding].chunks(4) {
        let mut bits = 0u32;
        for at in 0..4 {
            let digit = match group.get(at) {
                Some(digit) => DIGITS.iter().position(|known| known == digit)?,
                None => 0,
            };
            bits = bits << 6 | digit as u32;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    // What has another form than its own is a mistake.
    (encode(&bytes).as_bytes() == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_form_in_base64() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (&[0xff, 0xfe, 0x2c, 0], "//4sAA=="),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        for wrong in ["Zg", "Zg=", "Zh==", "Z===", "====", "Zm 8", "Zm8=\n"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_bytes_is_named() {
        for (value, why) in [
            (json!(5), "is 5, expected a text"),
            (json!([]), "is [], expected a text"),
            (json!({"base64": "?"}), "expected base64 with padding"),
            (json!({"repeat": "x"}), "has the times null"),
            (
                json!({"repeat": "x", "times": 1u64 << 40}),
                "at most 67108864",
            ),
            (json!({"json": 1, "more": 2}), "\"more\""),
        ] {
            let error = read(&value).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let read = |value: Value| read(&value).unwrap().unwrap();
        assert_eq!(
            read(json!({"json": {"a": [1, null]}})),
            br#"{"a":[1,null]}"#
        );
        assert_eq!(read(json!({"repeat": "ab", "times": 2})), b"abab");
        assert_eq!(canonical(Some(&[0xff])), json!({"base64": "/w=="}));
    }
}
