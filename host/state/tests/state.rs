//! The commit log: what it promises after crashes and damage.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_contract::{
    CommitError, CommitLog, CommitLogError, Committer, Cut, Entry, EntryKey, EntryPart, FileLayer,
    Keeper, MoveState, Moved, Participants, Recovered, SinkPosition, Store, TaskCut, TaskId,
};
use tidegate_state::format::{ENTRY_HEADER, HEADER};
use tidegate_state::{
    AppendFile, Crash, Cuts, Disk, Fault, FileCommitLog, InUse, Lasting, LogCommitter, MemoryDisk,
    StateDirectory, StateKey,
};

const LOG: &str = "state/commit.log";

fn key() -> StateKey {
    StateKey::from_hex(&"5a".repeat(32)).unwrap()
}

fn open(disk: &MemoryDisk) -> Result<(FileCommitLog, Recovered), CommitLogError> {
    FileCommitLog::open(Arc::new(disk.clone()), Path::new(LOG), key())
}

fn task(source: &str, partition: u64) -> TaskId {
    TaskId {
        source: source.into(),
        partition: partition as u32,
    }
}

fn name(offset: u64) -> EntryKey {
    EntryKey {
        stage: "ask".into(),
        offset,
        emit: 0,
        copy: 0,
        part: EntryPart::Record,
    }
}

fn entry(number: u64, size: usize) -> Entry {
    Entry {
        key: name(number),
        payload: format!("secret-{number}-").repeat(size).into_bytes(),
    }
}

/// A cut in which these wait since, and those are done.
fn waits(put: Vec<Entry>, done: &[u64]) -> Cut {
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
fn in_flight(state: &Recovered) -> Vec<Entry> {
    let entries = state.tasks.values().flat_map(|task| &task.entries);
    entries
        .map(|(key, payload)| Entry {
            key: key.clone(),
            payload: payload.clone(),
        })
        .collect()
}

/// The n-th cut of a run in which each cut reads ten records, finishes one in-flight entry and adds one.
fn cut(n: u64, size: usize) -> Cut {
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
    }];
    cut
}

#[test]
fn what_was_committed_is_recovered() {
    let disk = MemoryDisk::new();
    let (log, empty) = open(&disk).unwrap();
    assert_eq!(empty, Recovered::default());
    for n in 1..=7 {
        assert_eq!(log.commit(&cut(n, 1)).unwrap(), n);
    }
    let (_, state) = open(&disk.restart(0)).unwrap();
    assert_eq!(state.cut, 7);
    assert_eq!(
        state.sinks,
        vec![SinkPosition {
            sink: "answers".into(),
            identity: "/out/answers.jsonl".into(),
            length: 700
        }]
    );
    for (partition, at) in [(0, 60), (1, 70), (2, 50)] {
        let known = &state.tasks[&task("tickets", partition)];
        assert_eq!((known.position, known.unfinished), (Some(at), Some(at - 1)));
        assert_eq!(known.counters, vec![("in".to_owned(), at)]);
        assert_eq!(known.identity, "tickets.jsonl");
    }
    assert_eq!(in_flight(&state), vec![entry(6, 1), entry(7, 1)]);
}

#[test]
fn the_running_log_tells_what_a_task_begins_with() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    assert!(log.task(&task("tickets", 1)).is_none());
    log.commit(&cut(1, 1)).unwrap();
    log.commit(&cut(2, 1)).unwrap();
    let tell = |log: &FileCommitLog| {
        let known = log.task(&task("waiting", 0)).unwrap();
        let entries = known.entries.into_iter().collect::<Vec<_>>();
        let position = log.task(&task("tickets", 1)).unwrap().position;
        (entries, position)
    };
    let entries = [entry(1, 1), entry(2, 1)].map(|entry| (entry.key, entry.payload));
    assert_eq!(tell(&log), (entries.to_vec(), Some(10)));
    drop(log);
    assert_eq!(tell(&open(&disk).unwrap().0), (entries.to_vec(), Some(10)));
}

struct NoSinks;

impl Participants for NoSinks {
    fn flush(&mut self, _: &mut Cut) -> Result<(), CommitError> {
        Ok(())
    }
}

#[test]
fn a_cut_writes_the_tasks_that_moved_and_no_others() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    let mut committer = LogCommitter::alone(Arc::new(log));
    let mut commit = |positions: &[u64]| {
        let tasks = (0..).zip(positions).map(|(partition, position)| {
            let of_task = TaskCut {
                position: Some(*position),
                ..TaskCut::default()
            };
            (task("tickets", partition), of_task)
        });
        let cut = Cut {
            tasks: tasks.collect(),
            ..Cut::default()
        };
        let before = disk.bytes(Path::new(LOG)).len();
        committer.begin(cut, &mut NoSinks).unwrap();
        disk.bytes(Path::new(LOG)).len() - before
    };
    let mut positions = vec![1; 500];
    let all = commit(&positions);
    positions[7] = 2;
    let one = commit(&positions);
    assert!(one * 50 < all, "{one} bytes for one task, {all} for 500");
    let (_, state) = open(&disk.restart(0)).unwrap();
    let known = |partition| state.tasks[&task("tickets", partition)].position;
    assert_eq!(
        (known(6), known(7), known(499)),
        (Some(1), Some(2), Some(1))
    );
}

#[test]
fn what_stands_beside_a_position_says_whose_cut_it_was_and_what_waits() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    let mut committer = LogCommitter::new(Cuts::of(Arc::new(log), "77f0"));
    let task = task("tickets", 3);
    let mut mark = None;
    // A cut in which the task stands still changes nothing of it.
    for waits in [2, 1, 1] {
        let of_task = TaskCut {
            identity: "kafka topic tickets".into(),
            position: Some(10),
            unfinished: Some(7),
            counters: vec![("in".into(), 10)],
            waits,
            ..TaskCut::default()
        };
        let cut = Cut {
            tasks: [(task.clone(), of_task)].into(),
            ..Cut::default()
        };
        committer.begin(cut, &mut NoSinks).unwrap();
        mark = Some(committer.mark(&task));
    }
    let mark = mark.unwrap();
    let keeper = Keeper {
        store: Store::Log,
        instance: "77f0".into(),
    };
    assert_eq!(mark.keeper, Some(keeper));
    assert_eq!((mark.cut, mark.waits, mark.position), (3, 1, None));
    assert_eq!(
        (mark.source.as_str(), mark.identity.as_str()),
        ("tickets", "kafka topic tickets")
    );
    let (_, state) = open(&disk.restart(0)).unwrap();
    assert!(state.tasks[&task].marked);
}

#[test]
fn that_a_task_has_gone_to_a_changelog_is_recovered_until_a_cut_has_it_again() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    let moved = Moved {
        topic: "changelog".into(),
        state: MoveState::There,
    };
    for moved in [Some(moved), None] {
        let of_task = TaskCut {
            position: Some(5),
            moved: moved.clone(),
            ..TaskCut::default()
        };
        log.commit(&Cut {
            tasks: [(task("files", 0), of_task)].into(),
            ..Cut::default()
        })
        .unwrap();
        let (_, state) = open(&disk.restart(0)).unwrap();
        assert_eq!(state.tasks[&task("files", 0)].moved, moved);
    }
}

#[test]
fn whether_the_last_run_ended_is_part_of_its_last_cut() {
    let disk = MemoryDisk::new();
    let mut n = 0;
    for size in [1, 10_000] {
        let (log, state) = open(&disk).unwrap();
        assert!(!state.ended);
        // The long entries have the log compacted.
        for _ in 0..50 {
            n += 1;
            log.commit(&cut(n, size)).unwrap();
        }
        n += 1;
        let last = Cut {
            ended: true,
            ..cut(n, size)
        };
        log.commit(&last).unwrap();
        drop(log);
        let (log, state) = open(&disk).unwrap();
        assert!(state.ended && state.cut == n);
        n += 1;
        log.commit(&cut(n, 1)).unwrap();
    }
}

/// A cut that tells of these files of these sinks.
fn written(files: &[(&str, &str, u64)]) -> Cut {
    let position = |&(sink, identity, length): &(&str, &str, u64)| SinkPosition {
        sink: sink.into(),
        identity: identity.into(),
        length,
    };
    Cut {
        sinks: files.iter().map(position).collect(),
        ..Cut::default()
    }
}

/// The positions that a log has, as `identity length`.
fn files_of(state: &Recovered, sink: &str) -> Vec<String> {
    let own = state.sinks.iter().filter(|known| known.sink == sink);
    own.map(|known| format!("{} {}", known.identity, known.length))
        .collect()
}

#[test]
fn every_file_that_a_sink_wrote_is_remembered_and_the_last_is_the_one_it_writes() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    let runs = [
        written(&[("a", "", 10), ("b", "one", 5)]),
        written(&[("a", "one", 20)]),
        written(&[("a", "two", 30), ("b", "two", 7)]),
        written(&[("a", "one", 25)]),
    ];
    for run in &runs {
        log.commit(run).unwrap();
    }
    drop(log);
    // From the cuts, then from a snapshot.
    for compacted in [false, true] {
        let (log, state) = open(&disk).unwrap();
        assert_eq!(files_of(&state, "a"), ["two 30", "one 25"]);
        assert_eq!(files_of(&state, "b"), ["one 5", "two 7"]);
        assert_eq!(state.sink("a").map(|known| known.length), Some(25));
        assert!(state.sink("c").is_none());
        if !compacted {
            let mut longest = 0;
            while disk.bytes(Path::new(LOG)).len() >= longest {
                longest = disk.bytes(Path::new(LOG)).len();
                let large = waits(vec![entry(1, 10_000)], &[]);
                log.commit(&large).unwrap();
            }
        }
    }
}

#[test]
fn of_a_sink_with_very_many_files_the_oldest_are_forgotten() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    log.commit(&written(&[("b", "one", 5)])).unwrap();
    for n in 0..1500_u64 {
        let name = format!("day-{n}");
        log.commit(&written(&[("a", &name, n)])).unwrap();
    }
    drop(log);
    let (_, state) = open(&disk).unwrap();
    let files = files_of(&state, "a");
    assert_eq!(files.len(), 1000);
    assert_eq!(
        (files[0].as_str(), files[999].as_str()),
        ("day-500 500", "day-1499 1499")
    );
    assert_eq!(files_of(&state, "b"), ["one 5"]);
}

#[test]
fn a_crash_at_any_fsync_or_torn_append_leaves_a_whole_number_of_cuts() {
    let crashes = (1..=12).flat_map(|n| {
        [
            Crash::BeforeSync(n),
            Crash::AfterSync(n),
            Crash::TornAppend(n),
        ]
    });
    let mut crashed = 0;
    for crash in crashes {
        for kept in [0, 1, 7, 40, usize::MAX] {
            let disk = MemoryDisk::new();
            disk.crash_at(crash);
            let mut answered = 0;
            if let Ok((log, _)) = open(&disk) {
                for n in 1..=8 {
                    if log.commit(&cut(n, 1)).is_err() {
                        break;
                    }
                    answered = n;
                }
                if disk.has_crashed() {
                    assert!(
                        log.commit(&cut(99, 1)).is_err(),
                        "a failed log must not go on"
                    );
                }
            }
            crashed += u32::from(disk.has_crashed());
            let after = disk.restart(kept);
            let (log, state) = open(&after).unwrap();
            assert!(
                state.cut == answered || state.cut == answered + 1,
                "{crash:?} kept {kept}: {answered} cuts were answered, {} are there",
                state.cut
            );
            if state.cut > 0 {
                assert_eq!(state.sinks[0].length, state.cut * 100);
                assert_eq!(in_flight(&state).last(), Some(&entry(state.cut, 1)));
            }
            let next = state.cut + 1;
            assert_eq!(log.commit(&cut(next, 1)).unwrap(), next);
            assert_eq!(open(&after.restart(0)).unwrap().1.cut, next);
        }
    }
    assert!(crashed > 100, "only {crashed} crashes happened");
}

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
fn damage_before_the_end_is_refused_with_its_byte() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    for n in 1..=3 {
        log.commit(&cut(n, 1)).unwrap();
    }
    drop(log);
    let mut bytes = disk.bytes(Path::new(LOG));
    bytes[40] ^= 1;
    disk.replace(Path::new(LOG), &bytes).unwrap();
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("byte 16"), "{error}");
    disk.replace(Path::new(LOG), b"something else entirely")
        .unwrap();
    assert!(
        open(&disk)
            .unwrap_err()
            .to_string()
            .contains("not a commit log")
    );
}

/// Where each entry of a log begins, and at last where the log ends.
fn entries(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![HEADER];
    while let Some(length) = log[ends[ends.len() - 1]..].first_chunk::<4>() {
        let end = ends[ends.len() - 1] + ENTRY_HEADER + u32::from_le_bytes(*length) as usize;
        ends.push(end);
    }
    ends
}

fn log_of(cuts: u64) -> (MemoryDisk, Vec<u8>) {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    for n in 1..=cuts {
        log.commit(&cut(n, 1)).unwrap();
    }
    let bytes = disk.bytes(Path::new(LOG));
    (disk, bytes)
}

fn open_bytes(disk: &MemoryDisk, bytes: &[u8]) -> Result<Recovered, CommitLogError> {
    disk.replace(Path::new(LOG), bytes).unwrap();
    open(disk).map(|(_, state)| state)
}

#[test]
fn no_flipped_bit_before_the_last_entry_loses_a_cut() {
    let (disk, good) = log_of(4);
    let entries = entries(&good);
    assert_eq!(entries.len(), 5);
    for at in HEADER..entries[3] {
        let begin = entries.iter().rfind(|&&begin| begin <= at).unwrap();
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let error = open_bytes(&disk, &bytes).unwrap_err().to_string();
            assert!(
                error.contains(&format!("(byte {begin})")),
                "byte {at}, bit {bit}: {error}"
            );
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_entry_costs_at_most_that_entry() {
    let (disk, good) = log_of(3);
    let entries = entries(&good);
    for at in entries[2]..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            match open_bytes(&disk, &bytes) {
                // A wrong header with a payload behind it was not torn.
                Err(error) => assert!(at < entries[2] + ENTRY_HEADER, "byte {at}: {error}"),
                Ok(state) => {
                    assert!(at >= entries[2] + ENTRY_HEADER, "byte {at}");
                    assert_eq!(state.cut, 2, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_torn_write_is_a_cut_that_never_was() {
    let (disk, good) = log_of(3);
    let last = entries(&good)[2];
    for at in last..good.len() {
        assert_eq!(open_bytes(&disk, &good[..at]).unwrap().cut, 2, "{at}");
        // The file has its length but not all of its bytes.
        let mut bytes = good.clone();
        bytes[at..].fill(0);
        assert_eq!(open_bytes(&disk, &bytes).unwrap().cut, 2, "{at}");
        bytes.extend([0; 4096]);
        assert_eq!(open_bytes(&disk, &bytes).unwrap().cut, 2, "{at}");
    }
}

#[test]
fn cuts_out_of_order_are_refused_with_both_numbers() {
    let (disk, good) = log_of(3);
    let at = entries(&good);
    let first = &good[..at[1]];
    let (second, third) = (&good[at[1]..at[2]], &good[at[2]..]);
    for (bytes, why) in [
        ([first, third].concat(), "cut 3 follows cut 1"),
        ([first, second, second].concat(), "cut 2 follows cut 2"),
        ([&good[..HEADER], second].concat(), "cut 2 follows cut 0"),
    ] {
        let error = open_bytes(&disk, &bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(open_bytes(&disk, &good).unwrap().cut, 3);
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

/// Opens the log, which somebody has.
fn locked(disk: &MemoryDisk) {
    let error = open(disk).unwrap_err();
    assert!(matches!(error, CommitLogError::Locked { .. }), "{error}");
}

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

#[cfg(unix)]
#[test]
fn a_file_that_was_removed_or_replaced_cannot_be_synced() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out/out.jsonl");
    let removed = |file: &mut Box<dyn AppendFile>| {
        file.append(b"lost\n").unwrap();
        let error = file.sync().unwrap_err().to_string();
        assert!(error.contains("was removed or replaced"), "{error}");
    };
    let mut file = Disk.open_append(&path).unwrap();
    file.append(b"kept\n").unwrap();
    file.sync().unwrap();
    // Where it is now nobody looks for it, until it is back.
    for (from, to) in [("out/out.jsonl", "moved"), ("out", "elsewhere")] {
        let (from, to) = (place.path().join(from), place.path().join(to));
        std::fs::rename(&from, &to).unwrap();
        removed(&mut file);
        std::fs::rename(&to, &from).unwrap();
        file.sync().unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    removed(&mut file);
    let mut file = Disk.open_append(&path).unwrap();
    Disk.replace(&path, b"new").unwrap();
    removed(&mut file);
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

#[test]
fn arbitrary_bytes_never_panic() {
    let disk = MemoryDisk::new();
    let (log, _) = open(&disk).unwrap();
    log.commit(&cut(1, 1)).unwrap();
    drop(log);
    let good = disk.bytes(Path::new(LOG));
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] = bytes[at].wrapping_add(0x55);
        disk.replace(Path::new(LOG), &bytes).unwrap();
        let _ = open(&disk);
        disk.replace(Path::new(LOG), &good[..at]).unwrap();
        let (_, state) = open(&disk).unwrap();
        assert_eq!(state.cut, 0, "a log cut at byte {at}");
    }
}

fn open_directory(
    path: &Path,
) -> Result<(StateDirectory, FileCommitLog, Recovered), CommitLogError> {
    StateDirectory::open(path, Arc::new(Disk))
}

#[test]
fn a_state_directory_has_one_process_and_keeps_its_key() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let (first, log, _) = open_directory(&path).unwrap();
    assert!(matches!(
        open_directory(&path),
        Err(CommitLogError::Locked { .. })
    ));
    drop(log);
    let key = first.key().to_hex();
    // What older versions locked is a file like others.
    std::fs::write(path.join("lock"), "").unwrap();
    assert_eq!(open_directory(&path).unwrap().0.key().to_hex(), key);
    std::fs::write(path.join("key"), "short").unwrap();
    assert!(
        open_directory(&path)
            .unwrap_err()
            .to_string()
            .contains("64 hexadecimal")
    );
}

#[test]
fn a_state_directory_is_its_own_or_empty() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let refused = |file: &str, bytes: &[u8]| {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(file), bytes).unwrap();
        let error = open_directory(&path).unwrap_err();
        assert!(matches!(error, CommitLogError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        assert_eq!(std::fs::read(path.join(file)).unwrap(), bytes);
        std::fs::remove_dir_all(&path).unwrap();
    };
    refused("notes.txt", b"mine");
    refused("commit.log", b"a log of git");
    // What a start leaves that was cut short, at any point.
    for (file, bytes) in [
        ("commit.log", &b""[..]),
        ("commit.log", b"TG"),
        ("key.new", b""),
    ] {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(file), bytes).unwrap();
        drop(open_directory(&path).unwrap());
        // Beside a log may lie what its owner puts there.
        std::fs::write(path.join("notes.txt"), "mine").unwrap();
        drop(open_directory(&path).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn the_real_disk_appends_truncates_and_replaces() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out/deep/answers.jsonl");
    assert_eq!(Disk.read(&path).unwrap(), None);
    let mut file = Disk.open_append(&path).unwrap();
    file.append(b"one\ntwo\n").unwrap();
    file.sync().unwrap();
    file.truncate(4).unwrap();
    file.append(b"three\n").unwrap();
    assert_eq!(file.length().unwrap(), 10);
    assert_eq!(Disk.read(&path).unwrap().unwrap(), b"one\nthree\n");
    Disk.replace(&path, b"new").unwrap();
    assert_eq!(Disk.read(&path).unwrap().unwrap(), b"new");
}

#[cfg(unix)]
#[test]
fn a_file_is_made_where_links_lead_that_lead_nowhere_yet() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    symlink("deep/missing", at("file")).unwrap();
    symlink("nowhere/./below", at("directory")).unwrap();
    for (name, real) in [
        ("file", "deep/missing"),
        ("directory/file", "nowhere/below/file"),
        ("deep/../other", "other"),
    ] {
        let real = place.path().canonicalize().unwrap().join(real);
        assert_eq!(Disk.real_path(&at(name)), real, "{name}");
        Disk.open_append(&at(name)).unwrap().append(b"1").unwrap();
        assert_eq!(std::fs::read(&real).unwrap(), b"1", "{name}");
    }
}
