//! A run over native operators whose starts a test decides, with its disk, its log and its input.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    Assigned, CommitLog, CommitPoint, Committer, Done, FileLayer, Keeper, KeptPosition,
    KeptRevision, LARGEST_MARK, Mark, Operator, OperatorError, OperatorVersion, Partition,
    Processed, Recovered, Sink, Slot, Source as Input, SourceError, SourceEvent, Store,
};
use tidegate_flow::{
    OperatorStage, Positions, Run, Source, Stage, StageKind, Target, Topology, WorkerParts,
};
use tidegate_record::{
    Batch, BatchBuilder, Fields, NewRecord, OutcomesBuilder, PatchBuilder, RecordId,
};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn version(digest: &str) -> Arc<OperatorVersion> {
    Arc::new(OperatorVersion {
        name: "native".into(),
        version: "1.0.0".into(),
        digest: digest.into(),
        reads: Fields::ALL,
        outputs: Vec::new(),
        revision: KeptRevision {
            digest: format!("{digest} as it is"),
            ..KeptRevision::default()
        },
    })
}

pub(super) fn no_start(why: &str) -> OperatorError {
    OperatorError::Start {
        component: "native".into(),
        why: why.into(),
    }
}

/// A slot that a test holds by the other end.
pub(super) struct Doors {
    /// Generation, version, and how many more instances of it can be started.
    pub(super) current: Mutex<(u64, Arc<OperatorVersion>, usize)>,
    /// While set, an instance is lost with its next batch and none starts in its place.
    pub(super) lost: Arc<AtomicBool>,
    /// While set, an instance answers nothing, and stays.
    pub(super) mute: Arc<AtomicBool>,
    /// How many more records are answered before a call's turn is over without one.
    pub(super) answers: Arc<AtomicUsize>,
    /// Calls of `instance`.
    pub(super) asked: AtomicUsize,
    /// How long a start takes that fails, milliseconds.
    pub(super) hangs: AtomicUsize,
    /// Times that no instance could be started in the place of one that was lost.
    pub(super) in_vain: Arc<AtomicUsize>,
}

impl Doors {
    pub(super) fn new() -> Arc<Doors> {
        Arc::new(Doors {
            current: Mutex::new((1, version("sha256:old"), usize::MAX)),
            lost: Arc::default(),
            mute: Arc::default(),
            answers: Arc::new(AtomicUsize::new(usize::MAX)),
            asked: AtomicUsize::new(0),
            hangs: AtomicUsize::new(0),
            in_vain: Arc::default(),
        })
    }

    pub(super) fn deploy(&self, version: Arc<OperatorVersion>, starts: usize) {
        let mut current = self.current.lock().unwrap();
        *current = (current.0 + 1, version, starts);
    }
}

impl Slot for Doors {
    fn generation(&self) -> u64 {
        self.current.lock().unwrap().0
    }

    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut current = self.current.lock().unwrap();
        current.2 = match current.2 {
            0 => {
                drop(current);
                let hangs = self.hangs.load(Ordering::SeqCst) as u64;
                std::thread::sleep(Duration::from_millis(hangs));
                return Err(no_start("no room for an instance\nat a place in it"));
            }
            usize::MAX => usize::MAX,
            left => left - 1,
        };
        let operator = Passing {
            version: current.1.clone(),
            lost: self.lost.clone(),
            mute: self.mute.clone(),
            answers: self.answers.clone(),
            in_vain: self.in_vain.clone(),
            answered: 0,
            gone: false,
        };
        Ok((current.0, Box::new(operator)))
    }

    fn version(&self) -> Arc<OperatorVersion> {
        self.current.lock().unwrap().1.clone()
    }
}

/// Passes every record, while it can be started; those of key `later` come again in a minute, those of key `split`
/// become three.
pub(super) struct Passing {
    pub(super) version: Arc<OperatorVersion>,
    pub(super) lost: Arc<AtomicBool>,
    pub(super) mute: Arc<AtomicBool>,
    pub(super) answers: Arc<AtomicUsize>,
    pub(super) in_vain: Arc<AtomicUsize>,
    pub(super) answered: usize,
    pub(super) gone: bool,
}

impl Operator for Passing {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        if self.mute.load(Ordering::SeqCst) {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(no_start("not now"));
        }
        let lost = self.lost.load(Ordering::SeqCst);
        let answer = |count: usize| {
            let mut outcomes = OutcomesBuilder::default();
            for record in batch.view().records().take(count) {
                match record.key() {
                    Some(b"later") => outcomes.retry(60_000, "not yet"),
                    Some(b"split") => {
                        let mut piece = PatchBuilder::default();
                        piece.set_key(Some(b"piece".into()));
                        outcomes.split([(0, &piece); 3].into_iter());
                    }
                    _ => outcomes.pass(),
                }
            }
            Processed::Answer {
                first: 0,
                count,
                outcomes: outcomes.finish(),
                effects: None,
            }
        };
        if lost && self.gone {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(no_start("init: it takes too long today"));
        }
        self.answered += 1;
        self.gone = lost;
        if !lost {
            let left = self.answers.load(Ordering::SeqCst);
            let first = batch.len().min(left);
            if left != usize::MAX {
                self.answers.fetch_sub(first, Ordering::SeqCst);
            }
            let mut processed = vec![answer(first)];
            if first < batch.len() {
                let count = batch.len() - first;
                processed.push(Processed::Untried { first, count });
            }
            return Ok(processed);
        }
        // Lost in the middle of the batch: the first half is answered.
        match batch.len() / 2 {
            0 => Err(no_start("init: it takes too long today")),
            half => Ok(vec![
                answer(half),
                Processed::Untried {
                    first: half,
                    count: batch.len() - half,
                },
            ]),
        }
    }

    fn is_started(&self) -> bool {
        !self.gone
    }

    fn start(&mut self) -> Result<(), OperatorError> {
        if self.gone && self.lost.load(Ordering::SeqCst) {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(no_start("init: it takes too long today"));
        }
        self.gone = false;
        Ok(())
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.version
    }
}

/// A topic whose first partition a test takes away. Every partition has as many records.
pub(super) struct Topic {
    pub(super) records: u64,
    pub(super) key: Option<&'static str>,
    /// Calls of `poll`.
    pub(super) polled: Arc<AtomicUsize>,
    pub(super) assigned: bool,
    pub(super) paused: Vec<bool>,
    pub(super) next: Vec<u64>,
    pub(super) committed: Arc<Mutex<Vec<u64>>>,
    /// What stands beside each.
    pub(super) marks: Arc<Mutex<Vec<String>>>,
    pub(super) taken_away: Arc<AtomicBool>,
    /// Where another member has gone on to by the time it comes back.
    pub(super) others: Arc<Mutex<Option<u64>>>,
    /// What is committed when its partition is taken away is refused, once.
    pub(super) refuses: bool,
    pub(super) refusing: bool,
    /// Whoever keeps positions is away.
    pub(super) away: Arc<AtomicBool>,
    /// How often it was told positions in vain.
    pub(super) refused: Arc<AtomicUsize>,
    /// The first partition ends there, if it does, and tells it once, paused or not.
    pub(super) ends: Option<u64>,
}

impl Topic {
    pub(super) fn new(records: u64) -> Topic {
        Topic::of(1, records)
    }

    pub(super) fn of(partitions: usize, records: u64) -> Topic {
        let begun = Mark::default().write(LARGEST_MARK);
        Topic {
            records,
            key: None,
            polled: Arc::default(),
            assigned: false,
            paused: vec![false; partitions],
            next: vec![0; partitions],
            committed: Arc::new(Mutex::new(vec![0; partitions])),
            marks: Arc::new(Mutex::new(vec![begun; partitions])),
            taken_away: Arc::default(),
            others: Arc::default(),
            refuses: false,
            refusing: false,
            away: Arc::default(),
            refused: Arc::default(),
            ends: None,
        }
    }
}

pub(super) fn partition(number: usize) -> Partition {
    Partition {
        source: 0,
        number: number as u32,
    }
}

impl Input for Topic {
    fn poll(&mut self, records: usize, _: usize, _: Duration) -> Result<SourceEvent, SourceError> {
        self.polled.fetch_add(1, Ordering::SeqCst);
        if !self.assigned {
            self.assigned = true;
            if self.next.iter().all(|next| *next == 0) {
                let all = (0..self.next.len()).map(|number| Assigned {
                    partition: partition(number),
                    kept: None,
                });
                return Ok(SourceEvent::Assigned(all.collect()));
            }
            // The one that was taken away comes back.
            if let Some(position) = self.others.lock().unwrap().take() {
                let keeper = Keeper {
                    store: Store::Log,
                    instance: "another".into(),
                };
                let mark = Mark {
                    keeper: Some(keeper),
                    source: "input".into(),
                    ..Mark::default()
                };
                self.committed.lock().unwrap()[0] = position;
                self.marks.lock().unwrap()[0] = mark.write(LARGEST_MARK);
            }
            let position = self.committed.lock().unwrap()[0];
            (self.paused[0], self.next[0]) = (false, position);
            let kept = KeptPosition {
                position,
                metadata: Some(self.marks.lock().unwrap()[0].clone()),
                id: String::new(),
            };
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: partition(0),
                kept: Some(kept),
            }]));
        }
        if self.taken_away.swap(false, Ordering::SeqCst) {
            self.assigned = false;
            self.refusing = std::mem::take(&mut self.refuses);
            return Ok(SourceEvent::Revoked(vec![partition(0)]));
        }
        if self.ends == Some(self.next[0]) {
            self.ends = None;
            return Ok(SourceEvent::End(partition(0)));
        }
        let reads = |p: &usize| !self.paused[*p] && self.next[*p] < self.records;
        let Some(p) = (0..self.next.len()).find(reads) else {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(SourceEvent::Idle);
        };
        let until = (self.next[p] + records as u64).min(self.records);
        let mut batch = BatchBuilder::default();
        for n in self.next[p]..until {
            let value = format!("{{\"p\":{p},\"n\":{n}}}");
            let record = NewRecord {
                id: RecordId {
                    partition: p as u32,
                    offset: n,
                    ..RecordId::default()
                },
                key: self.key.map(str::as_bytes),
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            };
            batch.push(&record).unwrap();
        }
        self.next[p] = until;
        Ok(SourceEvent::Records {
            partition: partition(p),
            batch: batch.finish(0),
            rejected: Vec::new(),
            next: until,
        })
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.next[partition.number as usize] = position;
        Ok(())
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.paused[partition.number as usize] = true;
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.paused[partition.number as usize] = false;
        Ok(())
    }

    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        if self.away.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(SourceError::NotYet {
                place: "topic".into(),
                why: "nobody answers".into(),
            });
        }
        if std::mem::take(&mut self.refusing) {
            return Err(SourceError::Commit {
                place: "topic".into(),
                why: "it has been taken away".into(),
            });
        }
        for done in done {
            let number = done.partition.number as usize;
            self.committed.lock().unwrap()[number] = done.position;
            self.marks.lock().unwrap()[number] = done.metadata.clone();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Partitions of one source, one operator or two in a row, one sink.
pub(super) struct Setting {
    pub(super) input: tempfile::TempDir,
    pub(super) disk: MemoryDisk,
    pub(super) slot: Arc<Doors>,
    /// That of the stage after it, if there is one.
    pub(super) after: Option<Arc<Doors>>,
    pub(super) meters: Arc<Meters>,
    pub(super) partitions: usize,
    /// Whether records have a key.
    pub(super) keyed: bool,
    pub(super) cut_interval: Duration,
}

impl Setting {
    /// Has the run hold a record that comes again much later, and says so in the log.
    pub(super) fn has_a_record_wait_for_its_time(&self) {
        self.out(1);
        self.append_line(r#"{"k":"later","p":0,"n":100}"#);
        until("it waits for its time", PATIENCE, || {
            let (_, recovered) = self.log(&self.disk.restart(0));
            recovered.entries().next().is_some()
        });
    }

    pub(super) fn new(partitions: usize, keyed: bool) -> Setting {
        let setting = Setting {
            input: tempfile::tempdir().unwrap(),
            disk: MemoryDisk::new(),
            slot: Doors::new(),
            after: None,
            meters: Arc::new(Meters::new("slots", ["pass", "after"])),
            partitions,
            keyed,
            cut_interval: Duration::from_millis(1),
        };
        for partition in 0..partitions {
            setting.append(partition, 0..1);
        }
        setting
    }

    pub(super) fn path(&self, partition: usize) -> std::path::PathBuf {
        self.input.path().join(format!("in-{partition}.jsonl"))
    }

    pub(super) fn append(&self, partition: usize, numbers: std::ops::Range<u64>) {
        use std::io::Write as _;
        let mut options = std::fs::File::options();
        let mut file = options
            .create(true)
            .append(true)
            .open(self.path(partition))
            .unwrap();
        let line = |n: u64| {
            let key = n % 10;
            format!("{{\"k\":\"k{key}\",\"p\":{partition},\"n\":{n}}}\n")
        };
        // At once, so that who reads it meanwhile finds all of it or nothing.
        let lines: String = numbers.map(line).collect();
        file.write_all(lines.as_bytes()).unwrap();
    }

    pub(super) fn append_line(&self, text: &str) {
        use std::io::Write as _;
        let mut options = std::fs::File::options();
        let mut file = options.append(true).open(self.path(0)).unwrap();
        writeln!(file, "{text}").unwrap();
    }

    pub(super) fn log(&self, disk: &MemoryDisk) -> (FileCommitLog, Recovered) {
        let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
        let key = StateKey::from_hex(&"44".repeat(32)).unwrap();
        FileCommitLog::open(layer, Path::new("/state/log"), key).unwrap()
    }

    /// The version that a restart would begin with, were the process to die now.
    pub(super) fn named(&self) -> Option<String> {
        let (_, recovered) = self.log(&self.disk.restart(0));
        Some(recovered.slots.first()?.digest.clone())
    }

    pub(super) fn start(&self) -> Run {
        let source = FileSource::open(FileSourceOptions {
            source: 0,
            paths: (0..self.partitions).map(|p| self.path(p)).collect(),
            partitions: None,
            decoder: DecoderOptions {
                key: self.keyed.then(|| "k".into()),
                ..DecoderOptions::default()
            },
            follow: true,
        })
        .unwrap();
        self.start_with(Box::new(source), true)
    }

    /// `durable` if the source's records wait in the log, and its positions are there.
    pub(super) fn start_with(&self, source: Box<dyn Input>, durable: bool) -> Run {
        self.start_over(source, durable, |committer| Box::new(committer))
    }

    /// The same, with a committer over that of the log.
    pub(super) fn start_over(
        &self,
        source: Box<dyn Input>,
        durable: bool,
        over: impl FnOnce(LogCommitter) -> Box<dyn Committer>,
    ) -> Run {
        let layer: Arc<dyn FileLayer> = Arc::new(self.disk.clone());
        let (log, recovered) = self.log(&self.disk);
        let stage = |name: &str, slot: &Arc<Doors>, target| Stage {
            name: name.into(),
            targets: vec![target],
            kind: StageKind::Operator(OperatorStage {
                slot: slot.clone(),
                configured: "sha256:old".into(),
                named: Default::default(),
                retries: 1,
            }),
        };
        let sink = |name: &str| -> Box<dyn Sink> {
            let encoder = Encoder::new(EncoderOptions::default()).unwrap();
            let mut sink = FileSink::new(name, format!("/out/{name}"), layer.clone(), encoder);
            sink.recover(&recovered.sinks).unwrap();
            Box::new(sink)
        };
        let log: Arc<dyn CommitLog> = Arc::new(log);
        let parts = WorkerParts {
            seal: None,
            audit: None,
            sources: vec![source],
            sinks: vec![sink("out")],
            dead: sink("dead-letters"),
            committer: over(LogCommitter::alone(log.clone())),
        };
        let topology = Topology {
            sources: vec![Source {
                name: "input".into(),
                targets: vec![Target::Stage(0)],
                fixed: durable,
                positions: match durable {
                    true => Positions::Cuts,
                    false => Positions::CutsAndSource,
                },
                called: false,
                beside: false,
                identities: (0..self.partitions).map(|p| format!("in-{p}")).collect(),
                apart: String::new(),
            }],
            stages: match &self.after {
                None => vec![stage("pass", &self.slot, Target::Sink(0))],
                Some(after) => vec![
                    stage("pass", &self.slot, Target::Stage(1)),
                    stage("after", after, Target::Sink(0)),
                ],
            },
            sinks: vec!["out".into()],
            commit_point: CommitPoint::Log,
            batch: 8,
            batch_bytes: 1 << 20,
            cut_interval: self.cut_interval,
            callers: None,
            drain: Duration::from_secs(5),
        };
        Run::start(topology, vec![parts], log, recovered, self.meters.clone()).unwrap()
    }

    pub(super) fn lines(&self, sink: &str) -> Vec<Value> {
        let bytes = self.disk.bytes(Path::new(&format!("/out/{sink}")));
        let text = String::from_utf8(bytes).unwrap();
        let whole = text.lines().map(|line| serde_json::from_str(line).unwrap());
        whole.collect()
    }

    /// Waits until so many records are out.
    pub(super) fn out(&self, records: usize) {
        until("the records are out", PATIENCE, || {
            self.lines("out").len() >= records
        });
    }

    /// Every record of each partition is out once, those of a key in order.
    pub(super) fn check(&self, records: u64) {
        let lines = self.lines("out");
        assert_eq!(lines.len() as u64, records * self.partitions as u64);
        for partition in 0..self.partitions {
            for key in 0..10 {
                let numbers: Vec<u64> = lines
                    .iter()
                    .filter(|line| line["p"] == partition)
                    .map(|line| line["n"].as_u64().unwrap())
                    .filter(|n| n % 10 == key)
                    .collect();
                let expected: Vec<u64> = (0..records).filter(|n| n % 10 == key).collect();
                assert_eq!(numbers, expected, "partition {partition}, key {key}");
            }
            let all = lines.iter().filter(|line| line["p"] == partition);
            let all = all.map(|line| line["n"].as_u64().unwrap());
            assert!(self.keyed || all.is_sorted(), "without keys, all in order");
        }
        assert!(self.lines("dead-letters").is_empty());
    }
}
