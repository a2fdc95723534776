//! Files that sinks wrote.

use std::path::Path;

use tidegate_contract::{CommitLog, Cut, Recovered, SinkPosition};
use tidegate_state::MemoryDisk;

use crate::{LOG, entry, open, waits};

/// A cut that tells of these files of these sinks.
fn written(files: &[(&str, &str, u64)]) -> Cut {
    let position = |&(sink, identity, length): &(&str, &str, u64)| SinkPosition {
        sink: sink.into(),
        identity: identity.into(),
        length,
        head: String::new(),
        ended: false,
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
