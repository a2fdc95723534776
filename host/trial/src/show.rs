//! How two values are shown that differ: short ones whole, of long ones what is around the first difference.

use serde_json::Value;
use tidegate_telemetry::plain;

use crate::write::spaced;

/// Bytes of a value that is shown whole.
const WHOLE: usize = 120;
/// Bytes of a longer one before and after the first difference.
const AROUND: (usize, usize) = (24, 48);
/// Bytes of any other text.
const TEXT: usize = 400;

/// Two values that differ: the byte at which they do, where that says something, and both.
pub(crate) fn bytes(
    expected: Option<&[u8]>,
    came: Option<&[u8]>,
) -> (Option<usize>, String, String) {
    let (Some(expected), Some(came)) = (expected, came) else {
        let shown = |bytes: Option<&[u8]>| match bytes {
            None => "null".to_owned(),
            Some(bytes) => part(bytes, 0, is_text(bytes)),
        };
        return (None, shown(expected), shown(came));
    };
    let same = expected.iter().zip(came).take_while(|(a, b)| a == b);
    let at = same.count();
    let text = is_text(expected) && is_text(came);
    let long = expected.len() > WHOLE || came.len() > WHOLE;
    (
        long.then_some(at),
        part(expected, at, text),
        part(came, at, text),
    )
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

/// A short value, or a part of a long one around this byte.
fn part(bytes: &[u8], at: usize, text: bool) -> String {
    let (mut from, mut to) = (0, bytes.len());
    if bytes.len() > WHOLE {
        let at = at.min(bytes.len());
        from = at.saturating_sub(AROUND.0);
        to = bytes.len().min(at + AROUND.1);
    }
    let shown = match std::str::from_utf8(bytes).ok().filter(|_| text) {
        Some(text) => {
            from = text.floor_char_boundary(from);
            to = text.ceil_char_boundary(to);
            let quoted = Value::from(&text[from..to]).to_string();
            // Within the quotes.
            let inside = &quoted[1..quoted.len() - 1];
            let inside = plain(inside, usize::MAX);
            let (before, after) = dots(from > 0, to < bytes.len());
            format!("\"{before}{inside}{after}\"")
        }
        None => {
            let digits: String = bytes[from..to]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let (before, after) = dots(from > 0, to < bytes.len());
            format!("0x{before}{digits}{after}")
        }
    };
    match bytes.len() > WHOLE {
        true => format!("{shown} ({} bytes)", bytes.len()),
        false => shown,
    }
}

fn dots(before: bool, after: bool) -> (&'static str, &'static str) {
    (if before { "…" } else { "" }, if after { "…" } else { "" })
}

/// JSON on one line.
pub(crate) fn json(value: &Value) -> String {
    plain(&spaced(value), TEXT).into_owned()
}

/// A text in quotes, with what stands beneath it.
pub(crate) fn text(text: &str, beneath: &str) -> String {
    let shown = json(&Value::from(text));
    match beneath.is_empty() {
        true => shown,
        false => format!("{shown} and beneath it {}", json(&Value::from(beneath))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_are_shown_whole() {
        let shown = bytes(Some(b"a \"b\"\n"), Some("ä".as_bytes()));
        assert_eq!(shown, (None, r#""a \"b\"\n""#.into(), "\"ä\"".into()));
        assert_eq!(bytes(None, Some(b"")), (None, "null".into(), "\"\"".into()));
    }

    #[test]
    fn what_is_no_text_is_shown_in_hex_and_so_is_what_it_is_held_against() {
        let shown = bytes(Some(b"ab"), Some(b"\xff"));
        assert_eq!(shown, (None, "0x6162".into(), "0xff".into()));
    }

    #[test]
    fn of_long_values_what_is_around_the_first_difference_is_shown() {
        let (mut one, mut other) = ("ü".repeat(5000), "ü".repeat(5000));
        one.push_str("one");
        other.push_str("other");
        let (at, expected, came) = bytes(Some(one.as_bytes()), Some(other.as_bytes()));
        assert_eq!(at, Some(10_001), "both begin with o");
        assert_eq!(expected, "\"…üüüüüüüüüüüüone\" (10003 bytes)".to_owned());
        assert!(came.ends_with("other\" (10005 bytes)"), "{came}");
        let (at, expected, _) = bytes(Some(&[0xff; 1000]), Some(&[0xff; 1001]));
        assert_eq!(at, Some(1000));
        assert!(expected.starts_with("0x…ffff") && expected.ends_with("ff (1000 bytes)"));
    }

    #[test]
    fn nothing_that_is_shown_disturbs_a_terminal() {
        let shown = bytes(Some("\u{1b}[2J\u{202e}".as_bytes()), None).1;
        assert_eq!(shown, "\"\\u001b[2J\\u{202e}\"");
    }
}
