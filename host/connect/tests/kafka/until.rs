//! Reading to where a topic ends now, while partitions come and go.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Source, SourceEvent};

use crate::broker::{brokers, topic};
use crate::{DEADLINE, Read, WAIT, numbers, open, options, produce};

/// A member of the topic's group, which learns of a rebalance quickly.
fn member(topic: &str, until_end: bool) -> KafkaSourceOptions {
    let heartbeat = ("heartbeat.interval.ms".to_owned(), "300".to_owned());
    KafkaSourceOptions {
        until_end,
        properties: [heartbeat].into(),
        ..options(topic, topic)
    }
}

fn step(source: &mut KafkaSource, read: &mut Read) {
    read.take(source.poll(20, 1 << 20, WAIT).unwrap());
    source.commit(&read.positions()).unwrap();
}

/// Polls both until the second, which has no partition, is told that it need not wait for one.
fn until_told(keeper: &mut KafkaSource, kept: &mut Read, other: &mut KafkaSource) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        assert!(Instant::now() < deadline, "it waits for a partition");
        step(keeper, kept);
        match other.poll(20, 1 << 20, WAIT).unwrap() {
            SourceEvent::Assigned(list) if list.is_empty() => return,
            SourceEvent::Idle | SourceEvent::Assigned(_) | SourceEvent::Revoked(_) => {}
            event => panic!("{event:?}"),
        }
    }
}

#[test]
fn the_end_is_where_the_topic_ended_when_the_source_was_opened() {
    let topic = topic("until-open", 2);
    produce(&topic, numbers(0..40));
    let mut source = open(member(&topic, true));
    produce(&topic, numbers(40..80));
    let mut read = Read::default();
    read.until(&mut source, |read| read.ends.len() == 2);
    assert_eq!(read.records.len(), 40);
    assert!(read.values().iter().all(|value| value.len() < 3));
}

#[test]
fn a_member_without_a_partition_ends_when_the_group_has_read_what_there_was() {
    let topic = topic("until-none", 1);
    produce(&topic, numbers(0..40));
    let mut keeper = open(member(&topic, false));
    let mut kept = Read::default();
    kept.until(&mut keeper, |read| read.assigned.len() == 1);
    let mut other = open(member(&topic, true));
    until_told(&mut keeper, &mut kept, &mut other);
    assert!(kept.records.len() >= 40);
}

#[test]
fn the_marks_of_transactions_are_not_waited_for() {
    let topic = topic("until-marks", 1);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    let wait = Duration::from_secs(30);
    producer.init_transactions(wait).unwrap();
    for commits in [true, false] {
        producer.begin_transaction().unwrap();
        for number in numbers(0..10) {
            let record = BaseRecord::<(), str>::to(&topic).payload(number.as_str());
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        if commits {
            producer.commit_transaction(wait).unwrap();
        } else {
            producer.flush(wait).unwrap();
            producer.abort_transaction(wait).unwrap();
        }
    }
    let mut keeper = open(member(&topic, false));
    let mut kept = Read::default();
    kept.until(&mut keeper, |read| read.assigned.len() == 1);
    let mut other = open(member(&topic, true));
    until_told(&mut keeper, &mut kept, &mut other);
    assert_eq!(kept.values(), numbers(0..10).collect::<Vec<_>>());
}

#[test]
fn a_partition_that_moves_while_the_topic_grows_is_read_to_where_it_ended() {
    let topic = topic("until-grows", 2);
    produce(&topic, numbers(0..100));
    let mut bounded = open(member(&topic, true));
    let mut read = Read::default();
    let deadline = Instant::now() + DEADLINE;
    let mut more = 1000;
    // Others join and leave, and every time more has come.
    for _ in 0..3 {
        let mut guest = open(member(&topic, false));
        let mut seen = Read::default();
        while seen.assigned.len() != 1 {
            assert!(Instant::now() < deadline, "{:?}", seen.assigned);
            step(&mut bounded, &mut read);
            step(&mut guest, &mut seen);
        }
        drop(guest);
        while read.assigned.len() != 2 {
            assert!(Instant::now() < deadline, "{:?}", read.assigned);
            step(&mut bounded, &mut read);
        }
        produce(&topic, numbers(more..more + 100));
        more += 100;
    }
    let ended = |read: &Read| (0..2).all(|number| read.ends.contains(&number));
    while !ended(&read) {
        assert!(Instant::now() < deadline, "{:?}", read.ends);
        step(&mut bounded, &mut read);
    }
    let late = |value: &String| value.len() >= 4;
    assert!(!read.values().iter().any(late), "{:?}", read.values());
}
