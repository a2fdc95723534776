//! Marks: lines by which whoever has the key says that all before them was written by itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tidegate_contract::{CutWitness, EntryCipher};

use super::chain::{AuditHead, body};

/// What stands between what is signed and its code.
const MAC: &str = ",\"mac\":\"";
/// Digits of a code: a nonce of 24 bytes and a tag of 16.
const DIGITS: usize = 56;
/// What a code is bound to, before the line.
const NAME: &[u8] = b"mark of an audit ";

/// What a mark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    /// A run begins.
    Begin {
        pipeline: &'a str,
        digest: &'a str,
        cut: u64,
    },
    /// Between these cuts of the commit log the pipeline ran without its audit.
    Gap { from: u64, to: u64 },
    /// Lines end here that hold.
    Cut,
    /// Lines end here of a cut that is decided elsewhere, and by this it is known later what became of it.
    Open(Option<CutWitness>),
    /// The cut whose lines end with the mark of this number holds.
    Held(u64),
    /// It came to nothing.
    TakenBack(u64),
    /// A run has ended in order.
    End,
}

impl Mark<'_> {
    fn members(&self) -> Map<String, Value> {
        let members = match self {
            Mark::Begin {
                pipeline,
                digest,
                cut,
            } => json!({"mark": "begin", "pipeline": pipeline, "digest": digest, "cut": cut}),
            Mark::Gap { from, to } => json!({"mark": "gap", "from_cut": from, "to_cut": to}),
            Mark::Cut => json!({"mark": "cut"}),
            Mark::Open(witness) => json!({"mark": "open", "witness": witness}),
            Mark::Held(of) => json!({"mark": "held", "of": of}),
            Mark::TakenBack(of) => json!({"mark": "taken back", "of": of}),
            Mark::End => json!({"mark": "end"}),
        };
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    /// Chains it. Returns false, and nothing is written, if the system gives no randomness.
    pub(super) fn chain(
        &self,
        head: &mut AuditHead,
        milliseconds: u64,
        cipher: &dyn EntryCipher,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut line = head.begins();
        line += &format!(",\"time\":{milliseconds}");
        for (name, value) in self.members() {
            line += &format!(",{}:{value}", Value::from(name));
        }
        line += &format!(",\"key\":\"{}\"", cipher.fingerprint());
        let Some(code) = cipher.seal(&name(line.as_bytes()), b"") else {
            return false;
        };
        line += &format!("{MAC}{}\"", STANDARD.encode(code));
        head.ends(&line, out);
        true
    }
}

fn name(signed: &[u8]) -> Vec<u8> {
    [NAME, signed].concat()
}

/// What the mark in a line is, if it is one.
pub(super) fn mark_of(line: &Value) -> Option<&str> {
    line.get("mark")?.as_str()
}

/// Whether the code of a mark, which is this line without its end, was made with this key for just this line.
pub(super) fn is_by(line: &[u8], cipher: &dyn EntryCipher) -> bool {
    let signed = || {
        let body = body(line)?;
        let (signed, code) =
            body.split_at_checked(body.len().checked_sub(MAC.len() + DIGITS + 1)?)?;
        let code = std::str::from_utf8(code).ok()?;
        let code = code.strip_prefix(MAC)?.strip_suffix('"')?;
        let code = STANDARD.decode(code).ok()?;
        cipher.open(&name(signed), &code)
    };
    signed().is_some_and(|nothing| nothing.is_empty())
}
