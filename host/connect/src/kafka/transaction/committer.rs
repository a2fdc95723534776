//! The committer of one worker whose cuts are transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::topic_partition_list::Offset;
use tidegate_contract::{
    Assignment, CommitError, Committer, Cut, CutWitness, EntryCipher, Keeper, LARGEST_MARK, Mark,
    Participants, Settled, Sink, SinkError, Store, TaskCut, TaskId, TaskImage,
};
use tracing::{info, warn};

use super::super::again::KafkaLetterSource;
use super::super::client::{Settings, find};
use super::super::deliveries::ONLY_FAILURES;
use super::super::member::Member;
use super::super::source::KafkaSource;
use super::super::target::{
    KafkaSinkOptions, Message, PRODUCER, Target, follow_topic, largest_message, limit_batches,
};
use super::super::timeouts::TRANSACTION_TIMEOUT;
use super::super::{Properties, topic};
use super::changelog::{Changelog, HEADER, entry_key, position_key};
use super::courier::{Courier, GroupOffsets, Job, PositionEntry};
use super::image::Image;
use super::line::Line;
use super::load::Loading;
use super::options::{ChangelogPartitions, TransactionOptions};
use super::outbox::{Destination, Learnt, Outbox, Stub};
use super::pieces;
use super::restore::Reader;
use super::sink::TransactionalSink;
use super::witness::Witness;

/// How long it is waited at a time for what is read.
const LOOK: Duration = Duration::from_millis(100);

/// The topic of a source that is read by a group, and its member.
struct Followed {
    topic: String,
    member: Arc<Member>,
}

/// A cut that is under way.
struct Underway {
    /// What each task brought, and how many pieces its entries have.
    tasks: Vec<(TaskId, TaskCut, Vec<u32>)>,
    /// Partitions of changelogs whose header it has.
    headers: Vec<(usize, i32)>,
}

/// The thread that commits, once there is a connection.
struct Thread {
    jobs: Sender<Job>,
    reports: Receiver<Result<Settled, CommitError>>,
}

/// Takes the cuts of one worker as transactions of a cluster.
pub struct KafkaCommitter {
    pub(super) options: TransactionOptions,
    /// Of the producer, without what sinks add.
    properties: Properties,
    pub(super) place: String,
    pub(super) cipher: Arc<dyn EntryCipher>,
    /// Tells this life's cuts from all others.
    life: String,
    /// Whose cut stood beside the position of each task when it began here.
    came_with: BTreeMap<TaskId, Option<String>>,
    outbox: Arc<Outbox>,
    pub(super) changelogs: Vec<Changelog>,
    /// Most bytes of a batch, by what the topics tell.
    largest_batch: Option<usize>,
    /// The most that a message to any of its sinks may be, by what they tell.
    largest_message: Option<usize>,
    followed: BTreeMap<String, Followed>,
    pub(super) reader: Arc<Reader>,
    thread: Option<Thread>,
    /// Number of the last cut that holds.
    pub(super) number: u64,
    pub(super) images: BTreeMap<TaskId, Image>,
    /// Partitions of changelogs that have their header.
    pub(super) headers: BTreeSet<(usize, i32)>,
    /// Where changelogs ended when they were read last.
    pub(super) ends: BTreeMap<(usize, i32), u64>,
    /// What is read of tasks that are to begin here, one after the other.
    pub(super) loading: Option<Loading>,
    underway: Option<Underway>,
    /// What became of a cut that needed no transaction.
    settled: Option<Settled>,
    /// Since when no cut held, and how many did not.
    failing: Option<(Instant, u32)>,
}

impl fmt::Debug for KafkaCommitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaCommitter")
            .field("place", &self.place)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl KafkaCommitter {
    /// Makes the changelogs, or checks them. Waits for the brokers, as long as its patience lasts.
    pub fn open(
        options: TransactionOptions,
        cipher: Arc<dyn EntryCipher>,
    ) -> Result<KafkaCommitter, CommitError> {
        let place = format!(
            "the cluster {} as {}",
            options.brokers, options.transactional_id
        );
        let fail = |why: String| CommitError::Commit {
            place: place.clone(),
            why,
        };
        let plain = Settings::internal(&options.brokers, &[], &[])
            .config(&options.properties)
            .map_err(fail)?;
        let asker = topic::asker(&plain).map_err(fail)?;
        let reader = reader(&options, &place).map_err(fail)?;
        let outbox = Outbox::new();
        let mut changelogs = Vec::with_capacity(options.changelogs.len());
        let mut largest_batch: Option<usize> = None;
        for changelog in &options.changelogs {
            let mut known = changelogs.iter();
            let same = |known: &&Changelog| known.options.topic == changelog.topic;
            if let Some(same) = known.find(same) {
                let mut same: Changelog = same.clone();
                same.options.source.clone_from(&changelog.source);
                changelogs.push(same);
                continue;
            }
            // It is none that is committed to: what is wrong with it is said as the source would say it.
            if let ChangelogPartitions::As(topic) = &changelog.partitions {
                let place = format!("topic {topic} at {}", options.brokers);
                find(&plain, &place, topic, options.patience)
                    .map_err(|why| CommitError::State(format!("{place}: {why}")))?;
            }
            let (mut changelog, largest) = Changelog::open(
                changelog.clone(),
                &asker,
                &plain,
                &options.brokers,
                cipher.fingerprint(),
                options.patience,
            )
            .map_err(fail)?;
            changelog.to = outbox.add(Destination {
                topic: changelog.options.topic.clone(),
                sink: None,
                learnt: Arc::clone(&changelog.learnt),
            });
            largest_batch = smaller(largest_batch, largest);
            changelogs.push(changelog);
        }
        Ok(KafkaCommitter {
            properties: options.properties.clone(),
            options,
            cipher,
            life: format!("{:016x}", RandomState::new().build_hasher().finish()),
            came_with: BTreeMap::new(),
            outbox,
            changelogs,
            largest_batch,
            largest_message: None,
            followed: BTreeMap::new(),
            reader: Arc::new(reader),
            thread: None,
            number: 0,
            images: BTreeMap::new(),
            headers: BTreeSet::new(),
            ends: BTreeMap::new(),
            loading: None,
            underway: None,
            settled: None,
            failing: None,
            place,
        })
    }

    /// A topic of this cluster whose records are part of the cuts, under the name by which refused records are told. Not
    /// after the first task is loaded. All sinks share a producer: a property that two of them set otherwise is an error.
    pub fn sink(
        &mut self,
        options: KafkaSinkOptions,
        name: &str,
    ) -> Result<Box<dyn Sink>, SinkError> {
        let place = Target::place_of(&options);
        let fail = |why: String| SinkError::Write {
            place: place.clone(),
            why,
        };
        if self.thread.is_some() {
            return Err(fail("its transactions have begun without it".into()));
        }
        let timeout = self.options.transaction_timeout.as_millis().to_string();
        let writer = Settings::writer(&options);
        for (property, value) in &options.properties {
            if let Some(why) = writer.refusal(property, value) {
                return Err(fail(format!("property {property} {why}")));
            }
            if writer.reserves(property) {
                continue;
            }
            // It is the committer's, which was told it already.
            if property == TRANSACTION_TIMEOUT && *value == timeout {
                continue;
            }
            let known = self.properties.entry(property.clone());
            let known = known.or_insert_with(|| value.clone());
            if known != value {
                return Err(fail(format!(
                    "property {property} is {value} here and {known} elsewhere: one producer writes the transactions \
                     of a worker"
                )));
            }
        }
        let config = self.config().map_err(fail)?;
        let target = Target::open(options, &config).map_err(fail)?;
        let limit = target.rules.largest_batch;
        self.largest_batch = smaller(self.largest_batch, limit);
        self.largest_message = self.largest_message.max(limit);
        // A dead letter that the topic would refuse costs an abort. What is in a batch beside it is less than 256 bytes.
        let limit = limit.map_or(target.largest, |limit| limit.saturating_sub(256));
        let learnt = Learnt::new(limit.min(target.largest));
        let to = self.outbox.add(Destination {
            topic: target.options.topic.clone(),
            sink: Some(name.to_owned()),
            learnt: Arc::clone(&learnt),
        });
        let outbox = Arc::clone(&self.outbox);
        Ok(Box::new(TransactionalSink::new(target, outbox, learnt, to)))
    }

    /// The group that keeps the positions of this source, by its name: its offsets are part of every cut, and its
    /// generation fences them. Connects, if that is not done: whatever a predecessor left open is ended before the source
    /// is asked for its positions. Keeps no hold of the source.
    pub fn follow(&mut self, source: &str, reader: &KafkaSource) -> Result<(), CommitError> {
        self.connect()?;
        let followed = Followed {
            topic: reader.options.topic.clone(),
            member: Arc::clone(&reader.member),
        };
        self.followed.insert(source.to_owned(), followed);
        Ok(())
    }

    /// The same of what is sent again, whose group is joined later.
    pub fn follow_letters(
        &mut self,
        source: &str,
        reader: &KafkaLetterSource,
    ) -> Result<(), CommitError> {
        self.connect()?;
        let (topic, member) = reader.followed();
        let followed = Followed {
            topic: topic.to_owned(),
            member: Arc::clone(member),
        };
        self.followed.insert(source.to_owned(), followed);
        Ok(())
    }

    pub(super) fn error(&self, why: impl Into<String>) -> CommitError {
        CommitError::Commit {
            place: self.place.clone(),
            why: why.into(),
        }
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let timeout = self.options.transaction_timeout.as_millis().max(1_000);
        let timeout = timeout.to_string();
        let reserved = [
            ("transactional.id", self.options.transactional_id.as_str()),
            (TRANSACTION_TIMEOUT, timeout.as_str()),
            ("message.timeout.ms", timeout.as_str()),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ONLY_FAILURES,
        ];
        let brokers = &self.options.brokers;
        Settings::internal(brokers, &PRODUCER, &reserved).config(&self.properties)
    }

    /// Fences the predecessor and starts the thread, once.
    pub(super) fn connect(&mut self) -> Result<(), CommitError> {
        if self.thread.is_some() {
            return Ok(());
        }
        let mut config = self.config().map_err(|why| self.error(why))?;
        follow_topic(&mut config, self.largest_message);
        if let Some(largest) = self.largest_batch {
            limit_batches(&mut config, largest);
        }
        // Sinks may have said that messages are smaller than the changelogs, and sinks before them, were told.
        let largest = largest_message(&config);
        for changelog in &self.changelogs {
            changelog.hold_to(largest);
        }
        for destination in self.outbox.destinations() {
            destination.learnt.producer_takes(largest);
        }
        let brokers = &self.options.brokers;
        let plain = Settings::internal(brokers, &[], &[]).config(&self.properties);
        let plain = plain.map_err(|why| self.error(why))?;
        let line = Line::new(config, plain, self.place.clone(), self.options.patience);
        let producer = line.connect().map_err(|why| self.error(why))?;
        let destinations = self.outbox.destinations();
        let mut courier = Courier {
            line,
            producer: Some(producer),
            transaction_timeout: self.options.transaction_timeout,
            changelogs: self
                .changelogs
                .iter()
                .filter_map(Changelog::known)
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect(),
            asked: Instant::now(),
            destinations: destinations.clone(),
            witness: Witness {
                life: self.life.clone(),
                patience: self.options.patience,
                place: self.place.clone(),
                reader: Arc::clone(&self.reader),
                cipher: Arc::clone(&self.cipher),
                destinations,
            },
        };
        let (jobs, to_do) = bounded::<Job>(1);
        let (done, reports) = bounded(1);
        let run = move || {
            for job in to_do {
                if done.send(courier.carry_out(job)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("tidegate-commit".into())
            .spawn(run)
            .map_err(|error| self.error(format!("cannot start a thread: {error}")))?;
        self.thread = Some(Thread { jobs, reports });
        Ok(())
    }

    pub(super) fn changelog_of(&self, task: &TaskId) -> Result<usize, CommitError> {
        let mut changelogs = self.changelogs.iter();
        let found = changelogs.position(|changelog| changelog.options.source == task.source);
        found.ok_or_else(|| {
            CommitError::State(format!("source {} has no changelog topic", task.source))
        })
    }

    /// Puts a record of a changelog into the transaction.
    fn give(&self, changelog: &Changelog, partition: i32, key: &str, value: Option<&[u8]>) {
        let stub = Stub {
            to: changelog.to,
            sent: None,
        };
        let message = Message {
            key: Some(key.as_bytes()),
            value,
            millis: None,
            headers: None,
            partition: Some(partition),
        };
        self.outbox.give(stub, message);
    }

    fn seal(&self, key: &str, plain: &[u8]) -> Result<Vec<u8>, CommitError> {
        let sealed = self.cipher.seal(key.as_bytes(), plain);
        sealed.ok_or_else(|| CommitError::State("the system gives no randomness".into()))
    }

    /// Puts what a task brings into the transaction: the pieces of its entries, in their order.
    fn give_task(
        &self,
        changelog: &Changelog,
        task: &TaskId,
        cut: &TaskCut,
        image: &Image,
    ) -> Result<Vec<u32>, CommitError> {
        let partition = changelog.partition_of(task);
        let mut counts = Vec::with_capacity(cut.put.len());
        for entry in &cut.put {
            let key = entry_key(task, &entry.key, 0);
            let sealed = self.seal(&key, &entry.payload)?;
            let values = pieces::cut(&sealed, changelog.largest_value());
            let had = image.pieces(&entry.key);
            for (number, value) in (0..).zip(&values) {
                let key = entry_key(task, &entry.key, number);
                self.give(changelog, partition, &key, Some(value));
            }
            let count = values.len() as u32;
            for number in count..had {
                let key = entry_key(task, &entry.key, number);
                self.give(changelog, partition, &key, None);
            }
            counts.push(count);
        }
        for (entry, count) in image.gone(cut) {
            for number in 0..count {
                let key = entry_key(task, &entry, number);
                self.give(changelog, partition, &key, None);
            }
        }
        Ok(counts)
    }

    /// What stands beside the position of a task in a cut.
    fn mark_of(&self, number: u64, task: &TaskId, cut: Option<&TaskCut>, image: &Image) -> Mark {
        let (identity, waits, counters) = match cut {
            Some(cut) => (&cut.identity, cut.waits, &cut.counters),
            None => (&image.identity, image.waits, &image.counters),
        };
        let identity = match identity.as_str() {
            "" => &image.identity,
            _ => identity,
        };
        Mark {
            keeper: Some(self.keeper(&task.source)),
            source: task.source.clone(),
            identity: identity.clone(),
            cut: number,
            life: self.life.clone(),
            waits,
            position: None,
            counters: counters.clone(),
        }
    }

    /// By what it is known later what became of a cut: by one of its tasks.
    fn witness(&self, number: u64, cut: &Cut) -> Option<CutWitness> {
        let in_group = |(task, image): &(&TaskId, &Image)| {
            let moved = cut.tasks.get(task).and_then(|cut| cut.position);
            image.in_group && moved.or(image.position).is_some()
        };
        let kept = self.images.iter().find(in_group).map(|(task, _)| task);
        let task = kept.or_else(|| cut.tasks.keys().next())?;
        Some(CutWitness {
            task: task.clone(),
            life: self.life.clone(),
            cut: number,
            before: self.came_with.get(task).cloned().flatten(),
        })
    }

    /// The offsets of all tasks that a group has, also of those with nothing to say: so every cut is fenced.
    fn offsets(
        &self,
        number: u64,
        cuts: &BTreeMap<TaskId, TaskCut>,
    ) -> Result<Vec<GroupOffsets>, CommitError> {
        let fail = |error: rdkafka::error::KafkaError| self.error(error.to_string());
        let mut groups = Vec::new();
        for (source, followed) in &self.followed {
            let mut list = TopicPartitionList::new();
            let tasks = self.images.iter();
            for (task, image) in tasks.filter(|(task, _)| task.source == *source) {
                let cut = cuts.get(task);
                let position = cut.and_then(|cut| cut.position).or(image.position);
                let Some(position) = position.filter(|_| image.in_group) else {
                    continue;
                };
                let mark = self.mark_of(number, task, cut, image);
                let mut offset = list.add_partition(&followed.topic, task.partition as i32);
                offset
                    .set_offset(Offset::Offset(position as i64))
                    .map_err(fail)?;
                offset.set_metadata(mark.write(LARGEST_MARK));
            }
            if list.count() > 0 {
                groups.push(GroupOffsets {
                    consumer: followed.member.now(),
                    list,
                });
            }
        }
        Ok(groups)
    }

    /// Puts everything that a cut has beside its output into the transaction, and hands it over.
    fn hand_over(&mut self, number: u64, cut: Cut) -> Result<(), CommitError> {
        let mut underway = Underway {
            tasks: Vec::with_capacity(cut.tasks.len()),
            headers: Vec::new(),
        };
        let mut positions = Vec::new();
        let groups = self.offsets(number, &cut.tasks)?;
        for (task, task_cut) in cut.tasks {
            let Some(image) = self.images.get(&task) else {
                let why = format!("{task} is part of a cut and runs nowhere");
                return Err(CommitError::State(why));
            };
            let index = self.changelog_of(&task)?;
            let changelog = &self.changelogs[index];
            let partition = changelog.partition_of(&task);
            let place = (index, partition);
            let writes = !image.in_group || image.differs(&task_cut);
            if writes && !self.headers.contains(&place) && !underway.headers.contains(&place) {
                let header = changelog.header.write();
                self.give(changelog, partition, HEADER, Some(header.as_bytes()));
                underway.headers.push(place);
            }
            let pieces = self.give_task(changelog, &task, &task_cut, image)?;
            if !image.in_group {
                let at = task_cut.position.or(image.position).unwrap_or(0);
                let mut mark = self.mark_of(number, &task, Some(&task_cut), image);
                mark.position = Some(at);
                let key = position_key(&task);
                let sealed = self.seal(&key, mark.write(usize::MAX).as_bytes())?;
                self.give(changelog, partition, &key, Some(&sealed));
                positions.push(PositionEntry {
                    changelog: changelog.to,
                    partition,
                    key,
                    from: self.ends.get(&place).copied().unwrap_or(0),
                });
            }
            underway.tasks.push((task, task_cut, pieces));
        }
        let Some(thread) = &self.thread else {
            return Err(self.error("nothing is connected: no task was loaded"));
        };
        let job = Job {
            number,
            load: self.outbox.take(),
            groups,
            positions,
        };
        let handed = thread.jobs.send(job);
        handed.map_err(|_| self.error("the thread that commits has ended"))?;
        self.underway = Some(underway);
        Ok(())
    }

    /// A cut is over.
    fn settle(&mut self, settled: &Settled) -> Result<(), CommitError> {
        let underway = self.underway.take();
        match settled {
            Settled::Committed { number } => {
                // Tasks that began meanwhile may have had more cuts.
                self.number = self.number.max(*number);
                self.failing = None;
                if let Some(underway) = underway {
                    self.headers.extend(underway.headers);
                    for (task, cut, pieces) in underway.tasks {
                        if let Some(image) = self.images.get_mut(&task) {
                            image.apply(cut, &pieces);
                        }
                    }
                }
                Ok(())
            }
            Settled::Aborted { why, refused } => {
                self.outbox.take();
                warn!(
                    place = self.place,
                    refused = refused.len(),
                    "a cut is aborted, its tasks go back: {why}"
                );
                match refused.is_empty() {
                    true => self.note_failure(why),
                    false => Ok(()),
                }
            }
            Settled::Fenced { why } => {
                self.outbox.take();
                info!(place = self.place, "partitions are others' now: {why}");
                self.note_failure(why)
            }
        }
    }

    /// What goes wrong again and again is an error in the end.
    fn note_failure(&mut self, why: &str) -> Result<(), CommitError> {
        let (since, count) = self.failing.get_or_insert((Instant::now(), 0));
        *count += 1;
        let (lasted, count) = (since.elapsed(), *count);
        if lasted > self.options.patience && count > 3 {
            let lasted = lasted.as_secs();
            return Err(self.error(format!(
                "no cut holds, of {count} in {lasted} s; of the last one: {why}"
            )));
        }
        Ok(())
    }
}

impl Committer for KafkaCommitter {
    fn keeper(&self, source: &str) -> Keeper {
        let mut changelogs = self.changelogs.iter();
        let found = changelogs.find(|changelog| changelog.options.source == source);
        let topic = found.map_or(String::new(), |found| found.options.topic.clone());
        Keeper {
            store: Store::Changelog(topic),
            instance: self.options.instance.clone(),
        }
    }

    fn fetch(&mut self, tasks: &[Assignment]) -> Result<bool, CommitError> {
        self.connect()?;
        self.have(tasks, Duration::ZERO)
    }

    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.connect()?;
        // Those who wait go first: what is read for others is begun anew when they ask. Nothing is read of those that are
        // here already, as after a cut that came to nothing.
        let is_missing = |one: &Assignment| !self.images.contains_key(&one.task);
        let reads_others = |loading: &Loading| !loading.has_any(tasks);
        if tasks.iter().any(is_missing) && self.loading.as_ref().is_some_and(reads_others) {
            self.loading = None;
        }
        // Whoever reads gives up in time by itself.
        while !self.have(tasks, LOOK)? {}
        for one in tasks {
            let image = self.images.get(&one.task);
            // A task that goes back has come with what it came with.
            self.came_with.entry(one.task.clone()).or_insert_with(|| {
                let mark = one.mark(image.and_then(|image| image.mark.as_ref()));
                mark.flatten().map(|mark| mark.life)
            });
        }
        let image = |task: &Assignment| self.images.get(&task.task).map(Image::told);
        let images = tasks.iter().map(image);
        Ok(images.map(Option::unwrap_or_default).collect())
    }

    fn begin(&mut self, mut cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        if self.underway.is_some() || self.settled.is_some() {
            return Err(CommitError::AfterFailure);
        }
        cut.witness = self.witness(self.number + 1, &cut);
        sinks.flush(&mut cut)?;
        let news = |(task, cut): (&TaskId, &TaskCut)| {
            let image = self.images.get(task);
            image.is_none_or(|image| image.differs(cut))
        };
        if self.outbox.is_empty() && !cut.tasks.iter().any(news) {
            let number = self.number;
            self.settled = Some(Settled::Committed { number });
            return Ok(());
        }
        self.hand_over(self.number + 1, cut)
    }

    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        if let Some(settled) = self.settled.take() {
            return Ok(Some(settled));
        }
        let (Some(_), Some(thread)) = (&self.underway, &self.thread) else {
            return Ok(None);
        };
        match thread.reports.recv_timeout(wait) {
            Ok(settled) => {
                let settled = settled.inspect_err(|_| drop(self.outbox.take()))?;
                self.settle(&settled)?;
                Ok(Some(settled))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(self.error("the thread that commits has ended"))
            }
        }
    }

    fn release(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            self.images.remove(task);
            self.came_with.remove(task);
            if let Some(loading) = &mut self.loading {
                loading.gone(task);
            }
        }
    }

    fn close(&mut self) -> Result<(), CommitError> {
        if let Some(loading) = self.loading.take() {
            loading.end();
        }
        Ok(())
    }
}

/// The smaller of two limits.
fn smaller(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What reads the changelogs.
fn reader(options: &TransactionOptions, place: &str) -> Result<Reader, String> {
    let ours = [
        ("queued.max.messages.kbytes", "4096"),
        ("fetch.queue.backoff.ms", "20"),
        ("fetch.wait.max.ms", "100"),
    ];
    let config = |isolation| {
        let reserved = [
            // No member of it: librdkafka wants a name before it reads.
            ("group.id", options.transactional_id.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
            ("isolation.level", isolation),
        ];
        Settings::internal(&options.brokers, &ours, &reserved).config(&options.properties)
    };
    Ok(Reader {
        committed: config("read_committed")?,
        all: config("read_uncommitted")?,
        patience: options.patience,
        no_progress: options.no_progress,
        whole: options.whole_load,
        stop: Arc::default(),
        place: place.to_owned(),
        works: options.works.clone(),
    })
}
