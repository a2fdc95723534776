//! Where an audit goes on: at what the last cut has, and at nothing else.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tidegate_contract::{
    AppendFile, CutWitness, EntryCipher, FileLayer, InUse, SinkError, SinkPosition,
};

use super::chain::{AuditHead, BEFORE, NUMBER, link};
use super::files::{number_of, numbered, unfit};
use super::log::{AuditFile, AuditLimits, NAME, Open};
use super::mark::mark_of;

/// What a line has that is a mark.
const MARK: &[u8] = b",\"mark\":\"";

impl AuditFile {
    /// Opens the log whose first file this is, and takes away what lies beyond the last cut. `known` are the positions
    /// that the commit log has. Where the last run that wrote it ended in order, what its files have beyond its last cut is
    /// somebody else's, and refused. So is a last line that is another than the cut has.
    pub fn recover(
        first: &Path,
        layer: Arc<dyn FileLayer>,
        cipher: Arc<dyn EntryCipher>,
        limits: AuditLimits,
        known: &[SinkPosition],
    ) -> Result<AuditFile, SinkError> {
        let own = known.iter().filter(|known| known.sink == NAME);
        let position = own
            .filter_map(|known| Some((number_of(first, &known.identity)?, known)))
            .next_back();
        let ended = position.is_some_and(|(_, position)| position.ended);
        let is_known = position.is_some();
        let number = position.map_or(1, |(number, _)| number);
        let length = position.map_or(0, |(_, position)| position.length);
        let left = |number: u64| {
            let path = numbered(first, number).display().to_string();
            let mut own = known.iter().rev().filter(|known| known.sink == NAME);
            own.find(|known| known.identity == path)
                .map(|known| known.length)
        };
        let unfit = unfit(layer.as_ref(), first, number, left);
        if let Some((path, why)) = unfit.map_err(|error| fail(first, error.to_string()))? {
            return Err(fail(&path, why));
        }
        let path = numbered(first, number);
        let mut file = open(layer.as_ref(), &path)?;
        let io = |error: io::Error| fail(&path, error.to_string());
        let found = file.length().map_err(io)?;
        if found < length {
            let why = format!(
                "it has {found} bytes but the last cut left {length}: lines were lost or taken away"
            );
            return Err(fail(&path, why));
        }
        if found > length && (!is_known || ended) {
            let why = format!(
                "it has {found} bytes and the last cut left {length}: something else wrote to it; name a new or empty file, \
                 or take that away"
            );
            return Err(fail(&path, why));
        }
        // Before anything is taken away: of a file that somebody altered nothing is.
        let head = match (length, number) {
            (1.., _) => Some((file.read().map_err(io)?, path.clone())),
            (0, 2..) => {
                let before = numbered(first, number - 1);
                let bytes = layer.read(&before);
                let bytes = bytes.map_err(|error| fail(&before, error.to_string()))?;
                Some((bytes.unwrap_or_default(), before))
            }
            _ => None,
        };
        let mut undecided = Undecided::default();
        if limits.decided_elsewhere && number > 1 {
            let before = numbered(first, number - 1);
            let bytes = layer.read(&before);
            let bytes = bytes.map_err(|error| fail(&before, error.to_string()))?;
            undecided.read(&bytes.unwrap_or_default());
        }
        let head = match head {
            None => AuditHead::default(),
            Some((bytes, path)) => {
                let bytes = match length {
                    0 => &bytes[..],
                    length => bytes.get(..length as usize).unwrap_or_default(),
                };
                if limits.decided_elsewhere && length > 0 {
                    undecided.read(bytes);
                }
                head_of(bytes).ok_or_else(|| {
                    let why = "its last line is altered: see tidegate audit verify";
                    fail(&path, why.into())
                })?
            }
        };
        let noted = position.map_or("", |(_, position)| position.head.as_str());
        if !noted.is_empty() && noted != head.hash {
            let why = format!(
                "line {} is another than the last cut has, which ended with {noted}: somebody wrote it, and maybe lines \
                 before it, anew",
                head.lines
            );
            return Err(fail(&path, why));
        }
        // One that was begun and not committed.
        let next = numbered(first, number + 1);
        let begun = layer
            .length(&next)
            .map_err(|error| fail(&next, error.to_string()))?;
        let mut begun = match begun {
            Some(1..) => Some(open(layer.as_ref(), &next)?),
            _ => None,
        };
        if let Some(begun) = &mut begun {
            let bytes = begun
                .read()
                .map_err(|error| fail(&next, error.to_string()))?;
            if ended || !is_known || !begins_after(&bytes, head.lines) {
                let bytes = bytes.len();
                let why = format!("it has {bytes} bytes that no cut knows of; take it away");
                return Err(fail(&next, why));
            }
        }
        if found > length {
            file.truncate(length).map_err(io)?;
        }
        if let Some(mut begun) = begun {
            let truncated = begun.truncate(0);
            truncated.map_err(|error| fail(&next, error.to_string()))?;
        }
        let undecided = undecided.0.into_iter().collect();
        let open = Open::new(file, number, length, head, undecided);
        Ok(AuditFile::new(first, layer, cipher, limits, open))
    }
}

pub(super) fn fail(path: &Path, why: String) -> SinkError {
    SinkError::Recover {
        place: path.display().to_string(),
        why,
    }
}

pub(super) fn open(layer: &dyn FileLayer, path: &Path) -> Result<Box<dyn AppendFile>, SinkError> {
    layer
        .open_append(path)
        .map_err(|error| match InUse::of(&error) {
            Some(in_use) => fail(
                path,
                format!("it is {in_use}; each pipeline needs an audit of its own"),
            ),
            None => fail(path, error.to_string()),
        })
}

/// Whether a file begins as this log goes on after so many lines, whole or torn: anything else is none of its files.
pub(super) fn begins_after(bytes: &[u8], lines: u64) -> bool {
    // As a machine that lost its power may leave it.
    if bytes.iter().all(|byte| *byte == 0) {
        return true;
    }
    let Some(rest) = after(bytes, NUMBER) else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(digits);
    let number = std::str::from_utf8(digits).ok();
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let torn = rest.is_empty();
    let follows = number.map_or(torn && digits.is_empty(), |number| torn || number > lines);
    follows && after(rest, BEFORE).is_some()
}

/// What follows a text at the beginning; nothing if the bytes end within it. None if they begin otherwise.
fn after<'b>(bytes: &'b [u8], text: &str) -> Option<&'b [u8]> {
    let both = bytes.len().min(text.len());
    (bytes[..both] == text.as_bytes()[..both]).then(|| &bytes[both..])
}

/// Cuts of which the chain does not say what became of them, by the numbers of their marks: those of the file that is
/// written and of the one before it, which is more than a run leaves.
#[derive(Default)]
struct Undecided(BTreeMap<u64, CutWitness>);

impl Undecided {
    fn read(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            let is_mark = line.windows(MARK.len()).any(|part| part == MARK);
            let Some(Ok(line)) = is_mark.then(|| serde_json::from_slice::<Value>(line)) else {
                continue;
            };
            let number = |name: &str| line.get(name).and_then(Value::as_u64);
            match (mark_of(&line), number("number"), number("of")) {
                (Some("open"), Some(number), _) => {
                    let witness = line.get("witness").cloned().unwrap_or_default();
                    if let Ok(Some(witness)) = serde_json::from_value::<Option<CutWitness>>(witness)
                    {
                        self.0.insert(number, witness);
                    }
                }
                (Some("held" | "taken back"), _, Some(of)) => {
                    self.0.remove(&of);
                }
                _ => {}
            }
        }
    }
}

/// What the last line of a file says, if it is whole.
pub(super) fn head_of(bytes: &[u8]) -> Option<AuditHead> {
    let lines = bytes.strip_suffix(b"\n")?;
    let last = lines.rsplit(|byte| *byte == b'\n').next()?;
    let link = link(last).ok()?;
    Some(AuditHead {
        lines: link.number,
        hash: link.hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_this_log_has_begun_is_told_from_any_other() {
        let head = AuditHead {
            lines: 41,
            ..AuditHead::default()
        };
        let begins = head.begins();
        for bytes in 1..=begins.len() {
            assert!(begins_after(&begins.as_bytes()[..bytes], 41), "{bytes}");
        }
        assert!(begins_after(&[0; 40], 41));
        for other in [
            "precious\n",
            "{\"name\":1}",
            "{\"number\":41,\"before\":\"",
            "{\"number\":42,\"after\":\"",
            "{\"number\":x",
            "{\"number\":,\"before\":\"",
        ] {
            assert!(!begins_after(other.as_bytes(), 41), "{other}");
        }
    }
}
