//! What the commit log, the state directory and the disk beneath them promise after crashes and damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit;
mod audit_left;
mod audit_marks;
mod compaction;
mod cuts;
mod damage;
mod directory;
mod disk;
mod holders;
mod keyed;
mod keys;
mod sinks;

use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{
    CommitLog, CommitLogError, Cut, Entry, EntryKey, EntryPart, Recovered, SinkPosition, TaskCut,
    TaskId,
};
use tidegate_state::{FileCommitLog, MemoryDisk, StateKey};

pub(crate) const LOG: &str = "state/commit.log";

pub(crate) fn key() -> StateKey {
    StateKey::from_hex(&"5a".repeat(32)).unwrap()
}

pub(crate) fn open(disk: &MemoryDisk) -> Result<(FileCommitLog, Recovered), CommitLogError> {
    FileCommitLog::open(Arc::new(disk.clone()), Path::new(LOG), key())
}

pub(crate) fn task(source: &str, partition: u64) -> TaskId {
    TaskId {
        source: source.into(),
        partition: partition as u32,
    }
}

pub(crate) fn name(offset: u64) -> EntryKey {
    EntryKey {
        stage: "ask".into(),
        offset,
        emit: 0,
        copy: 0,
        part: EntryPart::Record,
    }
}

pub(crate) fn entry(number: u64, size: usize) -> Entry {
    Entry {
        key: name(number),
        payload: format!("secret-{number}-").repeat(size).into_bytes(),
    }
}

/// A cut in which these wait since, and those are done.
pub(crate) fn waits(put: Vec<Entry>, done: &[u64]) -> Cut {
    let of_task = TaskCut {
        put,
        done: done.iter().map(|number| name(*number)).collect(),
        ..TaskCut::default()
    };
    Cut {
        tasks: [(task("waiting", 0), of_task)].into(),
        ..Cut::default()
    }
}

/// What waits.
pub(crate) fn in_flight(state: &Recovered) -> Vec<Entry> {
    let entries = state.tasks.values().flat_map(|task| &task.entries);
    entries
        .map(|(key, payload)| Entry {
            key: key.clone(),
            payload: payload.clone(),
        })
        .collect()
}

/// The n-th cut of a run in which each cut reads ten records, finishes one in-flight entry and adds one.
pub(crate) fn cut(n: u64, size: usize) -> Cut {
    let done: Vec<u64> = n.checked_sub(2).into_iter().collect();
    let mut cut = waits(vec![entry(n, size)], &done);
    let of_task = TaskCut {
        identity: "tickets.jsonl".into(),
        position: Some(n * 10),
        unfinished: Some(n * 10 - 1),
        counters: vec![("in".into(), n * 10)],
        ..TaskCut::default()
    };
    cut.tasks.insert(task("tickets", n % 3), of_task);
    cut.sinks = vec![SinkPosition {
        sink: "answers".into(),
        identity: "/out/answers.jsonl".into(),
        length: n * 100,
        head: String::new(),
        ended: false,
    }];
    cut
}

pub(crate) fn log_of(cuts: u64) -> (MemoryDisk, Vec<u8>) {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    for n in 1..=cuts {
        log.commit(&cut(n, 1)).unwrap();
    }
    let bytes = disk.bytes(Path::new(LOG));
    (disk, bytes)
}

/// Opens the log, which somebody has.
pub(crate) fn locked(disk: &MemoryDisk) {
    let error = open(disk).unwrap_err();
    assert!(matches!(error, CommitLogError::Locked { .. }), "{error}");
}
