//! What a record costs a worker while others wait: it is read, goes to a model, is answered and written, and cuts are
//! taken, with 10, 1,000 and 100,000 records in flight. The source, the model, the sink and the committer do next to
//! nothing, so that what is left is the worker.
//!
//! The model answers ten at a time, the oldest first, and others come in their place. Measured is the CPU
//! time of the worker's thread; Linux.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_contract::{
    Answer, Assigned, Assignment, Choice, CommitError, CommitLog, CommitLogError, CommitPoint,
    Committer, Cut, DeadLetter, Finish, HostHeaders, Made, Model, ModelError, ModelFacts,
    Parameters, Participants, Partition, PromptTemplate, Recovered, Request, RequestId, Settled,
    Sink, SinkError, SinkPosition, Source, SourceError, SourceEvent, TaskId, TaskImage, Timings,
};
use tidegate_flow::{
    AnswerInto, Ask, ModelStage, Order, Positions, Run, Stage, StageKind, Target, Topology,
    WorkerParts,
};
use tidegate_record::{BatchBuilder, NewRecord, PublicRecord, RecordId};
use tidegate_telemetry::Meters;

/// Answers that come at once.
const PIECE: usize = 10;
/// Most requests that a worker gives to models.
const ASKED: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(120);

/// As many records as are taken, of a thousand keys.
struct Endless {
    next: u64,
    told: bool,
    paused: bool,
}

const PARTITION: Partition = Partition {
    source: 0,
    number: 0,
};

impl Source for Endless {
    fn poll(&mut self, records: usize, _: usize, _: Duration) -> Result<SourceEvent, SourceError> {
        if !std::mem::replace(&mut self.told, true) {
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: PARTITION,
                kept: None,
            }]));
        }
        if self.paused {
            return Ok(SourceEvent::Idle);
        }
        let mut batch = BatchBuilder::default();
        for _ in 0..records {
            let key = (self.next % 1000).to_string();
            batch
                .push(&NewRecord {
                    id: RecordId {
                        offset: self.next,
                        ..RecordId::default()
                    },
                    key: Some(key.as_bytes()),
                    value: Some(b"{\"text\":\"Where is my parcel?\"}"),
                    ..NewRecord::default()
                })
                .unwrap();
            self.next += 1;
        }
        Ok(SourceEvent::Records {
            partition: PARTITION,
            batch: batch.finish(0),
            rejected: Vec::new(),
            next: self.next,
        })
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

/// Counts records.
struct Nowhere(usize);

impl Sink for Nowhere {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        self.0 += record.value().map_or(0, <[u8]>::len);
        Ok(())
    }
    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        panic!("a dead letter: {}", letter.reason);
    }
    fn pending(&self) -> usize {
        self.0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        self.0 = 0;
        Ok(None)
    }
    fn discard(&mut self) {
        self.0 = 0;
    }
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Every cut holds at once, and is forgotten.
#[derive(Default)]
struct Forgetful(Option<Settled>);

impl Committer for Forgetful {
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        Ok(vec![TaskImage::default(); tasks.len()])
    }
    fn begin(&mut self, mut cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        sinks.flush(&mut cut)?;
        self.0 = Some(Settled::Committed { number: 1 });
        Ok(())
    }
    fn settled(&mut self, _: Duration) -> Result<Option<Settled>, CommitError> {
        Ok(self.0.take())
    }
    fn release(&mut self, _: &[TaskId]) {}
}

impl CommitLog for Forgetful {
    fn commit(&self, _: &Cut) -> Result<u64, CommitLogError> {
        Ok(1)
    }
    fn task(&self, _: &TaskId) -> Option<TaskImage> {
        None
    }
}

/// Answers when it is told to.
#[derive(Default)]
struct Told(Mutex<VecDeque<Request>>);

impl Told {
    fn asked(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn wait_for(&self, requests: usize) {
        let until = Instant::now() + PATIENCE;
        while self.asked() < requests {
            assert!(Instant::now() < until, "{} of {requests}", self.asked());
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Answers the oldest, and waits until others are asked in their place.
    fn answer(&self, requests: usize, then: usize) {
        let oldest: Vec<Request> = self.0.lock().unwrap().drain(..requests).collect();
        for request in oldest {
            let choice = Choice {
                text: "It is on its way.".into(),
                tokens: vec![1, 2, 3],
                finish: Finish::End,
                reasoning: String::new(),
                reasoning_tokens: 0,
                calls: Vec::new(),
                logprobs: Vec::new(),
            };
            request.reply.done(Ok(Answer {
                made: Made::Choices(vec![choice]),
                prompt_tokens: 5,
                adapter: String::new(),
                timings: Timings::default(),
            }));
        }
        self.wait_for(then);
    }
}

impl Model for Told {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        self.0.lock().unwrap().push_back(request);
        Ok(())
    }
    fn cancel(&self, _: RequestId) {}
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        Ok(text.len())
    }
    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        Ok(&text[..tokens.min(text.len())])
    }
    fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: "told".into(),
            digest: "sha256:0".into(),
            adapter: "none".into(),
            context: 1000,
            sequences: 8,
        }
    }
}

/// A run in which so many records are in flight.
struct Waits {
    run: Run,
    model: Arc<Told>,
    asked: usize,
    worker: String,
}

impl Waits {
    fn begin(in_flight: usize) -> Waits {
        let model = Arc::new(Told::default());
        let stage = ModelStage {
            name: "told".into(),
            model: model.clone(),
            alternatives: Vec::new(),
            ask: Ask::Generate {
                from_record: false,
                raw: true,
                system: None,
                parameters: Box::new(Parameters::default()),
                turns: Vec::new(),
                template_arguments: Default::default(),
                reasoning: None,
            },
            prompt: PromptTemplate::parse("{text}").unwrap(),
            truncate: Vec::new(),
            prompt_tokens: 1000,
            seed: 0,
            class: Some(1),
            order: Order::Key,
            max_in_flight: in_flight,
            max_in_flight_per_key: in_flight,
            deadline: None,
            tokens: Vec::new(),
            token_feeds: Vec::new(),
            attempts: 1,
            into: AnswerInto::Attributes,
            field: "answer".into(),
        };
        let topology = Topology {
            sources: vec![tidegate_flow::Source {
                name: "endless".into(),
                targets: vec![Target::Stage(0)],
                fixed: true,
                positions: Positions::Cuts,
                called: false,
                beside: false,
                identities: vec!["endless".into()],
                apart: String::new(),
            }],
            stages: vec![Stage {
                name: "ask".into(),
                targets: vec![Target::Sink(0)],
                kind: StageKind::Model(Box::new(stage)),
            }],
            sinks: vec!["nowhere".into()],
            commit_point: CommitPoint::Log,
            batch: 256,
            batch_bytes: 4 << 20,
            cut_interval: Duration::from_millis(10),
            callers: None,
            drain: Duration::ZERO,
        };
        let parts = WorkerParts {
            seal: None,
            audit: None,
            sources: vec![Box::new(Endless {
                next: 0,
                told: false,
                paused: false,
            })],
            sinks: vec![Box::new(Nowhere(0))],
            dead: Box::new(Nowhere(0)),
            committer: Box::new(Forgetful::default()),
        };
        let meters = Arc::new(Meters::new("waiting", ["ask"]));
        let log = Arc::new(Forgetful::default());
        let before = threads();
        let run = Run::start(topology, vec![parts], log, Recovered::default(), meters).unwrap();
        let mut new = threads()
            .into_iter()
            .filter(|thread| !before.contains(thread));
        let worker = new.next().unwrap();
        let asked = in_flight.min(ASKED);
        model.wait_for(asked);
        // What is beyond that waits to be asked.
        std::thread::sleep(Duration::from_millis(500));
        Waits {
            run,
            model,
            asked,
            worker,
        }
    }

    /// CPU time of the worker.
    fn time(&self) -> Duration {
        let path = format!("/proc/self/task/{}/schedstat", self.worker);
        let text = fs::read_to_string(path).unwrap();
        let nanos = text.split_whitespace().next().unwrap();
        Duration::from_nanos(nanos.parse().unwrap())
    }

    fn end(self) {
        self.run.controls().stop();
        let ended = self.run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
    }
}

fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .map(|task| task.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a record while others wait");
    group.throughput(Throughput::Elements(1)).sample_size(10);
    group.measurement_time(Duration::from_secs(5));
    for in_flight in [10, 1000, 100_000] {
        let waits = Waits::begin(in_flight);
        group.bench_function(BenchmarkId::from_parameter(in_flight), |bencher| {
            bencher.iter_custom(|iterations| {
                let rounds = (iterations as usize).div_ceil(PIECE);
                let began = waits.time();
                for _ in 0..rounds {
                    waits.model.answer(PIECE, waits.asked);
                }
                let took = waits.time() - began;
                took.mul_f64(iterations as f64 / (rounds * PIECE) as f64)
            });
        });
        waits.end();
    }
    group.finish();
}

criterion_group!(benches, records);
criterion_main!(benches);
