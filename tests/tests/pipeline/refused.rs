//! A sink that refuses a record only when it is flushed, as a broker does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    CommitLog, CommitPoint, DeadLetter, FileLayer, HostHeaders, RefusedRecord, Sink, SinkError,
    SinkPosition,
};
use tidegate_flow::{Positions, Run, Source, Target, Topology, WorkerParts};
use tidegate_record::PublicRecord;
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;

/// Refuses every tenth record, by its offset's line.
#[derive(Default)]
struct Picky {
    written: u64,
    pending: usize,
    refused: Vec<RefusedRecord>,
}

impl Sink for Picky {
    fn settles_late(&self) -> bool {
        true
    }
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        self.pending += 1;
        self.written += 1;
        if self.written.is_multiple_of(10) {
            self.refused.push(RefusedRecord {
                id: record.id(),
                key: record.key().map(<[u8]>::to_vec),
                value: record.value().map(<[u8]>::to_vec),
                reason: "too large".into(),
            });
        }
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        panic!("dead letters go elsewhere");
    }
    fn pending(&self) -> usize {
        self.pending
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        self.pending = 0;
        Ok(None)
    }
    fn take_refused(&mut self) -> Vec<RefusedRecord> {
        assert_eq!(self.pending, 0, "asked before it was flushed");
        std::mem::take(&mut self.refused)
    }
    fn discard(&mut self) {
        self.pending = 0;
    }
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn what_a_sink_refuses_when_it_is_flushed_is_a_dead_letter_counted_once() {
    const RECORDS: u64 = 1000;
    let input = tempfile::tempdir().unwrap();
    let path = input.path().join("in.jsonl");
    let lines: String = (0..RECORDS).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let disk = MemoryDisk::new();
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"55".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let encoder = Encoder::new(EncoderOptions::default()).unwrap();
    let mut dead = FileSink::new("dead-letters", "/dead.jsonl", layer, encoder);
    dead.recover(&[]).unwrap();
    let source = FileSource::open(FileSourceOptions {
        source: 0,
        paths: vec![path],
        partitions: None,
        decoder: DecoderOptions::default(),
        follow: false,
    });
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![Box::new(source.unwrap())],
        sinks: vec![Box::new(Picky::default())],
        dead: Box::new(dead),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let topology = Topology {
        sources: vec![Source {
            name: "in".into(),
            targets: vec![Target::Sink(0)],
            fixed: true,
            positions: Positions::Cuts,
            called: false,
            beside: false,
            identities: vec!["in.jsonl".into()],
            apart: String::new(),
        }],
        stages: Vec::new(),
        sinks: vec!["picky".into()],
        commit_point: CommitPoint::Log,
        batch: 16,
        batch_bytes: 1 << 20,
        cut_interval: Duration::from_millis(1),
        callers: None,
        drain: Duration::from_secs(1),
    };
    let meters = Arc::new(Meters::new("refused", []));
    let run = Run::start(topology, vec![parts], log, recovered, meters.clone()).unwrap();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!(
        (counts.input, counts.output, counts.dead),
        (RECORDS, RECORDS * 9 / 10, RECORDS / 10)
    );
    // What status and metrics say.
    assert_eq!(
        (meters.records_out.get(), meters.records_dead.get()),
        (counts.output, counts.dead)
    );
    // The letters are in the cuts of their records: all of them are durable.
    let dead = String::from_utf8(disk.restart(0).bytes(Path::new("/dead.jsonl"))).unwrap();
    let letters: Vec<Value> = dead
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(letters.len() as u64, RECORDS / 10);
    for (index, letter) in letters.iter().enumerate() {
        assert_eq!(
            (&letter["stage"], &letter["reason"]),
            (&"picky".into(), &"too large".into())
        );
        assert_eq!(letter["value"], format!("{{\"n\":{}}}", index * 10 + 9));
    }
}
