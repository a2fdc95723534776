//! What a committer promises when the brokers' answer to a commit is lost, or what is written while a refused record is
//! looked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use tidegate_contract::{Entry, EntryKey, EntryPart, Settled, TaskCut};

use crate::broker::{alter, topic};
use crate::proxy::{Loses, Proxy};
use crate::worker::{Setup, Worker};
use crate::{DEADLINE, numbers, options, produce, read_to_end};

/// A worker whose transactions go through a wire that loses things.
fn worker(name: &str, proxy: &Proxy) -> (Setup, Worker) {
    let (input, output) = (topic(name, 2), topic(&format!("{name}-out"), 1));
    produce(&input, numbers(0..100));
    let mut setup = Setup::new(&input, &output, "a");
    setup.transactions.brokers = proxy.address();
    setup.transactions.transaction_timeout = Duration::from_secs(3);
    let worker = Worker::open(&setup);
    (setup, worker)
}

/// What is committed, once there is so much of it.
fn committed(setup: &Setup, count: usize) -> Vec<u32> {
    let group = format!("{}-reader", setup.output);
    let deadline = Instant::now() + DEADLINE;
    // A broker answers a commit before its markers are in the topic.
    let mut read = Vec::new();
    while read.len() < count && Instant::now() < deadline {
        read = read_to_end(options(&setup.output, &group), 1).values();
    }
    let mut values: Vec<u32> = read.iter().map(|value| value.parse().unwrap()).collect();
    values.sort_unstable();
    values
}

fn entry(offset: u64, payload: &[u8]) -> Entry {
    Entry {
        key: EntryKey {
            stage: "ask".into(),
            offset,
            emit: 0,
            copy: 0,
            part: EntryPart::Record,
        },
        payload: payload.to_vec(),
    }
}

/// Has something wait in the next cut.
fn put(worker: &mut Worker, number: u32, entry: Entry) {
    let cut = TaskCut {
        put: vec![entry],
        ..TaskCut::default()
    };
    worker.cuts.insert(number, cut);
}

#[test]
fn a_commit_that_never_came_to_the_broker_is_found_not_to_hold() {
    let proxy = Proxy::open();
    let (setup, mut worker) = worker("unknown-request", &proxy);
    worker.until(|worker| worker.read.len() == 100);
    put(&mut worker, 0, entry(0, b"waits"));
    proxy.lose(Loses::Request);
    worker.begin();
    while proxy.lost() == 0 {
        assert_eq!(worker.committer_settled(), None);
    }
    let settled = worker.settle();
    proxy.lose(Loses::Nothing);
    assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
    assert!(worker.images.values().all(|image| image.entries.is_empty()));
    worker.read.clear();
    worker.until(|worker| worker.read.len() == 100);
    assert!(matches!(worker.cut(), Settled::Committed { number: 1 }));
    assert_eq!(committed(&setup, 100), (0..100).collect::<Vec<_>>());
    worker.close();
}

#[test]
fn a_commit_whose_answer_was_lost_is_found_to_hold() {
    let proxy = Proxy::open();
    let (setup, mut worker) = worker("unknown-answer", &proxy);
    worker.until(|worker| worker.read.len() == 100);
    put(&mut worker, 0, entry(0, b"waits"));
    proxy.lose(Loses::Answer);
    worker.begin();
    while proxy.lost() == 0 {
        assert_eq!(worker.committer_settled(), None);
    }
    let settled = worker.settle();
    assert!(
        matches!(settled, Settled::Committed { number: 1 }),
        "{settled:?}"
    );
    proxy.lose(Loses::Nothing);
    assert_eq!(committed(&setup, 100), (0..100).collect::<Vec<_>>());
    // It goes on from there.
    produce(&setup.input, numbers(100..200));
    worker.until(|worker| worker.read.len() == 200);
    assert!(matches!(worker.cut(), Settled::Committed { number: 2 }));
    assert_eq!(committed(&setup, 200), (0..200).collect::<Vec<_>>());
    worker.close();
    let mut again = Worker::open(&setup);
    again.until(|worker| worker.images.len() == 2);
    let waits = entry(0, b"waits");
    assert_eq!(
        again.images[&0].entries,
        [(waits.key, waits.payload)].into()
    );
    again.close();
}

#[test]
fn brokers_that_take_nothing_while_a_refused_record_is_looked_for_end_no_worker() {
    let proxy = Proxy::open();
    let (setup, mut worker) = worker("unknown-refused", &proxy);
    let large = "x".repeat(5000);
    produce(&setup.input, [large]);
    // The sink knows nothing of it.
    alter(&setup.output, "max.message.bytes", "4000");
    worker.until(|worker| worker.read.len() == 101);
    proxy.lose(Loses::WritesAfterEnd);
    let settled = worker.cut();
    assert!(proxy.lost() > 0, "nothing was looked for");
    proxy.lose(Loses::Nothing);
    assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
    let mut tries = 0;
    loop {
        worker.read.clear();
        worker.until(|worker| worker.read.len() == 101);
        match worker.cut() {
            Settled::Aborted { .. } if tries < 10 => tries += 1,
            settled => {
                assert!(matches!(settled, Settled::Committed { .. }), "{settled:?}");
                break;
            }
        }
    }
    assert_eq!(worker.refused.len(), 1);
    assert_eq!(committed(&setup, 100), (0..100).collect::<Vec<_>>());
    worker.close();
}

/// Hundredths of a second that each thread which commits has worked, by its number.
fn worked() -> BTreeMap<OsString, u64> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let times = threads.filter_map(|thread| {
        // `proc_pid_stat(5)`: the name is in parentheses; its times in and for the program are the 12th and 13th behind it.
        let line = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let (name, rest) = line.rsplit_once(") ")?;
        let mut times = rest
            .split(' ')
            .skip(11)
            .map(|time| time.parse::<u64>().unwrap());
        let both = times.next()? + times.next()?;
        name.contains("tidegate-commit")
            .then_some((thread.file_name(), both))
    });
    times.collect()
}

#[test]
fn a_cut_that_waits_for_brokers_leaves_them_the_processor() {
    let proxy = Proxy::open();
    let others = worked();
    let (_setup, mut worker) = worker("unknown-rests", &proxy);
    worker.until(|worker| worker.read.len() == 100);
    let mut before = worked();
    before.retain(|thread, _| !others.contains_key(thread));
    assert!(!before.is_empty());
    proxy.lose(Loses::Writes);
    // Each is waited for, and then taken back.
    for _ in 0..2 {
        let settled = worker.cut();
        assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
        worker.read.clear();
        worker.until(|worker| worker.read.len() == 100);
    }
    // One of them is its own; some may be those of other tests, which have much to do.
    let after = worked();
    let times = before.iter().filter_map(|(thread, before)| {
        let after = after.get(thread)?;
        Some(after.saturating_sub(*before))
    });
    let least = times.min().unwrap();
    assert!(least < 50, "worked for {least} hundredths of a second");
    proxy.lose(Loses::Nothing);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    worker.close();
}
