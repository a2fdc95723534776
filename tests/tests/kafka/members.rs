//! Members of a group that come and go while a model is slow.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidegate_codec::{Encoder, EncoderOptions};
use tidegate_connect::file::FileSink;
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{
    Answer, CommitLog, CommitPoint, FileLayer, Made, Model, ModelError, ModelFacts, PromptTemplate,
    Request, RequestId, Sink, Timings,
};
use tidegate_flow::{
    AnswerInto, Ask, ModelStage, Order, Positions, Run, Stage, StageKind, Target, Topology,
    WorkerParts,
};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use crate::{broker, produce, tickets, topic_with};

/// Holds what it is asked until it is let go, four at a time.
#[derive(Default)]
struct Slow {
    requests: Mutex<Vec<Request>>,
    asked: AtomicU64,
}

impl Slow {
    fn answer_all(&self) {
        for request in std::mem::take(&mut *self.requests.lock().unwrap()) {
            request.reply.done(Ok(Answer {
                made: Made::Embedding(vec![1.0]),
                prompt_tokens: 1,
                adapter: String::new(),
                timings: Timings::default(),
            }));
        }
    }
}

impl Model for Slow {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let mut requests = self.requests.lock().unwrap();
        if requests.len() >= 4 {
            return Err((request, ModelError::Full { limit: 4 }));
        }
        requests.push(request);
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn cancel(&self, _: RequestId) {}
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        Ok(text.len())
    }
    fn truncate<'a>(&self, text: &'a str, _: usize) -> Result<&'a str, ModelError> {
        Ok(text)
    }
    fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: "slow".into(),
            digest: "sha256:0".into(),
            adapter: "none".into(),
            context: 1000,
            sequences: 4,
        }
    }
}

/// A member of the topic's group, with a model of its own, whose output is a file on this disk.
fn member(topic: &str, model: Arc<Slow>, disk: &MemoryDisk) -> Run {
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"66".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let sink = |name: &str, path: &str| -> Box<dyn Sink> {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, path, layer.clone(), encoder);
        sink.recover(&[]).unwrap();
        Box::new(sink)
    };
    let mut options = KafkaSourceOptions::new(0, broker(), topic, format!("{topic}-group"));
    let heartbeat = ("heartbeat.interval.ms".to_owned(), "300".to_owned());
    options.properties = [heartbeat].into();
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![Box::new(KafkaSource::open(options).unwrap())],
        sinks: vec![sink("out", "/out.jsonl")],
        dead: sink("dead-letters", "/dead.jsonl"),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let stage = ModelStage {
        name: "slow".into(),
        model,
        alternatives: Vec::new(),
        ask: Ask::Embed,
        prompt: PromptTemplate::parse("{n}").unwrap(),
        truncate: Vec::new(),
        prompt_tokens: 100,
        seed: 0,
        class: None,
        order: Order::Key,
        max_in_flight: 4,
        max_in_flight_per_key: 4,
        deadline: None,
        tokens: Vec::new(),
        token_feeds: Vec::new(),
        attempts: 1,
        into: AnswerInto::Attributes,
        field: "vector".into(),
    };
    let topology = Topology {
        sources: vec![tidegate_flow::Source {
            name: "in".into(),
            targets: vec![Target::Stage(0)],
            fixed: false,
            positions: Positions::CutsAndSource,
            called: false,
            beside: false,
            identities: vec![format!("kafka topic {topic}")],
            apart: String::new(),
        }],
        stages: vec![Stage {
            name: "slow".into(),
            targets: vec![Target::Sink(0)],
            kind: StageKind::Model(Box::new(stage)),
        }],
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 64,
        batch_bytes: 1 << 20,
        cut_interval: Duration::from_millis(5),
        callers: None,
        drain: Duration::from_secs(1),
    };
    let meters = Arc::new(Meters::new("member", ["slow"]));
    Run::start(topology, vec![parts], log, recovered, meters).unwrap()
}

#[test]
fn behind_a_slow_model_every_record_is_read_though_members_join_and_leave() {
    const RECORDS: u64 = 1600;
    let topic = topic_with("slow", 2, &[]);
    produce(&topic, &tickets(RECORDS as usize));
    let (one, two) = (Arc::new(Slow::default()), Arc::new(Slow::default()));
    let disks = [MemoryDisk::new(), MemoryDisk::new()];
    let first = member(&topic, one.clone(), &disks[0]);
    until("the first is asked", Duration::from_secs(60), || {
        one.asked.load(Ordering::SeqCst) == 4
    });
    // It holds everything: what it reads meanwhile is more than is held for a partition, which is paused then.
    std::thread::sleep(Duration::from_secs(1));
    let second = member(&topic, two.clone(), &disks[1]);
    until("the second is asked", Duration::from_secs(60), || {
        two.asked.load(Ordering::SeqCst) == 4
    });
    second.controls().stop();
    until("the second has left", Duration::from_secs(60), || {
        two.answer_all();
        second.is_finished()
    });
    let ended = second.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let mut seen = BTreeSet::new();
    until(
        "every record has an answer",
        Duration::from_secs(120),
        || {
            one.answer_all();
            assert!(!first.is_finished());
            let texts = disks
                .each_ref()
                .map(|disk| disk.bytes(Path::new("/out.jsonl")));
            seen = texts
                .iter()
                .flat_map(|text| std::str::from_utf8(text).unwrap().lines())
                .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["n"].as_u64())
                .collect();
            seen.len() as u64 == RECORDS
        },
    );
    first.controls().stop();
    until("the first has left", Duration::from_secs(60), || {
        one.answer_all();
        first.is_finished()
    });
    let ended = first.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    // What was taken away in flight is counted by whoever read it again.
    assert_eq!(ended.counts.in_flight(), 0, "{:?}", ended.counts);
}
