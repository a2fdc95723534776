//! The token that whoever scrapes metrics shows: it stays the same over restarts, and is good for nothing else.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Least bytes of a token.
const LEAST: usize = 16;
/// Most bytes of its file.
const MOST: u64 = 4096;

/// A file that has no token for the metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricsTokenError {
    /// It is missing, or this user may not read it: a matter of the machine.
    #[error("the file of the metrics token {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// What it has is no token, whoever reads it.
    #[error("the file of the metrics token {}: {why}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The token in a file, without the space around it. The file is read anew each time, so that a token may change while
/// the pipeline runs.
pub fn read_metrics_token(path: &Path) -> Result<String, MetricsTokenError> {
    let wrong = |why: String| MetricsTokenError::Form {
        path: path.to_owned(),
        why,
    };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST + 1).read_to_string(&mut text));
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => wrong(error.to_string()),
        _ => MetricsTokenError::Read {
            path: path.to_owned(),
            why: error.to_string(),
        },
    })?;
    if text.len() as u64 > MOST {
        return Err(wrong(format!("it has more than {MOST} bytes")));
    }
    let token = text.trim();
    if token.len() < LEAST {
        let found = token.len();
        return Err(wrong(format!(
            "the token has {found} bytes, at least {LEAST}"
        )));
    }
    if let Some(other) = token.bytes().find(|byte| !byte.is_ascii_graphic()) {
        return Err(wrong(format!(
            "the token has the byte {other}, and no header may say that"
        )));
    }
    Ok(token.to_owned())
}

/// Why the file could not be read the last time. Whoever reaches the port can have it read, so the reason is said once for
/// each change of it, and not with each request.
#[derive(Debug)]
pub(crate) struct Unread(Mutex<Option<MetricsTokenError>>);

impl Unread {
    pub(crate) const fn new() -> Unread {
        Unread(Mutex::new(None))
    }

    /// The reason, if it is another than the last time.
    pub(crate) fn news<'e>(
        &self,
        why: Option<&'e MetricsTokenError>,
    ) -> Option<&'e MetricsTokenError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = last.as_ref() != why;
        if is_other {
            *last = why.cloned();
        }
        why.filter(|_| is_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_it_cannot_be_read_is_said_once_for_each_change() {
        let (gone, unread) = (PathBuf::from("token"), Unread::new());
        let why = |why: &str| MetricsTokenError::Read {
            path: gone.clone(),
            why: why.to_owned(),
        };
        let (missing, denied) = (why("missing"), why("denied"));
        for (now, is_said) in [
            (Some(&missing), true),
            (Some(&missing), false),
            (Some(&denied), true),
            (Some(&denied), false),
            (None, false),
            (Some(&denied), true),
        ] {
            assert_eq!(unread.news(now).is_some(), is_said, "{now:?}");
        }
    }

    #[test]
    fn a_token_is_long_enough_and_can_be_said_in_a_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_metrics_token(&path)
        };
        assert_eq!(read(" 0123456789abcdef\n").unwrap(), "0123456789abcdef");
        for (text, why) in [
            ("0123456789abcde\n", "the token has 15 bytes, at least 16"),
            ("0123456789 abcdef", "the token has the byte 32"),
            (&"x".repeat(5000), "it has more than 4096 bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(matches!(error, MetricsTokenError::Form { .. }));
            assert!(error.to_string().contains(why), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        let missing = read_metrics_token(&path).unwrap_err();
        assert!(matches!(missing, MetricsTokenError::Read { .. }));
        assert!(missing.to_string().contains("No such file"), "{missing}");
    }
}
