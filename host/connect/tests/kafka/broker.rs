//! The broker under test, and topics on it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::{DEADLINE, WAIT};

pub(crate) fn brokers() -> String {
    std::env::var("TIDEGATE_KAFKA").unwrap_or_else(|_| {
        panic!(
            "TIDEGATE_KAFKA=host:port is not set: these tests need a Kafka broker; \
             start one with `cargo xtask kafka`, or run everything with `cargo xtask test`"
        )
    })
}

/// A new topic of its own for a test, whose name begins so.
pub(crate) fn topic(name: &str, partitions: i32) -> String {
    topic_with(name, partitions, &[])
}

pub(crate) fn topic_with(name: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let topic = format!("{name}-{now}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    make(&topic, partitions, settings);
    topic
}

/// Makes a topic of this name.
pub(crate) fn make(topic: &str, partitions: i32, settings: &[(&str, &str)]) {
    let admin = admin();
    let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    for (name, value) in settings {
        new = new.set(name, value);
    }
    let made = wait_for(admin.create_topics([&new], &AdminOptions::new())).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    // Brokers know it a little later than the controller.
    let deadline = Instant::now() + DEADLINE;
    let known = || {
        let asked = admin.inner().fetch_metadata(Some(topic), WAIT * 10);
        asked.is_ok_and(|metadata| {
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            found.is_some_and(|found| {
                found.error().is_none() && found.partitions().len() == partitions as usize
            })
        })
    };
    while !known() {
        assert!(Instant::now() < deadline, "{topic} is not there");
        std::thread::sleep(WAIT / 10);
    }
}

/// Removes a topic with all that is in it.
pub(crate) fn delete(topic: &str) {
    let gone = wait_for(admin().delete_topics(&[topic], &AdminOptions::new())).unwrap();
    assert!(gone.iter().all(Result::is_ok), "{gone:?}");
}

/// Removes what is before this offset of a topic's first partition.
pub(crate) fn truncate(topic: &str, before: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(before))
        .unwrap();
    wait_for(admin().delete_records(&list, &AdminOptions::new())).unwrap();
}

/// Gives a topic more partitions, so that it has this many.
pub(crate) fn widen(topic: &str, partitions: usize) {
    let new = NewPartitions::new(topic, partitions);
    let made = wait_for(admin().create_partitions([&new], &AdminOptions::new())).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

/// Changes a setting of a topic.
pub(crate) fn alter(topic: &str, name: &str, value: &str) {
    let alter = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(name, value);
    let altered = wait_for(admin().alter_configs([&alter], &AdminOptions::new())).unwrap();
    assert!(altered.iter().all(Result::is_ok), "{altered:?}");
}

/// What a topic is set to.
pub(crate) fn setting(topic: &str, name: &str) -> String {
    let asked = [ResourceSpecifier::Topic(topic)];
    let told = wait_for(admin().describe_configs(&asked, &AdminOptions::new())).unwrap();
    let told = told.into_iter().next().unwrap().unwrap();
    told.get(name).unwrap().value.clone().unwrap()
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .create()
        .unwrap()
}

/// Every record of a topic's first partition for a reader of this isolation: key and length of the value.
pub(crate) fn records(topic: &str, isolation: &str) -> Vec<(String, Option<usize>)> {
    let reader: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("group.id", format!("{topic}-reader"))
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)
        .unwrap();
    reader.assign(&list).unwrap();
    let mut records = Vec::new();
    loop {
        match reader.poll(WAIT) {
            Some(Ok(message)) => {
                let key = message.key().unwrap_or_default();
                let key = String::from_utf8_lossy(key).into_owned();
                records.push((key, message.payload().map(<[u8]>::len)));
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return records,
            _ => {}
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
