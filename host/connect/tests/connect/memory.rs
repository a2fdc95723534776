//! A disk in memory on which any write, sync or truncation can fail half way.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidegate_contract::{AppendFile, FileLayer, InUse};

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Vec<u8>>,
    synced: BTreeMap<PathBuf, usize>,
    taken: BTreeSet<PathBuf>,
    /// Only [`FileLayer::real_path`] follows them.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Operations until one fails.
    fails_in: Option<usize>,
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

impl Memory {
    pub(crate) fn content(&self, path: &str) -> Vec<u8> {
        self.0
            .lock()
            .unwrap()
            .files
            .get(Path::new(path))
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.content(path)).unwrap()
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        self.0
            .lock()
            .unwrap()
            .files
            .insert(path.into(), bytes.to_vec());
    }

    /// From now on a path is one of `target`.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let mut state = self.0.lock().unwrap();
        state.links.insert(path.into(), target.into());
    }

    pub(crate) fn synced(&self, path: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .synced
            .get(Path::new(path))
            .copied()
            .unwrap_or(0)
    }

    /// The n-th operation from now fails, once.
    pub(crate) fn fail_in(&self, operations: usize) {
        self.0.lock().unwrap().fails_in = Some(operations);
    }

    fn fails(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        match &mut state.fails_in {
            Some(0) => {
                state.fails_in = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: Memory,
    path: PathBuf,
}

impl MemoryFile {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut state = self.disk.0.lock().unwrap();
        change(state.files.get_mut(&self.path).unwrap())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.disk.0.lock().unwrap().taken.remove(&self.path);
    }
}

fn no_space<T>() -> io::Result<T> {
    Err(io::ErrorKind::StorageFull.into())
}

impl AppendFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.disk.fails() {
            self.with(|file| file.extend_from_slice(&bytes[..bytes.len() / 2]));
            return no_space();
        }
        self.with(|file| file.extend_from_slice(bytes));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.disk.fails() {
            return no_space();
        }
        let length = self.with(|file| file.len());
        self.disk
            .0
            .lock()
            .unwrap()
            .synced
            .insert(self.path.clone(), length);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|file| file.len() as u64))
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.with(|file| file.clone()))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.disk.fails() {
            return no_space();
        }
        self.with(|file| file.truncate(length as usize));
        Ok(())
    }
}

impl FileLayer for Memory {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut state = self.0.lock().unwrap();
        if !state.taken.insert(path.into()) {
            return Err(InUse { process: Some(7) }.into());
        }
        state.files.entry(path.into()).or_default();
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            path: path.into(),
        }))
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let state = self.0.lock().unwrap();
        Ok(state.files.get(path).map(|bytes| bytes.len() as u64))
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        let state = self.0.lock().unwrap();
        let target = state.links.get(path).cloned();
        target.unwrap_or_else(|| path.to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().files.get(path).cloned())
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        let mut state = self.0.lock().unwrap();
        state.files.insert(path.into(), bytes.to_vec());
        state.taken.insert(path.into());
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            path: path.into(),
        }))
    }
}
