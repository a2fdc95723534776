//! The files of a log: which there are, and that none is missing between two.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_contract::FileLayer;

use crate::disk::no_file;

/// The file with this number, counted from 1: those that were begun when the one before was full have the name of the
/// first and a number.
pub(super) fn numbered(first: &Path, number: u64) -> PathBuf {
    if number == 1 {
        return first.to_owned();
    }
    let mut name = first.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The number of a file of the log; none if it is none of its files.
pub(super) fn number_of(first: &Path, identity: &str) -> Option<u64> {
    let first = first.display().to_string();
    match identity.strip_prefix(first.as_str())? {
        "" => Some(1),
        rest => number_in(rest.strip_prefix('.')?),
    }
}

/// The first file of the log of which this is one, as far as its name tells.
pub(super) fn chain_of(identity: &str) -> &str {
    let parts = identity.rsplit_once('.');
    let parts = parts.filter(|(_, digits)| number_in(digits).is_some());
    parts.map_or(identity, |(first, _)| first)
}

/// The first file of the log of which this is how a further file is called; none where it is nobody's so far.
pub(super) fn first_of(path: &Path) -> Option<PathBuf> {
    let (first, digits) = path.file_name()?.to_str()?.rsplit_once('.')?;
    number_in(digits)?;
    let first = path.with_file_name(first);
    std::fs::metadata(&first).ok()?.is_file().then_some(first)
}

/// A number as a name ends with it: the one way to write it, of no first file.
fn number_in(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number > 1 && number.to_string() == digits).then_some(number)
}

/// The numbers of the files that lie beside the first, or that are it, in order.
fn present(first: &Path) -> io::Result<Vec<u64>> {
    let directory = match first.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let Some(name) = first.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path has no file name",
        ));
    };
    let name = name.as_encoded_bytes();
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let found = entry?.file_name();
        let Some(rest) = found.as_encoded_bytes().strip_prefix(name) else {
            continue;
        };
        let number = match rest {
            [] => Some(1),
            rest => rest
                .strip_prefix(b".")
                .and_then(|digits| number_in(std::str::from_utf8(digits).ok()?)),
        };
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// What is wrong with the files themselves.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesFlaw {
    /// They cannot be looked at.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something lies there that is no file: reading it would wait for ever, or say nothing.
    #[error("{} is {what}, and no file of an audit: take it away", path.display())]
    NoFile {
        /// Where.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// One between two others is missing.
    #[error("{} is missing, and {} is there", missing.display(), there.display())]
    Gap {
        /// The missing one.
        missing: PathBuf,
        /// One behind it.
        there: PathBuf,
    },
}

/// The files of a log in order. It may begin after its first one, where those before were archived.
pub fn files(first: &Path) -> Result<Vec<PathBuf>, FilesFlaw> {
    let read = |source| FilesFlaw::Read {
        path: first.to_owned(),
        source,
    };
    let numbers = present(first).map_err(read)?;
    let Some(begin) = numbers.first() else {
        return Err(read(io::ErrorKind::NotFound.into()));
    };
    for (expected, found) in (*begin..).zip(&numbers) {
        if expected != *found {
            return Err(FilesFlaw::Gap {
                missing: numbered(first, expected),
                there: numbered(first, *found),
            });
        }
    }
    let files: Vec<PathBuf> = numbers
        .iter()
        .map(|number| numbered(first, *number))
        .collect();
    for path in &files {
        let kind = std::fs::metadata(path).map_err(|source| FilesFlaw::Read {
            path: path.clone(),
            source,
        })?;
        if let Some(what) = no_file(kind.file_type()) {
            let path = path.clone();
            return Err(FilesFlaw::NoFile { path, what });
        }
    }
    Ok(files)
}

/// What is wrong with the files that a run goes on with, up to the one with this number, and why; those before the first
/// that is there may be archived, but not the last two. `known` is the length that the commit log has of a file, if it has
/// one. What stands at the next name must be a file too, where there is something.
pub(super) fn unfit(
    layer: &dyn FileLayer,
    first: &Path,
    last: u64,
    known: impl Fn(u64) -> Option<u64>,
) -> io::Result<Option<(PathBuf, String)>> {
    let mut begun = false;
    for number in 1..=last + 1 {
        let path = numbered(first, number);
        if let Some(what) = layer.no_file(&path)? {
            return Ok(Some((path, no_file_of_it(what))));
        }
        if number >= last {
            // How long the last may be, and what the next may have in it, depends on how the run ended.
            continue;
        }
        match layer.length(&path)? {
            Some(length) => {
                begun = true;
                let left = known(number).unwrap_or(1).max(1);
                if length < left {
                    let why = format!(
                        "it has {length} bytes, and runs before left {left} at least: lines were lost or taken away"
                    );
                    return Ok(Some((path, why)));
                }
            }
            None if begun || number + 1 == last => return Ok(Some((path, MISSING.to_owned()))),
            None => {}
        }
    }
    let path = numbered(first, last);
    let is_gone = last > 1 && layer.length(&path)?.is_none();
    Ok(is_gone.then(|| (path, MISSING.to_owned())))
}

/// Why a run does not begin without a file.
const MISSING: &str = "it is missing among the files of the audit: bring it back; only those from the first on can be \
                       archived, and not the last two";

/// Why something is refused that is no file.
pub(super) fn no_file_of_it(what: &str) -> String {
    format!("it is {what}, and no file of an audit: take it away")
}
