//! What a cut says is there again, and what is not in it is not.

use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{
    CommitError, CommitLog, Committer, Cut, FileLayer as _, Keeper, MoveState, Moved, Participants,
    Recovered, SinkPosition, Store, TaskCut,
};
use tidegate_state::{Cuts, FileCommitLog, LogCommitter, MemoryDisk};

use crate::{LOG, cut, entry, in_flight, open, task};

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
            length: 700,
            head: String::new(),
            ended: false,
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
fn whether_the_run_that_wrote_a_file_has_ended_is_part_of_its_position() {
    let disk = MemoryDisk::new();
    let file = |sink: &str, length, ended| SinkPosition {
        sink: sink.into(),
        identity: format!("/out/{sink}"),
        length,
        head: String::new(),
        ended,
    };
    let mut n = 0;
    for size in [1, 10_000] {
        let (log, _) = open(&disk).unwrap();
        // One that a run left that was cut short, and that the next ones do not write.
        let left = Cut {
            sinks: vec![file("left", 7, false)],
            ..Cut::default()
        };
        log.commit(&left).unwrap();
        n += 1;
        // The long entries have the log compacted.
        for _ in 0..50 {
            n += 1;
            log.commit(&cut(n, size)).unwrap();
        }
        let ended = Cut {
            sinks: vec![file("written", n, true)],
            ..Cut::default()
        };
        log.commit(&ended).unwrap();
        n += 1;
        drop(log);
        let said = |state: &Recovered| {
            let of = |sink| state.sink(sink).map(|known| known.ended);
            (of("left"), of("written"))
        };
        let (log, state) = open(&disk).unwrap();
        assert_eq!(said(&state), (Some(false), Some(true)));
        // What happens to others says nothing of it.
        log.commit(&cut(n + 1, 1)).unwrap();
        n += 1;
        drop(log);
        let (log, state) = open(&disk).unwrap();
        assert_eq!(said(&state), (Some(false), Some(true)));
        let begun = Cut {
            sinks: vec![file("written", n, false)],
            ..Cut::default()
        };
        log.commit(&begun).unwrap();
        n += 1;
        drop(log);
        let (_, state) = open(&disk).unwrap();
        assert_eq!(said(&state), (Some(false), Some(false)));
    }
}

/// A log of such bodies, as it was written when only the last entry said whether the run had ended.
fn older(bodies: &[&str]) -> Vec<u8> {
    let mut log = b"TGCL\x02\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    for (number, body) in (1_u64..).zip(bodies) {
        let mut payload = vec![1];
        payload.extend(number.to_le_bytes());
        payload.extend((body.len() as u32).to_le_bytes());
        payload.extend(body.as_bytes());
        let mut header = (payload.len() as u32).to_le_bytes().to_vec();
        header.extend(crc32fast::hash(&payload).to_le_bytes());
        header.extend(crc32fast::hash(&header).to_le_bytes());
        log.extend([header, payload].concat());
    }
    log
}

#[test]
fn an_older_log_says_with_its_last_entry_whether_the_run_had_ended() {
    let one = r#"{"sinks":[{"sink":"a","identity":"one","length":5}]}"#;
    let two = r#"{"sinks":[{"sink":"a","identity":"two","length":6},{"sink":"b","length":7}]}"#;
    let end = r#"{"ended":true}"#;
    let with_audit = r#"{"sinks":[{"sink":"c","length":8,"head":"ab"}],"ended":true}"#;
    for (bodies, ended) in [
        (&[one, two][..], false),
        (&[one, two, end], true),
        (&[one, two, with_audit], true),
        (&[one, end, two], false),
        (&[one, two, end, "{}"], false),
    ] {
        let disk = MemoryDisk::new();
        disk.replace(Path::new(LOG), &older(bodies)).unwrap();
        let said = |state: &Recovered| {
            let said = state.sinks.iter().filter(|known| known.sink != "c");
            let said = said.map(|known| (known.identity.clone(), known.ended));
            said.collect::<Vec<_>>()
        };
        // What was left for another file was whole.
        let expected = [("one", true), ("two", ended), ("", ended)];
        let expected = expected.map(|(file, ended)| (file.to_owned(), ended));
        let (log, state) = open(&disk).unwrap();
        assert_eq!(said(&state), expected, "{bodies:?}");
        assert_eq!(state.cut, bodies.len() as u64);
        // From then on each says it itself.
        log.commit(&cut(state.cut + 1, 1)).unwrap();
        drop(log);
        let (_, state) = open(&disk.restart(0)).unwrap();
        assert_eq!(said(&state)[..3], expected, "{bodies:?}");
    }
}
