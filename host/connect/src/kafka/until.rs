//! Reading a topic to where it ended when the source was opened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{Mark, SourceError};

use super::assignment::metadata_of;
use super::begin::{ends_of, partitions_of, positions};
use super::is_transient;
use super::rebalance::Context;
use super::source::{ASK, KafkaSource};
use super::troubles::Question;

/// How often a member without a partition asks how far the others are.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// Where each partition ended when the source was opened. They stay: a partition that moves between members while the
/// topic grows would else never be read to its end.
pub(super) struct Ends {
    ends: BTreeMap<i32, u64>,
    /// Of a client that looks at partitions without being a member.
    config: ClientConfig,
    asked: Instant,
    /// That others have read everything was told.
    pub(super) told: bool,
}

impl Ends {
    /// Asks where the topic ends.
    pub(super) fn ask(
        consumer: &BaseConsumer<Context>,
        config: &ClientConfig,
        topic: &str,
    ) -> KafkaResult<Ends> {
        let ends = ends_of(consumer, &partitions_of(consumer, topic)?)?;
        let ends = ends.into_iter();
        let mut config = config.clone();
        // The name of a static member belongs to the one who reads.
        config.remove("group.instance.id");
        Ok(Ends {
            ends: ends
                .map(|(number, end)| (number, end.max(0) as u64))
                .collect(),
            config,
            asked: Instant::now(),
            told: false,
        })
    }

    /// Where a partition ended; one that has been added since had nothing.
    pub(super) fn of(&self, number: i32) -> u64 {
        self.ends.get(&number).copied().unwrap_or_default()
    }

    /// Whether the group has read every partition to its end.
    fn are_read(&self, consumer: &BaseConsumer<Context>, topic: &str) -> KafkaResult<bool> {
        let mut open = TopicPartitionList::new();
        for element in positions(consumer, topic)?.elements() {
            let (number, end) = (element.partition(), self.of(element.partition()));
            // What waits in a changelog lies before the position: whoever has the partition next goes on with it.
            if Mark::read(&metadata_of(&element))
                .is_ok_and(|mark| mark.is_some_and(|mark| mark.waits > 0))
            {
                return Ok(false);
            }
            let begin = match element.offset() {
                Offset::Offset(position) if position >= 0 && position as u64 >= end => continue,
                Offset::Offset(position) => Offset::Offset(position),
                _ if end == 0 => continue,
                _ => Offset::Beginning,
            };
            open.add_partition_offset(topic, number, begin)?;
        }
        Ok(open.count() == 0 || self.nothing_lies_between(&open)?)
    }

    /// Whether no record lies between these positions and the ends: the marks of transactions are no records, and those
    /// at the beginning may have been removed.
    fn nothing_lies_between(&self, open: &TopicPartitionList) -> KafkaResult<bool> {
        let reader: BaseConsumer<Context> = self.config.create_with_context(Context::default())?;
        // Its partitions go when it does, without being asked.
        reader.context().close();
        reader.assign(open)?;
        let deadline = Instant::now() + ASK;
        let mut over = BTreeSet::new();
        while over.len() < open.count() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            match reader.poll(left) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(number))) => {
                    over.insert(number);
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(message)) => {
                    let number = message.partition();
                    if (message.offset().max(0) as u64) < self.of(number) {
                        return Ok(false);
                    }
                    over.insert(number);
                    let mut beyond = TopicPartitionList::new();
                    beyond.add_partition(message.topic(), number);
                    reader.pause(&beyond)?;
                }
            }
        }
        Ok(true)
    }
}

impl KafkaSource {
    /// Whether this member, which has no partition, need not wait for one: the group has read everything that it was to
    /// read. Others may keep the partitions for ever.
    pub(super) fn is_read_elsewhere(&mut self) -> Result<bool, SourceError> {
        let Some(ends) = &mut self.ends else {
            return Ok(false);
        };
        if ends.told || !self.partitions.is_empty() || ends.asked.elapsed() < ASK_INTERVAL {
            return Ok(false);
        }
        ends.asked = Instant::now();
        match ends.are_read(&self.consumer, &self.options.topic) {
            Ok(read) => {
                ends.told = read;
                self.clear_trouble(Question::Others);
                Ok(read)
            }
            Err(error) if is_transient(&error) => {
                let noted = self.note_trouble(Question::Others, &error.to_string());
                noted.map(|()| false)
            }
            Err(error) => Err(self.read_error(error)),
        }
    }
}
