//! What the Kafka source and sink promise, against a real broker: the one that `TIDEGATE_KAFKA=host:port` names.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod again;
mod broker;
mod changelog;
mod feed;
mod group;
mod internal;
mod lag;
mod letters;
mod properties;
mod proxy;
mod refused;
mod roundtrip;
mod secure;
mod start;
mod transaction;
mod trouble;
mod unknown;
mod until;
mod worker;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_codec::{DecoderOptions, Format};
use tidegate_connect::kafka::{KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions};
use tidegate_contract::{
    Done, HostHeaders, Partition, Rejected, Sink, SinkError, Source, SourceEvent,
};
use tidegate_record::{BatchBuilder, NewRecord};

use broker::brokers;

const WAIT: Duration = Duration::from_millis(200);
/// No test waits longer than this for anything.
const DEADLINE: Duration = Duration::from_secs(60);

type Header = (String, Option<Vec<u8>>);

/// A record as a test compares it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    partition: u32,
    offset: u64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Header>,
    event_time: Option<i64>,
}

/// What a source gave.
#[derive(Debug, Default)]
struct Read {
    records: Vec<Seen>,
    rejected: Vec<Rejected>,
    next: BTreeMap<u32, u64>,
    assigned: Vec<u32>,
    revoked: Vec<u32>,
    ends: Vec<u32>,
}

impl Read {
    fn values(&self) -> Vec<String> {
        let text = |record: &Seen| String::from_utf8(record.value.clone().unwrap()).unwrap();
        self.records.iter().map(text).collect()
    }

    fn positions(&self) -> Vec<Done> {
        self.next
            .iter()
            .map(|(number, next)| done(*number, *next))
            .collect()
    }

    fn take(&mut self, event: SourceEvent) {
        let numbers =
            |partitions: Vec<Partition>| partitions.into_iter().map(|partition| partition.number);
        match event {
            SourceEvent::Assigned(assigned) => {
                let partitions = assigned.iter().map(|assigned| assigned.partition);
                self.assigned.extend(numbers(partitions.collect()));
            }
            SourceEvent::Revoked(partitions) => {
                for number in numbers(partitions) {
                    self.assigned.retain(|assigned| *assigned != number);
                    self.next.remove(&number);
                    self.revoked.push(number);
                }
            }
            SourceEvent::Records {
                partition,
                batch,
                rejected,
                next,
            } => {
                assert!(
                    self.assigned.contains(&partition.number),
                    "records of a partition that is not ours"
                );
                for record in batch.view().records() {
                    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
                    assert_eq!(record.id().partition, partition.number);
                    self.records.push(Seen {
                        partition: partition.number,
                        offset: record.id().offset,
                        key: owned(record.key()),
                        value: owned(record.value()),
                        headers: record
                            .headers()
                            .map(|pair| (pair.name.to_owned(), owned(pair.value)))
                            .collect(),
                        event_time: record.event_time(),
                    });
                }
                self.rejected.extend(rejected);
                self.next.insert(partition.number, next);
            }
            SourceEvent::End(partition) => self.ends.push(partition.number),
            SourceEvent::Idle => {}
        }
    }

    /// Polls until this holds.
    fn until(&mut self, source: &mut KafkaSource, done: impl Fn(&Read) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "not within {DEADLINE:?}: {self:?}"
            );
            self.take(source.poll(100, 1 << 20, WAIT).unwrap());
        }
    }
}

fn partition(number: u32) -> Partition {
    Partition { source: 0, number }
}

fn done(number: u32, position: u64) -> Done {
    Done {
        partition: partition(number),
        position,
        waits: false,
        metadata: String::new(),
    }
}

/// Raw records of a topic, from the earliest, until its end.
fn options(topic: &str, group: &str) -> KafkaSourceOptions {
    KafkaSourceOptions {
        decoder: DecoderOptions {
            format: Format::Raw,
            ..DecoderOptions::default()
        },
        until_end: true,
        ..KafkaSourceOptions::new(0, brokers(), topic, group)
    }
}

fn open(options: KafkaSourceOptions) -> KafkaSource {
    KafkaSource::open(options).unwrap()
}

fn read_to_end(options: KafkaSourceOptions, partitions: usize) -> Read {
    let mut source = open(options);
    let mut read = Read::default();
    read.until(&mut source, |read| read.ends.len() == partitions);
    source.close().unwrap();
    read
}

fn sink(topic: &str) -> KafkaSink {
    KafkaSink::open(KafkaSinkOptions::new(brokers(), topic, "support-bot")).unwrap()
}

fn write(sink: &mut KafkaSink, record: &NewRecord<'_>) -> Result<(), SinkError> {
    write_with(sink, record, HostHeaders::default())
}

fn write_with(
    sink: &mut KafkaSink,
    record: &NewRecord<'_>,
    host: HostHeaders<'_>,
) -> Result<(), SinkError> {
    let mut builder = BatchBuilder::default();
    builder.push(record).unwrap();
    let batch = builder.finish(0);
    sink.write(batch.view().get(0).unwrap().public(), host)
}

/// Headers as the host has them for a traced record: one more than 60 bytes long.
const TRACED: HostHeaders<'static> = HostHeaders {
    names: &["traceparent", "tracestate"],
    written: &[(
        "traceparent",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )],
};

/// Writes these values, each with itself as its key.
fn produce(topic: &str, values: impl IntoIterator<Item = String>) {
    let mut sink = sink(topic);
    for value in values {
        let record = NewRecord {
            key: Some(value.as_bytes()),
            value: Some(value.as_bytes()),
            ..NewRecord::default()
        };
        write(&mut sink, &record).unwrap();
    }
    sink.flush().unwrap();
}

fn numbers(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|number| number.to_string())
}
