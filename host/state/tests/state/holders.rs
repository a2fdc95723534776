//! One committer for each log, and logs that are taken away from under it.

use std::path::Path;

use tidegate_contract::{CommitLog, FileLayer};
use tidegate_state::{Disk, Fault, InUse, Lasting, MemoryDisk};

use crate::{LOG, cut, locked, open};

#[test]
fn a_log_has_one_committer_also_after_it_was_compacted() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    locked(&disk);
    let mut n = 0;
    let mut longest = 0;
    while disk.bytes(Path::new(LOG)).len() >= longest {
        longest = disk.bytes(Path::new(LOG)).len();
        n += 1;
        log.commit(&cut(n, 10_000)).unwrap();
    }
    locked(&disk);
    assert_eq!(log.commit(&cut(n + 1, 1)).unwrap(), n + 1);
    drop(log);
    assert_eq!(open(&disk).unwrap().1.cut, n + 1);
}

#[test]
fn a_cut_into_a_log_that_was_removed_or_replaced_is_not_told_as_held() {
    let remove: fn(&MemoryDisk) = |disk| disk.remove(Path::new(LOG));
    let replace: fn(&MemoryDisk) = |disk| drop(disk.replace(Path::new(LOG), b"").unwrap());
    for change in [remove, replace] {
        let disk = MemoryDisk::new();
        let (log, _) = open(&disk).unwrap();
        log.commit(&cut(1, 1)).unwrap();
        change(&disk);
        let error = log.commit(&cut(2, 1)).unwrap_err().to_string();
        assert!(
            error.contains(LOG) && error.contains("removed or replaced"),
            "{error}"
        );
        assert!(log.commit(&cut(3, 1)).is_err());
    }
}

#[test]
fn a_cut_whose_fsync_failed_is_not_built_upon_before_it_is_written_anew() {
    // Once for each fsync of a life: what it was to write can be read, and is gone when the machine goes down.
    for failing in 1..=6 {
        let disk = MemoryDisk::new();
        disk.fail(Fault::Sync(failing), Lasting::Once);
        let mut answered = 0;
        if let Ok((log, _)) = open(&disk) {
            while answered < 8 && log.commit(&cut(answered + 1, 1)).is_ok() {
                answered += 1;
            }
            let appends = disk.appends();
            assert!(log.commit(&cut(99, 1)).is_err());
            assert_eq!(
                disk.appends(),
                appends,
                "nothing is written after a failure"
            );
        }
        assert!(answered < 8);
        // Another process on the same machine, which then goes down.
        let (log, state) = open(&disk).unwrap();
        assert!(state.cut == answered || state.cut == answered + 1);
        let next = state.cut + 1;
        assert_eq!(log.commit(&cut(next, 1)).unwrap(), next);
        let (_, state) = open(&disk.restart(0)).unwrap();
        assert_eq!(state.cut, next, "fsync {failing} failed");
    }
}

#[test]
fn a_file_is_taken_by_one_whatever_its_name() {
    let place = tempfile::tempdir().unwrap();
    let (path, other) = (place.path().join("a"), place.path().join("b"));
    let taken = |path: &Path| {
        let error = Disk.open_append(path).unwrap_err();
        let in_use = InUse::of(&error).expect("it is in use");
        assert!(in_use.process.is_none_or(|by| by == std::process::id()));
        assert!(error.to_string().contains("in use by"), "{error}");
    };
    let file = Disk.open_append(&path).unwrap();
    taken(&path);
    std::fs::hard_link(&path, &other).unwrap();
    taken(&other);
    drop(file);
    let file = Disk.open_append(&other).unwrap();
    taken(&path);
    // A new file in its place is taken from the beginning, and lets the old one go.
    let replaced = Disk.replace(&path, b"new").unwrap();
    taken(&path);
    taken(&other);
    drop((file, replaced));
    let mut file = Disk.open_append(&path).unwrap();
    assert_eq!(file.read().unwrap(), b"new");
    assert!(Disk.open_append(&other).is_ok());
    // What a crash left of a replacement is not written over: it may be somebody else's file.
    drop(file);
    std::fs::write(&other, "mine").unwrap();
    std::fs::hard_link(&other, place.path().join("a.new")).unwrap();
    Disk.replace(&path, b"newer").unwrap();
    assert_eq!(std::fs::read(&other).unwrap(), b"mine");
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
}
