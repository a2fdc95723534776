//! Keys of answers.

use hyper::HeaderMap;
use ring::digest::{Context, SHA256};

/// The header (draft-ietf-httpapi-idempotency-key-header-07).
pub const HEADER: &str = "idempotency-key";
/// Most characters of a key.
const LONGEST: usize = 255;

/// A digest of parts, each with its length before it, so that no two lists of parts have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of these parts.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Digest(bytes)
    }

    /// The digest itself.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// A number that follows from it.
    pub(crate) fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }
}

/// A key that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// It comes more than once.
    #[error("comes {0} times, must come once")]
    Several(usize),
    /// It is empty, or too long.
    #[error("has {0} characters, must have 1 to {LONGEST}")]
    Length(usize),
    /// It has characters that no key has, or its quotes are not closed.
    #[error("has characters that are not printable ASCII, or a quote that is not closed")]
    Characters,
}

/// The key of a request, if it has one: a string of structured fields, in quotes, or bare, as most clients send it.
pub fn of(headers: &HeaderMap) -> Result<Option<String>, BadKey> {
    let values: Vec<_> = headers.get_all(HEADER).iter().collect();
    let value = match values.as_slice() {
        [] => return Ok(None),
        [value] => value,
        several => return Err(BadKey::Several(several.len())),
    };
    let text = value.to_str().map_err(|_| BadKey::Characters)?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        None if text.contains('"') => return Err(BadKey::Characters),
        None => text.to_owned(),
    };
    if !key.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return Err(BadKey::Characters);
    }
    if key.is_empty() || key.len() > LONGEST {
        return Err(BadKey::Length(key.len()));
    }
    Ok(Some(key))
}

/// RFC 9651, section 4.2.5; without parameters.
fn unquoted(text: &str) -> Result<String, BadKey> {
    let mut key = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if letters.as_str().is_empty() => return Ok(key),
            '"' => return Err(BadKey::Characters),
            '\\' => match letters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err(BadKey::Characters),
            },
            other => key.push(other),
        }
    }
    Err(BadKey::Characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Result<Option<String>, BadKey> {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, value.parse().unwrap());
        of(&headers)
    }

    #[test]
    fn keys_come_quoted_or_bare() {
        for (value, expected) in [
            ("abc-1", "abc-1"),
            ("\"abc-1\"", "abc-1"),
            (r#""a\"b\\""#, r#"a"b\"#),
            (" a b ", "a b"),
        ] {
            assert_eq!(key(value), Ok(Some(expected.to_owned())), "{value}");
        }
        assert_eq!(of(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        let long = "k".repeat(256);
        assert_eq!(key(&long), Err(BadKey::Length(256)));
        assert_eq!(key("\"\""), Err(BadKey::Length(0)));
        for value in ["\"a", "a\"", "\"a\"b", "\"a\\n\"", "a\tb"] {
            assert_eq!(key(value), Err(BadKey::Characters), "{value}");
        }
        let mut headers = HeaderMap::new();
        headers.append(HEADER, "a".parse().unwrap());
        headers.append(HEADER, "a".parse().unwrap());
        assert_eq!(of(&headers), Err(BadKey::Several(2)));
    }

    #[test]
    fn parts_do_not_run_together() {
        let digest = |parts: &[&str]| Digest::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab", ""]));
        assert_ne!(digest(&["a", "b"]), digest(&["a", "b", ""]));
    }
}
