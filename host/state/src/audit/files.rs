//! The files of a log: which there are, and that none is missing between two.

use std::fs::FileType;
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

/// What something is that is no file.
fn no_file(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    if kind.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_block_device() || kind.is_char_device() {
            return Some("a device");
        }
    }
    Some("something of another kind")
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
