//! The file layer: what sinks and the commit log ask of a disk, so that a test can fail any write or fsync.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file that grows at its end.
pub trait AppendFile: Send + Debug {
    /// Appends all of the bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file to this length and makes that durable.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// A disk. Paths are as in the pipeline file, already resolved against its directory.
pub trait FileLayer: Send + Sync + Debug {
    /// Opens a file for appending, making it and its directories if they are missing, and makes its name durable.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;
    /// Reads a whole file; none if there is no such file.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// Writes a file that is seen whole or not at all: temporary file, fsync, rename, fsync of the directory.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
}

impl<T: FileLayer + ?Sized> FileLayer for Arc<T> {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        (**self).open_append(path)
    }
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        (**self).read(path)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        (**self).replace(path, bytes)
    }
}
