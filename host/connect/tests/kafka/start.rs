//! A time to start at.

use std::collections::BTreeSet;
use std::time::Instant;

use tidegate_connect::kafka::{KafkaSourceOptions, KafkaStart};
use tidegate_contract::{Sink, Source, Unread};
use tidegate_record::NewRecord;

use crate::broker::{topic, widen};
use crate::{DEADLINE, Read, WAIT, numbers, open, options, sink, write};

/// Some time, milliseconds since 1970.
const NOON: i64 = 1_763_726_400_000;
const HOUR: i64 = 3_600_000;

fn produce_at(topic: &str, millis: i64, values: impl IntoIterator<Item = String>) {
    let mut sink = sink(topic);
    for value in values {
        let record = NewRecord {
            key: Some(value.as_bytes()),
            value: Some(value.as_bytes()),
            event_time: Some(millis * 1000),
            ..NewRecord::default()
        };
        write(&mut sink, &record).unwrap();
    }
    sink.flush().unwrap();
}

fn from(topic: &str, millis: i64) -> KafkaSourceOptions {
    let refresh = "topic.metadata.refresh.interval.ms";
    KafkaSourceOptions {
        until_end: false,
        start: KafkaStart::At(millis),
        // New partitions are noticed soon.
        properties: [(refresh.to_owned(), "500".to_owned())].into(),
        ..options(topic, topic)
    }
}

fn values(read: &Read) -> BTreeSet<String> {
    read.values().into_iter().collect()
}

#[test]
fn a_start_at_a_time_skips_what_is_older_and_nothing_else() {
    let topic = topic("time", 2);
    produce_at(&topic, NOON, numbers(0..20));
    produce_at(&topic, NOON + 2 * HOUR, numbers(20..40));
    let start = from(&topic, NOON + HOUR);
    let mut source = open(start.clone());
    let mut read = Read::default();
    read.until(&mut source, |read| read.records.len() >= 20);
    assert_eq!(values(&read), numbers(20..40).collect());
    // Nothing was committed of it, and what comes late is older than the start.
    drop(source);
    produce_at(&topic, NOON, numbers(40..60));
    let mut source = open(start);
    let mut read = Read::default();
    read.until(&mut source, |read| read.records.len() >= 40);
    assert_eq!(values(&read), numbers(20..60).collect());
    widen(&topic, 4);
    produce_at(&topic, NOON, numbers(100..200));
    read.until(&mut source, |read| read.records.len() >= 140);
    assert!(values(&read).is_superset(&numbers(100..200).collect()));
}

#[test]
fn a_start_at_a_time_after_the_last_record_is_the_end() {
    let topic = topic("time-end", 1);
    produce_at(&topic, NOON, numbers(0..5));
    let mut source = open(from(&topic, NOON + 1));
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    for _ in 0..3 {
        read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    }
    // Older by its own time, and yet it came after the group began.
    produce_at(&topic, NOON, ["new".to_owned()]);
    read.until(&mut source, |read| !read.records.is_empty());
    assert_eq!(read.values(), ["new"]);
}

#[test]
fn what_lies_unread_of_each_partition_is_known_without_waiting_for_brokers() {
    let topic = topic("unread", 2);
    produce_at(&topic, NOON, numbers(0..20));
    let mut source = open(KafkaSourceOptions {
        until_end: false,
        ..options(&topic, &topic)
    });
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    // The first look asks the brokers: whether they have answered by its end is chance.
    source.lag();
    let mut unread = 0;
    let deadline = Instant::now() + DEADLINE;
    let lags = loop {
        assert!(
            Instant::now() < deadline,
            "no broker says where the topic ends"
        );
        let lags = source.lag();
        if lags.len() == 2 {
            break lags;
        }
        std::thread::sleep(WAIT / 10);
    };
    for lag in lags {
        let Unread::Records(records) = lag.unread else {
            panic!("{lag:?}");
        };
        unread += records;
    }
    assert_eq!(unread + read.records.len() as u64, 20);
}
