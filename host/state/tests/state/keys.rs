//! The key of what waits.

use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{CommitLog, CommitLogError};
use tidegate_state::{FileCommitLog, MemoryDisk, StateKey};

use crate::{LOG, cut, entry, in_flight, open, waits};

#[test]
fn a_key_is_needed_only_while_an_entry_waits() {
    let disk = MemoryDisk::new();
    let other = || StateKey::from_hex(&"00".repeat(32)).unwrap();
    let with_other = || FileCommitLog::open(Arc::new(disk.clone()), Path::new(LOG), other());
    let (log, _) = open(&disk).unwrap();
    log.commit(&cut(1, 1)).unwrap();
    log.commit(&cut(2, 1)).unwrap();
    drop(log);
    let error = with_other().unwrap_err();
    assert!(matches!(error, CommitLogError::Key { .. }), "{error}");
    let (log, _) = open(&disk).unwrap();
    log.commit(&waits(Vec::new(), &[1, 2])).unwrap();
    drop(log);
    let (log, state) = with_other().unwrap();
    assert_eq!((state.cut, in_flight(&state)), (3, vec![]));
    log.commit(&cut(4, 1)).unwrap();
    drop(log);
    assert!(open(&disk).is_err(), "an entry of the other key waits");
    let (_, state) = with_other().unwrap();
    assert_eq!(in_flight(&state), vec![entry(4, 1)]);
}

#[test]
fn in_flight_entries_are_unreadable_without_the_key() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    log.commit(&cut(1, 3)).unwrap();
    drop(log);
    let bytes = disk.bytes(Path::new(LOG));
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    let other = StateKey::from_hex(&"00".repeat(32)).unwrap();
    let error = FileCommitLog::open(Arc::new(disk.clone()), Path::new(LOG), other).unwrap_err();
    assert!(matches!(error, CommitLogError::Key { .. }), "{error}");
}
