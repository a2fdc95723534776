//! What a committer of transactions promises.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::Offset;
use tidegate_connect::kafka::KafkaSinkOptions;
use tidegate_contract::{
    Assignment, Committer, Cut, DeadLetter, HostHeaders, Keeper, Mark, Settled, Sink, Source,
    SourceEvent, Store, TaskCut, TaskId,
};
use tidegate_record::RecordId;

use crate::broker::{alter, brokers, records, topic};
use crate::worker::{Nobody, Setup, Worker};
use crate::{DEADLINE, Seen, TRACED, WAIT, numbers, options, produce, read_to_end};

/// What a reader of committed records sees of a topic with one partition.
fn committed(topic: &str) -> Vec<String> {
    read_to_end(options(topic, &format!("{topic}-reader")), 1).values()
}

/// That is what such a reader sees: a broker answers a commit before its markers are in the topic, so it may take a moment.
fn is_seen(topic: &str, expected: Vec<String>) {
    let began = Instant::now();
    let mut found = committed(topic);
    while found != expected && began.elapsed() < DEADLINE {
        found = committed(topic);
    }
    assert_eq!(found, expected);
}

/// What such a reader sees, once there is so much of it.
fn until_seen(topic: &str, count: usize) -> Vec<String> {
    let began = Instant::now();
    let mut found = committed(topic);
    while found.len() < count && began.elapsed() < DEADLINE {
        found = committed(topic);
    }
    found
}

fn all(range: std::ops::Range<u32>) -> Vec<String> {
    numbers(range).collect()
}

/// The group's offset and what stands beside it.
fn offset(group: &str, number: i32) -> (Offset, String) {
    let asker: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition(group, number);
    let list = asker
        .committed_offsets(list, Duration::from_secs(20))
        .unwrap();
    let element = &list.elements()[0];
    (element.offset(), element.metadata().to_owned())
}

fn topics(name: &str) -> (String, String) {
    (topic(name, 1), topic(&format!("{name}-out"), 1))
}

#[test]
fn output_is_seen_once_its_cut_holds_and_not_before() {
    let (input, output) = topics("txn-once");
    produce(&input, numbers(0..300));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    worker.until(|worker| worker.read.len() >= 100);
    assert!(worker.sink.pending() > 0);
    assert_eq!(committed(&output), Vec::<String>::new());
    let first = worker.read.len();
    assert_eq!(worker.cut(), Settled::Committed { number: 1 });
    assert_eq!(worker.sink.pending(), 0);
    is_seen(&output, all(0..first as u32));
    let (at, metadata) = offset(&input, 0);
    assert_eq!(at, Offset::Offset(first as i64));
    let mark = Mark::read(&metadata).unwrap().unwrap();
    let keeper = Keeper {
        store: Store::Changelog(format!("{input}-changelog")),
        instance: String::new(),
    };
    assert_eq!((mark.keeper, mark.cut), (Some(keeper), 1), "{metadata}");
    assert_eq!(mark.source, "tickets");
    worker.until(|worker| worker.read.len() == 300);
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    // Nothing was done since: nothing is written, and the last cut stays the last.
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    is_seen(&output, all(0..300));
    worker.close();
}

#[test]
fn what_is_written_while_a_cut_is_under_way_is_part_of_the_next() {
    let (input, output) = topics("txn-held");
    produce(&input, numbers(0..1000));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    let mut cuts = 0;
    let mut written = 0;
    while worker.read.len() < 1000 {
        worker.begin();
        let before = worker.read.len();
        // The worker goes on before it asks what became of the cut.
        worker.poll(70);
        written += worker.read.len() - before;
        assert!(worker.read.len() == before || worker.sink.pending() > 0);
        worker.settle_any();
        assert_eq!((worker.aborts, worker.fenced), (0, 0));
        cuts += 1;
        assert!(cuts < 1000);
    }
    assert!(written > 0);
    worker.cut();
    is_seen(&output, all(0..1000));
    worker.close();
}

#[test]
fn a_worker_that_is_slower_than_a_transaction_lives_commits_all_the_same() {
    let (input, output) = topics("txn-slow");
    produce(&input, numbers(0..100));
    let mut setup = Setup::new(&input, &output, "a");
    setup.transactions.transaction_timeout = Duration::from_secs(2);
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 100);
    assert!(worker.sink.pending() > 0);
    // Brokers look every 10 s which transactions have outlived their timeout.
    std::thread::sleep(Duration::from_secs(14));
    assert_eq!(worker.cut(), Settled::Committed { number: 1 });
    is_seen(&output, all(0..100));
    worker.close();
}

#[test]
fn what_the_topic_takes_is_part_of_a_cut_however_much_it_is() {
    let (input, output) = topics("txn-large");
    let large = "x".repeat(1_030_000);
    let values = ["before".to_owned(), large, "after".to_owned()];
    let mut sink = crate::sink(&input);
    for value in &values {
        let record = tidegate_record::NewRecord {
            value: Some(value.as_bytes()),
            ..Default::default()
        };
        crate::write(&mut sink, &record).unwrap();
    }
    sink.flush().unwrap();
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    worker.until(|worker| worker.read.len() == 3);
    assert_eq!(worker.cut(), Settled::Committed { number: 1 });
    is_seen(&output, values.to_vec());
    worker.close();
}

#[test]
fn a_limit_that_a_later_sink_sets_holds_for_all_of_them() {
    let (input, output) = topics("txn-limits");
    produce(&input, numbers(0..3));
    let setup = Setup::new(&input, &output, "a");
    let mut committer = setup.committer(1).unwrap();
    let mut first = committer
        .sink(KafkaSinkOptions::new(brokers(), &output, "p"), "first")
        .unwrap();
    let mut small = KafkaSinkOptions::new(brokers(), topic("txn-limits-small", 1), "p");
    small.properties = [("message.max.bytes".to_owned(), "5000".to_owned())].into();
    let _second = committer.sink(small, "second").unwrap();
    committer.follow("tickets", &setup.source()).unwrap();
    // With what a message has beside its value, 4,990 bytes are more, too.
    for bytes in [6000, 4990] {
        let mut builder = tidegate_record::BatchBuilder::default();
        let record = tidegate_record::NewRecord {
            value: Some(&[b'x'; 6000][..bytes]),
            ..Default::default()
        };
        builder.push(&record).unwrap();
        let batch = builder.finish(0);
        let written = first.write(
            batch.view().get(0).unwrap().public(),
            HostHeaders::default(),
        );
        let said = written.unwrap_err().to_string();
        assert!(
            said.contains("exceed message.max.bytes 5000, a property"),
            "{said}"
        );
    }
}

#[test]
fn what_waits_is_cut_to_what_the_sinks_let_the_producer_send() {
    let (input, output) = topics("txn-small-messages");
    produce(&input, numbers(0..10));
    let mut setup = Setup::new(&input, &output, "a");
    setup.sink = [("message.max.bytes".to_owned(), "100000".to_owned())].into();
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 10);
    let payload: Vec<u8> = (0..400_000_u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let kept = crate::changelog::entry(3, &payload);
    worker.cuts.entry(0).or_default().put.push(kept.clone());
    assert_eq!(worker.cut(), Settled::Committed { number: 1 });
    drop(worker);
    let mut next = Worker::open(&setup);
    next.until(|next| !next.images.is_empty());
    assert_eq!(next.images[&0].entries, [(kept.key, kept.payload)].into());
    next.close();
}

#[test]
fn what_is_written_while_a_cut_is_under_way_goes_with_it_if_it_is_aborted() {
    let (input, output) = topics("txn-held-aborted");
    produce(&input, numbers(0..200));
    let setup = Setup::new(&input, &output, "a");
    let mut worker = Worker::open(&setup);
    for _ in 0..2 {
        worker.read.clear();
        worker.until(|worker| worker.read.len() >= 100);
        // Somebody connects under its name, so that its transaction is over.
        let mut other = setup.committer(1).unwrap();
        other.load(&[]).unwrap();
        worker.begin();
        worker.poll(50);
        worker.poll(50);
        assert!(worker.sink.pending() > 0);
        let settled = worker.settle();
        assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
        assert_eq!(worker.sink.pending(), 0);
    }
    worker.read.clear();
    worker.until(|worker| worker.read.len() == 200);
    assert_eq!(worker.read, all(0..200));
    assert!(matches!(worker.cut(), Settled::Committed { number: 1 }));
    is_seen(&output, all(0..200));
    worker.close();
}

#[test]
fn the_open_transaction_of_a_killed_worker_is_aborted_and_its_input_read_again() {
    let (input, output) = topics("txn-killed");
    produce(&input, numbers(0..200));
    let setup = Setup::new(&input, &output, "a");
    let mut killed = Worker::open(&setup);
    killed.until(|worker| worker.read.len() >= 100);
    let cut = killed.read.len() as u32;
    killed.cut();
    killed.until(|worker| worker.read.len() == 200);
    // Its threads go on, as those of a killed process would not, until they are fenced.
    std::mem::forget(killed);
    setup.leave_open();
    assert_eq!(records(&output, "read_uncommitted").len() as u32, cut + 1);
    let mut worker = Worker::open(&setup);
    worker.until(|worker| !worker.read.is_empty());
    worker.until(|worker| worker.read.len() as u32 == 200 - cut);
    assert_eq!(worker.read, all(cut..200));
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    is_seen(&output, all(0..200));
    worker.close();
}

#[test]
fn a_zombie_is_fenced_once_its_partitions_moved() {
    let (input, output) = topics("txn-zombie");
    produce(&input, numbers(0..100));
    let mut setup = Setup::new(&input, &output, "a");
    setup.transactions.transaction_timeout = Duration::from_secs(60);
    let mut zombie = Worker::open(&setup);
    zombie.until(|worker| worker.read.len() == 100);
    // Its partitions are another's, who has its name in the group. Its producer is its own, and nobody ended its
    // transaction: only the group can fence it.
    let mut other = setup.clone();
    other.transactions.transactional_id.push('b');
    let mut worker = Worker::open(&other);
    worker.until(|worker| worker.read.len() == 100);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    let settled = zombie.cut();
    assert!(matches!(settled, Settled::Fenced { .. }), "{settled:?}");
    produce(&input, numbers(100..200));
    worker.until(|worker| worker.read.len() == 200);
    worker.cut();
    is_seen(&output, all(0..200));
    worker.close();
}

#[test]
fn a_second_producer_of_the_same_name_ends_the_first_ones_transactions() {
    let (input, output) = topics("txn-name");
    produce(&input, numbers(0..100));
    let setup = Setup::new(&input, &output, "a");
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 100);
    // Somebody connects under its name: its open transaction is over, its group is not.
    let mut other = setup.committer(1).unwrap();
    other.load(&[]).unwrap();
    let settled = worker.cut();
    assert!(matches!(settled, Settled::Aborted { .. }), "{settled:?}");
    worker.until(|worker| worker.read.len() == 200);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    is_seen(&output, all(0..100));
    worker.close();
}

#[test]
fn a_refused_record_is_found_among_many_and_all_others_are_committed() {
    let (input, output) = topics("txn-refused");
    let large = "x".repeat(5000);
    let value = |number: u32| match number {
        617 => format!("617 {large}"),
        number => number.to_string(),
    };
    produce(&input, (0..1000).map(value));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    // The sink knows nothing of it.
    alter(&output, "max.message.bytes", "4000");
    worker.until(|worker| worker.read.len() == 1000);
    let settled = worker.cut();
    let Settled::Aborted { refused, .. } = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(refused.len(), 1, "{}", refused.len());
    let (sink, record) = &refused[0];
    assert_eq!((sink.as_str(), record.id.offset), ("answers", 617));
    assert_eq!(record.value.as_deref(), Some(value(617).as_bytes()));
    assert!(record.reason.contains(&output) && record.reason.contains("larger"));
    assert_eq!(committed(&output), Vec::<String>::new());
    worker.read.clear();
    let settled = until_committed(&mut worker, 1000);
    assert!(matches!(settled, Settled::Committed { number: 1 }));
    let expected: Vec<String> = (0..1000)
        .filter(|number| *number != 617)
        .map(value)
        .collect();
    is_seen(&output, expected);
    worker.close();
}

#[test]
fn a_record_that_is_too_large_with_headers_of_the_host_is_committed_without_them() {
    let (input, output) = topics("txn-host-headers");
    // Twice that, as key and value: the first has no room for 66 bytes more, the second none at all.
    let value = |number: u32| match number {
        17 | 230 => format!("{number} {}", "x".repeat(1930)),
        77 => format!("77 {}", "x".repeat(5000)),
        number => number.to_string(),
    };
    produce(&input, (0..300).map(value));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    worker.host = TRACED;
    // The sink knows nothing of it.
    alter(&output, "max.message.bytes", "4000");
    worker.until(|worker| worker.read.len() == 300);
    worker.cut();
    let settled = until_committed(&mut worker, 300);
    assert!(matches!(settled, Settled::Committed { .. }));
    assert!(worker.aborts < 4, "{}", worker.aborts);
    let refused: Vec<u64> = worker.refused.iter().map(|one| one.id.offset).collect();
    assert_eq!(refused, [77]);
    until_seen(&output, 299);
    let read = read_to_end(options(&output, &format!("{output}-reader")), 1);
    let written = read.records.iter().map(|seen| {
        let text = String::from_utf8_lossy(seen.value.as_deref().unwrap_or_default());
        (text.into_owned(), seen.headers.len())
    });
    let expected = (0..300).filter(|number| *number != 77);
    let expected = expected.map(|number| {
        let is_narrow = matches!(number, 17 | 230);
        (value(number), usize::from(!is_narrow))
    });
    assert!(written.eq(expected));
    worker.close();
}

/// Reads so many records anew, and cuts, until a cut of all of them holds.
fn until_committed(worker: &mut Worker, records: usize) -> Settled {
    let deadline = Instant::now() + DEADLINE;
    loop {
        worker.read.clear();
        worker.until(|worker| worker.read.len() == records);
        match worker.cut() {
            Settled::Aborted { .. } => assert!(Instant::now() < deadline),
            settled => return settled,
        }
    }
}

#[test]
fn many_records_at_fault_cost_few_aborts() {
    let (input, output) = topics("txn-many");
    produce(&input, numbers(0..3000));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    alter(&output, "max.message.bytes", "3000");
    let large = vec![b'x'; 4000];
    worker.until(|worker| worker.read.len() == 3000);
    // Not of the input: the same record brings more.
    for offset in (0..3000).step_by(500) {
        let id = RecordId {
            offset,
            ..RecordId::default()
        };
        let mut builder = tidegate_record::BatchBuilder::default();
        let record = tidegate_record::NewRecord {
            id,
            value: Some(&large),
            ..Default::default()
        };
        builder.push(&record).unwrap();
        let batch = builder.finish(0);
        worker
            .sink
            .write(
                batch.view().get(0).unwrap().public(),
                HostHeaders::default(),
            )
            .unwrap();
    }
    let settled = worker.cut();
    let Settled::Aborted { refused, .. } = settled else {
        panic!("{settled:?}");
    };
    let found: BTreeSet<u64> = refused.iter().map(|(_, record)| record.id.offset).collect();
    assert_eq!(found, (0..3000).step_by(500).collect());
    worker.refused.clear();
    assert!(matches!(
        until_committed(&mut worker, 3000),
        Settled::Committed { .. }
    ));
    assert!(worker.aborts < 5, "{}", worker.aborts);
    is_seen(&output, all(0..3000));
    worker.close();
}

/// Letters of 100 kB, to a topic whose setting changed since it was opened: as they came in the end.
fn letters_to(setting: &str, value: &str) -> Vec<Seen> {
    let (input, output) = topics("txn-letter");
    produce(&input, numbers(0..10));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    alter(&output, setting, value);
    let large = vec![b'y'; 100_000];
    let letter = |offset| DeadLetter {
        id: RecordId {
            offset,
            ..RecordId::default()
        },
        source: "tickets",
        input: None,
        stage: "redact",
        reason: "trap",
        component: None,
        backtrace: None,
        attempts: 1,
        key: None,
        value: Some(&large),
        length: large.len() as u64,
        ..DeadLetter::default()
    };
    let mut tries = 0;
    loop {
        worker.until(|worker| worker.next.get(&0) == Some(&10));
        for offset in 0..3 {
            worker.sink.write_dead(&letter(offset)).unwrap();
        }
        tries += 1;
        assert!(tries < 4);
        if let Settled::Committed { .. } = worker.cut() {
            break;
        }
    }
    assert!(tries > 1);
    worker.close();
    let began = Instant::now();
    loop {
        let mut seen = read_to_end(options(&output, &format!("{output}-reader")), 1).records;
        seen.retain(|seen| seen.value.as_ref().unwrap().len() > 10);
        // A broker answers a commit before its markers are in the topic.
        if seen.len() >= 3 || began.elapsed() > DEADLINE {
            assert_eq!(seen.len(), 3);
            return seen;
        }
    }
}

#[test]
fn a_dead_letter_that_is_refused_is_cut_and_committed() {
    for seen in letters_to("max.message.bytes", "1200") {
        let dead: serde_json::Value = serde_json::from_slice(&seen.value.unwrap()).unwrap();
        assert_eq!(dead["cut"]["value"], 100_000);
    }
}

#[test]
fn dead_letters_have_keys_once_their_topic_is_compacted() {
    for seen in letters_to("cleanup.policy", "compact") {
        let key = seen.key.unwrap();
        assert!(key.starts_with(b"support-bot/tickets/0/"), "{key:?}");
    }
}

#[test]
fn two_sources_of_a_worker_are_part_of_one_transaction() {
    let (first, output) = topics("txn-first");
    let second = topic("txn-second", 1);
    produce(&first, numbers(0..40));
    produce(&second, numbers(40..60));
    let mut setup = Setup::new(&first, &output, "a");
    let mut other = Setup::new(&second, &output, "a").transactions.changelogs;
    other[0].source = "orders".into();
    setup.transactions.changelogs.extend(other);
    let mut committer = setup.committer(1).unwrap();
    let sink = KafkaSinkOptions::new(brokers(), &output, "support-bot");
    let mut sink = committer.sink(sink, "answers").unwrap();
    let names = ["tickets", "orders"];
    let mut sources = [setup.source(), Setup::new(&second, &output, "a").source()];
    for (name, source) in names.iter().zip(&sources) {
        committer.follow(name, source).unwrap();
    }
    let id = |name: &str| TaskId {
        source: name.to_owned(),
        partition: 0,
    };
    let mut next = BTreeMap::from([(id("tickets"), 0), (id("orders"), 0)]);
    let deadline = Instant::now() + DEADLINE;
    while next[&id("tickets")] < 40 || next[&id("orders")] < 20 {
        assert!(Instant::now() < deadline, "{next:?}");
        for (name, source) in names.iter().zip(&mut sources) {
            match source.poll(100, 1 << 20, WAIT).unwrap() {
                SourceEvent::Assigned(assigned) => {
                    let task = Assignment {
                        task: id(name),
                        identity: String::new(),
                        kept: assigned[0].kept.clone(),
                    };
                    committer.load(&[task]).unwrap();
                }
                SourceEvent::Records {
                    batch, next: at, ..
                } => {
                    for record in batch.view().records() {
                        sink.write(record.public(), HostHeaders::default()).unwrap();
                    }
                    next.insert(id(name), at);
                }
                _ => {}
            }
        }
    }
    let tasks = next.into_iter().map(|(task, position)| {
        let cut = TaskCut {
            position: Some(position),
            ..TaskCut::default()
        };
        (task, cut)
    });
    let cut = Cut {
        tasks: tasks.collect(),
        ..Cut::default()
    };
    committer.begin(cut, &mut Nobody).unwrap();
    let settled = loop {
        if let Some(settled) = committer.settled(WAIT).unwrap() {
            break settled;
        }
    };
    assert_eq!(settled, Settled::Committed { number: 1 });
    assert_eq!(offset(&first, 0).0, Offset::Offset(40));
    assert_eq!(offset(&second, 0).0, Offset::Offset(20));
    let [one, other] = [&first, &second].map(|topic| {
        let mark = Mark::read(&offset(topic, 0).1).unwrap().unwrap();
        (mark.cut, mark.life)
    });
    assert_eq!(one, other);
    let mut values = until_seen(&output, 60);
    values.sort_by_key(|value| value.parse::<u32>().unwrap());
    assert_eq!(values, all(0..60));
}

/// Works for so many rounds, once the group has formed; what was not committed by then is left as a kill leaves it.
fn work(setup: &Setup, rounds: u64, formed: &dyn Fn(usize) -> bool, done: &dyn Fn() -> bool) {
    let mut worker = Worker::open(setup);
    let mut left = rounds;
    while left > 0 && worker.fenced == 0 && !done() {
        worker.poll(150);
        left -= u64::from(formed(worker.next.len()));
        worker.settle_any();
        worker.begin();
        // What comes now is part of the next cut.
        worker.poll(50);
    }
    worker.settle_any();
    std::mem::forget(worker);
    setup.leave_open();
}

#[test]
fn workers_that_are_killed_and_come_again_neither_lose_nor_repeat() {
    let (input, output) = (topic("txn-kills", 4), topic("txn-kills-out", 1));
    let count = 9_000;
    produce(&input, numbers(0..count));
    let position = || -> i64 {
        let known = (0..4).map(|number| match offset(&input, number).0 {
            Offset::Offset(offset) => offset,
            _ => 0,
        });
        known.sum()
    };
    let ended = AtomicBool::new(false);
    // Partitions of each slot. A slot that comes again has those that it had: the group forms once. One that is killed
    // while it forms leaves it with a partition that nobody reads until the next change.
    let assigned = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|scope| {
        for slot in 0..3_usize {
            let (input, output, ended, assigned) = (&input, &output, &ended, &assigned);
            scope.spawn(move || {
                let setup = Setup::new(input, output, &format!("slot-{slot}"));
                let formed = |partitions| {
                    assigned[slot].store(partitions, Ordering::Release);
                    let all = assigned.iter().map(|of| of.load(Ordering::Acquire));
                    all.sum::<usize>() == 4
                };
                for life in 0.. {
                    // Some end at once, some later, each slot in its own order.
                    let rounds = 3 + (life * 7 + slot as u64 * 5) % 11;
                    work(&setup, rounds, &formed, &|| ended.load(Ordering::Acquire));
                    if ended.load(Ordering::Acquire) {
                        return;
                    }
                }
            });
        }
        let deadline = Instant::now() + 3 * DEADLINE;
        while position() < i64::from(count) {
            assert!(Instant::now() < deadline || ended.swap(true, Ordering::AcqRel));
            std::thread::sleep(Duration::from_millis(500));
        }
        ended.store(true, Ordering::Release);
    });
    let mut values = until_seen(&output, count as usize);
    let (seen, expected) = (values.len(), count as usize);
    values.sort_by_key(|value| value.parse::<u32>().unwrap());
    values.dedup();
    assert_eq!((seen, values.len()), (expected, expected));
    // It was put to the test: there are records of transactions that were not committed.
    assert!(records(&output, "read_uncommitted").len() > expected);
}

#[test]
fn a_worker_whose_name_was_taken_over_by_one_that_is_gone_goes_on() {
    let (input, output) = topics("txn-taken-over");
    produce(&input, numbers(0..100));
    let setup = Setup::new(&input, &output, "a");
    let mut worker = Worker::open(&setup);
    worker.until(|worker| worker.read.len() == 100);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    produce(&input, numbers(100..200));
    worker.until(|worker| worker.read.len() == 200);
    // The same name reads the same, and commits nothing.
    let mut other = setup.source();
    let deadline = Instant::now() + DEADLINE;
    let reads = |event| matches!(event, SourceEvent::Assigned(_));
    while !reads(other.poll(100, 1 << 20, WAIT).unwrap()) {
        assert!(Instant::now() < deadline);
    }
    drop(other);
    worker.begin();
    let settled = worker.settle();
    assert!(matches!(settled, Settled::Fenced { .. }), "{settled:?}");
    worker.read.clear();
    worker.until(|worker| worker.read.len() == 100);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    let mut seen: Vec<u32> = until_seen(&output, 200)
        .iter()
        .map(|value| value.parse().unwrap())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    worker.close();
}
