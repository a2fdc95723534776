//! A log through which batches pass: each key has one batch for ever, and nothing else stays of what is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_contract::{
    IngestBatch, IngestError, IngestLog, IngestRecord, KeyedLogError, TaskImage,
};
use tidegate_state::{
    Crash, Fault, FileIngestLog, IngestLimits, Lasting, MemoryDisk, OpenedKeys, Passed, PassedKeys,
    PassingLog,
};

use super::{BATCHES, DIRECTORY, batch, limits, numbers};

const KEYS: &str = "/state/ingest/keys";
const AT: &str = "trace";

fn large() -> IngestLimits {
    IngestLimits {
        segment: 16 << 10,
        ..limits()
    }
}

/// The header that every record here has, as a time.
fn time_of(record: &IngestRecord) -> Option<i64> {
    let (_, value) = record.headers.iter().find(|(name, _)| name == AT)?;
    std::str::from_utf8(value.as_deref()?).ok()?.parse().ok()
}

fn keys(disk: &MemoryDisk) -> Result<OpenedKeys, KeyedLogError> {
    PassedKeys::open(Arc::new(disk.clone()), Path::new(KEYS))
}

fn over(disk: &MemoryDisk, keys: PassedKeys) -> Result<PassingLog, IngestError> {
    PassingLog::open(
        Arc::new(disk.clone()),
        Path::new(DIRECTORY),
        large(),
        (Arc::new(keys), time_of),
        &|_| {},
    )
}

fn try_open(disk: &MemoryDisk) -> Option<PassingLog> {
    over(disk, keys(disk).ok()?.keys).ok()
}

fn open(disk: &MemoryDisk) -> PassingLog {
    over(disk, keys(disk).unwrap().keys).unwrap()
}

fn key(number: u64) -> [u8; 32] {
    super::key(number, 1).key
}

fn of(number: u64) -> Passed {
    Passed {
        first: number * 2,
        count: 2,
        at: 1,
    }
}

/// What clients sent that is anywhere in the files of the log and of its keys.
fn in_files(disk: &MemoryDisk) -> usize {
    let segments = (0..8).map(|slot| PathBuf::from(format!("{DIRECTORY}/segment-{slot:04}")));
    let files = segments.chain([
        PathBuf::from(KEYS),
        PathBuf::from(format!("{DIRECTORY}/keys")),
    ]);
    let found = files.map(|path| {
        let bytes = disk.bytes(&path);
        bytes.windows(5).filter(|five| five == b"first").count()
    });
    found.sum()
}

#[test]
fn of_what_is_done_its_key_its_place_and_its_time_stay_and_nothing_else() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..10 {
        log.append(&batch(number)).unwrap();
    }
    assert!(in_files(&disk) > 0);
    log.done(7).unwrap();
    assert_eq!(log.offsets().end, 20);
    log.done(20).unwrap();
    assert_eq!(in_files(&disk), 0, "what clients sent is still there");
    assert_eq!(log.offsets(), 20..20);
    drop(log);
    let log = open(&disk.restart(0));
    for number in 0..10 {
        assert_eq!(log.passed(&key(number)), Some(of(number)));
        let again = log.append(&batch(number)).unwrap();
        assert_eq!((again.first, again.replayed), (number * 2, true));
    }
    assert_eq!(log.passed(&key(10)), None);
    let next = log.append(&batch(10)).unwrap();
    assert_eq!((next.first, next.replayed), (20, false));
}

#[test]
fn a_log_of_an_earlier_version_is_opened_as_it_is_and_lets_go_of_what_is_done() {
    let disk = MemoryDisk::new();
    let old = FileIngestLog::open(Arc::new(disk.clone()), Path::new(DIRECTORY), limits()).unwrap();
    for number in 0..20 {
        old.append(&batch(number)).unwrap();
    }
    let identity = old.identity();
    drop(old);
    let log = open(&disk);
    assert_eq!((log.identity(), log.offsets()), (identity, 0..40));
    for number in 0..20 {
        assert_eq!(log.passed(&key(number)), Some(of(number)));
        assert!(log.append(&batch(number)).unwrap().replayed);
    }
    log.done(40).unwrap();
    assert_eq!(in_files(&disk), 0);
    drop(log);
    let log = open(&disk.restart(0));
    assert!((0..20).all(|number| log.passed(&key(number)) == Some(of(number))));
}

#[test]
fn whoever_only_looks_sees_the_keys_of_what_is_there_and_of_what_is_gone() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..4 {
        log.append(&batch(number)).unwrap();
    }
    log.done(8).unwrap();
    log.append(&batch(4)).unwrap();
    let before = disk.syncs();
    let layer = Arc::new(disk.clone());
    let keys = || {
        Ok::<_, IngestError>(Arc::new(
            PassedKeys::read_only(&disk, Path::new(KEYS)).unwrap(),
        ))
    };
    let looked =
        PassingLog::read_only(layer, Path::new(DIRECTORY), large(), keys, time_of).unwrap();
    let looked = looked.unwrap();
    assert!((0..5).all(|number| looked.passed(&key(number)) == Some(of(number))));
    assert!(looked.append(&batch(5)).is_err(), "it is only read");
    assert_eq!(disk.syncs(), before, "something was written");
    assert!(log.append(&batch(4)).unwrap().replayed);
}

#[test]
fn keys_that_are_damaged_are_no_reason_not_to_start_and_those_in_the_log_are_known() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..4 {
        log.append(&batch(number)).unwrap();
    }
    log.done(8).unwrap();
    log.append(&batch(4)).unwrap();
    drop(log);
    let mut bytes = disk.bytes(Path::new(KEYS));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    use tidegate_contract::FileLayer as _;
    drop(disk.replace(Path::new(KEYS), &bytes).unwrap());
    let opened = keys(&disk).unwrap();
    let lost = opened.lost.unwrap();
    assert!(
        lost.contains("cannot be read") && lost.contains(".damaged"),
        "{lost}"
    );
    let log = over(&disk, opened.keys).unwrap();
    let known = (0..4).filter(|number| log.passed(&key(*number)).is_some());
    assert_eq!(known.count(), 3, "one entry was damaged");
    assert_eq!(log.passed(&key(4)), Some(of(4)));
}

#[test]
fn a_write_of_keys_that_was_cut_short_has_lost_nothing() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..4 {
        log.append(&batch(number)).unwrap();
    }
    log.done(8).unwrap();
    drop(log);
    let opened = keys(&disk).unwrap();
    assert_eq!((opened.lost, opened.torn), (None, None));
    drop(opened.keys);
    // The begin of another entry.
    let mut bytes = disk.bytes(Path::new(KEYS));
    bytes.extend_from_within(52..62);
    use tidegate_contract::FileLayer as _;
    drop(disk.replace(Path::new(KEYS), &bytes).unwrap());
    let opened = keys(&disk).unwrap();
    assert_eq!(opened.lost, None);
    let torn = opened.torn.unwrap();
    assert!(torn.contains("10 bytes"), "{torn}");
    let log = over(&disk, opened.keys).unwrap();
    assert!((0..4).all(|number| log.passed(&key(number)).is_some()));
    // A file without anything is another matter.
    drop(log);
    drop(disk.replace(Path::new(KEYS), &[]).unwrap());
    let opened = keys(&disk).unwrap();
    assert!(opened.lost.is_some() && opened.torn.is_none());
}

#[test]
fn a_log_that_has_let_go_of_batches_and_finds_no_key_says_that_they_are_lost() {
    let disk = MemoryDisk::new();
    let elsewhere = || {
        let path = Path::new("/state/ingest/elsewhere");
        PassedKeys::open(Arc::new(disk.clone()), path).unwrap().keys
    };
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    drop(log);
    let nothing_gone = over(&disk, elsewhere()).unwrap();
    assert!(!nothing_gone.has_lost_keys());
    drop(nothing_gone);
    let log = open(&disk);
    log.done(2).unwrap();
    log.append(&batch(1)).unwrap();
    assert!(!log.has_lost_keys());
    drop(log);
    assert!(!open(&disk).has_lost_keys());
    let lost = over(&disk, elsewhere()).unwrap();
    assert!(lost.has_lost_keys());
    assert_eq!(lost.passed(&key(0)), None);
}

#[test]
fn a_log_that_is_not_the_one_of_the_last_cut_or_ends_before_it_says_what_is_gone() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    log.append(&batch(0)).unwrap();
    let cut = |identity: String, position| TaskImage {
        identity,
        position,
        ..TaskImage::default()
    };
    for position in [None, Some(0), Some(2)] {
        assert_eq!(log.gone(&cut(log.identity(), position)), None);
    }
    let short = log.gone(&cut(log.identity(), Some(3))).unwrap();
    assert!(
        short.contains("ends at 2") && short.contains("up to 3"),
        "{short}"
    );
    let was = open(&MemoryDisk::new()).identity();
    for position in [None, Some(0), Some(2)] {
        let other = log.gone(&cut(was.clone(), position)).unwrap();
        assert!(other.contains("is gone"), "{other}");
    }
    // A cut that knew no identity, and one of letters that went through a topic.
    for identity in ["", "kafka topic letters.in.again"] {
        assert_eq!(log.gone(&cut(identity.into(), Some(2))), None);
    }
}

#[test]
fn whoever_looks_while_batches_are_let_go_of_knows_their_keys_all_the_same() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    for number in 0..120 {
        log.append(&batch(number)).unwrap();
    }
    let keys_as_they_were = || {
        let keys = PassedKeys::read_only(&disk, Path::new(KEYS)).unwrap();
        // Between the look at the log and that at its batches.
        log.done(240)?;
        Ok::<_, IngestError>(Arc::new(keys))
    };
    let layer = Arc::new(disk.clone());
    let directory = Path::new(DIRECTORY);
    let looked = PassingLog::read_only(layer, directory, large(), keys_as_they_were, time_of);
    let looked = looked.unwrap().unwrap();
    assert!(log.offsets().start > 0, "nothing was let go of");
    for number in 0..120 {
        let passed = looked.passed(&key(number)).unwrap();
        assert_eq!((passed.first, passed.count), (number * 2, 2));
    }
    assert_eq!(looked.passed(&key(0)).unwrap().at, 0);
    assert_eq!(looked.passed(&key(119)), Some(of(119)));
}

#[test]
fn the_same_key_at_once_from_many_has_one_batch_while_all_of_it_is_let_go_of() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let kept = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..50 {
                    if !log.append(&batch(number)).unwrap().replayed {
                        kept.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            while log.offsets().end < 100 {
                log.done(log.offsets().end).unwrap();
            }
        });
    });
    assert_eq!((kept.into_inner(), log.offsets().end), (50, 100));
}

/// Appends batches and is done with some of them, as a pipeline is. Returns those that were acknowledged, and what was done.
fn run(log: &PassingLog) -> (Vec<u64>, u64) {
    let (mut acknowledged, mut done) = (Vec::new(), 0);
    for number in 0..BATCHES {
        if let Ok(kept) = log.append(&batch(number)) {
            assert!(!kept.replayed);
            acknowledged.push(number);
            if number % 3 == 2 {
                done = log.offsets().end;
                let _ = log.done(done);
            }
        }
    }
    (acknowledged, done)
}

/// Whatever ended the run, each key has one batch, and what was not done is there to be read.
fn check(disk: &MemoryDisk, acknowledged: &[u64], done: u64, context: &str) {
    let log = try_open(disk).unwrap_or_else(|| panic!("{context}: it does not open"));
    let held = log.offsets();
    assert!(held.start <= done, "{context}: {held:?}, {done} done");
    for number in acknowledged {
        let again = log.append(&batch(*number)).unwrap();
        assert!(again.replayed, "{context}: {number} is not known");
    }
    for number in 0..BATCHES {
        log.append(&batch(number)).unwrap();
    }
    assert_eq!(
        log.offsets().end,
        2 * BATCHES,
        "{context}: one is there twice"
    );
    log.done(log.offsets().end).unwrap();
    assert_eq!(in_files(disk), 0, "{context}");
}

fn operations() -> MemoryDisk {
    let disk = MemoryDisk::new();
    drop(run(&open(&disk)));
    disk
}

#[test]
fn a_crash_anywhere_forgets_no_key_and_doubles_no_batch() {
    let whole = operations();
    let crashes = (1..=whole.syncs()).flat_map(|at| [Crash::BeforeSync(at), Crash::AfterSync(at)]);
    for crash in crashes.chain((1..=whole.appends()).map(Crash::TornAppend)) {
        let disk = MemoryDisk::new();
        disk.crash_at(crash);
        let (acknowledged, done) = try_open(&disk).map_or((Vec::new(), 0), |log| run(&log));
        assert!(disk.has_crashed(), "{crash:?}");
        for kept in [0, 30, 1 << 20] {
            let context = format!("{crash:?}, {kept} bytes kept");
            check(&disk.restart(kept), &acknowledged, done, &context);
        }
    }
}

#[test]
fn an_operation_that_fails_forgets_no_key_and_doubles_no_batch() {
    let whole = operations();
    let mut faults: Vec<Fault> = (1..=whole.syncs()).map(Fault::Sync).collect();
    faults.extend((1..=whole.appends()).map(Fault::Append));
    faults.extend((1..=whole.renames()).map(Fault::Rename));
    faults.extend((1..=whole.opens()).map(Fault::Open));
    for fault in faults {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            let disk = MemoryDisk::new();
            disk.fail(fault, lasting);
            let Some(log) = try_open(&disk) else { continue };
            let (acknowledged, done) = run(&log);
            drop(log);
            disk.mend();
            check(
                &disk.restart(0),
                &acknowledged,
                done,
                &format!("{fault:?} {lasting:?}"),
            );
        }
    }
}

#[test]
fn a_log_without_keys_for_its_batches_is_the_log_it_is() {
    let disk = MemoryDisk::new();
    let log = open(&disk);
    let bare = IngestBatch {
        idempotency: None,
        ..batch(0)
    };
    for _ in 0..2 {
        assert!(!log.append(&bare).unwrap().replayed);
    }
    let plain = FileIngestLog::read_only(Arc::new(disk.clone()), Path::new(DIRECTORY), large());
    assert_eq!(numbers(&plain.unwrap().unwrap()), [0, 0]);
}
