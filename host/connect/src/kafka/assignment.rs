//! Partitions that come and go.

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{SourceError, SourceEvent};
use tracing::warn;

use super::reading::Reading;
use super::rebalance::{Change, carry_out};
use super::source::{ASK, KafkaSource};
use super::{KafkaStart, is_transient};

/// A partition with where it begins and, if it matters, ends.
type Prepared = (i32, Offset, Option<u64>);

impl KafkaSource {
    /// Carries out what was told to `flow` at the last poll.
    pub(super) fn carry_out(&mut self) -> Result<(), SourceError> {
        match self.change.take() {
            Some(change) => {
                carry_out(&self.consumer, &change).map_err(|error| self.read_error(error))
            }
            None => Ok(()),
        }
    }

    /// The next change of the assignment, prepared.
    pub(super) fn next_change(&mut self) -> Result<Option<SourceEvent>, SourceError> {
        while let Some(change) = self.consumer.context().next_change() {
            let event = match change {
                Change::Revoke { list, lost } => self.revoke(list, lost),
                Change::Assign(list) => match self.prepare(&list) {
                    Ok(prepared) => self.assign(prepared),
                    Err(error) if is_transient(&error) => {
                        self.consumer.context().put_back(Change::Assign(list));
                        self.note_trouble(&error.to_string())?;
                        return Ok(None);
                    }
                    Err(error) => return Err(self.read_error(error)),
                },
            };
            if event.is_some() {
                return Ok(event);
            }
            self.carry_out()?;
        }
        Ok(None)
    }

    fn revoke(&mut self, list: TopicPartitionList, lost: bool) -> Option<SourceEvent> {
        let numbers: Vec<i32> = list
            .elements()
            .iter()
            .map(|element| element.partition())
            .collect();
        // What was polled and not handed on goes too: whoever reads the partition next begins at the committed position.
        let mut revoked = Vec::new();
        for number in numbers {
            if self.partitions.remove(&number).is_some() {
                revoked.push(self.partition(number));
            }
        }
        if lost {
            warn!(
                place = self.place,
                partitions = revoked.len(),
                "partitions lost: the group went on without this member"
            );
        }
        self.change = Some(Change::Revoke { list, lost });
        (!revoked.is_empty()).then_some(SourceEvent::Revoked(revoked))
    }

    /// Where each partition of an assignment begins and, if it matters, ends.
    fn prepare(&self, list: &TopicPartitionList) -> Result<Vec<Prepared>, KafkaError> {
        if list.count() == 0 {
            return Ok(Vec::new());
        }
        let committed = self.consumer.committed_offsets(list.clone(), ASK)?;
        let mut prepared = Vec::with_capacity(list.count());
        for element in committed.elements() {
            element.error()?;
            let begin = match (element.offset(), self.options.start) {
                (Offset::Offset(offset), _) => Offset::Offset(offset),
                (_, KafkaStart::Earliest) => Offset::Beginning,
                (_, KafkaStart::Latest) => Offset::End,
            };
            let end = if self.options.until_end {
                let (_, high) = self.consumer.fetch_watermarks(
                    &self.options.topic,
                    element.partition(),
                    ASK,
                )?;
                Some(high.max(0) as u64)
            } else {
                None
            };
            prepared.push((element.partition(), begin, end));
        }
        Ok(prepared)
    }

    fn assign(&mut self, prepared: Vec<Prepared>) -> Option<SourceEvent> {
        let mut list = TopicPartitionList::new();
        let mut assigned = Vec::new();
        for (number, begin, end) in prepared {
            // Fails only for offsets that cannot be, and these come from the broker.
            if list
                .add_partition_offset(&self.options.topic, number, begin)
                .is_err()
            {
                list.add_partition(&self.options.topic, number);
            }
            let committed = match begin {
                Offset::Offset(offset) => Some(offset as u64),
                _ => None,
            };
            let reading = Reading {
                committed,
                next: committed.unwrap_or(0),
                end,
                ..Reading::default()
            };
            self.partitions.insert(number, reading);
            assigned.push(self.partition(number));
        }
        self.trouble.clear(&self.place);
        self.change = Some(Change::Assign(list));
        (!assigned.is_empty()).then_some(SourceEvent::Assigned(assigned))
    }
}
