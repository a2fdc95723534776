//! The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07), wherever it is taken.

use hyper::HeaderMap;

/// Its name, as clients are told it.
pub(crate) const NAME: &str = "idempotency-key";
/// Most characters of a key.
const LONGEST: usize = 255;

/// A header that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKey {
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
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, BadKey> {
    let values: Vec<_> = headers.get_all(NAME).iter().collect();
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

    fn of(value: &str) -> Result<Option<String>, BadKey> {
        let mut headers = HeaderMap::new();
        headers.insert(NAME, value.parse().unwrap());
        key(&headers)
    }

    #[test]
    fn keys_come_quoted_or_bare() {
        for (value, expected) in [
            ("abc-1", "abc-1"),
            ("\"abc-1\"", "abc-1"),
            (r#""a\"b\\""#, r#"a"b\"#),
            (" a b ", "a b"),
        ] {
            assert_eq!(of(value), Ok(Some(expected.to_owned())), "{value}");
        }
        assert_eq!(key(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        let long = "k".repeat(256);
        assert_eq!(of(&long), Err(BadKey::Length(256)));
        assert_eq!(of("\"\""), Err(BadKey::Length(0)));
        for value in ["\"a", "a\"", "\"a\"b", "\"a\\n\"", "a\tb"] {
            assert_eq!(of(value), Err(BadKey::Characters), "{value}");
        }
        let mut headers = HeaderMap::new();
        headers.append(NAME, "a".parse().unwrap());
        headers.append(NAME, "a".parse().unwrap());
        assert_eq!(key(&headers), Err(BadKey::Several(2)));
    }
}
