//! Logs that are written anew.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_contract::{CommitLog, FileLayer};
use tidegate_state::{AppendFile, Fault, FileCommitLog, Lasting, MemoryDisk};

use crate::{LOG, cut, entry, in_flight, key, open};

#[test]
fn a_long_log_is_compacted_and_says_the_same() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    for n in 1..=200 {
        log.commit(&cut(n, 10_000)).unwrap();
    }
    let length = disk.bytes(Path::new(LOG)).len();
    assert!(length < 6 << 20, "log of {length} bytes was not compacted");
    let (_, state) = open(&disk.restart(0)).unwrap();
    assert_eq!(state.cut, 200);
    assert_eq!(
        in_flight(&state),
        vec![entry(199, 10_000), entry(200, 10_000)]
    );
}

#[test]
fn a_log_that_is_long_at_the_start_is_compacted_at_its_first_cut() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    let mut n = 0;
    while disk.bytes(Path::new(LOG)).len() < 31 << 17 {
        n += 1;
        assert_eq!(log.commit(&cut(n, 10_000)).unwrap(), n);
    }
    let disk = disk.restart(0);
    assert!(disk.bytes(Path::new(LOG)).len() < 4 << 20);
    let (log, state) = open(&disk).unwrap();
    assert_eq!(state.cut, n);
    for more in n + 1..=n + 20 {
        assert_eq!(log.commit(&cut(more, 10_000)).unwrap(), more);
    }
    let length = disk.bytes(Path::new(LOG)).len();
    assert!(length < 4 << 20, "log of {length} bytes was not compacted");
    assert_eq!(open(&disk.restart(0)).unwrap().1.cut, n + 20);
}

/// A disk in memory on which no file can be replaced once it is told so.
#[derive(Clone, Debug)]
struct NoReplace {
    disk: MemoryDisk,
    refuse: Arc<AtomicBool>,
}

impl FileLayer for NoReplace {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.disk.open_append(path)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.length(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        if self.refuse.load(Ordering::Relaxed) {
            return Err(io::Error::other("no space for the new file"));
        }
        self.disk.replace(path, bytes)
    }
}

#[test]
fn a_cut_whose_compaction_fails_holds_and_the_next_is_refused() {
    let layer = NoReplace {
        disk: MemoryDisk::new(),
        refuse: Arc::default(),
    };
    let (log, _) = FileCommitLog::open(Arc::new(layer.clone()), Path::new(LOG), key()).unwrap();
    layer.refuse.store(true, Ordering::Relaxed);
    let mut answered = 0;
    let error = loop {
        match log.commit(&cut(answered + 1, 10_000)) {
            Ok(number) => answered = number,
            Err(error) => break error.to_string(),
        }
        assert!(answered < 100, "the log was never compacted");
    };
    assert!(
        error.contains("could not be compacted: no space for the new file"),
        "{error}"
    );
    let disk = layer.disk.restart(0);
    assert!(disk.bytes(Path::new(LOG)).len() > 4 << 20);
    let (log, state) = open(&disk).unwrap();
    assert_eq!(state.cut, answered);
    let next = answered + 1;
    assert_eq!(log.commit(&cut(next, 1)).unwrap(), next);
    assert!(disk.bytes(Path::new(LOG)).len() < 4 << 20);
}

#[test]
fn a_compaction_whose_new_name_is_lost_leaves_the_old_log_with_every_cut() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    disk.fail(Fault::Rename(2), Lasting::Once);
    let mut answered = 0;
    while answered < 100
        && let Ok(number) = log.commit(&cut(answered + 1, 10_000))
    {
        answered = number;
    }
    assert_eq!(disk.renames(), 2, "the log was compacted once");
    drop(log);
    // The machine goes down: the old log is found. While it is up, the new one is.
    let machine = disk.restart(0);
    for (disk, long) in [(&machine, true), (&disk, false)] {
        assert_eq!(disk.bytes(Path::new(LOG)).len() > 4 << 20, long);
        let (log, state) = open(disk).unwrap();
        assert_eq!(state.cut, answered);
        assert_eq!(log.commit(&cut(answered + 1, 1)).unwrap(), answered + 1);
        let (_, state) = open(&disk.restart(0)).unwrap();
        assert_eq!(state.cut, answered + 1);
    }
}
