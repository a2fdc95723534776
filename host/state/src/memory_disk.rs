//! A disk in memory that loses what was not synced, and crashes at a chosen operation.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{AppendFile, FileLayer};

/// When the disk fails for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// At the n-th fsync (counted from 1), before it has done anything.
    BeforeSync(u64),
    /// At the n-th fsync, after it has done its work but before it answers.
    AfterSync(u64),
    /// At the n-th append, after half of its bytes.
    TornAppend(u64),
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    durable: usize,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<PathBuf, File>,
    syncs: u64,
    appends: u64,
    crash: Option<Crash>,
    crashed: bool,
}

/// A disk in memory. Clones are handles of the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

fn dead() -> io::Error {
    io::Error::other("the disk has crashed")
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Plans a crash; every operation after it fails.
    pub fn crash_at(&self, crash: Crash) {
        self.lock().crash = Some(crash);
    }

    /// Whether the planned crash has come.
    pub fn has_crashed(&self) -> bool {
        self.lock().crashed
    }

    /// Fsyncs so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Appends so far.
    pub fn appends(&self) -> u64 {
        self.lock().appends
    }

    /// The disk as a restart finds it: what was not synced survives up to `kept` bytes a file (a kernel may or may not
    /// have written it).
    pub fn restart(&self, kept: usize) -> MemoryDisk {
        let inner = self.lock();
        let files = inner.files.iter().map(|(path, file)| {
            let length = file.bytes.len().min(file.durable.saturating_add(kept));
            let bytes = file.bytes[..length].to_vec();
            (
                path.clone(),
                File {
                    durable: bytes.len(),
                    bytes,
                },
            )
        });
        let files = files.collect();
        MemoryDisk {
            inner: Arc::new(Mutex::new(Inner {
                files,
                ..Inner::default()
            })),
        }
    }

    /// The file's bytes, synced or not.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        self.lock()
            .files
            .get(path)
            .map(|file| file.bytes.clone())
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(dead()) } else { Ok(()) }
    }

    fn sync(&mut self, work: impl FnOnce(&mut Inner)) -> io::Result<()> {
        self.alive()?;
        self.syncs += 1;
        if self.crash == Some(Crash::BeforeSync(self.syncs)) {
            self.crashed = true;
            return Err(dead());
        }
        work(self);
        if self.crash == Some(Crash::AfterSync(self.syncs)) {
            self.crashed = true;
            return Err(dead());
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> &mut File {
        self.files.entry(path.to_path_buf()).or_default()
    }
}

impl FileLayer for MemoryDisk {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut inner = self.lock();
        inner.alive()?;
        inner.file(path);
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            path: path.to_path_buf(),
        }))
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let inner = self.lock();
        inner.alive()?;
        Ok(inner.files.get(path).map(|file| file.bytes.clone()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.lock().sync(|inner| {
            *inner.file(path) = File {
                bytes: bytes.to_vec(),
                durable: bytes.len(),
            };
        })
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    path: PathBuf,
}

impl AppendFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.alive()?;
        inner.appends += 1;
        let torn = inner.crash == Some(Crash::TornAppend(inner.appends));
        let written = if torn {
            &bytes[..bytes.len() / 2]
        } else {
            bytes
        };
        inner.file(&self.path).bytes.extend_from_slice(written);
        if torn {
            inner.crashed = true;
            return Err(dead());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let path = self.path.clone();
        self.disk.lock().sync(|inner| {
            let file = inner.file(&path);
            file.durable = file.bytes.len();
        })
    }

    fn length(&self) -> io::Result<u64> {
        let mut inner = self.disk.lock();
        inner.alive()?;
        Ok(inner.file(&self.path).bytes.len() as u64)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let path = self.path.clone();
        self.disk.lock().sync(|inner| {
            let file = inner.file(&path);
            file.bytes.truncate(length as usize);
            file.durable = file.bytes.len();
        })
    }
}
