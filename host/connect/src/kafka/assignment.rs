//! Partitions that come and go.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionListElem};
use tidegate_contract::{Assigned, KeptPosition, SourceError, SourceEvent};
use tracing::warn;

use super::begin::{begin_of, begun_mark, first_of, has_any, has_position, positions};
use super::reading::Reading;
use super::rebalance::{Change, carry_out};
use super::source::{ASK, KafkaSource};
use super::troubles::Question;
use super::{KafkaStart, is_transient};

/// A partition that is to be assigned.
struct Prepared {
    number: i32,
    /// Where it begins: the group's position, or what is to become it.
    begin: i64,
    /// The group's position, if it has one.
    committed: Option<u64>,
    /// What was committed with it.
    metadata: String,
    /// Where it ends, if that matters.
    end: Option<u64>,
}

/// What was committed with a position. rdkafka 0.39 panics where it is not UTF-8; whoever commits that to the group must
/// not end a worker with it.
pub(super) fn metadata_of(element: &TopicPartitionListElem<'_>) -> String {
    let read = || element.metadata().to_owned();
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_default()
}

impl KafkaSource {
    /// Carries out what was told to `flow` at the last poll.
    pub(super) fn carry_out(&mut self) -> Result<(), SourceError> {
        match self.change.take() {
            Some(Change::Anew) if self.consumer.context().is_closing() => Ok(()),
            Some(Change::Anew) => self.come_anew(),
            Some(change) => {
                if let Change::Assign(list) = &change {
                    for element in list.elements() {
                        let led = self
                            .messages
                            .lead_here(element.topic(), element.partition());
                        led.map_err(|why| self.read_error(why))?;
                    }
                }
                carry_out(&self.consumer, &change).map_err(|error| self.read_error(error))
            }
            None => Ok(()),
        }
    }

    /// Commits where the group begins, once that is assigned. Nothing is read before it is: a member that was killed then
    /// would go past what came meanwhile. Returns whether it is.
    pub(super) fn tell_begun(&mut self) -> Result<bool, SourceError> {
        if self.begun.is_empty() {
            self.begun_tried = false;
            return Ok(true);
        }
        if self.begun_tried {
            match positions(&self.consumer, &self.options.topic) {
                Ok(positions) => {
                    let known = positions.elements_for_topic(&self.options.topic);
                    let known = known.into_iter().filter(|one| has_position(one.offset()));
                    let known: Vec<i32> = known.map(|one| one.partition()).collect();
                    self.begun.retain(|(number, _)| !known.contains(number));
                }
                Err(error) if is_transient(&error) => {
                    self.note_trouble(Question::Take, &error.to_string())?;
                    return Ok(false);
                }
                Err(error) => return Err(self.read_error(error)),
            }
        }
        self.begun_tried = true;
        let (begun, mark) = (self.begun.clone(), begun_mark());
        let begun = begun.iter();
        let begun = begun.map(|(number, begin)| (*number, *begin, mark.as_str()));
        match self.commit_all(&begun.collect::<Vec<_>>()) {
            Ok(()) => {}
            Err(SourceError::NotYet { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.begun.clear();
        self.begun_tried = false;
        Ok(true)
    }

    /// The next change of the assignment, prepared.
    pub(super) fn next_change(&mut self) -> Result<Option<SourceEvent>, SourceError> {
        while let Some(change) = self.consumer.context().next_change() {
            let event = match change {
                Change::Revoke { list, lost } => {
                    let numbers = list.elements();
                    let numbers = numbers.iter().map(|element| element.partition());
                    self.revoke(numbers.collect(), Change::Revoke { list, lost }, lost)
                }
                Change::Anew => {
                    let numbers = self.partitions.keys().copied().collect();
                    self.revoke(numbers, Change::Anew, true)
                }
                Change::Assign(list) => match self.prepare(&list) {
                    Ok(Some(prepared)) => self.assign(prepared),
                    Ok(None) => {
                        self.clear_trouble(Question::Begin);
                        self.consumer.context().put_back(Change::Assign(list));
                        self.begin_awaited.get_or_insert_with(Instant::now);
                        return Ok(None);
                    }
                    Err(error) if is_transient(&error) => {
                        self.consumer.context().put_back(Change::Assign(list));
                        self.note_trouble(Question::Begin, &error.to_string())?;
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

    fn revoke(&mut self, numbers: Vec<i32>, change: Change, lost: bool) -> Option<SourceEvent> {
        // What was polled and not handed on goes too: whoever reads the partition next begins at the committed position.
        let mut revoked = Vec::new();
        // Of one that another may have by now it is for that one to say.
        self.begun
            .retain(|(number, _)| !lost && !numbers.contains(number));
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
        self.change = Some(change);
        // The next assignment waits for others anew, and so does a member that is left without a partition.
        self.begin_awaited = None;
        self.clear_trouble(Question::Begin);
        if let Some(ends) = &mut self.ends {
            ends.told = false;
        }
        (!revoked.is_empty()).then_some(SourceEvent::Revoked(revoked))
    }

    /// Where each partition of an assignment begins and, if it matters, ends. None while another member is to say where
    /// the group begins.
    fn prepare(&mut self, list: &TopicPartitionList) -> Result<Option<Vec<Prepared>>, KafkaError> {
        if list.count() == 0 {
            return Ok(Some(Vec::new()));
        }
        let positions = self.consumer.committed_offsets(list.clone(), ASK)?;
        let of = |offsets: &[(i32, i64)], number: i32| {
            let mut offsets = offsets.iter();
            offsets.find_map(|(partition, offset)| (*partition == number).then_some(*offset))
        };
        let mut prepared = Vec::with_capacity(list.count());
        // Asked once, if a partition has no position.
        let mut begun: Option<Vec<(i32, i64)>> = None;
        let mut first: Option<Vec<(i32, i64)>> = None;
        for element in &positions.elements() {
            element.error()?;
            let number = element.partition();
            let committed = match element.offset() {
                Offset::Offset(offset) => Some(offset.max(0) as u64),
                _ => None,
            };
            let told = of(&self.begun, number);
            let begin = match (element.offset(), self.options.start) {
                (Offset::Offset(offset), _) => Some(offset),
                // It is to be told yet.
                _ if told.is_some() => told,
                (_, KafkaStart::Earliest) => None,
                (_, KafkaStart::Latest | KafkaStart::At(_)) => {
                    let offsets = match &begun {
                        Some(offsets) => offsets,
                        None => match self.offsets_to_begin_at(list)? {
                            Some(offsets) => begun.insert(offsets),
                            None => return Ok(None),
                        },
                    };
                    of(offsets, number)
                }
            };
            let begin = match (begin, &first) {
                (Some(begin), _) => begin,
                (None, Some(first)) => of(first, number).unwrap_or(0),
                (None, None) => {
                    let first = first.insert(first_of(&self.consumer, list)?);
                    of(first, number).unwrap_or(0)
                }
            };
            prepared.push(Prepared {
                number,
                begin,
                committed,
                metadata: metadata_of(element),
                end: self.ends.as_ref().map(|ends| ends.of(number)),
            });
        }
        // Also where it begins at the first record, so that records which are removed before the first commit are missed.
        for (number, begin) in begun.unwrap_or_default() {
            if of(&self.begun, number).is_none() {
                self.begun.push((number, begin));
            }
        }
        let new = prepared.iter().filter(|new| new.committed.is_none());
        for Prepared { number, begin, .. } in new {
            if of(&self.begun, *number).is_none() {
                self.begun.push((*number, *begin));
            }
        }
        self.begin_awaited = None;
        Ok(Some(prepared))
    }

    /// Where every partition of the topic begins, if the group has no position in it yet: only where it had members before,
    /// of another topic. Those of other members are among them, so that no member finds the group begun and its own
    /// partition without a position. One member says them for all, that which has the lowest partition: a second one
    /// would say other offsets, and go past what came in between. None for the others, as long as it may be at it: after
    /// that it is gone, or is no member that says any.
    fn offsets_to_begin_at(
        &self,
        list: &TopicPartitionList,
    ) -> Result<Option<Vec<(i32, i64)>>, KafkaError> {
        let topic = &self.options.topic;
        let positions = positions(&self.consumer, topic)?;
        if has_any(&positions) {
            return Ok(Some(Vec::new()));
        }
        let numbers = positions.elements().into_iter();
        let lowest = numbers.map(|element| element.partition()).min();
        let mine = |number: i32| {
            self.partitions.contains_key(&number) || list.find_partition(topic, number).is_some()
        };
        let awaited = self.begin_awaited.map(|since| since.elapsed());
        let awaits = awaited.is_none_or(|awaited| awaited <= self.options.begin_timeout);
        if awaits && lowest.is_some_and(|lowest| !mine(lowest)) {
            return Ok(None);
        }
        begin_of(&self.consumer, &positions, self.options.start).map(Some)
    }

    fn assign(&mut self, prepared: Vec<Prepared>) -> Option<SourceEvent> {
        let mut list = TopicPartitionList::new();
        let mut assigned = Vec::new();
        for Prepared {
            number,
            begin,
            committed,
            metadata,
            end,
        } in prepared
        {
            // Fails only for offsets that cannot be, and these come from the broker.
            if list
                .add_partition_offset(&self.options.topic, number, Offset::Offset(begin))
                .is_err()
            {
                list.add_partition(&self.options.topic, number);
            }
            let next = begin.max(0) as u64;
            let reading = Reading {
                next,
                end,
                ..Reading::default()
            };
            self.partitions.insert(number, reading);
            assigned.push(Assigned {
                partition: self.partition(number),
                kept: Some(KeptPosition {
                    position: next,
                    metadata: committed.map(|_| metadata),
                    id: self.id.clone(),
                }),
            });
        }
        self.clear_trouble(Question::Begin);
        self.clear_trouble(Question::Others);
        self.change = Some(Change::Assign(list));
        (!assigned.is_empty()).then_some(SourceEvent::Assigned(assigned))
    }
}
