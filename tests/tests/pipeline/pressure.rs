//! Back-pressure: a model that is slow slows the reader, and nothing piles up in between.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::{Encoder, EncoderOptions};
use tidegate_connect::file::FileSink;
use tidegate_contract::{
    Assigned, CommitLog, CommitPoint, Model, ModelError, ModelFacts, Partition, Request, Sink,
    Source, SourceError, SourceEvent,
};
use tidegate_flow::{
    ModelStage, Order, Positions, Run, Stage, StageKind, Target, Topology, WorkerParts,
};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use crate::native::{answer, asking, facts, tokens_are_bytes};

const RECORDS: u64 = 5_000;
const MAX_IN_FLIGHT: usize = 32;

/// Gives numbered records as fast as it is asked, and counts what it gave.
struct Eager {
    next: u64,
    assigned: bool,
    ended: bool,
    paused: bool,
    given: Arc<AtomicU64>,
}

impl Source for Eager {
    fn poll(
        &mut self,
        records: usize,
        _: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let partition = Partition {
            source: 0,
            number: 0,
        };
        if !std::mem::replace(&mut self.assigned, true) {
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition,
                kept: None,
            }]));
        }
        if self.paused || (self.next == RECORDS && self.ended) {
            std::thread::sleep(wait);
            return Ok(SourceEvent::Idle);
        }
        if self.next == RECORDS {
            self.ended = true;
            return Ok(SourceEvent::End(partition));
        }
        let mut builder = BatchBuilder::default();
        let end = (self.next + records as u64).min(RECORDS);
        for offset in self.next..end {
            let value = format!("{{\"n\":{offset}}}");
            let id = RecordId {
                offset,
                ..RecordId::default()
            };
            let record = NewRecord {
                id,
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            };
            builder.push(&record).unwrap();
        }
        self.next = end;
        self.given.store(end, Ordering::SeqCst);
        let batch = builder.finish(0);
        Ok(SourceEvent::Records {
            partition,
            batch,
            rejected: Vec::new(),
            next: end,
        })
    }
    fn seek(&mut self, _: Partition, position: u64) -> Result<(), SourceError> {
        self.next = position;
        Ok(())
    }
    fn pause(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = true;
        Ok(())
    }
    fn resume(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = false;
        Ok(())
    }
}

/// Holds requests until it is let go; takes at most eight at a time.
#[derive(Default)]
struct Held {
    requests: Mutex<Vec<Request>>,
    most: AtomicU64,
}

impl Held {
    /// Returns how many there were.
    fn answer_all(&self) -> u64 {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        let answered = requests.len() as u64;
        for request in requests {
            request.reply.done(Ok(answer("{}".into(), vec![1])));
        }
        answered
    }
}

impl Model for Held {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let mut requests = self.requests.lock().unwrap();
        if requests.len() >= 8 {
            return Err((request, ModelError::Full { limit: 8 }));
        }
        requests.push(request);
        self.most.fetch_max(requests.len() as u64, Ordering::SeqCst);
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

#[test]
fn a_slow_model_stops_the_reader_and_a_faster_one_lets_it_go_on() {
    let disk = MemoryDisk::new();
    let layer: Arc<dyn tidegate_contract::FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"22".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let sink = |name: &str, path: &str| -> Box<dyn Sink> {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, path, layer.clone(), encoder);
        sink.recover(&[]).unwrap();
        Box::new(sink)
    };
    let given = Arc::new(AtomicU64::new(0));
    let model = Arc::new(Held::default());
    let stage = ModelStage {
        order: Order::None,
        max_in_flight: MAX_IN_FLIGHT,
        ..asking(model.clone(), "{n}")
    };
    let topology = Topology {
        sources: vec![tidegate_flow::Source {
            name: "eager".into(),
            targets: vec![Target::Stage(0)],
            fixed: true,
            positions: Positions::Cuts,
            called: false,
            beside: false,
            identities: Vec::new(),
            apart: String::new(),
        }],
        stages: vec![Stage {
            name: "answer".into(),
            targets: vec![Target::Sink(0)],
            kind: StageKind::Model(Box::new(stage)),
        }],
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 256,
        batch_bytes: 1 << 20,
        cut_interval: Duration::from_millis(5),
        callers: None,
        drain: Duration::from_secs(1),
    };
    let source = Eager {
        next: 0,
        assigned: false,
        ended: false,
        paused: false,
        given: given.clone(),
    };
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![Box::new(source)],
        sinks: vec![sink("out", "/out.jsonl")],
        dead: sink("dead-letters", "/dead.jsonl"),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let meters = Arc::new(Meters::new("pressure", ["answer"]));
    let run = Run::start(topology, vec![parts], log, recovered, meters).unwrap();
    until("the model is asked", Duration::from_secs(30), || {
        model.most.load(Ordering::SeqCst) == 8
    });
    until("as much is read as fits", Duration::from_secs(30), || {
        given.load(Ordering::SeqCst) >= MAX_IN_FLIGHT as u64
    });
    // The model holds everything: whatever time passes, no more than fits is read.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(given.load(Ordering::SeqCst), MAX_IN_FLIGHT as u64);
    let mut most_ahead = 0;
    let mut answered = 0;
    until("everything is answered", Duration::from_secs(60), || {
        answered += model.answer_all();
        most_ahead = most_ahead.max(given.load(Ordering::SeqCst).saturating_sub(answered));
        run.is_finished()
    });
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(
        (ended.counts.input, ended.counts.output),
        (RECORDS, RECORDS)
    );
    assert!(
        most_ahead <= MAX_IN_FLIGHT as u64 + 8,
        "{most_ahead} records were read ahead of their answers"
    );
}
