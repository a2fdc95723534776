//! The commit log over a file layer.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{
    AppendFile, CommitLog, CommitLogError, Cut, FileLayer, InUse, Recovered, TaskId, TaskImage,
};

use crate::cipher::StateKey;
use crate::format::{self, Damage};

/// The log is compacted when it is longer than this, bytes, and than four times the snapshot it begins with. Of a log
/// that was there at the start the snapshot is not known: a long one is compacted at its first cut.
const COMPACT_FROM: u64 = 4 << 20;

/// For so long a log is asked for that somebody has: who looks whether it is in use has it for a moment.
const MOMENT: Duration = Duration::from_millis(200);
/// Between two of these questions.
const BETWEEN: Duration = Duration::from_millis(10);

/// The one committer of a process.
///
/// A cut whose `commit` failed may be on disk or not: only a restart, which reads what is there, tells. A compaction
/// that fails takes nothing back from the cut before it, which is answered as committed; the next `commit` is refused
/// and says why.
///
/// As long as it lives nobody else has the log: it is the log's own file that is locked. That the path still leads to
/// this file is looked at with every cut.
pub struct FileCommitLog {
    path: PathBuf,
    key: StateKey,
    layer: Arc<dyn FileLayer>,
    inner: Mutex<Inner>,
}

struct Inner {
    file: Box<dyn AppendFile>,
    /// With payloads encrypted.
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
        let (file, bytes) = take(layer.as_ref(), path)?;
        FileCommitLog::of(layer, path, file, &bytes, key, &|_, _| {})
    }

    /// Goes on with a log that was taken.
    ///
    /// What was read may be what the kernel keeps in memory of a write whose fsync failed, and never was on the disk.
    /// So it is written anew before anything is built on it. The new file is taken before the old one is let go of.
    pub(crate) fn of(
        layer: Arc<dyn FileLayer>,
        path: &Path,
        taken: Box<dyn AppendFile>,
        bytes: &[u8],
        key: StateKey,
        told: &dyn Fn(u64, u64),
    ) -> Result<(FileCommitLog, Recovered), CommitLogError> {
        let read = format::read_told(bytes, told).map_err(|damage| read_error(path, damage))?;
        let plain = read.unsealed(&key);
        let plain = plain.ok_or_else(|| read_error(path, Damage::Key))?;
        let mut good = bytes[..read.good].to_vec();
        if good.is_empty() || read.old {
            good = format::header().to_vec();
        }
        if read.old {
            let snapshot = format::snapshot_entry(&read.state);
            good.extend(snapshot.ok_or_else(|| write_error(path, &no_entry().to_string()))?);
        }
        let file = layer
            .replace(path, &good)
            .map_err(|error| write_error(path, &error.to_string()))?;
        drop(taken);
        let inner = Inner {
            file,
            state: read.state,
            length: good.len() as u64,
            snapshot: 0,
            failed: None,
        };
        let log = FileCommitLog {
            path: path.to_path_buf(),
            key,
            layer,
            inner: Mutex::new(inner),
        };
        Ok((log, plain))
    }

    /// Makes a cut durable.
    fn write(&self, inner: &mut Inner, cut: &Cut) -> io::Result<u64> {
        let number = inner.state.cut + 1;
        let (entry, sealed) = format::cut_entry(number, cut, &self.key).ok_or_else(no_entry)?;
        let found = inner.file.length()?;
        if found != inner.length {
            return Err(io::Error::other(format!(
                "it has {found} bytes and this run left {}: something else writes it",
                inner.length
            )));
        }
        inner.file.append(&entry)?;
        inner.file.sync()?;
        inner.length += entry.len() as u64;
        format::add(&mut inner.state, number, sealed);
        Ok(number)
    }

    /// Puts the sum of all cuts in the place of a long log.
    fn compact(&self, inner: &mut Inner) -> io::Result<()> {
        if inner.length <= COMPACT_FROM || inner.length <= 4 * inner.snapshot {
            return Ok(());
        }
        let Some(snapshot) = format::snapshot_entry(&inner.state) else {
            // More waits than one entry holds: the log stays long, and it is tried again when it is much longer.
            inner.snapshot = inner.length;
            return Ok(());
        };
        let mut bytes = format::header().to_vec();
        bytes.extend_from_slice(&snapshot);
        inner.file = self.layer.replace(&self.path, &bytes)?;
        inner.length = bytes.len() as u64;
        inner.snapshot = inner.length;
        Ok(())
    }
}

/// Takes the log, so that nobody else has it, and reads it.
pub(crate) fn take(
    layer: &dyn FileLayer,
    path: &Path,
) -> Result<(Box<dyn AppendFile>, Vec<u8>), CommitLogError> {
    let until = Instant::now() + MOMENT;
    let mut file = loop {
        match layer.open_append(path) {
            Ok(file) => break file,
            Err(error) => match InUse::of(&error) {
                Some(_) if Instant::now() < until => std::thread::sleep(BETWEEN),
                Some(by) => {
                    return Err(CommitLogError::Locked {
                        path: path.parent().unwrap_or(path).display().to_string(),
                        by,
                    });
                }
                None => return Err(write_error(path, &error.to_string())),
            },
        }
    };
    let bytes = file.read().map_err(|error| CommitLogError::Read {
        path: path.display().to_string(),
        why: error.to_string(),
    })?;
    Ok((file, bytes))
}

pub(crate) fn read_error(path: &Path, damage: Damage) -> CommitLogError {
    let path = path.display().to_string();
    match damage {
        Damage::At(byte, why) => CommitLogError::Read {
            path,
            why: format!("{why} (byte {byte})"),
        },
        Damage::Key => CommitLogError::Key { path },
    }
}

fn write_error(path: &Path, why: &str) -> CommitLogError {
    CommitLogError::Write {
        path: path.display().to_string(),
        why: why.to_owned(),
    }
}

fn no_entry() -> io::Error {
    io::Error::other("the system gives no random numbers, or the cut exceeds 4 GiB")
}

impl CommitLog for FileCommitLog {
    fn commit(&self, cut: &Cut) -> Result<u64, CommitLogError> {
        let error = |why: String| write_error(&self.path, &why);
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

    fn task(&self, task: &TaskId) -> Option<TaskImage> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = inner.state.tasks.get(task)?;
        // They were encrypted with this key: here, or in what was read with it.
        format::unsealed(task, sealed, &self.key)
    }
}

impl fmt::Debug for FileCommitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCommitLog")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
