//! Making and filling topics.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;

use crate::{config, record};

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    config(brokers, &[]).create().unwrap()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

pub(crate) fn make(brokers: &str, name: &str, partitions: i32) {
    let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let made = wait(admin(brokers).create_topics([&new], &AdminOptions::new())).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

pub(crate) fn remove(brokers: &str, name: &str) {
    let removed = wait(admin(brokers).delete_topics(&[name], &AdminOptions::new())).unwrap();
    assert!(removed.iter().all(Result::is_ok), "{removed:?}");
}

/// Sends a record, waiting while the queue is full.
pub(crate) fn send(producer: &BaseProducer, topic: &str, key: &[u8], value: &[u8]) {
    let mut record = BaseRecord::to(topic).key(key).payload(value);
    while let Err((error, back)) = producer.send(record) {
        let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
        assert_eq!(error, full);
        producer.poll(Duration::from_millis(1));
        record = back;
    }
}

pub(crate) fn fill(brokers: &str, topic: &str, records: u64) {
    let settings = [
        ("linger.ms", "20"),
        ("batch.size", "262144"),
        ("compression.type", "lz4"),
        ("acks", "all"),
    ];
    let producer: BaseProducer = config(brokers, &settings).create().unwrap();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for number in 0..records {
        record::write(number, 0, &mut key, &mut value);
        send(&producer, topic, &key, &value);
        if number % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120)).unwrap();
}
