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
    FileLayer, Operator, OperatorError, OperatorVersion, Processed, Recovered, Sink, Slot,
};
use tidegate_flow::{OperatorStage, Plan, Run, Source, Stage, StageKind, Target, WorkerParts};
use tidegate_record::{Batch, Fields, OutcomesBuilder};
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
    /// Calls of `instance`.
    asked: AtomicUsize,
}

impl Doors {
    fn new() -> Arc<Doors> {
        Arc::new(Doors {
            current: Mutex::new((1, version("sha256:old"), usize::MAX)),
            lost: Arc::default(),
            asked: AtomicUsize::new(0),
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
            0 => return Err(no_start("no room for an instance")),
            usize::MAX => usize::MAX,
            left => left - 1,
        };
        let operator = Passing {
            version: current.1.clone(),
            lost: self.lost.clone(),
            answered: 0,
            gone: false,
        };
        Ok((current.0, Box::new(operator)))
    }

    fn version(&self) -> Arc<OperatorVersion> {
        self.current.lock().unwrap().1.clone()
    }
}

/// Passes every record, while it can be started.
struct Passing {
    version: Arc<OperatorVersion>,
    lost: Arc<AtomicBool>,
    answered: usize,
    gone: bool,
}

impl Operator for Passing {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let lost = self.lost.load(Ordering::SeqCst);
        let answer = |count: usize| {
            let mut outcomes = OutcomesBuilder::default();
            (0..count).for_each(|_| outcomes.pass());
            Processed::Answer {
                first: 0,
                count,
                outcomes: outcomes.finish(),
            }
        };
        if lost && self.gone {
            return Err(no_start("init: it takes too long today"));
        }
        self.answered += 1;
        self.gone = lost;
        if !lost {
            return Ok(vec![answer(batch.len())]);
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

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.version
    }
}

/// Partitions of one source, one operator, one sink.
struct Setting {
    input: tempfile::TempDir,
    disk: MemoryDisk,
    slot: Arc<Doors>,
    meters: Arc<Meters>,
    partitions: usize,
    /// Whether records have a key.
    keyed: bool,
}

impl Setting {
    fn new(partitions: usize, keyed: bool) -> Setting {
        let setting = Setting {
            input: tempfile::tempdir().unwrap(),
            disk: MemoryDisk::new(),
            slot: Doors::new(),
            meters: Arc::new(Meters::new("slots", ["pass"])),
            partitions,
            keyed,
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
        let layer: Arc<dyn FileLayer> = Arc::new(self.disk.clone());
        let (log, recovered) = self.log(&self.disk);
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
        let sink = |name: &str| -> Box<dyn Sink> {
            let encoder = Encoder::new(EncoderOptions::default()).unwrap();
            let mut sink = FileSink::new(name, format!("/out/{name}"), layer.clone(), encoder);
            sink.recover(recovered.sinks.iter().find(|known| known.sink == name))
                .unwrap();
            Box::new(sink)
        };
        let parts = WorkerParts {
            sources: vec![Box::new(source)],
            sinks: vec![sink("out")],
            dead: sink("dead-letters"),
        };
        let plan = Plan {
            sources: vec![Source {
                name: "input".into(),
                targets: vec![Target::Stage(0)],
                positions_in_log: true,
                durable_in_flight: true,
                identities: (0..self.partitions).map(|p| format!("in-{p}")).collect(),
            }],
            stages: vec![Stage {
                name: "pass".into(),
                targets: vec![Target::Sink(0)],
                kind: StageKind::Operator(OperatorStage {
                    slot: self.slot.clone(),
                    configured: "sha256:old".into(),
                    named: Default::default(),
                    retries: 0,
                }),
            }],
            sinks: vec!["out".into()],
            batch: 8,
            batch_bytes: 1 << 20,
            cut_interval: Duration::from_millis(1),
            drain: Duration::from_secs(5),
        };
        let log = Arc::new(log);
        Run::start(plan, vec![parts], log, recovered, self.meters.clone()).unwrap()
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
