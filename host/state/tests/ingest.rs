//! The ingest log: what was acknowledged is kept, whatever fails; what was not is kept once or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "ingest/passing.rs"]
mod passing;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tidegate_contract::{
    AppendFile, FileLayer, IdempotencyKey, IngestBatch, IngestError, IngestLog, IngestRecord,
    Ingested, TaskId, TaskImage,
};
use tidegate_state::{
    Crash, Fault, FileIngestLog, IngestLimits, Lasting, MemoryDisk, PrivateDisk, UnreadLog,
};

const DIRECTORY: &str = "/state/ingest/orders";

fn limits() -> IngestLimits {
    IngestLimits {
        bytes: 64 << 10,
        segment: 1 << 10,
        keys: 1000,
        patience: Duration::from_secs(20),
        forgets: false,
    }
}

fn try_open(disk: &MemoryDisk) -> Result<FileIngestLog, IngestError> {
    FileIngestLog::open(Arc::new(disk.clone()), Path::new(DIRECTORY), limits())
}

fn open(disk: &MemoryDisk) -> FileIngestLog {
    try_open(disk).unwrap()
}

fn key(number: u64, body: u8) -> IdempotencyKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    IdempotencyKey {
        key,
        body: [body; 32],
    }
}

fn record(text: &str) -> IngestRecord {
    IngestRecord {
        key: Some(format!("key {text}").into_bytes()),
        value: Some(text.as_bytes().to_vec()),
        headers: vec![
            ("trace".into(), Some(b"1".to_vec())),
            ("empty".into(), None),
        ],
        event_time: Some(-5),
    }
}

/// A batch of two records, with a key of this number.
fn batch(number: u64) -> IngestBatch {
    IngestBatch {
        records: vec![
            record(&format!("{number} first {}", "x".repeat(100))),
            record(&format!("{number} second")),
        ],
        idempotency: Some(key(number, 1)),
    }
}

/// The numbers of the batches in the log, in order; every batch whole.
fn numbers(log: &FileIngestLog) -> Vec<u64> {
    let held = log.offsets();
    let mut from = held.start;
    let mut values = Vec::new();
    while from < held.end {
        let records = log.read(from, 7, 1 << 20).unwrap();
        assert!(!records.is_empty(), "nothing at {from}");
        for found in records {
            assert_eq!(found.offset, from);
            from += 1;
            values.push(String::from_utf8(found.record.value.unwrap()).unwrap());
        }
    }
    let mut numbers = Vec::new();
    for pair in values.chunks(2) {
        let number = pair[0].split(' ').next().unwrap();
        assert!(pair[1].starts_with(&format!("{number} second")), "{pair:?}");
        numbers.push(number.parse().unwrap());
    }
    numbers
}

#[test]
fn what_was_appended_is_read_back_with_all_its_parts() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    assert_eq!(log.offsets(), 0..0);
    assert!(log.read(0, 10, 10).unwrap().is_empty());
    let whole = IngestBatch {
        records: vec![record("a"), IngestRecord::default(), record("b")],
        idempotency: None,
    };
    let kept = log.append(&whole).unwrap();
    let expected = Ingested {
        first: 0,
        count: 3,
        replayed: false,
    };
    assert_eq!(kept, expected);
    for log in [log, open(&disk.restart(0))] {
        let found = log.read(0, 10, 1 << 20).unwrap();
        let found: Vec<_> = found.into_iter().map(|found| found.record).collect();
        assert_eq!(found, whole.records);
        assert_eq!(log.read(1, 1, 1 << 20).unwrap()[0].offset, 1);
        // One record may exceed the bytes that are asked for.
        assert_eq!(log.read(2, 10, 0).unwrap().len(), 1);
    }
}

#[test]
fn a_repeated_key_keeps_nothing_more_also_after_its_segment_has_gone() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let first = log.append(&batch(0)).unwrap();
    let again = log.append(&batch(0)).unwrap();
    assert_eq!(
        again,
        Ingested {
            replayed: true,
            ..first
        }
    );
    let other = IngestBatch {
        idempotency: Some(key(0, 2)),
        ..batch(0)
    };
    assert!(matches!(log.append(&other), Err(IngestError::OtherBody)));
    for number in 1..40 {
        log.append(&batch(number)).unwrap();
    }
    log.done(log.offsets().end).unwrap();
    assert!(log.offsets().start > 60, "{:?}", log.offsets());
    drop(log);
    let log = open(&disk.restart(0));
    let end = log.offsets().end;
    for number in 0..40 {
        let again = log.append(&batch(number)).unwrap();
        assert_eq!((again.first, again.replayed), (number * 2, true));
        assert!(matches!(
            log.append(&IngestBatch {
                idempotency: Some(key(number, 2)),
                ..batch(number)
            }),
            Err(IngestError::OtherBody)
        ));
    }
    assert_eq!(log.offsets().end, end);
}

#[test]
fn only_so_many_keys_are_remembered_and_the_newest_are() {
    let disk = MemoryDisk::new();
    let small = IngestLimits {
        keys: 3,
        ..limits()
    };
    let open = |disk: &MemoryDisk| {
        FileIngestLog::open(Arc::new(disk.clone()), Path::new(DIRECTORY), small).unwrap()
    };
    let log = open(&disk);
    for number in 0..20 {
        log.append(&batch(number)).unwrap();
    }
    drop(log);
    let log = open(&disk.restart(0));
    for number in 17..20 {
        assert!(log.append(&batch(number)).unwrap().replayed);
    }
    assert!(!log.append(&batch(0)).unwrap().replayed);
}

#[test]
fn a_full_log_refuses_and_takes_again_once_something_is_done() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let mut number = 0;
    let full = loop {
        match log.append(&batch(number)) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000);
    };
    assert!(matches!(full, IngestError::Full { limit, .. } if limit == 64 << 10));
    assert!(disk.used() <= 64 << 10, "{} bytes", disk.used());
    assert_eq!(numbers(&log), (0..number).collect::<Vec<_>>());
    log.done(log.offsets().end).unwrap();
    assert!(disk.used() < (64 << 10), "{} bytes", disk.used());
    log.append(&batch(number)).unwrap();
    let large = IngestBatch {
        records: vec![record(&"x".repeat(64 << 10))],
        idempotency: None,
    };
    assert!(matches!(
        log.append(&large),
        Err(IngestError::TooLarge { .. })
    ));
    let none = IngestBatch::default();
    assert!(matches!(
        log.append(&none),
        Err(IngestError::Records { .. })
    ));
}

#[test]
fn an_offset_that_is_not_there_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..40 {
        log.append(&batch(number)).unwrap();
    }
    log.done(60).unwrap();
    let held = log.offsets();
    assert!(held.start > 0 && held.start <= 60);
    for offset in [held.start - 1, held.end + 1] {
        let error = log.read(offset, 1, 1).unwrap_err();
        assert!(matches!(error, IngestError::Offset { .. }), "{error}");
    }
    assert!(matches!(
        log.done(held.end + 1),
        Err(IngestError::Offset { .. })
    ));
    assert_eq!(log.read(60, 1, 1).unwrap()[0].offset, 60);
}

/// Appends batches, lets some go, and returns those that were acknowledged and what was said to be done.
fn run(log: &FileIngestLog, batches: u64) -> (Vec<u64>, u64) {
    let (mut acknowledged, mut done) = (Vec::new(), 0);
    for number in 0..batches {
        if let Ok(kept) = log.append(&batch(number)) {
            assert!(!kept.replayed);
            acknowledged.push(number);
            if number % 5 == 4 {
                // Also what fails may have let go of something.
                done = kept.first;
                let _ = log.done(done);
            }
        }
    }
    (acknowledged, done)
}

/// After a restart all that was acknowledged is there, once; and what clients send again is kept once.
fn check(disk: &MemoryDisk, acknowledged: &[u64], done: u64, batches: u64, context: &str) {
    let log = try_open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    let held = log.offsets();
    assert!(held.start <= done, "{context}: {held:?}, {done} done");
    let found = numbers(&log);
    for number in acknowledged {
        let first = log.append(&batch(*number)).unwrap();
        assert!(first.replayed, "{context}: {number} is not known");
        let there = first.first < held.start || found.contains(number);
        assert!(there, "{context}: {number} was acknowledged and is gone");
    }
    for number in 0..batches {
        log.append(&batch(number)).unwrap();
    }
    let mut all = numbers(&log);
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{context}: a batch is there twice");
}

const BATCHES: u64 = 24;

fn operations() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    run(&log, BATCHES);
    drop(log);
    disk
}

#[test]
fn a_crash_at_any_sync_or_append_keeps_what_was_acknowledged_and_doubles_nothing() {
    let whole = operations();
    let syncs = 1..=whole.syncs();
    let crashes = syncs
        .flat_map(|at| [Crash::BeforeSync(at), Crash::AfterSync(at)])
        .chain((1..=whole.appends()).map(Crash::TornAppend));
    for crash in crashes {
        let disk = MemoryDisk::new();
        disk.crash_at(crash);
        let (acknowledged, done) = match try_open(&disk) {
            Ok(log) => run(&log, BATCHES),
            Err(_) => (Vec::new(), 0),
        };
        assert!(disk.has_crashed(), "{crash:?}");
        for kept in [0, 1, 30, 150, 1 << 20] {
            let context = format!("{crash:?}, {kept} bytes kept");
            check(&disk.restart(kept), &acknowledged, done, BATCHES, &context);
        }
    }
}

#[test]
fn any_operation_that_fails_loses_nothing_that_was_acknowledged() {
    let whole = operations();
    let mut faults: Vec<Fault> = (1..=whole.syncs()).map(Fault::Sync).collect();
    faults.extend((1..=whole.appends()).map(Fault::Append));
    faults.extend((1..=whole.renames()).map(Fault::Rename));
    faults.extend((1..=whole.opens()).map(Fault::Open));
    for fault in faults {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            let disk = MemoryDisk::new();
            disk.fail(fault, lasting);
            let log = match try_open(&disk) {
                Ok(log) => log,
                Err(_) => continue,
            };
            let (acknowledged, done) = run(&log, BATCHES);
            drop(log);
            disk.mend();
            let context = format!("{fault:?} {lasting:?}");
            check(&disk.restart(0), &acknowledged, done, BATCHES, &context);
            check(
                &disk.restart(1 << 20),
                &acknowledged,
                done,
                BATCHES,
                &context,
            );
            // The process alone ends: the kernel shows what it never wrote.
            check(&disk, &acknowledged, done, BATCHES, &context);
        }
    }
}

#[test]
fn after_a_failed_sync_nothing_more_is_written() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    disk.fail(Fault::Sync(disk.syncs() + 1), Lasting::Once);
    log.append(&batch(1)).unwrap_err();
    let appends = disk.appends();
    let error = log.append(&batch(2)).unwrap_err().to_string();
    assert!(error.contains("an earlier write failed"), "{error}");
    assert_eq!(disk.appends(), appends);
    // What was durable is still read.
    assert_eq!(numbers(&log), [0]);
}

#[test]
fn a_full_disk_is_no_end_once_there_is_room() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    disk.limit(Some(disk.used() + 20));
    let error = log.append(&batch(1)).unwrap_err();
    let IngestError::Write { kind, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kind, std::io::ErrorKind::StorageFull);
    disk.mend();
    log.append(&batch(1)).unwrap();
    drop(log);
    assert_eq!(numbers(&open(&disk.restart(0))), [0, 1]);
}

/// A disk whose syncs wait for a permission each, once that is asked for.
#[derive(Debug, Default)]
struct Gate {
    disk: MemoryDisk,
    closed: Arc<(Mutex<bool>, Condvar)>,
}

#[derive(Debug)]
struct GatedFile(Box<dyn AppendFile>, Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn close(&self, closed: bool) {
        *self.closed.0.lock().unwrap() = closed;
        self.closed.1.notify_all();
    }

    fn gated(&self, file: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        Box::new(GatedFile(file, self.closed.clone()))
    }
}

impl FileLayer for Gate {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(self.gated(self.disk.open_append(path)?))
    }
    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.length(path)
    }
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(path)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn AppendFile>> {
        Ok(self.gated(self.disk.replace(path, bytes)?))
    }
}

impl AppendFile for GatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        let closed = self.1.0.lock().unwrap();
        let wait = self
            .1
            .1
            .wait_timeout_while(closed, Duration::from_secs(20), |closed| *closed);
        assert!(!wait.unwrap().1.timed_out());
        self.0.sync()
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }
}

fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::yield_now();
    }
}

#[test]
fn batches_that_come_while_others_are_synced_share_the_next_sync() {
    let gate = Arc::new(Gate::default());
    let whole = IngestLimits {
        segment: 16 << 10,
        ..limits()
    };
    let log = FileIngestLog::open(gate.clone(), Path::new(DIRECTORY), whole).unwrap();
    let log = Arc::new(log);
    gate.close(true);
    let (syncs, appends) = (gate.disk.syncs(), gate.disk.appends());
    let append = |number| {
        let log = log.clone();
        std::thread::spawn(move || log.append(&batch(number)).unwrap())
    };
    let first = append(0);
    until(|| gate.disk.appends() > appends);
    let others: Vec<_> = (1..20).map(append).collect();
    until(|| log.waiting() == 20);
    // Nobody is told, and nothing is read, before the sync.
    assert_eq!(log.offsets(), 0..0);
    gate.close(false);
    assert_eq!(first.join().unwrap().first, 0);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(gate.disk.syncs() - syncs, 2);
    assert_eq!((log.waiting(), log.offsets()), (0, 0..40));
    assert_eq!(numbers(&log).len(), 20);
}

#[test]
fn who_does_not_wait_longer_is_not_kept_and_can_ask_again() {
    let gate = Arc::new(Gate::default());
    let hurried = IngestLimits {
        patience: Duration::from_millis(50),
        ..limits()
    };
    let log = FileIngestLog::open(gate.clone(), Path::new(DIRECTORY), hurried).unwrap();
    let log = Arc::new(log);
    gate.close(true);
    let appends = gate.disk.appends();
    let writing = log.clone();
    let writer = std::thread::spawn(move || writing.append(&batch(0)).unwrap());
    until(|| gate.disk.appends() > appends);
    for number in [0, 1] {
        let error = log.append(&batch(number)).unwrap_err();
        assert!(matches!(error, IngestError::Slow { .. }), "{error}");
    }
    gate.close(false);
    writer.join().unwrap();
    assert_eq!(numbers(&log), [0]);
    assert!(!log.append(&batch(1)).unwrap().replayed);
    assert!(log.append(&batch(0)).unwrap().replayed);
}

#[test]
fn a_disk_that_is_full_when_a_segment_begins_is_no_end_either() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let mut refused = 0;
    for number in 0..40 {
        disk.limit(Some(disk.used() + 10));
        refused += u32::from(log.append(&batch(number)).is_err());
        disk.mend();
        log.append(&batch(number)).unwrap();
    }
    assert_eq!(refused, 40);
    assert_eq!(numbers(&log), (0..40).collect::<Vec<_>>());
    drop(log);
    assert_eq!(
        numbers(&open(&disk.restart(0))),
        (0..40).collect::<Vec<_>>()
    );
}

#[test]
fn the_same_key_at_once_from_many_keeps_one_batch() {
    let disk = MemoryDisk::new();
    let log = Arc::new(open(&disk));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let log = log.clone();
            std::thread::spawn(move || log.append(&batch(7)).unwrap())
        })
        .collect();
    let kept: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
    assert_eq!(log.offsets(), 0..2);
    assert!(kept.iter().all(|kept| kept.first == 0 && kept.count == 2));
    assert_eq!(kept.iter().filter(|kept| !kept.replayed).count(), 1);
}

#[test]
fn damage_in_what_was_acknowledged_is_refused_and_not_cut_away() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..4 {
        log.append(&batch(number)).unwrap();
    }
    drop(log);
    let path = Path::new(DIRECTORY).join("segment-0000");
    let bytes = disk.bytes(&path);
    for at in [61, 90, bytes.len() / 3] {
        let disk = disk.restart(0);
        let mut broken = bytes.clone();
        broken[at] ^= 1;
        {
            disk.replace(&path, &broken).unwrap();
        }
        let error = try_open(&disk).unwrap_err().to_string();
        assert!(error.contains("damaged and later ones follow"), "{error}");
    }
}

/// A disk with a log in which the first batch has a sync of its own and all others share one.
fn one_group_of(batches: u64) -> MemoryDisk {
    let gate = Arc::new(Gate::default());
    let whole = IngestLimits {
        segment: 16 << 10,
        ..limits()
    };
    let log = FileIngestLog::open(gate.clone(), Path::new(DIRECTORY), whole).unwrap();
    let log = Arc::new(log);
    gate.close(true);
    let appends = gate.disk.appends();
    let append = |number| {
        let log = log.clone();
        std::thread::spawn(move || log.append(&batch(number)).unwrap())
    };
    let first = append(0);
    until(|| gate.disk.appends() > appends);
    let others: Vec<_> = (1..batches).map(append).collect();
    until(|| log.waiting() == batches as usize);
    gate.close(false);
    for append in others.into_iter().chain([first]) {
        append.join().unwrap();
    }
    gate.disk.clone()
}

#[test]
fn damage_in_a_batch_that_shared_its_sync_with_later_ones_is_refused_and_a_lost_sector_is_torn() {
    let disk = one_group_of(9);
    let path = Path::new(DIRECTORY).join("segment-0000");
    let bytes = disk.bytes(&path);
    let length = (bytes.len() - 60) / 9;
    assert_eq!(
        length * 9 + 60,
        bytes.len(),
        "all batches are of one length"
    );
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let disk = disk.restart(0);
        let mut broken = bytes.clone();
        change(&mut broken);
        drop(disk.replace(&path, &broken).unwrap());
        try_open(&disk)
    };
    let last = bytes.len() - length;
    for at in 60..last {
        let flipped = broken(&|bytes| bytes[at] ^= 1 << (at % 8));
        let error = flipped.unwrap_err().to_string();
        assert!(
            error.contains("damaged and later ones follow"),
            "{at}: {error}"
        );
    }
    for at in last..bytes.len() {
        let log = broken(&|bytes| bytes[at] ^= 1).unwrap();
        assert!(log.torn().is_some(), "nothing follows");
        assert_eq!(numbers(&log).len(), 8);
    }
    // What a machine that went down had not written of the group.
    let group = 60 + length;
    for (hole, kept) in [
        (group..512.max(group), 1),
        (512..1024, (512 - 60) / length),
        (1024..2048, (1024 - 60) / length),
    ] {
        if hole.is_empty() {
            continue;
        }
        let log = broken(&|bytes| bytes[hole.clone()].fill(0)).unwrap();
        assert!(log.torn().is_some(), "{hole:?}");
        assert_eq!(numbers(&log).len(), kept, "{hole:?}");
    }
}

#[test]
fn what_a_client_sends_is_never_taken_for_an_entry() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    log.append(&batch(1)).unwrap();
    let path = Path::new(DIRECTORY).join("segment-0000");
    // A copy of what the log has, entry and all, under an id of another log.
    let entry = disk.bytes(&path)[60..].to_vec();
    drop(log);
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let hostile = IngestBatch {
        records: vec![IngestRecord {
            value: Some([entry.clone(), entry].concat()),
            ..IngestRecord::default()
        }],
        idempotency: None,
    };
    disk.crash_at(Crash::BeforeSync(disk.syncs() + 1));
    log.append(&hostile).unwrap_err();
    drop(log);
    for kept in 0..700 {
        let log = open(&disk.restart(kept));
        assert!(log.offsets().end <= 1, "{kept}");
    }
}

#[test]
fn one_process_has_a_log_and_its_files_are_its_owners() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ingest/orders");
    let open = || FileIngestLog::open(Arc::new(PrivateDisk), &path, limits());
    let log = open().unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("in use by this process already"), "{error}");
    for number in 0..40 {
        log.append(&batch(number)).unwrap();
    }
    log.done(50).unwrap();
    let (identity, held) = (log.identity(), log.offsets());
    drop(log);
    let log = open().unwrap();
    assert_eq!((log.identity(), log.offsets()), (identity, held));
    #[cfg(unix)]
    for file in std::fs::read_dir(&path).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_is_torn_at_the_end_is_cut_away_and_told_with_its_place() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    let path = Path::new(DIRECTORY).join("segment-0000");
    let whole = disk.bytes(&path).len();
    disk.crash_at(Crash::TornAppend(disk.appends() + 1));
    log.append(&batch(1)).unwrap_err();
    drop(log);
    let after = disk.restart(10);
    let log = open(&after);
    let torn = log.torn().unwrap();
    let place = format!("10 bytes at byte {whole} of {}", path.display());
    assert!(torn.contains(&place), "{torn}");
    assert_eq!(numbers(&log), [0]);
    drop(log);
    assert_eq!(open(&after.restart(0)).torn(), None);
}

#[test]
fn a_segment_is_small_however_large_the_log() {
    let segment = |bytes: u64| {
        let limits = IngestLimits {
            bytes,
            ..IngestLimits::default()
        };
        bytes - limits.longest_batch()
    };
    let sizes = [1 << 20, 1 << 30, 1 << 33, 1 << 40, 1 << 44].map(segment);
    assert_eq!(sizes, [256 << 10, 4 << 20, 16 << 20, 64 << 20, 64 << 20]);
}

#[test]
fn files_are_used_again_and_found_again_however_many_there_are() {
    let disk = MemoryDisk::new();
    let limits = IngestLimits {
        bytes: 64 << 10,
        segment: 200,
        ..limits()
    };
    let open = |disk: &MemoryDisk| {
        FileIngestLog::open(Arc::new(disk.clone()), Path::new(DIRECTORY), limits).unwrap()
    };
    let (mut disk, mut sent) = (disk, 0..0);
    for round in 0..6 {
        let log = open(&disk);
        assert_eq!(numbers(&log), sent.clone().collect::<Vec<_>>());
        while log.held() < 50 << 10 {
            log.append(&batch(sent.end)).unwrap();
            sent.end += 1;
        }
        let done = log.offsets().end - 2 * round;
        log.done(done).unwrap();
        sent.start = log.offsets().start / 2;
        let next = disk.restart(0);
        drop(log);
        disk = next;
    }
    let used = (0..1000).filter(|slot| {
        let name = format!("segment-{slot:04}");
        disk.length(&Path::new(DIRECTORY).join(name))
            .unwrap()
            .is_some()
    });
    // Of this size a full log has fewer: those of earlier rounds are used again.
    assert!(used.count() < 256);
}

#[test]
fn what_waits_in_the_log_of_no_source_is_counted_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let open = |source: &str| {
        let path = directory.path().join("ingest").join(source);
        FileIngestLog::open(Arc::new(PrivateDisk), &path, limits()).unwrap()
    };
    assert_eq!(
        UnreadLog::all(directory.path(), "ingest", |_| false).unwrap(),
        []
    );
    let log = open("orders");
    for number in 0..3 {
        log.append(&batch(number)).unwrap();
    }
    drop(open("other"));
    std::fs::create_dir(directory.path().join("ingest/empty")).unwrap();
    let found = UnreadLog::all(directory.path(), "ingest", |name| name == "other").unwrap();
    let [orders] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (orders.source.as_str(), &orders.offsets),
        ("orders", &(0..6))
    );
    let task = TaskId {
        source: "orders".into(),
        partition: 0,
    };
    let waiting = |identity: String, position| {
        let image = TaskImage {
            identity,
            position,
            ..TaskImage::default()
        };
        orders.waiting(&BTreeMap::from([(task.clone(), image)]))
    };
    assert_eq!(orders.waiting(&BTreeMap::new()), 6);
    assert_eq!(waiting(log.identity(), None), 6);
    assert_eq!(waiting(log.identity(), Some(4)), 2);
    assert_eq!(waiting(log.identity(), Some(6)), 0);
    // A position in another log of this name says nothing.
    assert_eq!(waiting("another".into(), Some(6)), 6);
    assert_eq!(numbers(&log), [0, 1, 2]);
}

#[test]
fn whoever_waits_for_an_ingest_log_is_told_how_much_of_it_is_read() {
    let disk = MemoryDisk::default();
    let log = open(&disk);
    for number in 0..20 {
        log.append(&batch(number)).unwrap();
    }
    drop(log);
    let heard = std::cell::RefCell::new(Vec::new());
    let told = |done| heard.borrow_mut().push(done);
    let layer = Arc::new(disk.clone());
    drop(FileIngestLog::open_told(layer, Path::new(DIRECTORY), limits(), &told).unwrap());
    let heard = heard.into_inner();
    assert!(heard.len() > 1, "it has several segments");
    assert!(heard.is_sorted(), "{heard:?}");
}
