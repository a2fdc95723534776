//! The file layer: what sinks and the commit log ask of a disk, so that a test can fail any write or fsync.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file that grows at its end. As long as it is open nobody else has it, under whatever name: see [`InUse`].
pub trait AppendFile: Send + Debug {
    /// Appends all of the bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended durable. Fails if the path that was opened no longer leads to this file: what is
    /// written to a file that nobody finds is lost, however well it is synced.
    fn sync(&mut self) -> io::Result<()>;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Reads the whole file.
    fn read(&mut self) -> io::Result<Vec<u8>>;
    /// Cuts the file to this length and makes that durable.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// A disk. Paths are as in the pipeline file, already resolved against its directory.
pub trait FileLayer: Send + Sync + Debug {
    /// Opens a file for appending, making it and its directories if they are missing, and makes its name durable.
    /// Fails with [`InUse`] if somebody has the file already.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;
    /// The one path of a file, whatever links lead to it; the path itself where it has none yet.
    fn real_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
    /// Length of a file in bytes; none if there is no such file. A file may be as large as the disk: it is not read.
    fn length(&self, path: &Path) -> io::Result<Option<u64>>;
    /// What lies there that is no file, in words: reading it would wait for ever, or never end. None of a file, and where
    /// nothing is. It is not opened.
    fn no_file(&self, _path: &Path) -> io::Result<Option<&'static str>> {
        Ok(None)
    }
    /// Reads a whole file; none if there is no such file.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// Writes a file that is seen whole or not at all: temporary file, fsync, rename, fsync of the directory. The new
    /// file is returned open: it is taken before it has its name, so that nobody comes between.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>>;
}

impl<T: FileLayer + ?Sized> FileLayer for Arc<T> {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        (**self).open_append(path)
    }
    fn real_path(&self, path: &Path) -> PathBuf {
        (**self).real_path(path)
    }
    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        (**self).length(path)
    }
    fn no_file(&self, path: &Path) -> io::Result<Option<&'static str>> {
        (**self).no_file(path)
    }
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        (**self).read(path)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        (**self).replace(path, bytes)
    }
}

/// However slow a disk is.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a file that are synced at a time.
const PIECE: usize = 256 << 10;

/// Writes all of the bytes in pieces, each of which is durable before the next, with a pause as long as that took; the
/// last is left to be synced by whoever wrote. Who else syncs files of the same disk, as a stream does at each cut, waits
/// behind one piece and not behind all.
pub fn write_in_pieces(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        file.write_all(piece)?;
        if pieces.peek().is_some() {
            let began = Instant::now();
            file.sync_data()?;
            std::thread::sleep(began.elapsed().min(LONGEST_PAUSE));
        }
    }
    Ok(())
}

/// Somebody has the file open for appending: another process, or this one under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Number of the process, where the system tells.
    pub process: Option<u32>,
}

impl InUse {
    /// What an error of the file layer says of it, if that is its cause.
    pub fn of(error: &io::Error) -> Option<InUse> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.process {
            Some(own) if own == std::process::id() => f.write_str("in use by this process already"),
            Some(other) => write!(f, "in use by another process ({other})"),
            None => f.write_str("in use by another process"),
        }
    }
}

impl std::error::Error for InUse {}

impl From<InUse> for io::Error {
    fn from(in_use: InUse) -> io::Error {
        io::Error::new(io::ErrorKind::ResourceBusy, in_use)
    }
}
