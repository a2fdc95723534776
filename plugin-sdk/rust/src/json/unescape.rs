//! The escapes of a string of JSON.

/// Reads the escapes of a string that has been walked.
pub(super) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let kind = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match kind {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let (letter, after) = code_point(rest);
                text.push(letter);
                rest = after;
            }
            other => text.push(other as char),
        }
    }
    text.push_str(rest);
    text
}

/// Reads what follows `\u`: four digits, and the second half of a pair if it comes next.
fn code_point(rest: &str) -> (char, &str) {
    let unit = |text: &str| {
        text.get(..4)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let first = unit(rest).unwrap_or(0xfffd);
    let after = rest.get(4..).unwrap_or_default();
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = after.strip_prefix("\\u").and_then(unit)
        && (0xdc00..0xe000).contains(&second)
    {
        let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (
            char::from_u32(point).unwrap_or('\u{fffd}'),
            after.get(6..).unwrap_or_default(),
        );
    }
    (char::from_u32(first).unwrap_or('\u{fffd}'), after)
}
