//! The commit log over a file layer.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_contract::{AppendFile, CommitLog, CommitLogError, Cut, FileLayer, Recovered};

use crate::cipher::StateKey;
use crate::format::{self, Damage, HEADER};

/// The log is compacted when it is longer than this, bytes, and than four times the snapshot it begins with. Of a log
/// that was there at the start the snapshot is not known: a long one is compacted at its first cut.
const COMPACT_FROM: u64 = 4 << 20;

/// The one committer of a process.
///
/// A cut whose `commit` failed may be on disk or not: only a restart, which reads what is there, tells. A compaction
/// that fails takes nothing back from the cut before it, which is answered as committed; the next `commit` is refused
/// and says why.
pub struct FileCommitLog {
    path: PathBuf,
    key: StateKey,
    layer: Arc<dyn FileLayer>,
    inner: Mutex<Inner>,
}

struct Inner {
    file: Box<dyn AppendFile>,
    state: Recovered,
    length: u64,
    snapshot: u64,
    /// Why an earlier write failed: what is on disk is then unknown, and nothing more is written.
    failed: Option<String>,
}

impl FileCommitLog {
    /// Opens the log, or makes it, and returns the state its cuts add up to. A torn write at its end is taken away.
    pub fn open(
        layer: Arc<dyn FileLayer>,
        path: &Path,
        key: StateKey,
    ) -> Result<(FileCommitLog, Recovered), CommitLogError> {
        let name = path.display().to_string();
        let read_error = |why: String| CommitLogError::Read {
            path: name.clone(),
            why,
        };
        let write_error = |error: io::Error| CommitLogError::Write {
            path: name.clone(),
            why: error.to_string(),
        };
        let bytes = layer
            .read(path)
            .map_err(|error| read_error(error.to_string()))?;
        let bytes = bytes.unwrap_or_default();
        let (state, good) = format::read(&bytes, &key).map_err(|damage| match damage {
            Damage::At(byte, why) => read_error(format!("{why} (byte {byte})")),
            Damage::Key => CommitLogError::Key { path: name.clone() },
        })?;
        let mut length = good as u64;
        if good < HEADER {
            layer
                .replace(path, &format::header())
                .map_err(write_error)?;
            length = HEADER as u64;
        }
        let mut file = layer.open_append(path).map_err(write_error)?;
        if file.length().map_err(write_error)? != length {
            file.truncate(length).map_err(write_error)?;
        }
        let inner = Inner {
            file,
            state: state.clone(),
            length,
            snapshot: 0,
            failed: None,
        };
        let log = FileCommitLog {
            path: path.to_path_buf(),
            key,
            layer,
            inner: Mutex::new(inner),
        };
        Ok((log, state))
    }

    /// Makes a cut durable.
    fn write(&self, inner: &mut Inner, cut: &Cut) -> io::Result<u64> {
        let number = inner.state.cut + 1;
        let entry = format::cut_entry(number, cut, &self.key).ok_or_else(no_entry)?;
        inner.file.append(&entry)?;
        inner.file.sync()?;
        inner.length += entry.len() as u64;
        format::add(&mut inner.state, number, cut);
        Ok(number)
    }

    /// Puts the sum of all cuts in the place of a long log.
    fn compact(&self, inner: &mut Inner) -> io::Result<()> {
        if inner.length <= COMPACT_FROM || inner.length <= 4 * inner.snapshot {
            return Ok(());
        }
        let snapshot = format::snapshot_entry(&inner.state, &self.key).ok_or_else(no_entry)?;
        let mut bytes = format::header().to_vec();
        bytes.extend_from_slice(&snapshot);
        self.layer.replace(&self.path, &bytes)?;
        inner.file = self.layer.open_append(&self.path)?;
        inner.length = bytes.len() as u64;
        inner.snapshot = inner.length;
        Ok(())
    }
}

fn no_entry() -> io::Error {
    io::Error::other("the system gives no random numbers, or the cut exceeds 4 GiB")
}

impl CommitLog for FileCommitLog {
    fn commit(&self, cut: &Cut) -> Result<u64, CommitLogError> {
        let error = |why| CommitLogError::Write {
            path: self.path.display().to_string(),
            why,
        };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &inner.failed {
            return Err(error(format!("an earlier write failed: {why}")));
        }
        let number = self.write(&mut inner, cut).map_err(|failure| {
            inner.failed = Some(failure.to_string());
            error(failure.to_string())
        })?;
        // The cut holds, whatever becomes of the compaction: whole and durable it lies in the old log or the new one.
        if let Err(failure) = self.compact(&mut inner) {
            inner.failed = Some(format!("the log could not be compacted: {failure}"));
        }
        Ok(number)
    }
}

impl fmt::Debug for FileCommitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCommitLog")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
