//! The `Idempotency-Key` header: a quoted string, as the IETF's draft has it, or bare, as most clients send it.

use hyper::HeaderMap;
use ring::digest::{Context, SHA256};
use tidegate_contract::IdempotencyKey;

use super::Refusal;

/// Longest key in characters.
const LONGEST: usize = 255;

/// The key of a request, if it has one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let bad = |why: String| Refusal::bad("invalid_idempotency_key", why).of("Idempotency-Key");
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(bad("there is more than one Idempotency-Key header".into()));
    }
    let text = value
        .to_str()
        .map_err(|_| bad("the Idempotency-Key is not printable ASCII".into()))?
        .trim();
    let key = match text.strip_prefix('"') {
        None => text.to_owned(),
        Some(rest) => unquoted(rest)
            .ok_or_else(|| bad("the Idempotency-Key is not a whole quoted string".into()))?,
    };
    match key.len() {
        1..=LONGEST => Ok(Some(key)),
        length => Err(bad(format!(
            "the Idempotency-Key has {length} characters, which is not between 1 and {LONGEST}"
        ))),
    }
}

/// What stands before the closing quote, which must be the last character.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return characters.next().is_none().then_some(key),
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            other => key.push(other),
        }
    }
    None
}

/// The key's digest, for whom and where it is valid, and the digest of what came with it.
pub(super) fn digests(key: &str, scope: &[&[u8]], body: &[&[u8]]) -> IdempotencyKey {
    IdempotencyKey {
        key: digest(scope.iter().copied().chain([key.as_bytes()])),
        body: digest(body.iter().copied()),
    }
}

/// Parts are told apart by their lengths.
fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
