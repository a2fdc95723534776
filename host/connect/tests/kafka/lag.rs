//! What lies unread, as the source tells it.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Source as _, Unread};

use crate::broker::{topic, truncate};
use crate::proxy::Proxy;
use crate::{DEADLINE, Read, WAIT, numbers, open, options, partition, produce};

/// How often the brokers may be asked where partitions end.
const INTERVAL: Duration = Duration::from_secs(10);

/// Writes so many records as one transaction, which is committed or not.
fn transaction(producer: &BaseProducer, topic: &str, records: u32, holds: bool) {
    producer.begin_transaction().unwrap();
    for value in numbers(0..records) {
        let record: BaseRecord<'_, str, str> = BaseRecord::to(topic).payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
    match holds {
        true => producer.commit_transaction(DEADLINE).unwrap(),
        false => producer.abort_transaction(DEADLINE).unwrap(),
    }
}

/// Reads on until what lies unread is this.
fn until_unread(source: &mut KafkaSource, read: &mut Read, wanted: impl Fn(u64) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    let mut last = None;
    loop {
        read.take(source.poll(100, 1 << 20, WAIT).unwrap());
        if let [lag] = source.lag()[..] {
            let Unread::Records(unread) = lag.unread else {
                panic!("{lag:?}");
            };
            if wanted(unread) {
                return;
            }
            last = Some(unread);
        }
        assert!(Instant::now() < deadline, "{last:?}");
    }
}

#[test]
fn what_lies_unread_grows_while_it_is_held_and_falls_to_nothing_of_a_topic_with_holes() {
    let topic = topic("lag", 1);
    produce(&topic, numbers(0..10));
    truncate(&topic, 4);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", crate::broker::brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    transaction(&producer, &topic, 8, false);
    transaction(&producer, &topic, 5, true);
    let proxy = Proxy::open();
    let opened = Instant::now();
    let mut source = open(KafkaSourceOptions {
        brokers: proxy.address(),
        until_end: false,
        ..options(&topic, &topic)
    });
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    // What was removed, and what was aborted before the last record, is not waited for. Where a transaction ended is an
    // offset without a record, which counts until the next record comes.
    until_unread(&mut source, &mut read, |unread| unread <= 1);
    read.until(&mut source, |read| read.records.len() == 11);
    // The pipeline is held: what comes lies unread, and nothing of it is given.
    source.pause(partition(0)).unwrap();
    produce(&topic, numbers(0..300));
    until_unread(&mut source, &mut read, |unread| unread >= 300);
    assert_eq!(read.records.len(), 11);
    source.resume(partition(0)).unwrap();
    until_unread(&mut source, &mut read, |unread| unread == 0);
    read.until(&mut source, |read| read.records.len() == 311);
    // However often it is told, the brokers are asked now and then only: what else asks does so at the start.
    for _ in 0..10_000 {
        assert_eq!(source.lag().len(), 1);
    }
    let most = 8 + opened.elapsed().as_secs() / INTERVAL.as_secs();
    assert!(proxy.asked() as u64 <= most, "{} of {most}", proxy.asked());
    source.close().unwrap();
}
