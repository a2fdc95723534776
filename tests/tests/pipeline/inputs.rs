//! What waits belongs to the input it was read from, whatever the pipeline file says afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    CommitLog, CommitPoint, FileLayer, Model, ModelError, ModelFacts, Request, Sink,
};
use tidegate_flow::{
    Ended, FlowError, Positions, Run, Source, Stage, StageKind, Target, Topology, WorkerParts,
};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use crate::native::{Scripted, asking, facts, tokens_are_bytes};

/// Never answers.
#[derive(Default)]
struct Silent {
    asked: AtomicU64,
    requests: Mutex<Vec<Request>>,
}

impl Model for Silent {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        self.requests.lock().unwrap().push(request);
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

/// What a source reads.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    /// It is read from `a.jsonl`, every time.
    Stdin,
    Topic,
}

use Kind::{File, Stdin, Topic};

/// Name of a source, what it reads, and of which kind that is.
type Described<'a> = (&'a str, &'a str, Kind);

/// Starts a pipeline that asks the model about every record of these sources.
fn start(
    disk: &MemoryDisk,
    input: &Path,
    sources: &[Described<'_>],
    model: Arc<dyn Model>,
) -> Result<Run, FlowError> {
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"44".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let sink = |name: &str, path: &str| -> Box<dyn Sink> {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, path, layer.clone(), encoder);
        sink.recover(&recovered.sinks).unwrap();
        Box::new(sink)
    };
    let open = |(index, (_, reads, _)): (usize, &Described<'_>)| {
        let path = match *reads {
            "standard input" => "a.jsonl",
            reads => reads.strip_prefix("kafka topic ").unwrap_or(reads),
        };
        let options = FileSourceOptions {
            source: index as u16,
            paths: vec![input.join(path)],
            partitions: None,
            decoder: DecoderOptions::default(),
            follow: false,
        };
        Box::new(FileSource::open(options).unwrap()) as Box<dyn tidegate_contract::Source>
    };
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: sources.iter().enumerate().map(open).collect(),
        sinks: vec![sink("out", "/out.jsonl")],
        dead: sink("dead-letters", "/dead.jsonl"),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let topology = Topology {
        sources: sources
            .iter()
            .map(|(name, reads, kind)| Source {
                name: (*name).into(),
                targets: vec![Target::Stage(0)],
                fixed: *kind == File,
                positions: match kind {
                    File => Positions::Cuts,
                    Stdin => Positions::Nobody,
                    Topic => Positions::CutsAndSource,
                },
                called: false,
                beside: false,
                identities: vec![(*reads).into()],
                apart: String::new(),
            })
            .collect(),
        stages: vec![Stage {
            name: "answer".into(),
            targets: vec![Target::Sink(0)],
            kind: StageKind::Model(Box::new(asking(model, "{from}"))),
        }],
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 16,
        batch_bytes: 1 << 20,
        cut_interval: Duration::ZERO,
        callers: None,
        drain: Duration::from_secs(1),
    };
    let meters = Arc::new(Meters::new("inputs", ["answer"]));
    Run::start(topology, vec![parts], log, recovered, meters)
}

/// Runs until the model has these records, and stops. They wait in the log.
fn leave_waiting(disk: &MemoryDisk, input: &Path, sources: &[Described<'_>], records: u64) {
    let model = Arc::new(Silent::default());
    let run = start(disk, input, sources, model.clone()).unwrap();
    until("the model is asked", Duration::from_secs(60), || {
        model.asked.load(Ordering::SeqCst) == records
    });
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
}

/// Runs to the end; the model refuses everything, so that every record is a dead letter.
fn bury_all(disk: &MemoryDisk, input: &Path, sources: &[Described<'_>]) -> Ended {
    let model = Scripted::new(|_, _| Err(ModelError::EmptyPrompt));
    start(disk, input, sources, model).unwrap().join()
}

fn files() -> tempfile::TempDir {
    let input = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let lines: String = (0..3)
            .map(|n| format!("{{\"from\":\"{name}\",\"n\":{n}}}\n"))
            .collect();
        std::fs::write(input.path().join(format!("{name}.jsonl")), lines).unwrap();
    }
    input
}

#[test]
fn records_that_wait_keep_their_source_when_sources_change_places() {
    let (input, disk) = (files(), MemoryDisk::new());
    let (a, b) = (("a", "a.jsonl", File), ("b", "b.jsonl", File));
    leave_waiting(&disk, input.path(), &[a, b], 6);
    let ended = bury_all(&disk, input.path(), &[b, a]);
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.dead), (6, 6));
    let dead = String::from_utf8(disk.bytes(Path::new("/dead.jsonl"))).unwrap();
    let mut ids = Vec::new();
    for line in dead.lines() {
        let letter: Value = serde_json::from_str(line).unwrap();
        let value: Value = serde_json::from_str(letter["value"].as_str().unwrap()).unwrap();
        assert_eq!(letter["source"], value["from"], "{letter}");
        ids.push(letter["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    let line = "{\"from\":\"a\",\"n\":0}\n".len();
    let expected: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|name| (0..3).map(move |n| format!("{name}/0/{}", n * line)))
        .collect();
    assert_eq!(ids, expected);
}

#[test]
fn records_that_wait_are_not_taken_for_those_of_another_input_of_the_same_name() {
    let (input, disk) = (files(), MemoryDisk::new());
    let file = ("in", "a.jsonl", File);
    leave_waiting(&disk, input.path(), &[file], 3);
    let refused = |source: Described<'_>| {
        let model = Scripted::new(|_, _| Err(ModelError::EmptyPrompt));
        start(&disk, input.path(), &[source], model)
            .err()
            .map(|error| error.to_string())
    };
    let why =
        refused(("in", "kafka topic b.jsonl", Topic)).expect("a topic takes a file's records");
    for part in ["source in", "a.jsonl", "kafka topic b.jsonl", "bring"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let why = refused(("in", "b.jsonl", File)).expect("a file takes another file's records");
    for part in ["source in", "a.jsonl", "b.jsonl"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    // The old input finishes; then the topic begins where its group stands.
    let ended = bury_all(&disk, input.path(), &[file]);
    assert_eq!((ended.counts.input, ended.counts.dead), (3, 3));
    let ended = bury_all(&disk, input.path(), &[("in", "kafka topic b.jsonl", Topic)]);
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.dead), (6, 6));
}

#[test]
fn records_of_standard_input_are_not_taken_for_those_of_a_file_or_a_topic() {
    let (input, disk) = (files(), MemoryDisk::new());
    let stdin = ("in", "standard input", Stdin);
    leave_waiting(&disk, input.path(), &[stdin], 3);
    for other in [
        ("in", "b.jsonl", File),
        ("in", "kafka topic b.jsonl", Topic),
    ] {
        let model = Scripted::new(|_, _| Err(ModelError::EmptyPrompt));
        let error = start(&disk, input.path(), &[other], model).err();
        let why = error.expect("it takes what was read elsewhere").to_string();
        for part in ["source in", "read from standard input", other.1, "bring"] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
    // What waits goes on beside what comes now, and each says which run has read it.
    let ended = bury_all(&disk, input.path(), &[stdin]);
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.dead), (6, 6));
    let dead = String::from_utf8(disk.bytes(Path::new("/dead.jsonl"))).unwrap();
    let mut inputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in dead.lines() {
        let letter: Value = serde_json::from_str(line).unwrap();
        let of = |field: &str| letter[field].as_str().unwrap().to_owned();
        inputs.entry(of("id")).or_default().push(of("input"));
    }
    assert_eq!(inputs.len(), 3, "{dead}");
    let mut runs: Vec<Vec<String>> = inputs.into_values().collect();
    runs.iter_mut().for_each(|inputs| inputs.sort());
    runs.dedup();
    let [runs] = runs.as_slice() else {
        panic!("the records of a run have other inputs: {runs:?}");
    };
    assert_eq!(runs.len(), 2);
    assert_ne!(runs[0], runs[1]);
}
