//! Reading a topic as a member of a consumer group.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_codec::{Decoder, DecoderOptions, Format, Input, Malformed, PREVIEW};
use tidegate_contract::{Partition, Rejected, Source, SourceError, SourceEvent};
use tidegate_record::RecordId;
use tracing::warn;

use super::rebalance::{Change, Context, carry_out};
use super::{Properties, Trouble, client_config, code_of, is_transient, wait_for_topic};
use crate::lines::{Gathered, size};
use crate::now_micros;

/// How long one question to the brokers may take.
const ASK: Duration = Duration::from_secs(2);
/// How often the brokers are asked whether trouble has passed.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// Where a partition begins for which the group has no position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KafkaStart {
    /// At its first record.
    #[default]
    Earliest,
    /// After its last record.
    Latest,
}

/// Which topic is read, and how.
#[derive(Clone, Debug)]
pub struct KafkaSourceOptions {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// This member's name in the group, the same after a restart: it then takes its partitions back without a rebalance.
    pub instance: Option<String>,
    /// Format (`json` or `raw`), key, event time, limits.
    pub decoder: DecoderOptions,
    /// Where to begin without a position.
    pub start: KafkaStart,
    /// Ends each partition where it ended when it was assigned.
    pub until_end: bool,
    /// How long the brokers may be away before the source gives up.
    pub patience: Duration,
    /// How long a commit may be tried.
    pub commit_timeout: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaSourceOptions {
    /// The usual options: JSON, from the earliest record, 5 minutes of patience, commits tried for 30 s.
    pub fn new(
        source: u16,
        brokers: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        KafkaSourceOptions {
            source,
            brokers: brokers.into(),
            topic: topic.into(),
            group: group.into(),
            instance: None,
            decoder: DecoderOptions::default(),
            start: KafkaStart::Earliest,
            until_end: false,
            patience: Duration::from_secs(300),
            commit_timeout: Duration::from_secs(30),
            properties: Properties::new(),
        }
    }
}

/// A topic as a source. What it holds unread is bounded by `queued.max.messages.kbytes` (16 MiB unless set).
pub struct KafkaSource {
    options: KafkaSourceOptions,
    place: String,
    consumer: BaseConsumer<Context>,
    decoder: Decoder,
    partitions: BTreeMap<i32, Reading>,
    /// Told to `flow`, to be carried out at the next poll.
    change: Option<Change>,
    trouble: Trouble,
    probed: Instant,
    /// The partition whose turn it is.
    turn: i32,
}

/// One partition that is read here.
#[derive(Debug, Default)]
struct Reading {
    gathered: Gathered,
    next: u64,
    committed: Option<u64>,
    /// Where it ended when it was assigned, if it is read until there.
    end: Option<u64>,
    at_end: bool,
    end_told: bool,
    paused: bool,
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource")
            .field("place", &self.place)
            .field("partitions", &self.partitions.keys())
            .finish_non_exhaustive()
    }
}

impl KafkaSource {
    /// Joins the group. Waits for the brokers, as long as its patience lasts; a topic that does not exist is an error.
    pub fn open(options: KafkaSourceOptions) -> Result<KafkaSource, SourceError> {
        let place = format!("topic {} at {}", options.topic, options.brokers);
        let fail = |why: String| SourceError::Read {
            place: place.clone(),
            why,
        };
        if options.decoder.format == Format::Csv {
            return Err(fail("messages are json or raw, csv is for files".into()));
        }
        let decoder =
            Decoder::new(options.decoder.clone()).map_err(|error| fail(error.to_string()))?;
        let end_told = if options.until_end { "true" } else { "false" };
        let mut reserved = vec![
            ("group.id", options.group.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", end_told),
            ("group.protocol", "classic"),
            // A position that is gone must be an error, not a silent jump over records.
            ("auto.offset.reset", "error"),
        ];
        if let Some(instance) = &options.instance {
            reserved.push(("group.instance.id", instance));
        }
        let ours = [
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("allow.auto.create.topics", "false"),
            // Prefetched messages beyond these would only wait in memory.
            ("queued.max.messages.kbytes", "16384"),
            ("queued.min.messages", "5000"),
            ("fetch.queue.backoff.ms", "20"),
            ("fetch.wait.max.ms", "100"),
        ];
        let config =
            client_config(&options.brokers, &ours, &reserved, &options.properties).map_err(fail)?;
        let consumer: BaseConsumer<Context> = config
            .create_with_context(Context::default())
            .map_err(|error| fail(error.to_string()))?;
        wait_for_topic(&place, &options.topic, options.patience, |wait| {
            consumer.fetch_metadata(Some(&options.topic), wait)
        })
        .map_err(fail)?;
        consumer
            .subscribe(&[&options.topic])
            .map_err(|error| fail(error.to_string()))?;
        Ok(KafkaSource {
            trouble: Trouble::new(options.patience),
            options,
            place,
            consumer,
            decoder,
            partitions: BTreeMap::new(),
            change: None,
            probed: Instant::now(),
            turn: 0,
        })
    }

    fn read_error(&self, why: impl ToString) -> SourceError {
        SourceError::Read {
            place: self.place.clone(),
            why: why.to_string(),
        }
    }

    fn partition(&self, number: i32) -> Partition {
        Partition {
            source: self.options.source,
            number: number as u32,
        }
    }

    fn list(&self, number: i32) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.options.topic, number);
        list
    }

    fn note_trouble(&mut self, why: &str) -> Result<(), SourceError> {
        let noted = self.trouble.note(&self.place, why);
        noted.map_err(|why| self.read_error(why))
    }

    /// Carries out what was told to `flow` at the last poll.
    fn carry_out(&mut self) -> Result<(), SourceError> {
        match self.change.take() {
            Some(change) => {
                carry_out(&self.consumer, &change).map_err(|error| self.read_error(error))
            }
            None => Ok(()),
        }
    }

    /// The next change of the assignment, prepared.
    fn next_change(&mut self) -> Result<Option<SourceEvent>, SourceError> {
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
    fn prepare(
        &self,
        list: &TopicPartitionList,
    ) -> Result<Vec<(i32, Offset, Option<u64>)>, KafkaError> {
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

    fn assign(&mut self, prepared: Vec<(i32, Offset, Option<u64>)>) -> Option<SourceEvent> {
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

    /// What a partition has to say: its records, or that it has ended.
    fn take_ready(&mut self) -> Option<SourceEvent> {
        let after = self
            .partitions
            .range(self.turn..)
            .map(|(number, _)| *number);
        let before = self
            .partitions
            .range(..self.turn)
            .map(|(number, _)| *number);
        let ready = |number: &i32| {
            self.partitions.get(number).is_some_and(|reading| {
                let has_records = reading.gathered.len() > 0;
                (has_records && !reading.paused)
                    || (!has_records && reading.at_end && !reading.end_told)
            })
        };
        let number = after.chain(before).find(ready)?;
        self.turn = number + 1;
        let partition = self.partition(number);
        let reading = self.partitions.get_mut(&number)?;
        if reading.gathered.len() == 0 {
            reading.end_told = true;
            return Some(SourceEvent::End(partition));
        }
        let Gathered {
            batch, rejected, ..
        } = std::mem::take(&mut reading.gathered);
        Some(SourceEvent::Records {
            partition,
            batch: batch.finish(now_micros()),
            rejected,
            next: reading.next,
        })
    }

    /// Takes messages until the bounds are met, nothing more is at hand, or the assignment is to change. Waits only
    /// while there is nothing.
    fn gather(
        &mut self,
        records: usize,
        bytes: usize,
        deadline: Instant,
    ) -> Result<(), SourceError> {
        let (mut count, mut total) = (0, 0);
        while count < records.max(1) && total < bytes.max(1) {
            let wait = if count == 0 {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let error = match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    let number = message.partition();
                    if let Some(reading) = self.partitions.get_mut(&number) {
                        total += message.payload_len() + message.key_len();
                        count += 1;
                        reading.accept(&message, self.options.source, &mut self.decoder);
                        if reading.at_end {
                            self.consumer
                                .pause(&self.list(number))
                                .map_err(|error| self.read_error(error))?;
                        }
                    }
                    self.trouble.clear(&self.place);
                    continue;
                }
                Some(Err(error)) => error,
            };
            self.handle(error)?;
            if self.consumer.context().has_changes() || count == 0 {
                break;
            }
        }
        Ok(())
    }

    fn handle(&mut self, error: KafkaError) -> Result<(), SourceError> {
        if let KafkaError::PartitionEOF(number) = error {
            self.trouble.clear(&self.place);
            if let Some(reading) = self.partitions.get_mut(&number) {
                reading.at_end |= reading.end.is_some();
            }
            return Ok(());
        }
        let why = match self.consumer.context().reason() {
            reason if reason.is_empty() => error.to_string(),
            reason => format!("{error}: {reason}"),
        };
        match error {
            KafkaError::MessageConsumptionFatal(_) => Err(self.read_error(why)),
            _ if code_of(&error) == Some(RDKafkaErrorCode::AutoOffsetReset) => {
                Err(SourceError::Position {
                    place: self.place.clone(),
                    position: 0,
                    why: format!("{why}; the records were removed, set the group's position anew"),
                })
            }
            _ if is_transient(&error) => self.note_trouble(&why),
            _ => Err(self.read_error(why)),
        }
    }

    /// While there is trouble and nothing comes: asks whether it has passed.
    fn probe(&mut self) -> Result<(), SourceError> {
        if !self.trouble.is_on() || self.probed.elapsed() < PROBE_INTERVAL {
            return Ok(());
        }
        self.probed = Instant::now();
        match self.consumer.fetch_metadata(Some(&self.options.topic), ASK) {
            Ok(_) => {
                self.trouble.clear(&self.place);
                Ok(())
            }
            Err(error) => self.note_trouble(&error.to_string()),
        }
    }

    fn owned(&self, number: i32) -> bool {
        let revoking =
            |list: &TopicPartitionList| list.find_partition(&self.options.topic, number).is_some();
        self.partitions.contains_key(&number)
            || matches!(&self.change, Some(Change::Revoke { list, lost: false }) if revoking(list))
    }
}

impl Reading {
    fn accept(&mut self, message: &BorrowedMessage<'_>, source: u16, decoder: &mut Decoder) {
        let offset = message.offset().max(0) as u64;
        if self.end.is_some_and(|end| offset + 1 >= end) {
            self.at_end = true;
        }
        if self.end.is_some_and(|end| offset >= end) {
            return;
        }
        self.next = offset + 1;
        let mut headers = Vec::new();
        if let Some(borrowed) = message.headers() {
            headers.extend(borrowed.iter().map(|header| (header.key, header.value)));
        }
        let input = Input {
            id: RecordId {
                source,
                partition: message.partition() as u32,
                offset,
                emit: 0,
            },
            key: message.key(),
            value: message.payload(),
            headers: &headers,
            event_time: message
                .timestamp()
                .to_millis()
                .and_then(|millis| millis.checked_mul(1000)),
        };
        let value = message.payload().unwrap_or_default();
        let max_record = decoder.options().max_record;
        let decoded = if value.len() > max_record {
            Err(Malformed {
                reason: format!(
                    "value of {} bytes exceeds max_record {}",
                    value.len(),
                    size(max_record)
                ),
            })
        } else {
            decoder.decode(&input, &mut self.gathered.batch)
        };
        if let Err(Malformed { reason }) = decoded {
            self.gathered.rejected.push(Rejected {
                offset,
                reason,
                preview: value[..value.len().min(PREVIEW)].to_vec(),
                length: value.len() as u64,
            });
        }
    }
}

impl Source for KafkaSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let deadline = Instant::now() + wait;
        self.carry_out()?;
        loop {
            if let Some(event) = self.next_change()? {
                return Ok(event);
            }
            if let Some(event) = self.take_ready() {
                return Ok(event);
            }
            self.gather(records, bytes, deadline)?;
            if !self.consumer.context().has_changes()
                && let Some(event) = self.take_ready()
            {
                return Ok(event);
            }
            self.probe()?;
            if Instant::now() >= deadline {
                // Changes wait for the next poll only if they could not be prepared.
                return Ok(self.next_change()?.unwrap_or(SourceEvent::Idle));
            }
        }
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        let number = partition.number as i32;
        let offset = Offset::Offset(position as i64);
        let fail = |why: String| SourceError::Position {
            place: format!("{} partition {number}", self.place),
            position,
            why,
        };
        let Some(reading) = self.partitions.get_mut(&number) else {
            return Err(fail("the partition is not assigned to this worker".into()));
        };
        (reading.gathered, reading.next) = (Gathered::default(), position);
        (reading.at_end, reading.end_told, reading.committed) = (false, false, None);
        match &mut self.change {
            // Nothing is fetched yet: the partition will begin there.
            Some(Change::Assign(list))
                if list.find_partition(&self.options.topic, number).is_some() =>
            {
                list.set_partition_offset(&self.options.topic, number, offset)
                    .map_err(|error| fail(error.to_string()))
            }
            _ => {
                let list = self.list(number);
                self.consumer
                    .seek(&self.options.topic, number, offset, ASK)
                    .and_then(|()| self.consumer.resume(&list))
                    .map_err(|error| fail(error.to_string()))
            }
        }
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        let number = partition.number as i32;
        if let Some(reading) = self.partitions.get_mut(&number)
            && !reading.paused
        {
            reading.paused = true;
            let list = self.list(number);
            self.carry_out()?;
            self.consumer
                .pause(&list)
                .map_err(|error| self.read_error(error))?;
        }
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        let number = partition.number as i32;
        if let Some(reading) = self.partitions.get_mut(&number)
            && reading.paused
        {
            reading.paused = false;
            if !reading.at_end {
                let list = self.list(number);
                self.consumer
                    .resume(&list)
                    .map_err(|error| self.read_error(error))?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, positions: &[(Partition, u64)]) -> Result<(), SourceError> {
        let mut list = TopicPartitionList::new();
        for (partition, position) in positions {
            let number = partition.number as i32;
            let known = self
                .partitions
                .get(&number)
                .and_then(|reading| reading.committed);
            if self.owned(number) && known != Some(*position) {
                list.add_partition_offset(
                    &self.options.topic,
                    number,
                    Offset::Offset(*position as i64),
                )
                .map_err(|error| self.read_error(error))?;
            }
        }
        if list.count() == 0 {
            return Ok(());
        }
        let deadline = Instant::now() + self.options.commit_timeout;
        loop {
            if self.consumer.assignment_lost() {
                warn!(
                    place = self.place,
                    "positions not committed: the group went on without this member"
                );
                return Ok(());
            }
            match self.consumer.commit(&list, CommitMode::Sync) {
                Ok(()) => break,
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => {
                    return Err(SourceError::Commit {
                        place: format!("group {} for {}", self.options.group, self.place),
                        why: error.to_string(),
                    });
                }
            }
        }
        for (partition, position) in positions {
            if let Some(reading) = self.partitions.get_mut(&(partition.number as i32)) {
                reading.committed = Some(*position);
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.consumer.context().close();
        self.partitions.clear();
        self.carry_out()
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        // Dropping the consumer polls it until it has left; nobody else will carry out changes then.
        self.consumer.context().close();
        if self.carry_out().is_err() {
            warn!(
                place = self.place,
                "left the group with a change of assignment open"
            );
        }
    }
}
