//! What a committer of transactions promises.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{Committer, DeadLetter, Settled};
use tidegate_record::RecordId;

use crate::broker::{alter, brokers, topic, topic_with};
use crate::worker::{Setup, Worker};
use crate::{DEADLINE, numbers, options, produce, read_to_end};

/// What a reader of committed records sees of a topic with one partition.
fn committed(topic: &str) -> Vec<String> {
    read_to_end(options(topic, &format!("{topic}-reader")), 1).values()
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
    assert_eq!(committed(&output), all(0..first as u32));
    let (at, metadata) = offset(&input, 0);
    assert_eq!(at, Offset::Offset(first as i64));
    assert!(metadata.starts_with("1 cut=1 life="), "{metadata}");
    worker.until(|worker| worker.read.len() == 300);
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    // Nothing was done since: nothing is written, and the last cut stays the last.
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    assert_eq!(committed(&output), all(0..300));
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
        assert!(matches!(worker.settle(), Settled::Committed { .. }));
        cuts += 1;
        assert!(cuts < 1000);
    }
    assert!(written > 0);
    worker.cut();
    assert_eq!(committed(&output), all(0..1000));
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
    let mut worker = Worker::open(&setup);
    worker.until(|worker| !worker.read.is_empty());
    worker.until(|worker| worker.read.len() as u32 == 200 - cut);
    assert_eq!(worker.read, all(cut..200));
    assert_eq!(worker.cut(), Settled::Committed { number: 2 });
    assert_eq!(committed(&output), all(0..200));
    worker.close();
}

#[test]
fn a_zombie_is_fenced_once_its_partitions_moved() {
    let (input, output) = topics("txn-zombie");
    produce(&input, numbers(0..100));
    let mut setup = Setup::new(&input, &output, "a");
    for (name, value) in [
        ("session.timeout.ms", "2000"),
        ("max.poll.interval.ms", "2000"),
    ] {
        setup.source.insert(name.into(), value.into());
    }
    setup.transactions.transaction_timeout = Duration::from_secs(30);
    let mut zombie = Worker::open(&setup);
    zombie.until(|worker| worker.read.len() == 100);
    // It is away for longer than the group waits, and has an open transaction.
    let mut other = setup.clone();
    other.instance = "b".into();
    other.transactions.transactional_id.push('b');
    let mut worker = Worker::open(&other);
    worker.until(|worker| worker.read.len() == 100);
    assert!(matches!(worker.cut(), Settled::Committed { .. }));
    let settled = zombie.cut();
    assert!(matches!(settled, Settled::Fenced { .. }), "{settled:?}");
    produce(&input, numbers(100..200));
    worker.until(|worker| worker.read.len() == 200);
    worker.cut();
    assert_eq!(committed(&output), all(0..200));
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
    assert_eq!(committed(&output), all(0..100));
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
    assert_eq!(committed(&output), expected);
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
            .write(batch.view().get(0).unwrap().public())
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
    assert_eq!(committed(&output), all(0..3000));
    worker.close();
}

#[test]
fn a_dead_letter_that_is_refused_is_cut_and_committed() {
    let input = topic("txn-letter", 1);
    let output = topic_with("txn-letter-out", 1, &[]);
    produce(&input, numbers(0..10));
    let mut worker = Worker::open(&Setup::new(&input, &output, "a"));
    alter(&output, "max.message.bytes", "1200");
    alter(&output, "cleanup.policy", "compact");
    let large = vec![b'y'; 100_000];
    let letter = |offset| DeadLetter {
        id: RecordId {
            offset,
            ..RecordId::default()
        },
        source: "tickets",
        stage: "redact",
        reason: "trap",
        component: None,
        backtrace: None,
        attempts: 1,
        key: None,
        value: Some(&large),
        length: large.len() as u64,
    };
    let mut tries = 0;
    loop {
        worker.until(|worker| worker.next.get(&0) == Some(&10));
        for offset in 0..3 {
            worker.sink.write_dead(&letter(offset)).unwrap();
        }
        tries += 1;
        assert!(tries < 6);
        if let Settled::Committed { .. } = worker.cut() {
            break;
        }
    }
    assert!(tries > 1);
    let seen = read_to_end(options(&output, "reader"), 1).records;
    let letters: Vec<_> = seen
        .iter()
        .filter(|seen| seen.value.as_ref().unwrap().len() > 10)
        .collect();
    assert_eq!(letters.len(), 3);
    for letter in letters {
        assert!(
            letter
                .key
                .as_ref()
                .unwrap()
                .starts_with(b"support-bot/tickets/0/")
        );
        let dead: serde_json::Value =
            serde_json::from_slice(letter.value.as_ref().unwrap()).unwrap();
        assert_eq!(dead["cut"]["value"], 100_000, "{dead}");
    }
    worker.close();
}
