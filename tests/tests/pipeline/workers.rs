//! Several workers on one file: what one of them wrote in vain must not be counted by another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    CommitLog, CommitPoint, DeadLetter, FileLayer, HostHeaders, Sink, SinkError, SinkPosition,
};
use tidegate_flow::{Ended, Positions, Run, Source, Target, Topology, WorkerParts};
use tidegate_record::PublicRecord;
use tidegate_state::{Cuts, FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;

const RECORDS: usize = 20_000;

/// A sink whose disk is full.
#[derive(Default)]
struct Full {
    pending: usize,
}

impl Sink for Full {
    fn write(&mut self, _: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        self.pending += 1;
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        self.pending += 1;
        Ok(())
    }
    fn pending(&self) -> usize {
        self.pending
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        // Long enough for the other worker to wait for its turn, with output of its own.
        std::thread::sleep(Duration::from_millis(100));
        Err(SinkError::Write {
            place: "dead.jsonl".into(),
            why: "no space left".into(),
        })
    }
    fn discard(&mut self) {
        self.pending = 0;
    }
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Two files, two workers, one sink. `full` lets the first worker's dead letters fail.
fn run(input: &Path, disk: &MemoryDisk, full: bool) -> Ended {
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"33".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let paths = vec![input.join("a.jsonl"), input.join("b.jsonl")];
    let file = |name: &str, path: &str| {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, path, layer.clone(), encoder);
        sink.recover(&recovered.sinks).unwrap();
        sink
    };
    let (out, dead) = (
        file("out", "/out.jsonl"),
        file("dead-letters", "/dead.jsonl"),
    );
    let mut sinks: Vec<(Box<dyn Sink>, Box<dyn Sink>)> = vec![
        (Box::new(out.sibling()), Box::new(dead.sibling())),
        (Box::new(out), Box::new(dead)),
    ];
    if full {
        sinks[0].1 = Box::new(Full::default());
    }
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let cuts = Cuts::new(log.clone());
    let parts = sinks.into_iter().enumerate().map(|(worker, (out, dead))| {
        let source = FileSource::open(FileSourceOptions {
            source: 0,
            paths: paths.clone(),
            partitions: Some(vec![worker as u32]),
            decoder: DecoderOptions::default(),
            follow: false,
        });
        WorkerParts {
            seal: None,
            audit: None,
            sources: vec![Box::new(source.unwrap())],
            sinks: vec![out],
            dead,
            committer: Box::new(LogCommitter::new(cuts.clone())),
        }
    });
    let topology = Topology {
        sources: vec![Source {
            name: "in".into(),
            targets: vec![Target::Sink(0)],
            fixed: true,
            positions: Positions::Cuts,
            called: false,
            beside: false,
            identities: vec!["a.jsonl".into(), "b.jsonl".into()],
            apart: String::new(),
        }],
        stages: Vec::new(),
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 16,
        batch_bytes: 1 << 20,
        cut_interval: Duration::ZERO,
        callers: None,
        drain: Duration::from_secs(1),
    };
    let meters = Arc::new(Meters::new("workers", []));
    Run::start(topology, parts.collect(), log, recovered, meters)
        .unwrap()
        .join()
}

#[test]
fn bytes_of_a_commit_that_failed_are_in_no_cut_of_another_worker() {
    let input = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let lines: String = (0..RECORDS)
            // One line of the first file cannot be decoded: its dead letter fails the commit.
            .map(|n| {
                if name == "a" && n == 3_000 {
                    "no JSON\n".into()
                } else {
                    format!("{{\"{name}\":{n}}}\n")
                }
            })
            .collect();
        std::fs::write(input.path().join(format!("{name}.jsonl")), lines).unwrap();
    }
    let disk = MemoryDisk::new();
    let failed = run(input.path(), &disk, true);
    assert!(failed.error.is_some(), "the full disk went unnoticed");
    assert!(failed.counts.output < 2 * RECORDS as u64 - 1);
    let after = disk.restart(usize::MAX);
    let ended = run(input.path(), &after, false);
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let out = String::from_utf8(after.bytes(Path::new("/out.jsonl"))).unwrap();
    let lines: BTreeSet<&str> = out.lines().collect();
    assert_eq!(
        out.lines().count(),
        2 * RECORDS - 1,
        "records are lost or doubled"
    );
    assert_eq!(lines.len(), 2 * RECORDS - 1, "records are doubled");
    assert_eq!(
        (ended.counts.input, ended.counts.dead),
        (2 * RECORDS as u64, 1)
    );
}
