//! Whether a chain is as it was written.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_contract::EntryCipher;

use super::chain::{AuditHead, Bad, Link, link};
use super::committed::Committed;
use super::files::{FilesFlaw, files, first_of};
use super::line::key_of;
use super::mark::{is_by, mark_of};

/// Most bytes of a line: a content within the largest limit that a pipeline file takes, and what stands beside it.
const LONGEST: u64 = 64 << 20;

/// What a chain is held against.
#[derive(Clone, Copy, Default)]
pub struct Against<'a> {
    /// A hash that was noted once: it must be that of a line.
    pub head: Option<&'a str>,
    /// The line that the first file follows, where those before were archived.
    pub after: Option<&'a AuditHead>,
    /// Keys of which one must have signed each mark; where there are none, marks are not looked at.
    pub keys: &'a [&'a dyn EntryCipher],
    /// Where it ends at least, as commit logs have it.
    pub committed: &'a [Committed],
}

/// A chain that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The last mark: everything up to it is closed.
    pub head: AuditHead,
    /// Lines among those that are no marks.
    pub entries: u64,
    /// The files it is in, in order, each with the last line in it.
    pub files: Vec<(PathBuf, AuditHead)>,
    /// What lies behind the last mark.
    pub open: OpenEnd,
    /// Numbers of the marks that end cuts of which the chain does not say what became of them.
    pub undecided: Vec<u64>,
    /// All bytes of that.
    pub open_bytes: u64,
    /// Whether the last mark says that a run has ended in order.
    pub ended: bool,
    /// The last line that a commit log has; none where it was held against none.
    pub committed: Option<CommittedLine>,
}

/// A line of a chain that a commit log has as its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedLine {
    /// Its number.
    pub number: u64,
    /// The log says that the run that wrote it has ended.
    pub ended: bool,
}

/// What lies behind the last mark: a run is writing it, or was cut short, or somebody without the key wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenEnd {
    /// Whole lines.
    pub lines: u64,
    /// Bytes of one that has no end.
    pub bytes: u64,
}

/// The first thing that is wrong with a chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditFlaw {
    /// A file cannot be read, or is missing.
    #[error(transparent)]
    Files(#[from] FilesFlaw),
    /// The first file is not there, and nothing says what those that are follow.
    #[error("{} is missing, and {} is there: where those before were archived, --after NUMBER:HASH says which line it follows", first.display(), there.display())]
    Begin {
        /// The first file.
        first: PathBuf,
        /// The first that is there.
        there: PathBuf,
    },
    /// The files that are there begin before what they are said to follow.
    #[error("{} begins with line {} of the chain, and not behind line {after}, as --after says: give the last line of the files that were archived, or leave --after out", first.display(), found + 1)]
    After {
        /// The first that is there.
        first: PathBuf,
        /// The line that it follows.
        found: u64,
        /// The line that it was to follow.
        after: u64,
    },
    /// Something is wrong with a line.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1 in this file.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// A commit log has a line that the chain does not have, or has elsewhere.
    #[error("{committed}")]
    Committed {
        /// What the log has.
        committed: Committed,
    },
    /// The chain is whole and ends elsewhere than it should.
    #[error("the chain is whole and has {} lines, but the head {wanted} is none of them: lines are missing at its end, or it is another chain", head.lines)]
    Head {
        /// Its last line.
        head: AuditHead,
        /// The hash that was to be found.
        wanted: String,
    },
}

/// Up to which line a log is closed: by a mark, signed where there are keys, behind a chain that is whole so far. The first
/// file need not be there.
///
/// # Errors
/// There are no files, or one is missing between two.
pub fn closed(first: &Path, keys: &[&dyn EntryCipher]) -> Result<u64, FilesFlaw> {
    let there = files(first)?;
    let against = Against {
        keys,
        ..Against::default()
    };
    let before = there.first().and_then(|path| before(path));
    let mut reading = Reading::new(&against, before.unwrap_or_default());
    let last = there.len();
    for (number, path) in (1..).zip(there) {
        if reading.file(&path, number == last).is_err() {
            break;
        }
    }
    Ok(reading.closed.lines)
}

/// The first file of a chain that lies beside this path, and would take it for one of its further files.
pub fn taken_by(path: &Path) -> Option<PathBuf> {
    first_of(path).filter(|first| before(first).is_some())
}

/// What the first line of a file follows, as it says itself.
fn before(path: &Path) -> Option<AuditHead> {
    let file = std::fs::File::open(path).ok()?;
    let mut line = Vec::new();
    let mut lines = BufReader::new(file).take(LONGEST);
    lines.read_until(b'\n', &mut line).ok()?;
    let link = link(line.strip_suffix(b"\n")?).ok()?;
    Some(AuditHead {
        lines: link.number.checked_sub(1)?,
        hash: link.before,
    })
}

/// Reads a log from its first file to its last.
pub fn verify(first: &Path, against: &Against<'_>) -> Result<Verified, AuditFlaw> {
    let there = files(first)?;
    if let Some(there) = there.first().filter(|there| *there != first)
        && against.after.is_none()
    {
        return Err(AuditFlaw::Begin {
            first: first.to_owned(),
            there: there.clone(),
        });
    }
    let begin = against.after.cloned().unwrap_or_default();
    if let Some(there) = there.first()
        && let Some(found) = before(there).filter(|found| found.lines < begin.lines)
    {
        return Err(AuditFlaw::After {
            first: there.clone(),
            found: found.lines,
            after: begin.lines,
        });
    }
    let mut reading = Reading::new(against, begin);
    reading.meets();
    let mut read = Vec::new();
    let last = there.len();
    for (number, path) in (1..).zip(there) {
        reading.file(&path, number == last)?;
        read.push((path, reading.chain.clone()));
    }
    if let Some(committed) = reading.committed.first() {
        return Err(AuditFlaw::Committed {
            committed: Committed::clone(committed),
        });
    }
    match against.head.filter(|_| !reading.met) {
        Some(wanted) => Err(AuditFlaw::Head {
            head: reading.chain,
            wanted: wanted.to_owned(),
        }),
        None => Ok(Verified {
            head: reading.closed,
            entries: reading.entries,
            files: read,
            open: reading.open,
            undecided: reading.undecided.into_iter().collect(),
            open_bytes: reading.open_bytes,
            ended: reading.ended,
            committed: reading.met_last,
        }),
    }
}

struct Reading<'a> {
    against: &'a Against<'a>,
    chain: AuditHead,
    closed: AuditHead,
    met: bool,
    entries: u64,
    open: OpenEnd,
    undecided: BTreeSet<u64>,
    open_bytes: u64,
    ended: bool,
    /// What was not met yet of what commit logs have.
    committed: Vec<&'a Committed>,
    /// What was met last of that.
    met_last: Option<CommittedLine>,
}

impl<'a> Reading<'a> {
    fn new(against: &'a Against<'a>, begin: AuditHead) -> Reading<'a> {
        Reading {
            against,
            closed: begin.clone(),
            chain: begin,
            met: false,
            entries: 0,
            open: OpenEnd::default(),
            undecided: BTreeSet::new(),
            open_bytes: 0,
            ended: false,
            committed: against.committed.iter().collect(),
            met_last: None,
        }
    }

    fn meets(&mut self) {
        self.met |= self.against.head == Some(self.chain.hash.as_str());
    }

    /// The line that was read last ends here.
    fn meets_committed(&mut self, path: &Path, length: u64) {
        let head = self.chain.hash.as_str();
        let is_met = |committed: &&Committed| committed.is_met(head, path, length);
        let mut met = self.committed.iter().copied().filter(is_met).peekable();
        if met.peek().is_some() {
            self.met_last = Some(CommittedLine {
                number: self.chain.lines,
                ended: met.all(Committed::has_ended),
            });
            self.committed.retain(|committed| !is_met(committed));
        }
    }

    fn file(&mut self, path: &Path, is_last: bool) -> Result<(), AuditFlaw> {
        let read = |source| FilesFlaw::Read {
            path: path.to_owned(),
            source,
        };
        let mut lines = BufReader::new(std::fs::File::open(path).map_err(read)?);
        let (mut length, mut count) = (0, 0);
        for number in 1.. {
            let wrong = |why: String| AuditFlaw::Line {
                path: path.to_owned(),
                line: number,
                why,
            };
            let mut line = Vec::new();
            let taken = (&mut lines).take(LONGEST).read_until(b'\n', &mut line);
            let taken = taken.map_err(read)? as u64;
            if taken == 0 {
                break;
            }
            length += taken;
            self.open_bytes += taken;
            if line.pop() != Some(b'\n') {
                if is_last && taken < LONGEST {
                    self.open.bytes = taken;
                    break;
                }
                return Err(wrong("it has no end".into()));
            }
            self.line(&line).map_err(|why| wrong(why.to_string()))?;
            self.meets_committed(path, length);
            count = number;
        }
        if !is_last && self.open.lines > 0 {
            return Err(AuditFlaw::Line {
                path: path.to_owned(),
                // A file is closed with its last line, so all that is open is in this one.
                line: (count + 1).saturating_sub(self.open.lines),
                why: "no mark closes it, nor what follows it in this file: a mark was taken away, or the lines were put in"
                    .into(),
            });
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Wrong> {
        let link = next(&self.chain, line)?;
        self.chain = AuditHead {
            lines: link.number,
            hash: link.hash,
        };
        if let Some(mark) = mark_of(&link.line) {
            let of = link.line.get("of").and_then(Value::as_u64);
            match (mark, of) {
                ("open", _) => {
                    self.undecided.insert(link.number);
                }
                ("held" | "taken back", Some(of)) => {
                    self.undecided.remove(&of);
                }
                _ => {}
            }
            let keys = self.against.keys;
            if !keys.is_empty() {
                let key = key_of(&link.line, keys).map_err(|why| Wrong::Key(why.to_string()))?;
                if !is_by(line, key) {
                    return Err(Wrong::Forged);
                }
            }
            self.entries += self.open.lines;
            (self.open.lines, self.open_bytes) = (0, 0);
            self.ended = mark == "end";
            self.closed = self.chain.clone();
        } else {
            self.open.lines += 1;
        }
        self.meets();
        Ok(())
    }
}

/// Why a line does not follow.
enum Wrong {
    Altered,
    NoPlace,
    Missing(u64, u64),
    Again(u64, u64),
    Follows(u64),
    Key(String),
    Forged,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Altered => f.write_str("altered: its hash is not that of its bytes"),
            Wrong::NoPlace => {
                f.write_str("it is no line of an audit: it has no number, or no hash before it")
            }
            Wrong::Missing(expected, found) if expected + 1 == *found => {
                write!(
                    f,
                    "missing: line {expected} of the chain should stand here, and this is line {found}"
                )
            }
            Wrong::Missing(expected, found) => write!(
                f,
                "missing: lines {expected} to {} of the chain should stand here, and this is line {found}",
                found - 1
            ),
            Wrong::Again(expected, found) => write!(
                f,
                "doubled or moved: line {expected} of the chain should stand here, and this is line {found}"
            ),
            Wrong::Follows(number) => write!(
                f,
                "altered: line {number} of the chain follows another line than the one before it, which was replaced, or this \
                 one was put in"
            ),
            Wrong::Key(why) => write!(f, "a mark, and {why}"),
            Wrong::Forged => f.write_str(
                "forged: it is a mark that was not signed with the key that it names; somebody wrote it, and maybe lines \
                 before it, anew",
            ),
        }
    }
}

fn next(chain: &AuditHead, line: &[u8]) -> Result<Link, Wrong> {
    let link = link(line).map_err(|bad| match bad {
        Bad::Hash => Wrong::Altered,
        Bad::Form => Wrong::NoPlace,
    })?;
    let expected = chain.lines + 1;
    if link.number > expected {
        return Err(Wrong::Missing(expected, link.number));
    }
    if link.number < expected {
        return Err(Wrong::Again(expected, link.number));
    }
    if link.before != chain.hash {
        return Err(Wrong::Follows(link.number));
    }
    Ok(link)
}
