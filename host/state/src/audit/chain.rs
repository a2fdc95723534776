//! One line and the next.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidegate_contract::{Audited, EntryCipher};

/// What stands before the first line.
pub const AUDIT_START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What stands between what is hashed and its hash.
const HASH: &str = ",\"hash\":\"";
/// What stands behind the hash.
const END: &str = "\"}";

/// The last line of a chain: how many there are, and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// Lines so far.
    pub lines: u64,
    /// Hash of the last one, 64 hexadecimal digits; [`AUDIT_START`] of none.
    pub hash: String,
}

impl Default for AuditHead {
    fn default() -> AuditHead {
        AuditHead {
            lines: 0,
            hash: AUDIT_START.to_owned(),
        }
    }
}

/// Why a line is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// Its hash is not that of its bytes, or it has none.
    Hash,
    /// Its hash is right, and it has no number or nothing before it.
    Form,
}

/// What a line says of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) before: String,
    pub(super) hash: String,
}

impl AuditHead {
    /// Chains the rest of a line: its members, with a comma before the first, as JSON text.
    pub(super) fn chain(&mut self, members: &str, out: &mut Vec<u8>) {
        let number = self.lines + 1;
        let body = format!(
            "{{\"number\":{number},\"before\":\"{}\"{members}",
            self.hash
        );
        let hash = hex(&Sha256::digest(body.as_bytes()));
        out.extend_from_slice(body.as_bytes());
        out.extend_from_slice(HASH.as_bytes());
        out.extend_from_slice(hash.as_bytes());
        out.extend_from_slice(END.as_bytes());
        out.push(b'\n');
        *self = AuditHead {
            lines: number,
            hash,
        };
    }
}

/// Reads a line without its end.
pub(super) fn link(line: &[u8]) -> Result<Link, Bad> {
    let tail = HASH.len() + 64 + END.len();
    let at = line.len().checked_sub(tail).ok_or(Bad::Hash)?;
    let (body, rest) = line.split_at(at);
    let rest = std::str::from_utf8(rest).map_err(|_| Bad::Hash)?;
    let hash = rest
        .strip_prefix(HASH)
        .and_then(|rest| rest.strip_suffix(END))
        .ok_or(Bad::Hash)?;
    if hex(&Sha256::digest(body)) != hash {
        return Err(Bad::Hash);
    }
    let value: Value = serde_json::from_slice(line).map_err(|_| Bad::Form)?;
    let number = value.get("number").and_then(Value::as_u64);
    let before = value.get("before").and_then(Value::as_str);
    match (number, before) {
        (Some(number), Some(before)) => Ok(Link {
            number,
            before: before.to_owned(),
            hash: hash.to_owned(),
        }),
        _ => Err(Bad::Form),
    }
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
    let content = if audited.content.len() <= most {
        let sealed = cipher.seal(name(audited.record).as_bytes(), audited.content.as_bytes())?;
        format!("{{\"sealed\":\"{}\"}}", STANDARD.encode(sealed))
    } else {
        // A plain hash of what is private could be guessed: it is of the bytes under the key's own name.
        let hash = cipher.seal(
            name(audited.record).as_bytes(),
            Sha256::digest(audited.content.as_bytes()).as_slice(),
        )?;
        format!(
            "{{\"too_long\":{},\"limit\":{most},\"sealed_sha256\":\"{}\"}}",
            audited.content.len(),
            STANDARD.encode(hash)
        )
    };
    let comma = if facts.is_empty() { "" } else { "," };
    Some(format!(
        ",\"time\":{milliseconds},\"record\":{}{comma}{facts},\"content\":{content}",
        Value::from(audited.record)
    ))
}

/// The content of a line, opened; none if it has none that can be opened with this key.
pub fn opened(line: &Value, cipher: &dyn EntryCipher) -> Option<Value> {
    let record = line.get("record")?.as_str()?;
    let sealed = line.get("content")?.get("sealed")?.as_str()?;
    let sealed = STANDARD.decode(sealed).ok()?;
    let plain = cipher.open(name(record).as_bytes(), &sealed)?;
    serde_json::from_slice(&plain).ok()
}

/// What a content is sealed under: it cannot be moved to another record, or to where something else of the state is.
fn name(record: &str) -> String {
    format!("audit of {record}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
