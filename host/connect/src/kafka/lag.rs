//! What lies unread in the partitions that are read here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use tidegate_contract::Lag;

use super::begin::ends_within;
use super::source::KafkaSource;

/// How often the brokers are asked where partitions end: one question to each, however many there are.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long that may take: the worker waits for it.
const WAIT: Duration = Duration::from_millis(250);

/// Where partitions ended when the brokers were asked last.
#[derive(Debug, Default)]
pub(super) struct KnownEnds {
    asked: Option<Instant>,
    /// None before they have answered.
    ends: Option<BTreeMap<i32, u64>>,
}

impl KafkaSource {
    /// Nothing before the brokers have answered once; in trouble what they said last. A partition that is not fetched for
    /// now tells no end by itself, so that they are asked.
    pub(super) fn unread(&mut self) -> Option<Lag> {
        let is_due = (self.known_ends.asked).is_none_or(|asked| asked.elapsed() >= INTERVAL);
        if is_due && !self.partitions.is_empty() && !self.troubles.are_there() {
            self.known_ends.asked = Some(Instant::now());
            let mut list = TopicPartitionList::new();
            for number in self.partitions.keys() {
                list.add_partition(&self.options.topic, *number);
            }
            match ends_within(&self.consumer, &list, WAIT) {
                Ok(ends) => {
                    let known = ends.into_iter();
                    let known = known.map(|(number, end)| (number, end.max(0) as u64));
                    self.known_ends.ends = Some(known.collect());
                }
                Err(error) => {
                    tracing::debug!(place = self.place, %error, "where the topic ends is not known");
                }
            }
        }
        let ends = self.known_ends.ends.as_ref()?;
        let mut unread = 0;
        for (number, reading) in &self.partitions {
            if let Some(end) = ends.get(number) {
                unread += end.saturating_sub(reading.next) + reading.gathered.len() as u64;
            }
        }
        Some(Lag {
            records: Some(unread),
            bytes: None,
        })
    }
}
