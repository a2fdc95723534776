//! Whether a chain is as it was written.

use std::fmt;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::chain::{AuditHead, Bad, link};
use super::files::{FilesFlaw, files};

/// Most bytes of a line: a content within the largest limit that a pipeline file takes, and what stands beside it.
const LONGEST: u64 = 64 << 20;

/// A chain that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its last line.
    pub head: AuditHead,
    /// The files it is in, in order.
    pub files: Vec<PathBuf>,
}

/// The first thing that is wrong with a chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditFlaw {
    /// A file cannot be read, or is missing.
    #[error(transparent)]
    Files(#[from] FilesFlaw),
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
    /// The chain is whole and ends elsewhere than it should.
    #[error("the chain is whole and has {} lines, but the head {wanted} is none of them: lines are missing at its end, or it is another chain", head.lines)]
    Head {
        /// Its last line.
        head: AuditHead,
        /// The hash that was to be found.
        wanted: String,
    },
}

/// Reads a log from its first file to its last. `head` is a hash that was noted once: it must be that of a line.
pub fn verify(first: &Path, head: Option<&str>) -> Result<Verified, AuditFlaw> {
    let mut chain = AuditHead::default();
    let mut met = head.is_none_or(|head| head == chain.hash);
    let mut read = Vec::new();
    for path in files(first)? {
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(FilesFlaw::Read { path, source }.into()),
        };
        let mut lines = BufReader::new(file);
        let mut number = 0;
        loop {
            number += 1;
            let wrong = |why: String| AuditFlaw::Line {
                path: path.clone(),
                line: number,
                why,
            };
            let mut line = Vec::new();
            let taken = (&mut lines).take(LONGEST).read_until(b'\n', &mut line);
            let taken = taken.map_err(|source| FilesFlaw::Read {
                path: path.clone(),
                source,
            })?;
            if taken == 0 {
                break;
            }
            if line.pop() != Some(b'\n') {
                return Err(wrong(
                    "it has no end: it is cut, or still being written".into(),
                ));
            }
            chain = next(&chain, &line).map_err(|why| wrong(why.to_string()))?;
            met |= head == Some(chain.hash.as_str());
        }
        read.push(path);
    }
    match head.filter(|_| !met) {
        Some(wanted) => Err(AuditFlaw::Head {
            head: chain,
            wanted: wanted.to_owned(),
        }),
        None => Ok(Verified {
            head: chain,
            files: read,
        }),
    }
}

/// Why a line does not follow.
enum Wrong {
    Altered,
    NoPlace,
    Missing(u64, u64),
    Again(u64, u64),
    Follows(u64),
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
        }
    }
}

fn next(chain: &AuditHead, line: &[u8]) -> Result<AuditHead, Wrong> {
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
    Ok(AuditHead {
        lines: link.number,
        hash: link.hash,
    })
}
