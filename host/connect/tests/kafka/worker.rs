//! A worker as `flow` drives one, as small as the promises of a committer allow: every record of its source is written to
//! its sink, and what a test makes of it waits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_codec::{DecoderOptions, Format};
use tidegate_connect::kafka::{
    ChangelogOptions, ChangelogPartitions, KafkaCommitter, KafkaSinkOptions, KafkaSource,
    KafkaSourceOptions, Properties, TransactionOptions,
};
use tidegate_contract::{
    Assigned, Assignment, CommitError, Committer, Cut, EntryCipher, HostHeaders, Participants,
    RefusedRecord, Settled, Sink, Source, SourceEvent, TaskCut, TaskId, TaskImage,
};
use tidegate_record::BatchView;

use crate::broker::brokers;
use crate::{DEADLINE, WAIT, partition};

/// Seals with a sum instead of a cipher: good enough to know a wrong key and a moved value.
pub(crate) struct Key(pub(crate) u8);

impl EntryCipher for Key {
    fn seal(&self, name: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = vec![self.0];
        sealed.extend_from_slice(&(name.len() as u32).to_le_bytes());
        sealed.extend_from_slice(name);
        sealed.extend(plain.iter().map(|byte| byte ^ self.0));
        Some(sealed)
    }

    fn open(&self, name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let rest = sealed.strip_prefix(&[self.0])?;
        let rest = rest.strip_prefix(&(name.len() as u32).to_le_bytes())?;
        let plain = rest.strip_prefix(name)?;
        Some(plain.iter().map(|byte| byte ^ self.0).collect())
    }

    fn fingerprint(&self) -> String {
        format!("{:032x}", self.0)
    }
}

pub(crate) struct Nobody;

impl Participants for Nobody {
    fn flush(&mut self, _cut: &mut Cut) -> Result<(), CommitError> {
        Ok(())
    }
}

/// What a worker reads, writes and is called.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) changelog: String,
    pub(crate) instance: String,
    pub(crate) transactions: TransactionOptions,
    pub(crate) source: Properties,
    pub(crate) sink: Properties,
}

impl Setup {
    pub(crate) fn new(input: &str, output: &str, instance: &str) -> Setup {
        let changelog = format!("{input}-changelog");
        let mut transactions = TransactionOptions::new(brokers(), format!("{input}-{instance}"));
        transactions.patience = Duration::from_secs(30);
        transactions.no_progress = Duration::from_secs(40);
        transactions.changelogs = vec![ChangelogOptions::new(
            "tickets",
            &changelog,
            ChangelogPartitions::As(input.into()),
        )];
        let pairs = [
            ("heartbeat.interval.ms", "300"),
            ("session.timeout.ms", "6000"),
        ];
        Setup {
            input: input.into(),
            output: output.into(),
            changelog,
            instance: instance.into(),
            transactions,
            source: pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            sink: [("compression.type".to_owned(), "none".to_owned())].into(),
        }
    }

    pub(crate) fn committer(&self, key: u8) -> Result<KafkaCommitter, CommitError> {
        KafkaCommitter::open(self.transactions.clone(), Arc::new(Key(key)))
    }

    pub(crate) fn source(&self) -> KafkaSource {
        let options = KafkaSourceOptions {
            decoder: DecoderOptions {
                format: Format::Raw,
                ..DecoderOptions::default()
            },
            instance: Some(self.instance.clone()),
            properties: self.source.clone(),
            ..KafkaSourceOptions::new(0, brokers(), &self.input, &self.input)
        };
        KafkaSource::open(options).unwrap()
    }
}

impl Setup {
    /// What a process leaves that is killed while it sends a cut: a transaction of its name, open, with a record of the
    /// output in it.
    pub(crate) fn leave_open(&self) {
        let killed: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", brokers())
            .set("transactional.id", &self.transactions.transactional_id)
            .create()
            .unwrap();
        killed.init_transactions(DEADLINE).unwrap();
        killed.begin_transaction().unwrap();
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&self.output).payload("half sent");
        killed.send(record).map_err(|(error, _)| error).unwrap();
        killed.flush(DEADLINE).unwrap();
        std::mem::forget(killed);
    }
}

/// One worker with one source and one sink.
pub(crate) struct Worker {
    pub(crate) source: KafkaSource,
    pub(crate) committer: KafkaCommitter,
    pub(crate) sink: Box<dyn Sink>,
    /// What the host has written beside each record.
    pub(crate) host: HostHeaders<'static>,
    /// Where reading of each task stands.
    pub(crate) next: BTreeMap<u32, u64>,
    /// What each task had when it began, or went back.
    pub(crate) images: BTreeMap<u32, TaskImage>,
    /// To be part of the next cut.
    pub(crate) cuts: BTreeMap<u32, TaskCut>,
    /// Values that were read, in order.
    pub(crate) read: Vec<String>,
    /// Offsets that are not written: they were refused.
    pub(crate) refused: Vec<RefusedRecord>,
    pub(crate) aborts: usize,
    /// Whether a cut is.
    underway: bool,
    pub(crate) fenced: usize,
}

pub(crate) fn task(number: u32) -> TaskId {
    TaskId {
        source: "tickets".into(),
        partition: number,
    }
}

impl Worker {
    pub(crate) fn open(setup: &Setup) -> Worker {
        let mut committer = setup.committer(1).unwrap();
        let mut options =
            KafkaSinkOptions::new(&setup.transactions.brokers, &setup.output, "support-bot");
        options.properties = setup.sink.clone();
        let sink = committer.sink(options, "answers").unwrap();
        let source = setup.source();
        committer.follow("tickets", &source).unwrap();
        Worker {
            source,
            committer,
            sink,
            host: HostHeaders::default(),
            next: BTreeMap::new(),
            images: BTreeMap::new(),
            cuts: BTreeMap::new(),
            read: Vec::new(),
            refused: Vec::new(),
            aborts: 0,
            underway: false,
            fenced: 0,
        }
    }

    fn load(&mut self, assigned: &[Assigned]) {
        let assignments = assigned.iter().map(|assigned| Assignment {
            task: task(assigned.partition.number),
            identity: "topic".into(),
            kept: assigned.kept.clone(),
        });
        let assignments: Vec<Assignment> = assignments.collect();
        let images = self.committer.load(&assignments).unwrap();
        for (assigned, image) in assigned.iter().zip(images) {
            let position = image.position.unwrap();
            self.source.seek(assigned.partition, position).unwrap();
            self.next.insert(assigned.partition.number, position);
            self.cuts.remove(&assigned.partition.number);
            self.images.insert(assigned.partition.number, image);
        }
    }

    fn write(&mut self, batch: BatchView<'_>) {
        for record in batch.records() {
            let refused = |refused: &RefusedRecord| refused.id == record.id();
            if !self.refused.iter().any(refused) {
                self.sink.write(record.public(), self.host).unwrap();
            }
            let value = record.value().unwrap_or_default();
            self.read.push(String::from_utf8_lossy(value).into_owned());
        }
    }

    /// One poll, of which `flow` makes the same.
    pub(crate) fn poll(&mut self, records: usize) {
        match self.source.poll(records, 1 << 20, WAIT).unwrap() {
            SourceEvent::Assigned(assigned) => self.load(&assigned),
            SourceEvent::Revoked(partitions) => {
                self.settle_any();
                self.cut();
                let tasks = partitions.iter().map(|partition| task(partition.number));
                self.committer.release(&tasks.collect::<Vec<_>>());
                for partition in partitions {
                    self.next.remove(&partition.number);
                    self.cuts.remove(&partition.number);
                    self.images.remove(&partition.number);
                }
            }
            SourceEvent::Records {
                partition,
                batch,
                next,
                ..
            } => {
                self.write(batch.view());
                self.next.insert(partition.number, next);
            }
            SourceEvent::End(_) | SourceEvent::Idle => {}
        }
    }

    pub(crate) fn begin(&mut self) {
        let mut cut = Cut::default();
        for (number, next) in &self.next {
            let mut task_cut = self.cuts.remove(number).unwrap_or_default();
            task_cut.position = Some(*next);
            cut.tasks.insert(task(*number), task_cut);
        }
        self.committer.begin(cut, &mut Nobody).unwrap();
        self.underway = true;
    }

    /// What became of the cut, if that is known at once.
    pub(crate) fn committer_settled(&mut self) -> Option<Settled> {
        self.committer.settled(WAIT).unwrap()
    }

    pub(crate) fn settle(&mut self) -> Settled {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(settled) = self.committer.settled(WAIT).unwrap() {
                return self.follow(settled);
            }
            assert!(Instant::now() < deadline, "the cut is not settled");
        }
    }

    /// Does what a settled cut asks for.
    fn follow(&mut self, settled: Settled) -> Settled {
        self.underway = false;
        match &settled {
            Settled::Committed { .. } => {}
            Settled::Aborted { refused, .. } => {
                self.aborts += 1;
                self.refused
                    .extend(refused.iter().map(|(_, record)| record.clone()));
                let numbers: Vec<u32> = self.next.keys().copied().collect();
                let back = numbers.into_iter().map(|number| Assigned {
                    partition: partition(number),
                    kept: None,
                });
                self.load(&back.collect::<Vec<_>>());
            }
            Settled::Fenced { .. } => {
                self.fenced += 1;
                self.next.clear();
                self.cuts.clear();
            }
        }
        settled
    }

    /// Waits for a cut that is under way, if one is.
    pub(crate) fn settle_any(&mut self) {
        if self.underway {
            self.settle();
        }
    }

    pub(crate) fn cut(&mut self) -> Settled {
        self.begin();
        self.settle()
    }

    /// Polls until this holds.
    pub(crate) fn until(&mut self, done: impl Fn(&Worker) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "not within {DEADLINE:?}: {:?} {:?}",
                self.next,
                self.read.len()
            );
            self.poll(100);
        }
    }

    /// Ends as `flow` does.
    pub(crate) fn close(mut self) {
        self.committer.close().unwrap();
        self.source.close().unwrap();
    }
}
