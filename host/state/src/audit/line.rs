//! A line of a question: what is in it beside its place in the chain.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidegate_contract::{AuditContent, Audited, EntryCipher};

/// What is sealed has at least so many bytes: short answers cannot be told apart by their length.
const LEAST: usize = 256;

/// A content as it is written: no more of it is held than is kept.
struct Bounded {
    kept: Vec<u8>,
    most: usize,
    bytes: usize,
    digest: Sha256,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.digest.update(bytes);
        if self.bytes <= self.most {
            self.kept.extend_from_slice(bytes);
        } else {
            self.kept = Vec::new();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The length that so many bytes are filled up to: 256, then so that of the length no more is told than its logarithm and
/// as many bits again as that has (Padmé: Nikitin and others, "Reducing Metadata Leakage from Encrypted Files and
/// Communication with PURBs", 2019).
fn padded(bytes: usize) -> usize {
    if bytes <= LEAST {
        return LEAST;
    }
    let exponent = bytes.ilog2();
    let free = exponent - (exponent.ilog2() + 1);
    let mask = (1_usize << free) - 1;
    bytes.saturating_add(mask) & !mask
}

/// The members of a line beside its place in the chain; none if the system gives no randomness. `most` is how many bytes
/// of content are kept.
pub(super) fn members(
    audited: &Audited<'_>,
    milliseconds: u64,
    cipher: &dyn EntryCipher,
    most: usize,
) -> Option<String> {
    let facts = audited.facts.trim();
    let facts = facts.strip_prefix('{')?.strip_suffix('}')?;
    let comma = if facts.is_empty() { "" } else { "," };
    let mut members = format!(
        ",\"time\":{milliseconds},\"record\":{},\"stage\":{},\"attempt\":{}{comma}{facts}",
        Value::from(audited.record),
        stage(audited.stage),
        audited.attempt,
    );
    if let Some(content) = audited.content {
        let name = name(audited.record, audited.stage, u64::from(audited.attempt));
        members += &format!(",\"key\":\"{}\",\"content\":", cipher.fingerprint());
        members += &sealed(content, &name, cipher, most)?;
    }
    Some(members)
}

/// Null where no stage asked.
fn stage(name: &str) -> Value {
    Some(name).filter(|name| !name.is_empty()).into()
}

fn sealed(
    content: &dyn AuditContent,
    name: &str,
    cipher: &dyn EntryCipher,
    most: usize,
) -> Option<String> {
    let mut bounded = Bounded {
        kept: Vec::new(),
        most,
        bytes: 0,
        digest: Sha256::new(),
    };
    content.write(&mut bounded).ok()?;
    let length = padded(bounded.bytes);
    if bounded.bytes <= most {
        let mut plain = bounded.kept;
        // Blanks behind a JSON object are none of it.
        plain.resize(length, b' ');
        let sealed = cipher.seal(name.as_bytes(), &plain)?;
        return Some(format!("{{\"sealed\":\"{}\"}}", STANDARD.encode(sealed)));
    }
    // A plain hash of what is private could be guessed: it is sealed, too.
    let hash = cipher.seal(name.as_bytes(), bounded.digest.finalize().as_slice())?;
    Some(format!(
        "{{\"too_long\":{length},\"limit\":{most},\"sealed_sha256\":\"{}\"}}",
        STANDARD.encode(hash)
    ))
}

/// Why what a line says that it has cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotOpened {
    /// None of the keys sealed it.
    #[error("it is sealed with the key {key}, which is none of those given")]
    Key {
        /// The fingerprint of the one that did.
        key: String,
    },
    /// The key is right, and the bytes are not what it sealed for this question.
    #[error("what is sealed was altered, or is of another question")]
    Altered,
}

/// The key among these that a line names.
pub(super) fn key_of<'a>(
    line: &Value,
    keys: &'a [&dyn EntryCipher],
) -> Result<&'a dyn EntryCipher, NotOpened> {
    let named = line.get("key").and_then(Value::as_str).unwrap_or_default();
    let found = keys.iter().find(|key| key.fingerprint() == named);
    found.copied().ok_or_else(|| NotOpened::Key {
        key: named.to_owned(),
    })
}

/// What the content of a line says; none if it has none that is kept.
///
/// # Errors
/// It has one that these keys do not open.
pub fn opened(line: &Value, keys: &[&dyn EntryCipher]) -> Result<Option<Value>, NotOpened> {
    let Some(sealed) = line
        .get("content")
        .and_then(|content| content.get("sealed"))
    else {
        return Ok(None);
    };
    let cipher = key_of(line, keys)?;
    let open = || {
        let record = line.get("record")?.as_str()?;
        let stage = line.get("stage")?.as_str().unwrap_or_default();
        let attempt = line.get("attempt")?.as_u64()?;
        let sealed = STANDARD.decode(sealed.as_str()?).ok()?;
        let plain = cipher.open(name(record, stage, attempt).as_bytes(), &sealed)?;
        serde_json::from_slice(&plain).ok()
    };
    open().map(Some).ok_or(NotOpened::Altered)
}

/// What a content is sealed under: it cannot be moved to another question, or to where something else of the state is.
fn name(record: &str, stage: &str, attempt: u64) -> String {
    format!("audit of {record} at {stage}, attempt {attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_few_steps_and_cost_little() {
        assert_eq!([0, 1, 256].map(padded), [256; 3]);
        let mut steps: Vec<usize> = (0..1 << 20).map(padded).collect();
        for (bytes, padded) in steps.iter().enumerate().skip(257) {
            assert!(bytes <= *padded && *padded <= bytes + bytes / 8, "{bytes}");
        }
        steps.dedup();
        assert!(steps.len() < 300, "{}", steps.len());
    }
}
