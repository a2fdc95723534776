//! One line and the next.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// What stands before the first line.
pub const AUDIT_START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What stands before the number of a line, and before the hash of the one before it.
pub(super) const NUMBER: &str = "{\"number\":";
pub(super) const BEFORE: &str = ",\"before\":\"";
/// What stands between what is hashed and its hash.
const HASH: &str = ",\"hash\":\"";
/// What stands behind the hash.
const END: &str = "\"}";

/// A line of a chain: how many there are up to it, and its hash.
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
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) before: String,
    pub(super) hash: String,
    /// The whole line.
    pub(super) line: Value,
}

impl AuditHead {
    /// The beginning of the next line: its number, and the hash of this one.
    pub(super) fn begins(&self) -> String {
        format!("{NUMBER}{}{BEFORE}{}\"", self.lines + 1, self.hash)
    }

    /// Ends the next line, which begins as it has to.
    pub(super) fn ends(&mut self, body: &str, out: &mut Vec<u8>) {
        let hash = hex(&Sha256::digest(body.as_bytes()));
        out.extend_from_slice(body.as_bytes());
        out.extend_from_slice(HASH.as_bytes());
        out.extend_from_slice(hash.as_bytes());
        out.extend_from_slice(END.as_bytes());
        out.push(b'\n');
        *self = AuditHead {
            lines: self.lines + 1,
            hash,
        };
    }

    /// Chains the rest of a line: its members, with a comma before the first, as JSON text.
    pub(super) fn chain(&mut self, members: &str, out: &mut Vec<u8>) {
        let body = self.begins() + members;
        self.ends(&body, out);
    }
}

/// What of a line is hashed.
pub(super) fn body(line: &[u8]) -> Option<&[u8]> {
    let tail = HASH.len() + 64 + END.len();
    line.get(..line.len().checked_sub(tail)?)
}

/// Reads a line without its end.
pub(super) fn link(line: &[u8]) -> Result<Link, Bad> {
    let body = body(line).ok_or(Bad::Hash)?;
    let rest = std::str::from_utf8(&line[body.len()..]).map_err(|_| Bad::Hash)?;
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
    match (number, before.map(str::to_owned)) {
        (Some(number), Some(before)) => Ok(Link {
            number,
            before,
            hash: hash.to_owned(),
            line: value,
        }),
        _ => Err(Bad::Form),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
