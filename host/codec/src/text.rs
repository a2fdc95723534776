//! Writing JSON strings, and base64 for what is not text.

/// Appends the text as a JSON string with its quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|&b| b < 0x20 || b == b'"' || b == b'\\')
    {
        let (plain, after) = rest.split_at(at);
        out.extend_from_slice(plain);
        match after[0] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
        rest = &after[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends `"name":` and the bytes as a string; bytes that are not UTF-8 as base64 under `name_base64`; null for none.
pub(crate) fn write_bytes_member(out: &mut Vec<u8>, name: &str, bytes: Option<&[u8]>) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
        None => out.extend_from_slice(b"\":null"),
        Some(Ok(text)) => {
            out.extend_from_slice(b"\":");
            write_string(out, text);
        }
        Some(Err(bytes)) => {
            out.extend_from_slice(b"_base64\":\"");
            write_base64(out, bytes);
            out.push(b'"');
        }
    }
}

/// Appends the bytes in base64 with padding (RFC 4648, section 4).
pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..4 {
            out.push(if digit <= group.len() {
                DIGITS[(word >> (18 - 6 * digit) & 63) as usize]
            } else {
                b'='
            });
        }
    }
}

/// Appends the number in decimal, without allocating.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    // Writing to a Vec cannot fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{number}"));
}

/// What [`write_base64`] wrote.
pub(crate) fn read_base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let bytes = text.as_bytes();
    let digits = bytes.strip_suffix(b"==").or(bytes.strip_suffix(b"="));
    let digits = digits.unwrap_or(bytes);
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut word = 0u32;
        for byte in group {
            word = word << 6 | u32::from(digit(*byte)?);
        }
        word <<= 6 * (4 - group.len());
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

/// The bytes in base64 with padding.
pub fn base64_text(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    write_base64(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}
