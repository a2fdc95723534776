//! A token's form and signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::json;
use super::key::VerifyingKey;
use crate::access::options::Algorithm;

/// Most bytes of a token's header, and of the whole token.
const HEADER: usize = 8 << 10;
const TOKEN: usize = 32 << 10;

/// Longest name of a key.
const KID: usize = 256;

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::access) enum Bad {
    /// It is none, or not signed as it has to be. More is not said: whoever asks has shown nothing.
    Unsigned,
    /// It names a key that is not there.
    UnknownKey,
    /// It is signed, and says what it may not.
    Claims(&'static str),
}

/// The payload of a token that one of the keys has signed.
pub(super) fn signed(
    token: &str,
    algorithm: Algorithm,
    keys: &[VerifyingKey],
) -> Result<Vec<u8>, Bad> {
    if token.len() > TOKEN {
        return Err(Bad::Unsigned);
    }
    let mut parts = token.split('.');
    let (Some(header), Some(payload), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Bad::Unsigned);
    };
    if header.len() > HEADER {
        return Err(Bad::Unsigned);
    }
    let kid = kid(&decoded(header)?, algorithm)?;
    let (payload_bytes, signature_bytes) = (decoded(payload)?, decoded(signature)?);
    let signed = &token[..header.len() + 1 + payload.len()];
    let mut candidates = keys
        .iter()
        .filter(|key| kid.is_none() || key.kid.is_none() || key.kid == kid)
        .peekable();
    if candidates.peek().is_none() {
        return Err(Bad::UnknownKey);
    }
    let verified = candidates.any(|key| key.verifies(signed.as_bytes(), &signature_bytes));
    verified.then_some(payload_bytes).ok_or(Bad::Unsigned)
}

/// Checks a header and returns the name of the key it wants.
fn kid(header: &[u8], algorithm: Algorithm) -> Result<Option<String>, Bad> {
    let header = json::object(header).ok_or(Bad::Unsigned)?;
    if header.get("alg").and_then(Value::as_str) != Some(algorithm.name()) {
        return Err(Bad::Unsigned);
    }
    // Keys and rules that a token brings along are its own word for itself.
    let brought = ["crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc"];
    if brought.iter().any(|name| header.contains_key(*name)) {
        return Err(Bad::Unsigned);
    }
    let typed = |kind: &Value| {
        kind.as_str().is_some_and(|kind| {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            matches!(kind, "jwt" | "at+jwt")
        })
    };
    if !header.get("typ").is_none_or(typed) {
        return Err(Bad::Unsigned);
    }
    match header.get("kid") {
        None => Ok(None),
        Some(Value::String(kid)) if kid.len() <= KID => Ok(Some(kid.clone())),
        Some(_) => Err(Bad::Unsigned),
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, Bad> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Bad::Unsigned)
}
