//! A disk in memory that loses what was not synced, and fails or crashes at a chosen operation.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{AppendFile, FileLayer, InUse};

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

/// Where a byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// On the disk.
    Durable,
    /// In the kernel's memory, to be written.
    Dirty,
    /// In the kernel's memory, and given up: the fsync that was to write it has failed. It can be read until the machine
    /// goes down, and no later fsync writes it.
    Lost,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    durability: Vec<Durability>,
    /// Somebody has it open for appending.
    taken: bool,
}

impl File {
    fn durable(bytes: &[u8]) -> File {
        File {
            bytes: bytes.to_vec(),
            durability: vec![Durability::Durable; bytes.len()],
            taken: false,
        }
    }

    fn move_dirty(&mut self, to: Durability) {
        let dirty = self
            .durability
            .iter_mut()
            .filter(|at| **at == Durability::Dirty);
        dirty.for_each(|at| *at = to);
    }

    /// What is there after the machine went down, if it had written so many dirty bytes by itself.
    fn survives(&self, kept: usize) -> Vec<u8> {
        let mut left = kept;
        let mut bytes = Vec::new();
        for (at, (byte, durable)) in self.bytes.iter().zip(&self.durability).enumerate() {
            let written = match durable {
                Durability::Durable => true,
                Durability::Dirty => left > 0,
                Durability::Lost => false,
            };
            if *durable == Durability::Dirty {
                left = left.saturating_sub(1);
            }
            if written {
                // A hole reads as zeros.
                bytes.resize(at, 0);
                bytes.push(*byte);
            }
        }
        bytes
    }
}

#[derive(Debug, Default)]
struct Inner {
    names: HashMap<PathBuf, usize>,
    files: Vec<File>,
    syncs: u64,
    appends: u64,
    crash: Option<Crash>,
    crashed: bool,
    /// Number of the fsync that fails, while the disk goes on.
    failing: Option<u64>,
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

    /// The n-th fsync (counted from 1) fails; the disk goes on. What it was to write can still be read, and is lost when
    /// the machine goes down.
    pub fn fail_sync(&self, number: u64) {
        self.lock().failing = Some(number);
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

    /// The disk as it is found after the machine went down: what was not synced survives up to `kept` bytes a file (a
    /// kernel may or may not have written it).
    pub fn restart(&self, kept: usize) -> MemoryDisk {
        let inner = self.lock();
        let mut after = Inner::default();
        for (path, number) in &inner.names {
            let file = File::durable(&inner.files[*number].survives(kept));
            after.names.insert(path.clone(), after.files.len());
            after.files.push(file);
        }
        MemoryDisk {
            inner: Arc::new(Mutex::new(after)),
        }
    }

    /// The file's bytes, synced or not.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let inner = self.lock();
        let file = inner.file(path);
        file.map(|file| file.bytes.clone()).unwrap_or_default()
    }

    /// Takes a name away; who has the file open keeps it.
    pub fn remove(&self, path: &Path) {
        self.lock().names.remove(path);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, path: &Path, number: usize) -> Box<dyn AppendFile> {
        Box::new(MemoryFile {
            disk: self.clone(),
            path: path.to_path_buf(),
            number,
        })
    }
}

impl Inner {
    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(dead()) } else { Ok(()) }
    }

    fn file(&self, path: &Path) -> Option<&File> {
        self.names.get(path).map(|number| &self.files[*number])
    }

    /// An fsync of `file`, after `work`.
    fn sync(&mut self, file: Option<usize>, work: impl FnOnce(&mut Inner)) -> io::Result<()> {
        self.alive()?;
        self.syncs += 1;
        if self.crash == Some(Crash::BeforeSync(self.syncs)) {
            self.crashed = true;
            return Err(dead());
        }
        if self.failing == Some(self.syncs) {
            if let Some(number) = file {
                self.files[number].move_dirty(Durability::Lost);
            }
            return Err(io::Error::other("the disk could not write"));
        }
        work(self);
        if let Some(number) = file {
            self.files[number].move_dirty(Durability::Durable);
        }
        if self.crash == Some(Crash::AfterSync(self.syncs)) {
            self.crashed = true;
            return Err(dead());
        }
        Ok(())
    }

    /// A new file of this name.
    fn make(&mut self, path: &Path, file: File) -> usize {
        self.names.insert(path.to_path_buf(), self.files.len());
        self.files.push(file);
        self.files.len() - 1
    }
}

impl FileLayer for MemoryDisk {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut inner = self.lock();
        inner.alive()?;
        let number = match inner.names.get(path) {
            Some(number) => *number,
            None => inner.make(path, File::default()),
        };
        if inner.files[number].taken {
            return Err(InUse { process: None }.into());
        }
        inner.files[number].taken = true;
        Ok(self.handle(path, number))
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let inner = self.lock();
        inner.alive()?;
        Ok(inner.file(path).map(|file| file.bytes.len() as u64))
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let inner = self.lock();
        inner.alive()?;
        Ok(inner.file(path).map(|file| file.bytes.clone()))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        let mut inner = self.lock();
        let mut number = 0;
        inner.sync(None, |inner| {
            number = inner.make(path, File::durable(bytes));
            inner.files[number].taken = true;
        })?;
        Ok(self.handle(path, number))
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    path: PathBuf,
    number: usize,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.lock().files[self.number].taken = false;
    }
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
        let file = &mut inner.files[self.number];
        file.bytes.extend_from_slice(written);
        file.durability.resize(file.bytes.len(), Durability::Dirty);
        if torn {
            inner.crashed = true;
            return Err(dead());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.sync(Some(self.number), |_| {})?;
        if inner.names.get(&self.path) != Some(&self.number) {
            return Err(io::Error::other("the file was removed or replaced"));
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        let inner = self.disk.lock();
        inner.alive()?;
        Ok(inner.files[self.number].bytes.len() as u64)
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let inner = self.disk.lock();
        inner.alive()?;
        Ok(inner.files[self.number].bytes.clone())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let number = self.number;
        self.disk.lock().sync(Some(number), |inner| {
            let file = &mut inner.files[number];
            file.bytes.truncate(length as usize);
            file.durability.truncate(length as usize);
        })
    }
}
