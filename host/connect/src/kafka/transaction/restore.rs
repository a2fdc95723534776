//! Reading a changelog, to the end as it stood.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use tidegate_telemetry::{WorkKind, Works};
use tracing::info;

use super::super::begin::ends_of;
use super::super::rebalance::Context;
use super::super::{Trouble, is_transient};

/// A changelog that takes longer is worth a line in the log when it is read.
const LONG: Duration = Duration::from_secs(5);
/// How often the end that is decided is asked for.
const LOOK: Duration = Duration::from_millis(50);

/// A part of a partition, from an offset to the end; from the first that there is if none is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) partition: i32,
    pub(super) from: Option<u64>,
}

/// Reads topics as nobody's member.
#[derive(Clone)]
pub(super) struct Reader {
    /// Sees what is committed.
    pub(super) committed: ClientConfig,
    /// Sees all there is.
    pub(super) all: ClientConfig,
    pub(super) patience: Duration,
    pub(super) no_progress: Duration,
    /// How long reading may take in all.
    pub(super) whole: Duration,
    /// Set when nobody waits for what it reads any more.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) place: String,
    /// Where it is listed that it reads.
    pub(super) works: Works,
}

impl Reader {
    /// Gives every committed record of these parts to `take`, partition by partition in order: partition, key and value.
    /// Answers where each partition ended.
    ///
    /// The end is that of all records, also uncommitted ones, as it is now. What lies open before it hides committed
    /// records: it is waited for until whoever left it open is fenced, or its transaction has timed out.
    pub(super) fn read(
        &self,
        topic: &str,
        spans: &[Span],
        mut take: impl FnMut(i32, &[u8], Option<&[u8]>),
    ) -> Result<BTreeMap<i32, u64>, String> {
        let began = Instant::now();
        let work = self.works.begin(WorkKind::Restore, topic);
        let consumer = consumer(&self.committed)?;
        let ends = self.ends(topic, spans)?;
        self.wait_until_decided(&consumer, topic, &ends, began)?;
        self.read_until(
            &consumer,
            topic,
            spans,
            &ends,
            began,
            &mut |partition, key, value| {
                work.add(1);
                take(partition, key, value);
            },
        )?;
        Ok(ends)
    }

    /// Where these partitions end, whatever is committed.
    fn ends(&self, topic: &str, spans: &[Span]) -> Result<BTreeMap<i32, u64>, String> {
        let asker = consumer(&self.all)?;
        let numbers = spans.iter().map(|span| span.partition);
        self.ask_ends(&asker, topic, numbers)
    }

    fn ask_ends(
        &self,
        asker: &BaseConsumer<Context>,
        topic: &str,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<BTreeMap<i32, u64>, String> {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(topic, partition);
        }
        let mut trouble = Trouble::new(self.patience);
        while !self.stop.load(Ordering::Relaxed) {
            match ends_of(asker, &list) {
                Ok(ends) => {
                    let ends = ends.into_iter();
                    return Ok(ends
                        .map(|(partition, end)| (partition, end.max(0) as u64))
                        .collect());
                }
                Err(error) if is_transient(&error) => {
                    trouble.note(&self.place, &error.to_string())?;
                }
                Err(error) => return Err(format!("topic {topic}: {error}")),
            }
            std::thread::sleep(LOOK);
        }
        Err(no_longer(topic))
    }

    /// Waits until every transaction before these ends is committed or aborted.
    fn wait_until_decided(
        &self,
        consumer: &BaseConsumer<Context>,
        topic: &str,
        ends: &BTreeMap<i32, u64>,
        began: Instant,
    ) -> Result<(), String> {
        let mut open: BTreeMap<i32, u64> = ends.clone();
        let mut progress = Progress::new(self, topic, began);
        let mut before = None;
        loop {
            let decided = self.ask_ends(consumer, topic, open.keys().copied())?;
            open.retain(|partition, end| decided.get(partition).is_none_or(|at| at < end));
            if open.is_empty() {
                return Ok(());
            }
            if before.replace(decided.clone()) != Some(decided) {
                progress.made(0);
            }
            progress.check("a transaction on it stays open")?;
            std::thread::sleep(LOOK);
        }
    }

    fn read_until(
        &self,
        consumer: &BaseConsumer<Context>,
        topic: &str,
        spans: &[Span],
        ends: &BTreeMap<i32, u64>,
        began: Instant,
        take: &mut impl FnMut(i32, &[u8], Option<&[u8]>),
    ) -> Result<(), String> {
        let fail = |error: KafkaError| format!("topic {topic}: {error}");
        let mut list = TopicPartitionList::new();
        let mut left: BTreeMap<i32, u64> = BTreeMap::new();
        for Span { partition, from } in spans {
            let end = ends.get(partition).copied().unwrap_or(0);
            if from.unwrap_or(0) >= end {
                continue;
            }
            let from = from.map_or(Offset::Beginning, |from| Offset::Offset(from as i64));
            list.add_partition_offset(topic, *partition, from)
                .map_err(fail)?;
            left.insert(*partition, end);
        }
        if left.is_empty() {
            return Ok(());
        }
        consumer.assign(&list).map_err(fail)?;
        let mut progress = Progress::new(self, topic, began);
        let mut trouble = Trouble::new(self.patience);
        let done = |partition: i32, left: &mut BTreeMap<i32, u64>| -> KafkaResult<()> {
            if left.remove(&partition).is_some() {
                let mut list = TopicPartitionList::new();
                list.add_partition(topic, partition);
                consumer.pause(&list)?;
            }
            Ok(())
        };
        while !left.is_empty() {
            match consumer.poll(LOOK) {
                None => {}
                Some(Ok(message)) => {
                    trouble.clear(&self.place);
                    let (partition, offset) = (message.partition(), message.offset().max(0) as u64);
                    let Some(end) = left.get(&partition).copied() else {
                        continue;
                    };
                    progress.made(1);
                    if offset < end {
                        take(
                            partition,
                            message.key().unwrap_or_default(),
                            message.payload(),
                        );
                    }
                    if offset + 1 >= end {
                        done(partition, &mut left).map_err(fail)?;
                    }
                }
                // Asked for after everything before the end was decided, so this lies at it, or beyond: what is missing
                // before it are holes.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    progress.made(0);
                    done(partition, &mut left).map_err(fail)?;
                }
                Some(Err(error)) if is_transient(&error) => {
                    trouble.note(&self.place, &error.to_string())?;
                }
                Some(Err(error)) => return Err(fail(error)),
            }
            progress.check("nothing of it comes")?;
        }
        progress.end();
        Ok(())
    }
}

fn no_longer(topic: &str) -> String {
    format!("nobody waits for the changelog topic {topic} any more")
}

fn consumer(config: &ClientConfig) -> Result<BaseConsumer<Context>, String> {
    let made = config.create_with_context(Context::default());
    made.map_err(|error| error.to_string())
}

/// How far reading is, and since when it is not further.
struct Progress<'a> {
    reader: &'a Reader,
    topic: &'a str,
    records: u64,
    began: Instant,
    last: Instant,
}

impl Progress<'_> {
    fn new<'a>(reader: &'a Reader, topic: &'a str, began: Instant) -> Progress<'a> {
        Progress {
            reader,
            topic,
            records: 0,
            began,
            last: Instant::now(),
        }
    }

    fn made(&mut self, records: u64) {
        self.records += records;
        self.last = Instant::now();
    }

    fn check(&self, what: &str) -> Result<(), String> {
        let (topic, reader) = (self.topic, self.reader);
        if reader.stop.load(Ordering::Relaxed) {
            return Err(no_longer(topic));
        }
        if self.last.elapsed() > reader.no_progress {
            let seconds = reader.no_progress.as_secs();
            return Err(format!(
                "the changelog topic {topic} cannot be read to its end: {what}, for {seconds} s now"
            ));
        }
        if self.began.elapsed() > reader.whole {
            let (records, seconds) = (self.records, reader.whole.as_secs());
            return Err(format!(
                "the changelog topic {topic} is not read to its end within {seconds} s: {records} records of it came"
            ));
        }
        Ok(())
    }

    fn end(&self) {
        let took = self.began.elapsed();
        if took >= LONG {
            info!(
                topic = self.topic,
                records = self.records,
                seconds = took.as_secs(),
                "the changelog is read"
            );
        }
    }
}
