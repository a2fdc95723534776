//! Dead letters in a topic, read from the ends of its partitions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{LetterError, LetterStore, WrittenLetter};

use super::client::Settings;
use super::properties::Side;
use super::rebalance::Context;
use super::{Properties, is_transient};

/// Offsets of all partitions that are read at once.
const STRIDE: u64 = 64;
/// Bytes of letters after which one call ends, and those that are held at a time.
const READ: u64 = 64 << 20;
/// Clients there are at the most: they are kept for the next call, and who finds all at work waits for one.
const CLIENTS: usize = 4;
/// How long is waited at a time.
const LOOK: Duration = Duration::from_millis(100);
/// A question to brokers has at most so long.
const ASK: Duration = Duration::from_secs(10);
/// And so long at the least, also where the time of a call is over: it gets on a little.
const LEAST: Duration = Duration::from_secs(2);

/// The dead letters of a topic, as nobody's member: only committed ones, the newest of all partitions first by their time.
pub struct KafkaLetters {
    brokers: String,
    topic: String,
    properties: Properties,
    clients: Mutex<Clients>,
    free: Condvar,
}

#[derive(Default)]
struct Clients {
    idle: Vec<BaseConsumer<Context>>,
    /// Calls that have one.
    lent: usize,
}

/// The right to one client, for a call.
struct Lent<'l>(&'l KafkaLetters);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.clients().lent -= 1;
        self.0.free.notify_one();
    }
}

/// A letter of a partition.
struct Found {
    offset: u64,
    millis: i64,
    length: u64,
    /// None if there was no room for them: they are read once more when it is their turn.
    bytes: Option<Vec<u8>>,
}

/// A partition on its way back: what lies before `next` is still to be looked at, and `held` of it is read.
struct Reading {
    low: u64,
    next: u64,
    held: Vec<Found>,
    /// Where what is held begins.
    from: u64,
}

impl std::fmt::Debug for KafkaLetters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaLetters")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

impl KafkaLetters {
    /// Those of this topic. Nothing is connected before they are asked for.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        properties: Properties,
    ) -> KafkaLetters {
        KafkaLetters {
            brokers: brokers.into(),
            topic: topic.into(),
            properties,
            clients: Mutex::default(),
            free: Condvar::new(),
        }
    }

    fn error(&self, why: impl ToString) -> LetterError {
        LetterError::Read {
            place: self.name(),
            why: why.to_string(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client, as soon as there is one for this call.
    fn client(&self, until: Instant) -> Result<(Lent<'_>, BaseConsumer<Context>), LetterError> {
        let left = until.saturating_duration_since(Instant::now());
        let is_taken = |clients: &mut Clients| clients.lent >= CLIENTS;
        let waited = self.free.wait_timeout_while(self.clients(), left, is_taken);
        let (mut clients, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if clients.lent >= CLIENTS {
            return Err(self.error("others are at it; try again"));
        }
        clients.lent += 1;
        let idle = clients.idle.pop();
        drop(clients);
        let lent = Lent(self);
        let consumer = idle.map_or_else(|| self.connected(), Ok)?;
        Ok((lent, consumer))
    }

    fn connected(&self) -> Result<BaseConsumer<Context>, LetterError> {
        let ours = [
            ("queued.max.messages.kbytes", "4096"),
            ("fetch.wait.max.ms", "50"),
        ];
        let reserved = [
            // No member of it: librdkafka wants a name before it reads.
            ("group.id", "tidegate-dead-letters"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "error"),
            ("isolation.level", "read_committed"),
        ];
        // The properties are a writer's: what is of producers alone is nothing to a reader.
        let mut properties = self.properties.clone();
        properties.retain(|name, _| !Side::Reader.ignores(name));
        let config = Settings::internal(&self.brokers, &ours, &reserved).config(&properties);
        let config = config.map_err(|why| self.error(why))?;
        config
            .create_with_context(Context::default())
            .map_err(|error: KafkaError| self.error(error))
    }

    /// For the next call. One whose call failed is dropped.
    fn keep(&self, consumer: BaseConsumer<Context>) {
        self.clients().idle.push(consumer);
    }

    fn partitions(
        &self,
        consumer: &BaseConsumer<Context>,
        until: Instant,
    ) -> Result<Vec<i32>, LetterError> {
        let metadata = consumer.fetch_metadata(Some(&self.topic), left(until));
        let metadata = metadata.map_err(|error| self.error(error))?;
        let topics = metadata.topics().iter();
        let partitions = topics.flat_map(|topic| topic.partitions());
        Ok(partitions.map(|partition| partition.id()).collect())
    }

    fn offsets(
        &self,
        consumer: &BaseConsumer<Context>,
        partition: i32,
        until: Instant,
    ) -> Result<(u64, u64), LetterError> {
        let offsets = consumer.fetch_watermarks(&self.topic, partition, left(until));
        let (low, high) = offsets.map_err(|error| self.error(error))?;
        Ok((low.max(0) as u64, high.max(0) as u64))
    }

    /// The letters of these ranges of offsets, in order. At most so many bytes of them are held.
    fn read(
        &self,
        consumer: &BaseConsumer<Context>,
        ranges: &BTreeMap<i32, (u64, u64)>,
        mut room: u64,
        until: Instant,
    ) -> Result<BTreeMap<i32, Vec<Found>>, LetterError> {
        let fail = |error: KafkaError| self.error(error);
        let mut list = TopicPartitionList::new();
        for (partition, (from, _)) in ranges {
            let from = Offset::Offset(*from as i64);
            list.add_partition_offset(&self.topic, *partition, from)
                .map_err(fail)?;
        }
        consumer.assign(&list).map_err(fail)?;
        let mut open = ranges.clone();
        let mut found: BTreeMap<i32, Vec<Found>> = BTreeMap::new();
        while !open.is_empty() {
            if Instant::now() >= until {
                return Err(self.error("the brokers did not give it in time"));
            }
            match consumer.poll(LOOK) {
                None => {}
                Some(Ok(message)) => {
                    let (partition, offset) = (message.partition(), message.offset().max(0) as u64);
                    let Some((_, to)) = open.get(&partition).copied() else {
                        continue;
                    };
                    if offset < to {
                        let bytes = message.payload().unwrap_or_default();
                        let length = bytes.len() as u64;
                        let has_room = length <= room;
                        room -= if has_room { length } else { 0 };
                        found.entry(partition).or_default().push(Found {
                            offset,
                            millis: message.timestamp().to_millis().unwrap_or_default(),
                            length,
                            bytes: has_room.then(|| bytes.to_vec()),
                        });
                    }
                    if offset + 1 >= to {
                        open.remove(&partition);
                    }
                }
                // What is missing before the end are holes, or what no reader sees yet.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    open.remove(&partition);
                }
                Some(Err(error)) if is_transient(&error) => {}
                Some(Err(error)) => return Err(fail(error)),
            }
        }
        consumer.unassign().map_err(fail)?;
        Ok(found)
    }

    fn back(
        &self,
        consumer: &BaseConsumer<Context>,
        before: Option<BTreeMap<i32, u64>>,
        until: Instant,
        look: &mut dyn FnMut(WrittenLetter) -> ControlFlow<()>,
    ) -> Result<Option<String>, LetterError> {
        let mut partitions = BTreeMap::new();
        for partition in self.partitions(consumer, until)? {
            let (low, high) = self.offsets(consumer, partition, until)?;
            // Of a page's cursor what is not in it is done.
            let next = before.as_ref().map_or(high, |before| {
                before.get(&partition).map_or(low, |next| (*next).min(high))
            });
            let reading = Reading {
                low,
                next: next.max(low),
                held: Vec::new(),
                from: next.max(low),
            };
            partitions.insert(partition, reading);
        }
        let stride = (STRIDE / partitions.len().max(1) as u64).max(4);
        // Each call gets on by a stride at least, and begins none after its time.
        let (mut read, mut strides) = (0, 0);
        loop {
            let mut ranges = BTreeMap::new();
            for (partition, reading) in &mut partitions {
                if reading.held.is_empty() {
                    reading.next = reading.from;
                    if reading.next > reading.low {
                        reading.from = reading.next.saturating_sub(stride).max(reading.low);
                        ranges.insert(*partition, (reading.from, reading.next));
                    }
                }
            }
            if !ranges.is_empty() {
                let in_time = strides == 0 || Instant::now() < until;
                let held = partitions.values().flat_map(|reading| &reading.held);
                let held = held.filter(|one| one.bytes.is_some());
                let room = READ.saturating_sub(held.map(|one| one.length).sum());
                // One that was begun in time has its own.
                let its_until = until.max(Instant::now() + ASK);
                let found = match in_time {
                    true => self.read(consumer, &ranges, room, its_until),
                    false => Err(self.error("the time is over")),
                };
                let found = match found {
                    Err(error) if strides == 0 => return Err(error),
                    Err(_) => {
                        // What was found so far is told, and the next call goes on here.
                        for (partition, (_, next)) in ranges {
                            if let Some(reading) = partitions.get_mut(&partition) {
                                reading.from = next;
                            }
                        }
                        return Ok(cursor(&partitions));
                    }
                    Ok(found) => found,
                };
                strides += 1;
                for (partition, letters) in found {
                    read += letters.iter().map(|one| one.length).sum::<u64>();
                    if let Some(reading) = partitions.get_mut(&partition) {
                        reading.held = letters;
                    }
                }
            }
            let newest = partitions
                .iter()
                .filter_map(|(partition, reading)| {
                    let last = reading.held.last()?;
                    Some((last.millis, last.offset, *partition))
                })
                .max();
            let Some((_, _, partition)) = newest else {
                let done = partitions.values().all(|one| one.from <= one.low);
                if done {
                    return Ok(None);
                }
                continue;
            };
            let taken = partitions.get_mut(&partition).and_then(|reading| {
                let found = reading.held.pop()?;
                reading.next = found.offset;
                Some(found)
            });
            let Some(mut found) = taken else { continue };
            if found.bytes.is_none() {
                let ranges = BTreeMap::from([(partition, (found.offset, found.offset + 1))]);
                let its_until = until.max(Instant::now() + ASK);
                let mut again = self.read(consumer, &ranges, u64::MAX, its_until)?;
                let again = again.remove(&partition).and_then(|mut all| all.pop());
                // One that retention has taken since is gone.
                let Some(again) = again else { continue };
                found = again;
            }
            if look(found.letter(partition)).is_break() || read >= READ {
                return Ok(cursor(&partitions));
            }
        }
    }
}

impl Found {
    fn letter(self, partition: i32) -> WrittenLetter {
        WrittenLetter {
            place: format!("{partition}.{}", self.offset),
            length: self.length,
            bytes: self.bytes,
        }
    }
}

fn left(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    left.clamp(LEAST, ASK)
}

/// Where each partition goes on that has something left.
fn cursor(partitions: &BTreeMap<i32, Reading>) -> Option<String> {
    let left: Vec<String> = partitions
        .iter()
        .map(|(partition, reading)| {
            let next = match reading.held.is_empty() {
                true => reading.from,
                false => reading.next,
            };
            (partition, next, reading.low)
        })
        .filter(|(_, next, low)| next > low)
        .map(|(partition, next, _)| format!("{partition}.{next}"))
        .collect();
    (!left.is_empty()).then(|| left.join("_"))
}

fn place(text: &str) -> Option<(i32, u64)> {
    let (partition, offset) = text.split_once('.')?;
    let partition = partition
        .parse::<i32>()
        .ok()
        .filter(|number| *number >= 0)?;
    Some((partition, offset.parse().ok()?))
}

impl LetterStore for KafkaLetters {
    fn name(&self) -> String {
        format!("topic {} at {}", self.topic, self.brokers)
    }

    fn newest(
        &self,
        before: Option<&str>,
        until: Instant,
        look: &mut dyn FnMut(WrittenLetter) -> ControlFlow<()>,
    ) -> Result<Option<String>, LetterError> {
        let before = before.map(|text| {
            let places: Option<BTreeMap<i32, u64>> = text.split('_').map(place).collect();
            places.ok_or_else(|| LetterError::Cursor(text.to_owned()))
        });
        let before = before.transpose()?;
        let (_lent, consumer) = self.client(until)?;
        let next = self.back(&consumer, before, until, look)?;
        self.keep(consumer);
        Ok(next)
    }

    fn find(&self, text: &str, until: Instant) -> Result<Option<WrittenLetter>, LetterError> {
        let Some((partition, offset)) = place(text) else {
            return Ok(None);
        };
        let (_lent, consumer) = self.client(until)?;
        let known = self.partitions(&consumer, until)?.contains(&partition);
        let mut found = None;
        if known {
            let (low, high) = self.offsets(&consumer, partition, until)?;
            if (low..high).contains(&offset) {
                let ranges = BTreeMap::from([(partition, (offset, offset + 1))]);
                let mut read = self.read(&consumer, &ranges, u64::MAX, until)?;
                found = read
                    .remove(&partition)
                    .and_then(|mut letters| letters.pop());
            }
        }
        self.keep(consumer);
        Ok(found.map(|found| found.letter(partition)))
    }
}
