//! Where an audit ends at least: the commit log has its last line, and nobody without the state directory writes that.

use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_contract::{Recovered, SinkPosition};

use super::files::{chain_of, number_of};
use super::gap::gap;
use super::log::NAME;

/// Most bytes that a run writes at once: what waits before a cut is forced, what came in at the door, and what one batch
/// of answers adds. So much can lie behind the last mark where a run was cut short.
pub const ONE_APPEND: u64 = 64 << 20;

/// The last line of an audit as a commit log has it. Of a copy that lies elsewhere it is not known which audit of that log it
/// is: one of their last lines must then be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    lines: Vec<LastLine>,
    /// Whether the file is looked at where the pipeline wrote it, and not a copy elsewhere.
    in_place: bool,
    ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LastLine {
    /// The file that it is in, as the pipeline named it.
    file: String,
    /// Where it ends in that.
    length: u64,
    /// Its hash.
    head: String,
}

impl LastLine {
    fn of(position: &SinkPosition) -> LastLine {
        LastLine {
            file: position.identity.clone(),
            length: position.length,
            head: position.head.clone(),
        }
    }
}

impl Committed {
    /// What a commit log has of the audit of which this is the first file; none where it has none with a line.
    pub fn of(recovered: &Recovered, first: &Path) -> Option<Committed> {
        let known = recovered.sinks.iter().rev();
        let known = known.filter(|known| known.sink == NAME && !known.head.is_empty());
        let names = names(first);
        if let Some(own) = known.clone().find(|known| is_one_of(&names, known)) {
            return Some(Committed {
                lines: vec![LastLine::of(own)],
                in_place: true,
                ended: own.ended,
            });
        }
        let mut lines: Vec<LastLine> = Vec::new();
        for position in known {
            let chain = chain_of(&position.identity);
            if lines.iter().all(|line| chain_of(&line.file) != chain) {
                lines.push(LastLine::of(position));
            }
        }
        (!lines.is_empty()).then_some(Committed {
            lines,
            in_place: false,
            ended: false,
        })
    }

    /// Whether the file is looked at where the pipeline wrote it.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Whether the last run that wrote the file, which is looked at in its place, has ended in order.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether a line with this hash, which ends here, is one that the log has.
    pub(super) fn is_met(&self, head: &str, file: &Path, length: u64) -> bool {
        let is_at = |line: &LastLine| {
            let name = Path::new(&line.file).file_name();
            length == line.length && (!self.in_place || name == file.file_name())
        };
        (self.lines.iter()).any(|line| line.head == head && is_at(line))
    }
}

impl fmt::Display for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.lines.iter().map(|line| {
            format!(
                "{} of {}, which ends at byte {}",
                line.head, line.file, line.length
            )
        });
        let places: Vec<String> = places.collect();
        match (self.in_place, &places[..]) {
            (true, places) => write!(
                f,
                "the commit log has line {} as its last, and that is not there: lines are missing at its end, or were \
                 written anew",
                places.concat()
            ),
            (false, [place]) => write!(
                f,
                "the commit log has line {place} as the last of its audit, and that is not there: lines are missing at its \
                 end, or were written anew, or it is another chain"
            ),
            (false, places) => write!(
                f,
                "the commit log has these as the last lines of its audits, and none is there: {}; lines are missing at its \
                 end, or were written anew, or it is another chain",
                places.join("; ")
            ),
        }
    }
}

/// Whether a run that holds the state directory of this log writes the audit of which this is the first file: that is the
/// last that the log was told of. Of one that the log does not know by this name it is not known, and taken to be so.
pub fn is_written(recovered: &Recovered, first: &Path) -> bool {
    let mut known = recovered.sinks.iter().rev();
    let names = names(first);
    let Some(last) = known.find(|known| known.sink == NAME) else {
        return false;
    };
    let left = |name: &PathBuf| gap(&recovered.sinks, name).is_some();
    match is_one_of(&names, last) {
        true => !names.iter().any(left),
        false => !known.any(|known| known.sink == NAME && is_one_of(&names, known)),
    }
}

fn is_one_of(names: &[PathBuf], known: &SinkPosition) -> bool {
    (names.iter()).any(|name| number_of(name, &known.identity).is_some())
}

/// What a path may be called in a pipeline.
fn names(first: &Path) -> Vec<PathBuf> {
    let absolute = std::path::absolute(first).ok();
    let real = (first.parent().zip(first.file_name())).and_then(|(directory, name)| {
        let directory = match directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => directory,
        };
        Some(directory.canonicalize().ok()?.join(name))
    });
    absolute.into_iter().chain(real).collect()
}
