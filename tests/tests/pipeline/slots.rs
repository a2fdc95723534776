//! Slots whose operators cannot be started when they are needed, and what cuts say of versions meanwhile. The operators
//! are native here, so that a test says when a start fails; the tasks, the cuts and the log are the real ones.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    FileLayer, KeptRevision, Operator, OperatorError, OperatorVersion, Partition, Processed,
    Recovered, Sink, Slot, Source as Input, SourceError, SourceEvent,
};
use tidegate_flow::{OperatorStage, Run, Source, Stage, StageKind, Target, Topology, WorkerParts};
use tidegate_record::{
    Batch, BatchBuilder, Fields, NewRecord, OutcomesBuilder, PatchBuilder, RecordId,
};
use tidegate_state::{FileCommitLog, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

const PATIENCE: Duration = Duration::from_secs(120);

fn version(digest: &str) -> Arc<OperatorVersion> {
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

fn no_start(why: &str) -> OperatorError {
    OperatorError::Start {
        component: "native".into(),
        why: why.into(),
    }
}

/// A slot that a test holds by the other end.
struct Doors {
    /// Generation, version, and how many more instances of it can be started.
    current: Mutex<(u64, Arc<OperatorVersion>, usize)>,
    /// While set, an instance is lost with its next batch and none starts in its place.
    lost: Arc<AtomicBool>,
    /// While set, an instance answers nothing, and stays.
    mute: Arc<AtomicBool>,
    /// How many more records are answered before a call's turn is over without one.
    answers: Arc<AtomicUsize>,
    /// Calls of `instance`.
    asked: AtomicUsize,
    /// How long a start takes that fails, milliseconds.
    hangs: AtomicUsize,
    /// Times that no instance could be started in the place of one that was lost.
    in_vain: Arc<AtomicUsize>,
}

impl Doors {
    fn new() -> Arc<Doors> {
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

    fn deploy(&self, version: Arc<OperatorVersion>, starts: usize) {
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
struct Passing {
    version: Arc<OperatorVersion>,
    lost: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    in_vain: Arc<AtomicUsize>,
    answered: usize,
    gone: bool,
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
struct Topic {
    records: u64,
    key: Option<&'static str>,
    /// Calls of `poll`.
    polled: Arc<AtomicUsize>,
    assigned: bool,
    paused: Vec<bool>,
    next: Vec<u64>,
    committed: Arc<Mutex<Vec<u64>>>,
    taken_away: Arc<AtomicBool>,
    /// What is committed when its partition is taken away is refused, once.
    refuses: bool,
    refusing: bool,
}

impl Topic {
    fn new(records: u64) -> Topic {
        Topic::of(1, records)
    }

    fn of(partitions: usize, records: u64) -> Topic {
        Topic {
            records,
            key: None,
            polled: Arc::default(),
            assigned: false,
            paused: vec![false; partitions],
            next: vec![0; partitions],
            committed: Arc::new(Mutex::new(vec![0; partitions])),
            taken_away: Arc::default(),
            refuses: false,
            refusing: false,
        }
    }
}

fn partition(number: usize) -> Partition {
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
                return Ok(SourceEvent::Assigned(
                    (0..self.next.len()).map(partition).collect(),
                ));
            }
            // The one that was taken away comes back.
            (self.paused[0], self.next[0]) = (false, self.committed.lock().unwrap()[0]);
            return Ok(SourceEvent::Assigned(vec![partition(0)]));
        }
        if self.taken_away.swap(false, Ordering::SeqCst) {
            self.assigned = false;
            self.refusing = std::mem::take(&mut self.refuses);
            return Ok(SourceEvent::Revoked(vec![partition(0)]));
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

    fn seek(&mut self, _: Partition, _: u64) -> Result<(), SourceError> {
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

    fn commit(&mut self, positions: &[(Partition, u64)]) -> Result<(), SourceError> {
        if std::mem::take(&mut self.refusing) {
            return Err(SourceError::Commit {
                place: "topic".into(),
                why: "it has been taken away".into(),
            });
        }
        for (partition, position) in positions {
            self.committed.lock().unwrap()[partition.number as usize] = *position;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Partitions of one source, one operator or two in a row, one sink.
struct Setting {
    input: tempfile::TempDir,
    disk: MemoryDisk,
    slot: Arc<Doors>,
    /// That of the stage after it, if there is one.
    after: Option<Arc<Doors>>,
    meters: Arc<Meters>,
    partitions: usize,
    /// Whether records have a key.
    keyed: bool,
    cut_interval: Duration,
}

impl Setting {
    fn new(partitions: usize, keyed: bool) -> Setting {
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

    fn path(&self, partition: usize) -> std::path::PathBuf {
        self.input.path().join(format!("in-{partition}.jsonl"))
    }

    fn append(&self, partition: usize, numbers: std::ops::Range<u64>) {
        use std::io::Write as _;
        let mut options = std::fs::File::options();
        let mut file = options
            .create(true)
            .append(true)
            .open(self.path(partition))
            .unwrap();
        for n in numbers {
            let key = n % 10;
            writeln!(file, "{{\"k\":\"k{key}\",\"p\":{partition},\"n\":{n}}}").unwrap();
        }
    }

    fn append_line(&self, text: &str) {
        use std::io::Write as _;
        let mut options = std::fs::File::options();
        let mut file = options.append(true).open(self.path(0)).unwrap();
        writeln!(file, "{text}").unwrap();
    }

    fn log(&self, disk: &MemoryDisk) -> (FileCommitLog, Recovered) {
        let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
        let key = StateKey::from_hex(&"44".repeat(32)).unwrap();
        FileCommitLog::open(layer, Path::new("/state/log"), key).unwrap()
    }

    /// The version that a restart would begin with, were the process to die now.
    fn named(&self) -> Option<String> {
        let (_, recovered) = self.log(&self.disk.restart(0));
        Some(recovered.slots.first()?.digest.clone())
    }

    fn start(&self) -> Run {
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
    fn start_with(&self, source: Box<dyn Input>, durable: bool) -> Run {
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
        let parts = WorkerParts {
            sources: vec![source],
            sinks: vec![sink("out")],
            dead: sink("dead-letters"),
        };
        let topology = Topology {
            sources: vec![Source {
                name: "input".into(),
                targets: vec![Target::Stage(0)],
                positions_in_log: durable,
                durable_in_flight: durable,
                identities: (0..self.partitions).map(|p| format!("in-{p}")).collect(),
            }],
            stages: match &self.after {
                None => vec![stage("pass", &self.slot, Target::Sink(0))],
                Some(after) => vec![
                    stage("pass", &self.slot, Target::Stage(1)),
                    stage("after", after, Target::Sink(0)),
                ],
            },
            sinks: vec!["out".into()],
            batch: 8,
            batch_bytes: 1 << 20,
            cut_interval: self.cut_interval,
            drain: Duration::from_secs(5),
        };
        let log = Arc::new(log);
        Run::start(topology, vec![parts], log, recovered, self.meters.clone()).unwrap()
    }

    fn lines(&self, sink: &str) -> Vec<Value> {
        let bytes = self.disk.bytes(Path::new(&format!("/out/{sink}")));
        let text = String::from_utf8(bytes).unwrap();
        let whole = text.lines().map(|line| serde_json::from_str(line).unwrap());
        whole.collect()
    }

    /// Waits until so many records are out.
    fn out(&self, records: usize) {
        until("the records are out", PATIENCE, || {
            self.lines("out").len() >= records
        });
    }

    /// Every record of each partition is out once, those of a key in order.
    fn check(&self, records: u64) {
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

#[test]
fn a_stage_whose_operator_does_not_start_again_keeps_its_records_and_goes_on_by_itself() {
    for keyed in [true, false] {
        goes_on_by_itself(&Setting::new(2, keyed));
    }
}

fn goes_on_by_itself(setting: &Setting) {
    let run = setting.start();
    setting.out(2);
    setting.slot.lost.store(true, Ordering::SeqCst);
    for partition in 0..2 {
        setting.append(partition, 1..5000);
    }
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("both tasks wait", PATIENCE, || {
        unavailable().is_some_and(|unavailable| unavailable.tasks == 2)
    });
    let reason = unavailable().unwrap().reason;
    assert!(reason.contains("init: it takes too long today"), "{reason}");
    assert!(!run.is_finished());
    // A crash now repeats and loses nothing either: the records that wait are part of the cut.
    until("they are in the log", PATIENCE, || {
        let (_, recovered) = setting.log(&setting.disk.restart(0));
        !recovered.in_flight.is_empty()
    });
    setting.slot.lost.store(false, Ordering::SeqCst);
    setting.out(2 * 5000);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.output), (10_000, 10_000));
    assert_eq!((ended.counts.dead, ended.counts.retried), (0, 0));
    setting.check(5000);
    assert!(unavailable().is_none());
}

#[test]
fn records_that_wait_for_an_operator_outlive_a_restart() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.slot.lost.store(true, Ordering::SeqCst);
    setting.append(0, 1..100);
    until("records wait", PATIENCE, || {
        setting.meters.stages()[0].unavailable().is_some()
    });
    run.controls().stop();
    assert!(run.join().error.is_none());
    // And the next run begins without an instance.
    let setting = Setting {
        meters: Arc::new(Meters::new("slots", ["pass"])),
        slot: Doors::new(),
        ..setting
    };
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    until("it has none", PATIENCE, || {
        setting.meters.stages()[0].unavailable().is_some()
    });
    setting.append(0, 100..200);
    let version = setting.slot.version();
    setting.slot.deploy(version, usize::MAX);
    setting.out(200);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(200);
}

#[test]
fn a_cut_names_the_version_that_every_task_runs() {
    let setting = Setting::new(2, true);
    let run = setting.start();
    setting.out(2);
    let old = setting.slot.version();
    // One of two tasks gets an instance of it.
    setting.slot.deploy(version("sha256:new"), 1);
    let why = run.controls().switch("pass", PATIENCE).unwrap_err();
    assert!(why.contains("no room for an instance"), "{why}");
    for partition in 0..2 {
        setting.append(partition, 1..50);
    }
    setting.out(100);
    assert_eq!(
        setting.named().unwrap(),
        "sha256:old",
        "it is about to go back"
    );
    // The way back: the task that kept the old version needs no instance for it.
    let asked = setting.slot.asked.load(Ordering::SeqCst);
    setting.slot.deploy(old, 1);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), asked + 1);
    setting.slot.deploy(version("sha256:next"), 2);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
    until("a cut names it", PATIENCE, || {
        setting.named().as_deref() == Some("sha256:next")
    });
    assert_eq!(run.controls().committed_slots()[0].digest, "sha256:next");
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(50);
}

#[test]
fn a_batch_that_takes_long_is_cut_and_its_operator_replaced_in_its_middle() {
    for keyed in [true, false] {
        let setting = Setting::new(2, keyed);
        let run = setting.start();
        setting.out(2);
        setting.slot.answers.store(3, Ordering::SeqCst);
        for partition in 0..2 {
            setting.append(partition, 1..50);
        }
        // A cut has what is done of the batch, and the rest of it as one entry.
        setting.out(5);
        until("what is under way is in the log", PATIENCE, || {
            let (_, recovered) = setting.log(&setting.disk.restart(0));
            let kept = recovered.in_flight.len();
            assert!(kept < 8, "{kept} entries for two batches");
            kept > 0
        });
        setting.slot.deploy(version("sha256:new"), usize::MAX);
        assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
        assert_eq!(setting.lines("out").len(), 5, "still under way");
        run.controls().stop();
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(ended.counts.in_flight(), ended.counts.input - 5);
        setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
        let setting = Setting {
            meters: Arc::new(Meters::new("slots", ["pass"])),
            ..setting
        };
        let run = setting.start();
        setting.out(100);
        run.controls().stop();
        assert!(run.join().error.is_none());
        setting.check(50);
    }
}

#[test]
fn a_stage_without_an_instance_is_asked_less_and_less_while_a_record_of_it_waits_for_its_time() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.append_line(r#"{"k":"later","p":0,"n":100}"#);
    until("it waits for its time", PATIENCE, || {
        let (_, recovered) = setting.log(&setting.disk.restart(0));
        !recovered.in_flight.is_empty()
    });
    setting.slot.lost.store(true, Ordering::SeqCst);
    setting.append(0, 1..2);
    let unavailable = || setting.meters.stages()[0].unavailable();
    // It is the same trouble all the time: what has its time later does not end it.
    until("the trouble has lasted for a while", PATIENCE, || {
        unavailable().is_some_and(|trouble| trouble.since.elapsed() > Duration::from_secs(2))
    });
    let in_vain = setting.slot.in_vain.load(Ordering::SeqCst);
    assert!(in_vain <= 12, "{in_vain} starts in vain");
    setting.slot.lost.store(false, Ordering::SeqCst);
    setting.out(2);
    assert!(unavailable().is_none());
    run.controls().stop();
    assert!(run.join().error.is_none());
}

#[test]
fn records_of_a_partition_that_was_taken_away_are_counted_once() {
    let setting = Setting::new(1, false);
    setting.slot.answers.store(3, Ordering::SeqCst);
    let topic = Topic::new(20);
    let taken_away = topic.taken_away.clone();
    let run = setting.start_with(Box::new(topic), false);
    let committed = || run.controls().committed();
    until("three of a batch are done", PATIENCE, || {
        committed().output == 3 && committed().in_flight() > 0
    });
    taken_away.store(true, Ordering::SeqCst);
    until("it is taken away", PATIENCE, || {
        !taken_away.load(Ordering::SeqCst)
    });
    setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
    setting.out(20);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.output), (20, 20));
    setting.check(20);
}

#[test]
fn partitions_that_come_at_any_time_start_their_operators_with_their_first_records() {
    let setting = Setting::new(1, false);
    let topic = Topic::new(0);
    let polled = topic.polled.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("it has been given its partition", PATIENCE, || {
        polled.load(Ordering::SeqCst) > 2
    });
    // A deployment does not start it either, and counts no task that has nothing to switch.
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    let report = run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(report.tasks, 0);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 0);
    run.controls().stop();
    assert!(run.join().error.is_none());

    let setting = Setting::new(1, false);
    let run = setting.start_with(Box::new(Topic::new(20)), false);
    setting.out(20);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 1);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(20);
}

#[test]
fn a_deployment_that_is_done_is_in_the_log_whether_a_record_has_come_or_not() {
    let setting = Setting::new(1, false);
    let topic = Topic::new(0);
    let polled = topic.polled.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("it has been given its partition", PATIENCE, || {
        polled.load(Ordering::SeqCst) > 2
    });
    let old = setting.slot.version();
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(setting.named().as_deref(), Some("sha256:new"));
    assert_eq!(run.controls().committed_slots()[0].digest, "sha256:new");
    // The way back is a deployment too.
    setting.slot.deploy(old, usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(setting.named().as_deref(), Some("sha256:old"));
    // Another configuration of the same component is another revision.
    let mut other = OperatorVersion::clone(&setting.slot.version());
    other.revision.digest = "sha256:other".into();
    setting.slot.deploy(Arc::new(other), usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    let (_, recovered) = setting.log(&setting.disk.restart(0));
    assert_eq!(recovered.slots[0].revision.digest, "sha256:other");
    run.controls().stop();
    assert!(run.join().error.is_none());
    assert!(run_has_ended(&setting), "nothing is said after the end");
}

fn run_has_ended(setting: &Setting) -> bool {
    setting.log(&setting.disk.restart(0)).1.ended
}

#[test]
fn a_start_that_hangs_is_tried_by_one_task_for_all_of_its_worker() {
    let setting = Setting::new(8, false);
    setting.slot.hangs.store(1000, Ordering::SeqCst);
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("all tasks wait", PATIENCE, || {
        unavailable().is_some_and(|unavailable| unavailable.tasks == 8)
    });
    // A pause is much longer than the try before it.
    let asked = setting.slot.asked.load(Ordering::SeqCst);
    assert!(asked < 4, "{asked} tries for eight tasks");
    let reason = unavailable().unwrap().reason;
    assert!(reason.ends_with("no room for an instance"), "{reason:?}");
    // Another version is tried at once.
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 8);
    setting.out(8);
    assert!(unavailable().is_none());
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(1);
}

#[test]
fn a_trouble_is_over_with_the_start_that_ends_it_though_a_record_waits_for_its_time() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.append_line(r#"{"k":"later","p":0,"n":100}"#);
    until("it waits for its time", PATIENCE, || {
        let (_, recovered) = setting.log(&setting.disk.restart(0));
        !recovered.in_flight.is_empty()
    });
    run.controls().stop();
    assert!(run.join().error.is_none());
    let setting = Setting {
        meters: Arc::new(Meters::new("slots", ["pass"])),
        slot: Doors::new(),
        ..setting
    };
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("it has none", PATIENCE, || unavailable().is_some());
    setting.slot.deploy(setting.slot.version(), usize::MAX);
    until("it has one", PATIENCE, || unavailable().is_none());
    run.controls().stop();
    assert_eq!(run.join().counts.in_flight(), 1);
}

#[test]
fn a_stage_that_has_an_instance_which_answers_nothing_is_in_one_trouble_until_it_does() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.slot.mute.store(true, Ordering::SeqCst);
    setting.append(0, 1..2);
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("it answers nothing", PATIENCE, || unavailable().is_some());
    let since = unavailable().unwrap().since;
    let in_vain = || setting.slot.in_vain.load(Ordering::SeqCst);
    until("it was asked more often", PATIENCE, || in_vain() >= 5);
    assert_eq!(unavailable().unwrap().since, since);
    setting.slot.mute.store(false, Ordering::SeqCst);
    setting.out(2);
    until("it answers", PATIENCE, || unavailable().is_none());
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 1);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(2);
}

#[test]
fn a_batch_that_takes_many_turns_is_counted_once() {
    let setting = Setting::new(1, false);
    let run = setting.start();
    setting.out(1);
    let before = setting.meters.batches.get();
    setting.slot.answers.store(3, Ordering::SeqCst);
    setting.append(0, 1..9);
    setting.out(4);
    for out in [5, 7, 9] {
        let given = setting.slot.answers.load(Ordering::SeqCst);
        assert_eq!(given, 0);
        setting
            .slot
            .answers
            .store(out - setting.lines("out").len(), Ordering::SeqCst);
        setting.out(out);
    }
    run.controls().stop();
    assert!(run.join().error.is_none());
    let batches = setting.meters.batches.get() - before;
    // The source may have cut the lines in two as they were written.
    assert!(
        (1..=3).contains(&batches),
        "{batches} batches of eight records"
    );
    setting.check(9);
}

#[test]
fn positions_that_a_source_refuses_while_it_takes_a_partition_away_are_committed_later() {
    let mut setting = Setting::new(1, false);
    setting.cut_interval = Duration::from_secs(3600);
    let mut topic = Topic::of(2, 20);
    topic.refuses = true;
    let (taken_away, committed) = (topic.taken_away.clone(), topic.committed.clone());
    let run = setting.start_with(Box::new(topic), false);
    let out = |records: u64| {
        until("the records are out", PATIENCE, || {
            setting.meters.snapshot().records.output >= records
        });
    };
    out(40);
    assert_eq!(*committed.lock().unwrap(), [0, 0]);
    taken_away.store(true, Ordering::SeqCst);
    // Its records are read again: their position was not taken.
    out(60);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(*committed.lock().unwrap(), [20, 20]);
}

#[test]
fn a_partition_that_is_taken_away_leaves_the_counts_of_the_run_balanced_also_of_splits() {
    let mut setting = Setting::new(1, false);
    // Each record becomes three. Those of the first go on, and one of the second.
    let after = Doors::new();
    after.answers.store(4, Ordering::SeqCst);
    setting.after = Some(after.clone());
    let mut topic = Topic::new(20);
    topic.key = Some("split");
    let taken_away = topic.taken_away.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("four pieces are done", PATIENCE, || {
        run.controls().committed().output == 4 && run.controls().committed().in_flight() > 0
    });
    taken_away.store(true, Ordering::SeqCst);
    until("it is taken away", PATIENCE, || {
        setting.meters.records_abandoned.get() > 0
    });
    // The second of a batch of eight and those after it are read again, with all of their pieces.
    assert_eq!(setting.meters.records_abandoned.get(), 7);
    assert_eq!(setting.meters.splits_abandoned.get(), 7 * 2 - 1);
    after.answers.store(usize::MAX, Ordering::SeqCst);
    setting.out(61);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!((counts.input, counts.split, counts.output), (20, 41, 61));
    let seen = setting.meters.snapshot().records;
    assert_eq!((seen.input, seen.split, seen.output), (20, 41, 61));
    assert_eq!(seen.in_flight, 0);
}
