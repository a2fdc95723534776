//! What goes into a run, and what its readers see.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, producer::DefaultProducerContext};
use serde_json::Value;
use tidegate_tests::{Random, until};

use super::check::{Record, Seen};

/// How long the brokers may take for anything, also while they are started again.
const PATIENCE: Duration = Duration::from_secs(120);

/// A record before it is sent.
pub(crate) struct Sent {
    pub(crate) record: Record,
    pub(crate) value: String,
}

/// So many records over so many keys, in an order that the seed decides. Every `poison`-th is too large for an output
/// that takes 8,000 bytes.
pub(crate) fn records(seed: u64, count: usize, keys: u64, poison: Option<usize>) -> Vec<Sent> {
    let mut random = Random(seed);
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sent = Vec::with_capacity(count);
    for at in 1..=count {
        let key = random.below(keys);
        let number = numbers.entry(key).or_default();
        let long = poison.is_some_and(|poison| at % poison == 0);
        // Nothing that a client could compress.
        let words = if long { 1000 } else { 0 };
        let more: String = (0..words)
            .map(|_| format!("{:016x}", random.number()))
            .collect();
        let key = format!("k{key}");
        sent.push(Sent {
            value: format!(
                "{{\"k\":\"{key}\",\"n\":{number},\"text\":\"{more} mail u{number}@example.com\"}}"
            ),
            record: (key, *number),
        });
        *number += 1;
    }
    sent
}

fn client(brokers: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

/// How many records come before the run is under way.
const FIRST: usize = 60;

/// Sends records at an even pace, in a thread of its own.
pub(crate) struct Feeder {
    go: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Feeder {
    /// A few at once, and all of them within this time once it is told to go.
    pub(crate) fn start(brokers: &str, topic: &str, sent: Vec<Sent>, during: Duration) -> Feeder {
        let config = client(
            brokers,
            &[
                ("enable.idempotence", "true"),
                ("message.timeout.ms", "120000"),
                ("linger.ms", "5"),
            ],
        );
        let producer: ThreadedProducer<DefaultProducerContext> = config.create().unwrap();
        let (topic, brokers) = (topic.to_owned(), brokers.to_owned());
        let go = Arc::<AtomicBool>::default();
        let told = go.clone();
        let thread = std::thread::spawn(move || {
            let (mut began, count) = (Instant::now(), sent.len());
            for (at, sent) in sent.iter().enumerate() {
                if at == FIRST {
                    until("the run is under way", PATIENCE, || {
                        told.load(Ordering::Relaxed)
                    });
                    began = Instant::now();
                }
                let due = during.mul_f64(at.saturating_sub(FIRST) as f64 / count as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
                let record = BaseRecord::to(&topic)
                    .key(&sent.record.0)
                    .payload(&sent.value);
                producer.send(record).map_err(|(error, _)| error).unwrap();
            }
            producer.flush(PATIENCE).unwrap();
            assert_eq!(
                written(&brokers, &topic),
                count as i64,
                "records in the input"
            );
        });
        Feeder { go, thread }
    }

    /// Sends the others too.
    pub(crate) fn go(&self) {
        self.go.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

/// A client that reads with this isolation; it is in no group.
fn asker(brokers: &str, isolation: &str) -> BaseConsumer {
    let config = client(
        brokers,
        &[
            ("group.id", "chaos-readers"),
            ("enable.auto.commit", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "error"),
            ("isolation.level", isolation),
            ("fetch.wait.max.ms", "100"),
        ],
    );
    config.create().unwrap()
}

/// A reader of a whole topic, of every partition from its beginning.
fn reader(brokers: &str, topic: &str, isolation: &str) -> BaseConsumer {
    let reader = asker(brokers, isolation);
    let mut list = TopicPartitionList::new();
    for partition in partitions(&reader, topic) {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
    }
    reader.assign(&list).unwrap();
    reader
}

/// Tries until the brokers answer.
fn patiently<T>(mut asks: impl FnMut() -> Result<T, KafkaError>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match asks() {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A topic that was just made has none for a while.
fn partitions(reader: &BaseConsumer, topic: &str) -> Vec<i32> {
    let end = Instant::now() + PATIENCE;
    loop {
        let metadata = patiently(|| reader.fetch_metadata(Some(topic), Duration::from_secs(5)));
        let found = &metadata.topics()[0];
        let partitions = found.partitions().iter();
        let known: Vec<i32> = partitions.map(|partition| partition.id()).collect();
        if found.error().is_none() && !known.is_empty() {
            return known;
        }
        assert!(Instant::now() < end, "{topic} has no partitions");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where the partitions of a topic end for readers of this isolation.
fn ends(brokers: &str, topic: &str, isolation: &str) -> BTreeMap<i32, i64> {
    let asker = asker(brokers, isolation);
    let end = |partition: i32| {
        let wait = Duration::from_secs(5);
        patiently(|| asker.fetch_watermarks(topic, partition, wait)).1
    };
    let partitions = partitions(&asker, topic).into_iter();
    partitions
        .map(|partition| (partition, end(partition)))
        .collect()
}

/// How many records a topic has.
pub(crate) fn written(brokers: &str, topic: &str) -> i64 {
    ends(brokers, topic, "read_uncommitted").values().sum()
}

/// How many records of a topic a group has behind it.
pub(crate) fn committed(brokers: &str, group: &str, topic: &str) -> i64 {
    let config = client(brokers, &[("group.id", group)]);
    let asker: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in partitions(&asker, topic) {
        list.add_partition(topic, partition);
    }
    let wait = Duration::from_secs(5);
    let offsets = patiently(|| asker.committed_offsets(list.clone(), wait));
    let offsets = offsets.elements();
    let behind = offsets.iter().map(|of| match of.offset() {
        Offset::Offset(offset) => offset,
        _ => 0,
    });
    behind.sum()
}

/// From where on, in each partition, records are of a transaction that is open.
pub(crate) fn open(brokers: &str, topic: &str) -> BTreeMap<i32, i64> {
    // In this order: what is committed between the two is not taken for open.
    let ends_at = ends(brokers, topic, "read_uncommitted");
    let mut stable = ends(brokers, topic, "read_committed");
    stable.retain(|partition, stable| ends_at.get(partition).is_some_and(|end| end > stable));
    stable
}

/// Waits until no transaction on a topic is open any more.
pub(crate) fn settled(brokers: &str, topic: &str) {
    until("no transaction is open", PATIENCE, || {
        let of = |isolation| ends(brokers, topic, isolation);
        of("read_committed") == of("read_uncommitted")
    });
}

/// Everything in a topic that a reader of this isolation sees.
pub(crate) fn read(brokers: &str, topic: &str, isolation: &str) -> Vec<Seen> {
    let reader = reader(brokers, topic, isolation);
    let mut left = partitions(&reader, topic);
    let mut seen = Vec::new();
    let end = Instant::now() + PATIENCE;
    while !left.is_empty() {
        assert!(Instant::now() < end, "{topic} was not read to its end");
        match reader.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => seen.push(saw(&message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                left.retain(|open| *open != partition)
            }
            Some(Err(error)) => passing(&error),
        }
    }
    seen
}

/// A broker that is away, or just came back, is no failure of the run.
fn passing(error: &KafkaError) {
    let code = error.rdkafka_error_code();
    let fatal = matches!(
        code,
        Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
    );
    assert!(!fatal, "{error}");
}

/// An output; a dead letter is one of the record that it has.
fn saw(message: &impl Message) -> Seen {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
    let value = text(message.payload());
    let (mut key, mut number) = (text(message.key()), None);
    if let Ok(Value::Object(fields)) = serde_json::from_str(&value) {
        number = fields.get("n").and_then(Value::as_u64);
        if let Some(Value::String(known)) = fields.get("k") {
            key.clone_from(known);
        }
    }
    Seen {
        partition: message.partition(),
        offset: message.offset(),
        key,
        number: number.unwrap_or(u64::MAX),
        value,
    }
}

/// A reader of committed records beside a run.
pub(crate) struct Live {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Live {
    pub(crate) fn start(brokers: &str, topic: &str) -> Live {
        let (seen, stop) = (
            Arc::<Mutex<Vec<Seen>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (shared, told) = (seen.clone(), stop.clone());
        let reader = reader(brokers, topic, "read_committed");
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                match reader.poll(Duration::from_millis(50)) {
                    None | Some(Err(KafkaError::PartitionEOF(_))) => {}
                    Some(Ok(message)) => shared.lock().unwrap().push(saw(&message)),
                    Some(Err(error)) => passing(&error),
                }
            }
        });
        Live { seen, stop, thread }
    }

    /// How many outputs it has seen.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// How many records it has seen outputs of.
    pub(crate) fn records(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        let records: std::collections::BTreeSet<(&str, u64)> = seen
            .iter()
            .map(|seen| (seen.key.as_str(), seen.number))
            .collect();
        records.len()
    }

    /// All that it saw, once that are so many.
    pub(crate) fn stop(self, outputs: usize) -> Vec<Seen> {
        until("the reader has caught up", PATIENCE, || {
            assert!(!self.thread.is_finished(), "the reader has failed");
            self.count() >= outputs
        });
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
