//! What a reader of committed records finds in a topic.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use serde_json::json;

use crate::watch::partitions;
use crate::{config, record};

pub(crate) fn count(brokers: &str, topic: &str, records: u64, all: bool) {
    let settings = [
        ("group.id", "kafka-bench-count"),
        ("isolation.level", "read_committed"),
        ("enable.partition.eof", "true"),
        ("enable.auto.commit", "false"),
    ];
    let consumer: BaseConsumer = config(brokers, &settings).create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut open = 0;
    for partition in partitions(&consumer, topic) {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
        open += 1;
    }
    consumer.assign(&list).unwrap();
    let mut seen = vec![0u8; records as usize];
    let mut read = 0u64;
    while open > 0 {
        match consumer.poll(Duration::from_secs(30)) {
            Some(Ok(message)) => {
                let number = record::number(message.payload().unwrap()) as usize;
                seen[number] = seen[number].saturating_add(1);
                read += 1;
            }
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            other => panic!("{other:?}"),
        }
    }
    let expected = |number: usize| all || record::is_kept(number as u64);
    let places = seen.iter().enumerate();
    let missing = places.filter(|(number, count)| **count == 0 && expected(*number));
    let places = seen.iter().enumerate();
    let wrong = places.filter(|(number, count)| **count > 0 && !expected(*number));
    println!(
        "{}",
        json!({
            "read": read,
            "missing": missing.count(),
            "wrong": wrong.count(),
            "doubled": seen.iter().filter(|count| **count > 1).count(),
        })
    );
}
