//! A copy of a topic with nothing but librdkafka, on one thread.

use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::Offset;

use crate::config;

const WAIT: Duration = Duration::from_secs(30);

pub(crate) fn copy(
    brokers: &str,
    [input, output]: [&str; 2],
    group: &str,
    exactly_once: bool,
    interval: Duration,
    linger: &str,
) {
    let settings = [
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", "read_committed"),
    ];
    let consumer: BaseConsumer = config(brokers, &settings).create().unwrap();
    consumer.subscribe(&[input]).unwrap();
    let mut settings = vec![
        ("linger.ms", linger),
        ("batch.size", "262144"),
        ("compression.type", "lz4"),
        ("enable.idempotence", "true"),
        ("queue.buffering.max.kbytes", "65536"),
    ];
    if exactly_once {
        settings.push(("transactional.id", group));
    }
    let producer: BaseProducer = config(brokers, &settings).create().unwrap();
    if exactly_once {
        producer.init_transactions(WAIT).unwrap();
    }
    let mut positions: Vec<Option<i64>> = Vec::new();
    let mut began: Option<Instant> = None;
    loop {
        if let Some(message) = consumer.poll(Duration::from_millis(1)) {
            let message = message.unwrap();
            if began.is_none() {
                began = Some(Instant::now());
                if exactly_once {
                    producer.begin_transaction().unwrap();
                }
            }
            let mut record = BaseRecord::<[u8], [u8]>::to(output);
            (record.key, record.payload) = (message.key(), message.payload());
            record.timestamp = message.timestamp().to_millis();
            while let Err((_, back)) = producer.send(record) {
                producer.poll(Duration::from_millis(1));
                record = back;
            }
            let partition = message.partition() as usize;
            if positions.len() <= partition {
                positions.resize(partition + 1, None);
            }
            positions[partition] = Some(message.offset() + 1);
        }
        if began.is_none_or(|began| began.elapsed() < interval) {
            continue;
        }
        began = None;
        // `flush` and `commit_transaction` wait in steps of 100 ms.
        let deadline = Instant::now() + WAIT;
        while producer.in_flight_count() > 0 {
            producer.poll(Duration::ZERO);
            std::thread::sleep(Duration::from_micros(200));
            assert!(Instant::now() < deadline, "the brokers do not answer");
        }
        let mut list = TopicPartitionList::new();
        for (partition, position) in positions.drain(..).enumerate() {
            if let Some(position) = position {
                list.add_partition_offset(input, partition as i32, Offset::Offset(position))
                    .unwrap();
            }
        }
        if exactly_once {
            let group = consumer.group_metadata().unwrap();
            producer
                .send_offsets_to_transaction(&list, &group, WAIT)
                .unwrap();
            producer.commit_transaction(WAIT).unwrap();
        } else {
            consumer.commit(&list, CommitMode::Sync).unwrap();
        }
    }
}
