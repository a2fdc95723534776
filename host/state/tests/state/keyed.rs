//! The log of values by key: what was acknowledged is there, whatever fails; what is damaged is no reason not to start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{FileLayer, KeyedChange, KeyedLog, KeyedLogError, KeyedValue};
use tidegate_state::{
    Crash, Fault, FileKeyedLog, Lasting, MemoryDisk, OpenedKeyedLog, PrivateDisk, StateKey,
};

const PATH: &str = "/state/answers/log";

fn state_key(digit: &str) -> Arc<StateKey> {
    Arc::new(StateKey::from_hex(&digit.repeat(64)).unwrap())
}

fn try_open(disk: &MemoryDisk, now: u64) -> Result<OpenedKeyedLog, KeyedLogError> {
    FileKeyedLog::open(Arc::new(disk.clone()), Path::new(PATH), state_key("5"), now)
}

fn open(disk: &MemoryDisk, now: u64) -> OpenedKeyedLog {
    try_open(disk, now).unwrap()
}

fn key(number: u8) -> [u8; 32] {
    [number; 32]
}

fn put(number: u8, until: u64, value: &str) -> KeyedChange {
    KeyedChange::Put(KeyedValue {
        key: key(number),
        until,
        value: value.as_bytes().to_vec(),
    })
}

fn texts(opened: &OpenedKeyedLog) -> Vec<(u8, String)> {
    let values = opened.values.iter();
    values
        .map(|one| (one.key[0], String::from_utf8(one.value.clone()).unwrap()))
        .collect()
}

fn pairs(expected: &[(u8, &str)]) -> Vec<(u8, String)> {
    let pairs = expected.iter();
    pairs
        .map(|(number, text)| (*number, (*text).to_owned()))
        .collect()
}

#[test]
fn the_newest_value_of_a_key_counts_until_its_time() {
    let disk = MemoryDisk::new();
    let mut opened = open(&disk, 0);
    assert!(opened.values.is_empty() && opened.lost.is_none());
    let changes = [
        put(1, 100, "one"),
        put(2, 100, "two"),
        put(3, 50, "three"),
        put(1, 100, "one again"),
    ];
    opened.log.write(&changes, false, 0).unwrap();
    opened
        .log
        .write(&[KeyedChange::Remove(key(2))], true, 0)
        .unwrap();
    drop(opened);
    let opened = open(&disk.restart(0), 49);
    assert_eq!(texts(&opened), pairs(&[(1, "one again"), (3, "three")]));
    assert_eq!(opened.values[0].until, 100);
    drop(opened);
    let opened = open(&disk.restart(0), 50);
    assert_eq!(texts(&opened), pairs(&[(1, "one again")]));
}

#[test]
fn values_are_sealed_and_only_their_owner_may_read_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("answers/log");
    let layer = Arc::new(PrivateDisk);
    let opened = FileKeyedLog::open(layer.clone(), &path, state_key("5"), 0);
    let mut log = opened.unwrap().log;
    log.write(&[put(1, 9, "a private thing")], true, 0).unwrap();
    drop(log);
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(7).any(|part| part == b"private"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Another key opens nothing of it, and goes on.
    let opened = FileKeyedLog::open(layer.clone(), &path, state_key("6"), 0).unwrap();
    assert!(opened.values.is_empty());
    assert!(opened.lost.unwrap().contains("another key"));
    // What is no such log is no reason not to start, and is not lost.
    let other = directory.path().join("other");
    let text = "something of somebody else's that is long enough to have a header";
    std::fs::write(&other, text).unwrap();
    let opened = FileKeyedLog::open(Arc::new(PrivateDisk), &other, state_key("5"), 0).unwrap();
    assert!(opened.lost.unwrap().contains("other.damaged"));
    let aside = directory.path().join("other.damaged");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), text);
}

const ASIDE: &str = "/state/answers/log.damaged";

#[test]
fn what_is_damaged_is_said_and_put_aside_and_all_that_can_be_read_is_kept() {
    let disk = MemoryDisk::new();
    let mut opened = open(&disk, 0);
    let header = disk.bytes(Path::new(PATH)).len();
    opened.log.write(&[put(1, 9, "one")], true, 0).unwrap();
    let before = disk.bytes(Path::new(PATH)).len();
    opened.log.write(&[put(2, 9, "two")], true, 0).unwrap();
    drop(opened);
    let whole = disk.bytes(Path::new(PATH));
    for at in 0..whole.len() {
        let damaged = MemoryDisk::new();
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        drop(damaged.replace(Path::new(PATH), &bytes).unwrap());
        let opened = open(&damaged, 0);
        let (expected, place, is_aside): (&[_], _, _) = match at {
            _ if at < header => (&[(1, "one"), (2, "two")], 0, true),
            _ if at < before => (&[(2, "two")], header, true),
            // A write that was cut short looks no different.
            _ => (&[(1, "one")], before, false),
        };
        assert_eq!(texts(&opened), pairs(expected), "byte {at}");
        let lost = opened.lost.unwrap();
        assert!(lost.contains(&format!("byte {place}")), "byte {at}: {lost}");
        assert_eq!(lost.contains(ASIDE), is_aside, "byte {at}: {lost}");
        let aside = damaged.read(Path::new(ASIDE)).unwrap();
        assert_eq!(aside, is_aside.then_some(bytes), "byte {at}");
        drop(opened.log);
        assert!(open(&damaged.restart(0), 0).lost.is_none(), "byte {at}");

        let torn = MemoryDisk::new();
        drop(torn.replace(Path::new(PATH), &whole[..at]).unwrap());
        let opened = open(&torn, 0);
        let expected: &[_] = if at < before { &[] } else { &[(1, "one")] };
        assert_eq!(texts(&opened), pairs(expected), "{at} bytes");
        let is_whole = at == header || at == before;
        assert_eq!(opened.lost.is_none(), is_whole, "{at} bytes");
    }
}

#[test]
fn what_a_running_log_has_lost_is_told_by_its_keys() {
    let begun = || {
        let disk = MemoryDisk::new();
        let mut log = open(&disk, 0).log;
        for number in [1, 2] {
            let written = log.write(&[put(number, 9, "text")], true, 0);
            assert_eq!(written.unwrap(), None);
        }
        (disk, log)
    };
    let damage = |disk: &MemoryDisk| {
        let mut bytes = disk.bytes(Path::new(PATH));
        bytes[60] ^= 1;
        drop(disk.replace(Path::new(PATH), &bytes).unwrap());
    };
    let remove = |disk: &MemoryDisk| disk.remove(Path::new(PATH));
    type Does = fn(&MemoryDisk);
    let ways: [(Does, &[u8], &str); 2] = [(damage, &[1], "byte 52"), (remove, &[1, 2], "removed")];
    for (way, lost, why) in ways {
        let (disk, mut log) = begun();
        way(&disk);
        log.write(&[put(3, 9, "text")], true, 0).unwrap_err();
        let loss = log.write(&[put(4, 9, "text")], true, 0).unwrap().unwrap();
        let mut keys: Vec<u8> = loss.keys.iter().map(|key| key[0]).collect();
        keys.sort_unstable();
        assert_eq!(keys, lost);
        assert!(
            loss.why.contains(PATH) && loss.why.contains(why),
            "{loss:?}"
        );
        assert_eq!(log.write(&[put(5, 9, "text")], true, 0).unwrap(), None);
        drop(log);
        let found: Vec<u8> = open(&disk.restart(0), 0)
            .values
            .iter()
            .map(|value| value.key[0])
            .filter(|key| *key < 3)
            .collect();
        let left: Vec<u8> = [1, 2]
            .into_iter()
            .filter(|key| !lost.contains(key))
            .collect();
        assert_eq!(found, left);
    }
}

#[test]
fn what_is_out_of_time_takes_no_room() {
    let disk = MemoryDisk::new();
    let mut log = open(&disk, 0).log;
    let text = "x".repeat(100 << 10);
    for round in 0..200u64 {
        let change = put(round as u8, round + 3, &text);
        log.write(&[change], false, round).unwrap();
        assert!(disk.used() < 3 << 20, "{} bytes", disk.used());
    }
}

#[test]
fn the_file_grows_no_longer_than_what_counts_in_it_asks_for() {
    let disk = MemoryDisk::new();
    let mut opened = open(&disk, 0);
    let text = "x".repeat(100 << 10);
    for round in 0..100u8 {
        opened
            .log
            .write(&[put(round % 3, 9, &text)], false, 0)
            .unwrap();
        assert!(disk.used() < 3 << 20, "{} bytes", disk.used());
    }
    drop(opened);
    assert_eq!(open(&disk, 0).values.len(), 3);
}

const ROUNDS: u8 = 24;

/// Puts and removes. Returns what is to be found of each key: one of these values, or none.
fn run(log: &mut FileKeyedLog) -> BTreeMap<u8, Vec<Option<String>>> {
    let mut may = BTreeMap::<u8, Vec<Option<String>>>::new();
    let large = "y".repeat(120 << 10);
    for round in 0..ROUNDS {
        let number = round % 5;
        let (change, after) = match round % 4 {
            3 => (KeyedChange::Remove(key(number)), None),
            _ => {
                let text = format!("{round} {large}");
                (put(number, 9, &text), Some(text))
            }
        };
        let found = may.entry(number).or_insert_with(|| vec![None]);
        match log.write(&[change], true, 0) {
            Ok(loss) => {
                assert_eq!(loss, None);
                *found = vec![after];
            }
            Err(_) => found.push(after),
        }
    }
    may
}

fn check(disk: &MemoryDisk, may: &BTreeMap<u8, Vec<Option<String>>>, context: &str) {
    let opened = try_open(disk, 0).unwrap_or_else(|error| panic!("{context}: {error}"));
    let found: BTreeMap<u8, String> = texts(&opened).into_iter().collect();
    for (number, values) in may {
        let value = found.get(number).cloned();
        assert!(values.contains(&value), "{context}: key {number}");
    }
    let mut log = opened.log;
    log.write(&[put(200, 9, "more")], true, 0).unwrap();
}

fn operations() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut log = open(&disk, 0).log;
    run(&mut log);
    drop(log);
    disk
}

#[test]
fn a_crash_at_any_sync_or_append_keeps_what_was_acknowledged() {
    let whole = operations();
    assert!(whole.renames() > 1, "it is written anew on the way");
    let crashes = (1..=whole.syncs())
        .flat_map(|at| [Crash::BeforeSync(at), Crash::AfterSync(at)])
        .chain((1..=whole.appends()).map(Crash::TornAppend));
    for crash in crashes {
        let disk = MemoryDisk::new();
        disk.crash_at(crash);
        let may = match try_open(&disk, 0) {
            Ok(mut opened) => run(&mut opened.log),
            Err(_) => BTreeMap::new(),
        };
        assert!(disk.has_crashed(), "{crash:?}");
        for kept in [0, 1, 40, 1000, 1 << 30] {
            check(
                &disk.restart(kept),
                &may,
                &format!("{crash:?}, {kept} bytes kept"),
            );
        }
    }
}

#[test]
fn any_operation_that_fails_loses_nothing_that_was_acknowledged_and_it_goes_on_after_it() {
    let whole = operations();
    let mut faults: Vec<Fault> = (1..=whole.syncs()).map(Fault::Sync).collect();
    faults.extend((1..=whole.appends()).map(Fault::Append));
    faults.extend((1..=whole.renames()).map(Fault::Rename));
    for fault in faults {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            let disk = MemoryDisk::new();
            disk.fail(fault, lasting);
            let Ok(mut opened) = try_open(&disk, 0) else {
                continue;
            };
            let may = run(&mut opened.log);
            let context = format!("{fault:?} {lasting:?}");
            disk.mend();
            check(&disk.restart(0), &may, &context);
            check(&disk.restart(1 << 30), &may, &context);
            // The disk is well again: so is the log.
            opened.log.write(&[put(100, 9, "after")], true, 0).unwrap();
            let after = open(&disk.restart(0), 0);
            assert!(
                texts(&after).contains(&(100, "after".to_owned())),
                "{context}"
            );
        }
    }
}
