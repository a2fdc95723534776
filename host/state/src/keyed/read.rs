//! What can be read of a file, whatever became of it.

use std::collections::BTreeMap;

use super::format::{self, Entries, Entry, Flaw, Passed};

/// What counts of a file: when each is forgotten, and its sealed value.
pub(super) type Counts<'a> = BTreeMap<[u8; 32], (u64, &'a [u8])>;

/// What a file has.
pub(super) struct Read<'a> {
    pub(super) counts: Counts<'a>,
    /// What is wrong with it, for a person.
    pub(super) wrong: Option<String>,
    /// Whether that is more than a write that was cut short, or another key.
    pub(super) damaged: bool,
    /// Whether it is the end of a write that was cut short and nothing else.
    pub(super) torn: bool,
}

/// Reads a file of this state's key, or of one that its header does not tell any more.
pub(super) fn read<'a>(bytes: &'a [u8], own: &[u8; 32]) -> Read<'a> {
    let nothing = |why: &str, damaged| Read {
        counts: Counts::new(),
        wrong: Some(why.to_owned()),
        damaged,
        torn: false,
    };
    if bytes.is_empty() {
        return nothing("it is empty", false);
    }
    let header = match format::fingerprint(bytes) {
        Ok(of) if of != *own => {
            return nothing(
                "it was written with another key of the state, and is forgotten",
                false,
            );
        }
        Ok(_) => None,
        Err(Flaw::Version) => return nothing("another version of Tidegate wrote it", true),
        Err(Flaw::Damaged) => Some("its header (byte 0) is damaged".to_owned()),
    };
    let mut counts = Counts::new();
    let mut entries = Entries::of(bytes);
    for entry in entries.by_ref() {
        match entry {
            Entry::Put { key, until, sealed } => drop(counts.insert(key, (until, sealed))),
            Entry::Remove { key } => drop(counts.remove(&key)),
        }
    }
    let Passed {
        bytes: passed,
        at,
        within,
    } = entries.passed;
    let behind = match (passed, within) {
        (0, _) => None,
        (_, false) => Some(format!(
            "{passed} bytes at its end (byte {at}) are torn, and are cut away"
        )),
        (_, true) => Some(format!(
            "{passed} bytes of it cannot be read, the first at byte {at}; what follows them is kept"
        )),
    };
    let damaged = header.is_some() || within;
    let torn = passed > 0 && !damaged;
    let wrong: Vec<String> = header.into_iter().chain(behind).collect();
    Read {
        counts,
        wrong: (!wrong.is_empty()).then(|| wrong.join(", ")),
        damaged,
        torn,
    }
}
