//! What was sent again, read from the topic.

use std::collections::HashMap;
use std::time::Instant;

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::super::begin::ends_within;
use super::super::client::Settings;
use super::super::rebalance::Context;
use super::super::{is_transient, native};
use super::{KafkaAgain, LOOK, MOST, death_in, left};

/// The header that says whose attempt a record is of.
pub(super) const BY: &str = "tidegate-attempt";

/// A letter that was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentAgain {
    /// Its offset in partition 0 of the topic.
    pub offset: u64,
    /// When, microseconds since the Unix epoch.
    pub at: i64,
}

/// The mark of a letter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) sent: SentAgain,
    /// The attempt that wrote it.
    pub(super) by: u64,
}

/// Every letter that was sent again, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<[u8; 32], Mark>);

impl Known {
    pub(super) fn sent(&self, key: &[u8; 32]) -> Option<SentAgain> {
        self.0.get(key).map(|mark| mark.sent)
    }

    pub(super) fn mark(&self, key: &[u8; 32]) -> Option<Mark> {
        self.0.get(key).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Reads the topic as nobody's member, from where it was the last time.
#[derive(Default)]
pub(super) struct Reader {
    consumer: Option<BaseConsumer<Context>>,
    /// The id of the topic that was read.
    id: String,
    next: u64,
}

/// A client that reads, with this isolation.
pub(super) fn consumer(
    again: &KafkaAgain,
    isolation: &str,
) -> Result<BaseConsumer<Context>, String> {
    let ours = [
        ("queued.max.messages.kbytes", "4096"),
        ("fetch.wait.max.ms", "50"),
    ];
    let reserved = [
        // No member of it: librdkafka wants a name before it reads.
        ("group.id", "tidegate-sent-again"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", isolation),
    ];
    let options = &again.options;
    let settings = Settings::internal(&options.brokers, &ours, &reserved);
    let config: ClientConfig = settings.config(&options.properties)?;
    let made = config.create_with_context(Context::default());
    made.map_err(|error: KafkaError| error.to_string())
}

impl Reader {
    /// Reads on to the end of what is committed; with `all`, which sees everything, to the end of all there is, when it is
    /// committed or aborted.
    pub(super) fn read_on(
        &mut self,
        again: &KafkaAgain,
        all: Option<&BaseConsumer<Context>>,
        until: Instant,
    ) -> Result<(), String> {
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => consumer(again, "read_committed")?,
        };
        let read = self.read(&consumer, again, all, until);
        let read = read.and_then(|()| consumer.unassign().map_err(|error| error.to_string()));
        // One that failed may be of no use any more. What it has read stays.
        self.consumer = read.is_ok().then_some(consumer);
        read
    }

    fn forget(&mut self, again: &KafkaAgain) {
        again.known().0.clear();
        self.next = 0;
    }

    fn read(
        &mut self,
        consumer: &BaseConsumer<Context>,
        again: &KafkaAgain,
        all: Option<&BaseConsumer<Context>>,
        until: Instant,
    ) -> Result<(), String> {
        let topic = &again.options.topic;
        let text = |error: KafkaError| error.to_string();
        let metadata = consumer.fetch_metadata(Some(topic), left(until));
        let metadata = metadata.map_err(text)?;
        let mut topics = metadata.topics().iter();
        let is_there = topics.any(|found| found.name() == topic && !found.partitions().is_empty());
        if !is_there {
            self.forget(again);
            return match all {
                None => Ok(()),
                Some(_) => Err("the topic is gone".into()),
            };
        }
        if let Ok((id, _)) = native::describe_topic(consumer.client(), topic, left(until))
            && id != self.id
        {
            self.forget(again);
            self.id = id;
        }
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, 0);
        let end_for = |asker: &BaseConsumer<Context>| {
            let ends = ends_within(asker, &list, left(until)).map_err(text)?;
            let end = ends.first().map_or(0, |(_, end)| *end);
            Ok::<u64, String>(end.max(0) as u64)
        };
        let mut end = end_for(consumer)?;
        if let Some(all) = all {
            let needed = end_for(all)?;
            while end < needed {
                if Instant::now() >= until {
                    return Err("a transaction on it stays open".into());
                }
                std::thread::sleep(LOOK);
                end = end_for(consumer)?;
            }
        }
        if end < self.next {
            self.forget(again);
        }
        if end == self.next {
            return Ok(());
        }
        let mut from = TopicPartitionList::new();
        let place = match self.next {
            0 => Offset::Beginning,
            next => Offset::Offset(next as i64),
        };
        from.add_partition_offset(topic, 0, place).map_err(text)?;
        consumer.assign(&from).map_err(text)?;
        while self.next < end {
            match consumer.poll(left(until)) {
                None => {}
                Some(Ok(message)) => self.take(again, &message)?,
                // What is missing before the end are holes.
                Some(Err(KafkaError::PartitionEOF(_))) => self.next = end,
                Some(Err(error)) if is_transient(&error) => {}
                Some(Err(error)) => return Err(text(error)),
            }
            if self.next < end && Instant::now() >= until {
                let letters = again.known().len();
                return Err(format!(
                    "it is not read to its end in time, {letters} letters so far; try again, which goes on there"
                ));
            }
        }
        Ok(())
    }

    fn take(&mut self, again: &KafkaAgain, message: &BorrowedMessage<'_>) -> Result<(), String> {
        let offset = message.offset().max(0) as u64;
        let mut known = again.known();
        let key = death_in(message.key().unwrap_or_default());
        if known.len() >= MOST && !known.0.contains_key(&key) {
            return Err(format!("it has more than {MOST} letters"));
        }
        let headers = message.headers();
        let by = headers.and_then(|headers| {
            let found = headers.iter().find(|header| header.key == BY)?;
            let text = std::str::from_utf8(found.value?).ok()?;
            u64::from_str_radix(text, 16).ok()
        });
        let millis = message.timestamp().to_millis().unwrap_or_default();
        known.0.entry(key).or_insert(Mark {
            sent: SentAgain {
                offset,
                at: millis.saturating_mul(1000),
            },
            by: by.unwrap_or_default(),
        });
        self.next = offset + 1;
        Ok(())
    }
}
