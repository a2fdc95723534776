//! The files of a log: which there are, and that none is missing between two.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_contract::FileLayer;

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
    Ok(numbers
        .iter()
        .map(|number| numbered(first, *number))
        .collect())
}

/// The first file that is missing behind one that is there, up to this number. Those before the first that is there may be
/// archived.
pub(super) fn gap(layer: &dyn FileLayer, first: &Path, last: u64) -> io::Result<Option<PathBuf>> {
    let mut begun = false;
    for number in 1..=last {
        let path = numbered(first, number);
        match layer.length(&path)? {
            Some(_) => begun = true,
            None if begun => return Ok(Some(path)),
            None => {}
        }
    }
    Ok(None)
}
