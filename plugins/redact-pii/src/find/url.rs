//! User and password in URLs: `scheme://user:password@host`.

/// The longest user and password that are looked at, in bytes.
const LONGEST: usize = 512;

/// The user and password after a `:` that begins `://`.
pub(super) fn credentials_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let start = at + 3;
    if bytes.get(at + 1..start)? != b"//" || at == 0 || !bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    let limit = bytes.len().min(start + LONGEST);
    let (mut end, mut secret, mut in_path) = (None, None, false);
    for (index, &byte) in bytes[start..limit].iter().enumerate() {
        let here = start + index;
        match byte {
            0..=b' ' | b'"' | b'<' | b'>' | b'\\' | b'`' => break,
            b'@' if !in_path => end = Some(here),
            // A password with a bare `/`, `?` or `#` in it: only if something before is no port.
            b'@' if end.is_none()
                && secret.is_some_and(|colon| is_secret(&bytes[colon + 1..here])) =>
            {
                end = Some(here);
            }
            b'/' | b'?' | b'#' => in_path = true,
            b':' if !in_path && secret.is_none() => secret = Some(here),
            _ => {}
        }
    }
    let end = end?;
    // A host follows.
    let host = bytes
        .get(end + 1)
        .is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte >= 0x80 || byte == b'[');
    (end > start && host && !is_placeholder(&bytes[start..end])).then_some((start, end))
}

/// Whether this was redacted already, as `[URL_CREDENTIALS_1]`: what hides something is not hidden again.
fn is_placeholder(secret: &[u8]) -> bool {
    let label = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    matches!(secret, [b'[', within @ .., b']'] if within.iter().all(label))
}

/// Whether what follows a colon cannot be a port and a path.
fn is_secret(after: &[u8]) -> bool {
    let digits = after
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    !(1..=5).contains(&digits) || !matches!(after.get(digits), Some(b'/' | b'?' | b'#'))
}
