//! Reading a topic as a member of a consumer group.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, TopicPartitionList};
use tidegate_codec::{Decoder, Format};
use tidegate_contract::{Done, Lag, Partition, Source, SourceError, SourceEvent};
use tracing::warn;

use super::begin::{begin_group, to_commit};
use super::client::{Settings, find, patiently};
use super::lag::KnownEnds;
use super::leaving::Leaving;
use super::member::Member;
use super::native::Messages;
use super::options::{KafkaSourceOptions, KafkaStart};
use super::reading::Reading;
use super::rebalance::{Change, Context};
use super::troubles::{Question, Troubles};
use super::until::Ends;
use super::{code_of, is_transient, native};
use crate::lines::Gathered;
use crate::now_micros;

/// How long one question to the brokers may take.
pub(super) const ASK: Duration = Duration::from_secs(2);
/// Messages that are taken before it is known how large they are.
const FIRST: usize = 32;
/// How often the brokers are asked whether trouble has passed.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// How often the brokers are asked whether a topic is still the one that it was.
pub(super) const SAME_TOPIC_INTERVAL: Duration = Duration::from_secs(5);
/// How long that may take: the worker waits for it.
pub(super) const SAME_TOPIC_ASK: Duration = Duration::from_millis(250);

/// A topic as a source. What it holds unread is bounded by `queued.max.messages.kbytes` (4 MiB unless set) and one answer
/// of a broker.
pub struct KafkaSource {
    pub(super) options: KafkaSourceOptions,
    pub(super) place: String,
    /// The id of the topic when it was opened; empty if the brokers do not tell.
    pub(super) id: String,
    /// What is fetched; let go before the consumer is.
    pub(super) messages: Messages,
    /// The committer of this worker uses it too, if it commits in transactions.
    pub(super) consumer: Arc<BaseConsumer<Context>>,
    /// That consumer, for the committer.
    pub(super) member: Arc<Member>,
    pub(super) config: ClientConfig,
    /// When others were found to have this member's name.
    pub(super) taken_over: Vec<Instant>,
    decoder: Decoder,
    pub(super) partitions: BTreeMap<i32, Reading>,
    /// Told to `flow`, to be carried out at the next poll.
    pub(super) change: Option<Change>,
    /// Where partitions begin at which the group begins with this topic: to be committed once they are assigned.
    pub(super) begun: Vec<(i32, i64)>,
    /// That was tried, and others may have committed there since.
    pub(super) begun_tried: bool,
    /// Where it ends, if it does.
    pub(super) ends: Option<Ends>,
    /// Since when another member is to say where the group begins.
    pub(super) begin_awaited: Option<Instant>,
    pub(super) troubles: Troubles,
    probed: Instant,
    /// When the brokers were asked last whether the topic is the same.
    id_asked: Instant,
    /// For the lag.
    pub(super) known_ends: KnownEnds,
    /// The partition whose turn it is.
    turn: i32,
    /// Last: see there.
    leaving: Leaving,
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
        KafkaSource::open_as(options, Member::nobody())
    }

    /// The same, as this member, whom somebody follows already.
    pub(super) fn open_as(
        options: KafkaSourceOptions,
        member: Arc<Member>,
    ) -> Result<KafkaSource, SourceError> {
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
        let settings = Settings::reader(&options);
        let config = settings.config(&options.properties).map_err(fail)?;
        find(&config, &place, &options.topic, options.patience).map_err(fail)?;
        let consumer: BaseConsumer<Context> = config
            .create_with_context(Context::default())
            .map_err(|error| fail(error.to_string()))?;
        if options.start != KafkaStart::Earliest {
            begin_group(&config, &options, &place).map_err(fail)?;
        }
        let ends = if options.until_end {
            let ask = || Ends::ask(&consumer, &config, &options.topic);
            Some(patiently(&place, options.patience, ask).map_err(fail)?)
        } else {
            None
        };
        let id = id_of(&consumer, &options.topic, &place);
        consumer
            .subscribe(&[&options.topic])
            .map_err(|error| fail(error.to_string()))?;
        let consumer = Arc::new(consumer);
        member.becomes(&consumer);
        Ok(KafkaSource {
            member,
            config,
            taken_over: Vec::new(),
            troubles: Troubles::new(options.patience),
            options,
            place,
            id,
            messages: Messages::new(Arc::clone(&consumer)),
            consumer,
            decoder,
            partitions: BTreeMap::new(),
            change: None,
            begun: Vec::new(),
            begun_tried: false,
            ends,
            begin_awaited: None,
            probed: Instant::now(),
            id_asked: Instant::now(),
            known_ends: KnownEnds::default(),
            turn: 0,
            leaving: Leaving::default(),
        })
    }

    pub(super) fn read_error(&self, why: impl ToString) -> SourceError {
        SourceError::Read {
            place: self.place.clone(),
            why: why.to_string(),
        }
    }

    pub(super) fn partition(&self, number: i32) -> Partition {
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

    /// What a partition has to say: its records, or that it has ended.
    fn take_ready(&mut self, records: usize, bytes: usize) -> Option<SourceEvent> {
        let after = self.partitions.range(self.turn..);
        let before = self.partitions.range(..self.turn);
        let (number, _) = after.chain(before).find(|(_, reading)| {
            let has_records = reading.gathered.len() > 0;
            (has_records && !reading.paused)
                || (!has_records && reading.at_end && !reading.end_told)
        })?;
        let number = *number;
        self.turn = number + 1;
        let partition = self.partition(number);
        let reading = self.partitions.get_mut(&number)?;
        if reading.gathered.len() == 0 {
            reading.end_told = true;
            return Some(SourceEvent::End(partition));
        }
        let (taken, rest_from) = reading.gathered.take(records.max(1), bytes);
        reading.usual = taken.bytes();
        Some(SourceEvent::Records {
            partition,
            batch: taken.batch.finish(now_micros()),
            rejected: taken.rejected,
            next: rest_from.unwrap_or(reading.next),
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
        let left = || deadline.saturating_duration_since(Instant::now());
        // What is fetched stays where it is, and soon nothing more is fetched: nothing is thrown away.
        let all_paused =
            !self.partitions.is_empty() && self.partitions.values().all(|reading| reading.paused);
        self.hear(if all_paused { left() } else { Duration::ZERO })?;
        if all_paused || self.consumer.context().has_changes() {
            return Ok(());
        }
        let (mut count, mut total) = (0, 0);
        while count < records.max(1) && total < bytes.max(1) {
            // One that is large should not bring many others like it.
            let most = match count {
                0 => FIRST.min(records),
                _ => (records - count).min((bytes - total) * count / total.max(1)),
            };
            let wait = if count == 0 { left() } else { Duration::ZERO };
            let (before, partitions) = (count, &mut self.partitions);
            let (options, decoder) = (&self.options, &mut self.decoder);
            let mut full: Vec<i32> = Vec::new();
            let mut errors = Vec::new();
            self.messages.take(most, wait, |message| match message {
                Err(error) => errors.push(error),
                Ok(message) => {
                    count += 1;
                    let number = message.partition();
                    let Some(reading) = partitions.get_mut(&number) else {
                        return;
                    };
                    let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
                    total += size(message.value()) + size(message.key());
                    reading.accept(message, options, decoder);
                    if reading.has_enough() && !reading.stopped {
                        reading.stopped = true;
                        full.push(number);
                    }
                }
            });
            for number in full {
                let paused = self.consumer.pause(&self.list(number));
                paused.map_err(|error| self.read_error(error))?;
            }
            if count > before {
                self.clear_trouble(Question::Records);
            }
            let failed = !errors.is_empty();
            for (error, why) in errors {
                self.handle(error, Some(why))?;
            }
            if failed || count == before {
                break;
            }
        }
        Ok(())
    }

    /// Hears what the group and the client have to say.
    fn hear(&mut self, wait: Duration) -> Result<(), SourceError> {
        match self.consumer.poll(native::whole(wait)) {
            None => Ok(()),
            Some(Err(error)) => self.handle(error, None),
            // All partitions lead elsewhere before they are assigned. To go past it would lose it.
            Some(Ok(message)) => {
                let number = message.partition();
                Err(self.read_error(format!(
                    "a record of partition {number} came in another way than it was asked for"
                )))
            }
        }
    }

    /// `why`: librdkafka's words of it, where they came with it.
    fn handle(&mut self, error: KafkaError, why: Option<String>) -> Result<(), SourceError> {
        if let KafkaError::PartitionEOF(number) = error {
            self.clear_trouble(Question::Records);
            if let Some(reading) = self.partitions.get_mut(&number) {
                reading.at_end |= reading.end.is_some();
            }
            return Ok(());
        }
        if let Some(why) = self.is_taken_over() {
            return self.take_name_back(&why);
        }
        let cause = || self.consumer.context().cause().map(|cause| cause.text);
        let why = match why.or_else(cause) {
            None => error.to_string(),
            Some(why) => format!("{error}: {why}"),
        };
        match error {
            KafkaError::MessageConsumptionFatal(_) => Err(self.read_error(why)),
            _ if code_of(&error) == Some(RDKafkaErrorCode::AutoOffsetReset) => {
                // It ends the run in any case: for what, is worth waiting for.
                for _ in 0..3 {
                    self.ask_topic(ASK)?;
                }
                let advice = "if its records were removed, set the group's position anew";
                Err(self.read_error(format!("{why}; {advice}")))
            }
            _ if code_of(&error) == Some(RDKafkaErrorCode::InconsistentGroupProtocol) => {
                let advice = "give every process of the group an instance, or none; other clients have groups of their \
                              own";
                Err(self.read_error(format!("{why}; {advice}")))
            }
            _ if is_transient(&error) => self.note_trouble(Question::Records, &why),
            _ => Err(self.read_error(why)),
        }
    }

    /// While no records come for some trouble: asks whether the brokers are there again.
    fn probe(&mut self) -> Result<(), SourceError> {
        let on = self.troubles.with(Question::Records).is_on();
        if !on || self.probed.elapsed() < PROBE_INTERVAL {
            return Ok(());
        }
        self.probed = Instant::now();
        match self.consumer.fetch_metadata(Some(&self.options.topic), ASK) {
            Ok(_) => {
                self.clear_trouble(Question::Records);
                Ok(())
            }
            Err(error) => self.note_trouble(Question::Records, &error.to_string()),
        }
    }

    /// Whether the topic is the one that was opened. Positions in another one of its name would go past records.
    fn check_topic(&mut self) -> Result<(), SourceError> {
        let is_due = self.id_asked.elapsed() >= SAME_TOPIC_INTERVAL;
        match is_due && !self.partitions.is_empty() && !self.troubles.are_there() {
            true => self.ask_topic(SAME_TOPIC_ASK),
            false => Ok(()),
        }
    }

    fn ask_topic(&mut self, wait: Duration) -> Result<(), SourceError> {
        if self.id.is_empty() {
            return Ok(());
        }
        self.id_asked = Instant::now();
        let topic = &self.options.topic;
        let described = native::describe_topic(self.consumer.client(), topic, wait);
        match other_id(described, &self.id) {
            None => Ok(()),
            Some(now) => Err(self.read_error(format!(
                "it was deleted and made anew while it was read (id {}, and now {now}): set the group's position to \
                 where it is to be read from, or name another group",
                self.id
            ))),
        }
    }

    fn owned(&self, number: i32) -> bool {
        let revoking =
            |list: &TopicPartitionList| list.find_partition(&self.options.topic, number).is_some();
        self.partitions.contains_key(&number)
            || matches!(&self.change, Some(Change::Revoke { list, lost: false }) if revoking(list))
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
        self.check_topic()?;
        let begun = self.tell_begun()?;
        loop {
            if let Some(event) = self.next_change()? {
                return Ok(event);
            }
            if !begun {
                self.hear(deadline.saturating_duration_since(Instant::now()))?;
                return Ok(self.next_change()?.unwrap_or(SourceEvent::Idle));
            }
            if let Some(event) = self.take_ready(records, bytes) {
                return Ok(event);
            }
            self.gather(records, bytes, deadline)?;
            if !self.consumer.context().has_changes()
                && let Some(event) = self.take_ready(records, bytes)
            {
                return Ok(event);
            }
            self.probe()?;
            if Instant::now() >= deadline {
                // Changes wait for the next poll only if they could not be prepared.
                return Ok(match self.next_change()? {
                    Some(event) => event,
                    None if self.is_read_elsewhere()? => SourceEvent::Assigned(Vec::new()),
                    None => SourceEvent::Idle,
                });
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
        let stopped = std::mem::take(&mut reading.stopped);
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
                let resume = || {
                    if stopped {
                        self.consumer.resume(&list)
                    } else {
                        Ok(())
                    }
                };
                self.consumer
                    .seek(&self.options.topic, number, offset, ASK)
                    .and_then(|()| resume())
                    .map_err(|error| fail(error.to_string()))
            }
        }
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        if let Some(reading) = self.partitions.get_mut(&(partition.number as i32)) {
            reading.paused = true;
        }
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        let number = partition.number as i32;
        if let Some(reading) = self.partitions.get_mut(&number) {
            reading.paused = false;
            if reading.stopped && !reading.has_enough() {
                reading.stopped = false;
                let list = self.list(number);
                self.consumer
                    .resume(&list)
                    .map_err(|error| self.read_error(error))?;
            }
        }
        Ok(())
    }

    fn lag(&mut self) -> Vec<Lag> {
        self.unread()
    }

    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        let fresh = |done: &&Done| {
            let number = done.partition.number as i32;
            let reading = self.partitions.get(&number);
            let known = reading.and_then(|reading| reading.committed);
            self.owned(number) && known != Some((done.position, done.waits))
        };
        let news: Vec<&Done> = done.iter().filter(fresh).collect();
        let positions = news.iter().map(|done| {
            let number = done.partition.number as i32;
            (number, done.position as i64, done.metadata.as_str())
        });
        self.commit_all(&positions.collect::<Vec<_>>())?;
        for done in news {
            if let Some(reading) = self.partitions.get_mut(&(done.partition.number as i32)) {
                reading.committed = Some((done.position, done.waits));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.consumer.context().close();
        self.partitions.clear();
        self.carry_out()?;
        self.tell_begun().map(drop)
    }
}

impl KafkaSource {
    /// Commits positions, also of partitions that other members have. What time can mend is tried for a moment, and then
    /// again by whoever asked, until that has lasted too long.
    pub(super) fn commit_all(&mut self, positions: &[(i32, i64, &str)]) -> Result<(), SourceError> {
        if positions.is_empty() {
            // Where it begins may still be to be taken.
            if self.begun.is_empty() {
                self.clear_trouble(Question::Take);
            }
            return Ok(());
        }
        let list = to_commit(&self.options.topic, positions.iter().copied());
        let list = list.map_err(|error| self.read_error(error))?;
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
                Ok(()) => {
                    self.clear_trouble(Question::Take);
                    return Ok(());
                }
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) if code_of(&error) == Some(RDKafkaErrorCode::FencedInstanceId) => {
                    return self.take_name_back(&error.to_string());
                }
                Err(error) => {
                    // A heartbeat may have heard of it first. Then the client says only that it is over.
                    if let Some(why) = self.is_taken_over() {
                        return self.take_name_back(&why);
                    }
                    let why = error.to_string();
                    let place = format!("group {} for {}", self.options.group, self.place);
                    if !is_transient(&error) {
                        return Err(SourceError::Commit { place, why });
                    }
                    self.note_trouble(Question::Take, &why)?;
                    return Err(SourceError::NotYet { place, why });
                }
            }
        }
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
        self.leaving = Leaving::of(&self.consumer, &self.place);
    }
}

/// The id that a topic has now, if it is told and another.
pub(super) fn other_id(described: Result<(String, usize), String>, id: &str) -> Option<String> {
    let (now, _) = described.ok()?;
    (now != id).then_some(now)
}

/// The id of a topic, by which one that was made anew is known. Without it, that is not noticed.
fn id_of(consumer: &BaseConsumer<Context>, topic: &str, place: &str) -> String {
    let mut asked = (0..3).map(|_| native::describe_topic(consumer.client(), topic, ASK));
    match asked.find_map(Result::ok) {
        Some((id, _)) => id,
        None => {
            warn!(place, "the brokers do not tell the id of the topic");
            String::new()
        }
    }
}
