//! Static keys.

use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::options::{AccessError, Key, Secret};
use super::who::Who;

/// Keys by their digests.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<([u8; 32], Who)>);

impl Keys {
    pub(super) fn new(
        keys: &[Key],
        mut who: impl FnMut(&Key) -> Result<Who, AccessError>,
    ) -> Result<Keys, AccessError> {
        let mut known: Vec<([u8; 32], Who)> = Vec::with_capacity(keys.len());
        for key in keys {
            let secret = digest_of(key)?;
            // Whoever sent it would have the rights of either.
            if let Some(other) = known.iter().position(|(other, _)| *other == secret) {
                return Err(AccessError::SameSecret {
                    name: key.name.clone(),
                    other: keys[other].name.clone(),
                });
            }
            known.push((secret, who(key)?));
        }
        Ok(Keys(known))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key it is. All keys are compared, each over its whole length, so that the time tells nothing.
    pub(super) fn who(&self, presented: &[u8]) -> Option<Who> {
        let presented = digest(&SHA256, presented);
        let mut found = None;
        for (key, who) in &self.0 {
            let differs = key
                .iter()
                .zip(presented.as_ref())
                .fold(0, |differs, (a, b)| differs | (a ^ b));
            if std::hint::black_box(differs) == 0 {
                found = Some(who);
            }
        }
        found.cloned()
    }
}

/// What a key is compared with.
pub(super) fn digest_of(key: &Key) -> Result<[u8; 32], AccessError> {
    match &key.secret {
        Secret::Digest(text) => {
            let hex = text
                .strip_prefix("sha256:")
                .filter(|hex| hex.len() == 64 && hex.is_ascii());
            hex.and_then(from_hex)
                .ok_or_else(|| AccessError::Digest(key.name.clone()))
        }
        Secret::Environment(variable) => {
            let value = environment(&key.name, variable)?;
            let mut bytes = [0; 32];
            bytes.copy_from_slice(digest(&SHA256, value.as_bytes()).as_ref());
            Ok(bytes)
        }
    }
}

/// A secret of the environment.
pub(super) fn environment(name: &str, variable: &str) -> Result<Arc<str>, AccessError> {
    let value = std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty());
    value
        .map(Arc::from)
        .ok_or_else(|| AccessError::Environment {
            name: name.to_owned(),
            variable: variable.to_owned(),
        })
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(bytes)
}
