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

/// An operation that fails, numbered from 1, while the disk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The n-th opening of a file for appending.
    Open(u64),
    /// The n-th append, after half of its bytes.
    Append(u64),
    /// The n-th fsync. What it was to write can still be read, and is lost when the machine goes down.
    Sync(u64),
    /// The n-th replacement of a file. Its new name can be read, and is lost when the machine goes down: then the old
    /// file is found.
    Rename(u64),
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// The next such operation works.
    Once,
    /// No such operation works until [`MemoryDisk::mend`].
    ForGood,
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
    /// What names lead to when the machine goes down, where that is something else: another file, or none.
    lost: HashMap<PathBuf, Option<usize>>,
    opens: u64,
    syncs: u64,
    appends: u64,
    renames: u64,
    crash: Option<Crash>,
    crashed: bool,
    failing: Option<(Fault, Lasting)>,
    /// Most bytes of all files, if there is an end to it.
    room: Option<usize>,
    /// Names cannot be made or changed.
    read_only: bool,
}

/// A disk in memory. Clones are handles of the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

fn dead() -> io::Error {
    io::Error::other("the disk has crashed")
}

fn faulty() -> io::Error {
    io::Error::other("the disk could not write")
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on the disk")
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

    /// Plans a fault, in the place of one that was planned before.
    pub fn fail(&self, fault: Fault, lasting: Lasting) {
        self.lock().failing = Some((fault, lasting));
    }

    /// The disk has room for so many bytes in all, files that are there included; none is no end.
    pub fn limit(&self, room: Option<usize>) {
        self.lock().room = room;
    }

    /// Whether names can be made and changed. What is open can be written all the same.
    pub fn read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// Ends whatever was planned to fail.
    pub fn mend(&self) {
        let mut inner = self.lock();
        inner.failing = None;
        inner.room = None;
        inner.read_only = false;
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

    /// Files opened for appending so far.
    pub fn opens(&self) -> u64 {
        self.lock().opens
    }

    /// Files replaced so far.
    pub fn renames(&self) -> u64 {
        self.lock().renames
    }

    /// Bytes of all files.
    pub fn used(&self) -> usize {
        self.lock().used()
    }

    /// The disk as it is found after the machine went down: what was not synced survives up to `kept` bytes a file (a
    /// kernel may or may not have written it).
    pub fn restart(&self, kept: usize) -> MemoryDisk {
        let inner = self.lock();
        let mut after = Inner::default();
        for (path, number) in &inner.names {
            let Some(number) = inner.lost.get(path).map_or(Some(*number), |old| *old) else {
                continue;
            };
            let file = File::durable(&inner.files[number].survives(kept));
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

    /// Whether the operation that was just counted is to fail.
    fn fails(&self, now: Fault) -> bool {
        let reached =
            |at: u64, now: u64, lasting| at == now || (lasting == Lasting::ForGood && now > at);
        self.failing
            .is_some_and(|(fault, lasting)| match (fault, now) {
                (Fault::Open(at), Fault::Open(now))
                | (Fault::Append(at), Fault::Append(now))
                | (Fault::Sync(at), Fault::Sync(now))
                | (Fault::Rename(at), Fault::Rename(now)) => reached(at, now, lasting),
                _ => false,
            })
    }

    fn used(&self) -> usize {
        let files = self.names.values();
        files.map(|number| self.files[*number].bytes.len()).sum()
    }

    /// How many of so many bytes the disk has room for.
    fn fits(&self, bytes: usize) -> usize {
        let left = |room: usize| room.saturating_sub(self.used());
        self.room.map_or(bytes, |room| left(room).min(bytes))
    }

    fn may_name(&self) -> io::Result<()> {
        match self.read_only {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    /// An fsync of `file`, after `work`.
    fn sync(&mut self, file: Option<usize>, work: impl FnOnce(&mut Inner)) -> io::Result<()> {
        self.alive()?;
        self.syncs += 1;
        if self.crash == Some(Crash::BeforeSync(self.syncs)) {
            self.crashed = true;
            return Err(dead());
        }
        if self.fails(Fault::Sync(self.syncs)) {
            if let Some(number) = file {
                self.files[number].move_dirty(Durability::Lost);
            }
            return Err(faulty());
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
        inner.opens += 1;
        if inner.fails(Fault::Open(inner.opens)) {
            return Err(faulty());
        }
        let number = match inner.names.get(path) {
            Some(number) => *number,
            None => {
                inner.may_name()?;
                inner.make(path, File::default())
            }
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
        inner.alive()?;
        inner.may_name()?;
        if inner.fits(bytes.len()) < bytes.len() {
            return Err(full());
        }
        let (mut number, before) = (0, inner.names.get(path).copied());
        inner.sync(None, |inner| {
            number = inner.make(path, File::durable(bytes));
            inner.files[number].taken = true;
        })?;
        inner.renames += 1;
        if inner.fails(Fault::Rename(inner.renames)) {
            inner.files[number].taken = false;
            inner.lost.entry(path.to_owned()).or_insert(before);
            return Err(faulty());
        }
        inner.lost.remove(path);
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
        let fails = inner.fails(Fault::Append(inner.appends));
        let written = match torn || fails {
            true => bytes.len() / 2,
            false => inner.fits(bytes.len()),
        };
        let file = &mut inner.files[self.number];
        file.bytes.extend_from_slice(&bytes[..written]);
        file.durability.resize(file.bytes.len(), Durability::Dirty);
        if torn {
            inner.crashed = true;
            return Err(dead());
        }
        match (fails, written < bytes.len()) {
            (true, _) => Err(faulty()),
            (_, true) => Err(full()),
            _ => Ok(()),
        }
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
