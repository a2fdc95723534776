//! A client that goes away: over the gateway's front, through the flow, down to the KV blocks of a serving engine. Its
//! decoder takes each step when the test lets it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_contract::{CommitLog, CommitPoint};
use tidegate_flow::{Called, Outdated, Positions, Run, Source, Target, Topology, WorkerParts};
use tidegate_gateway::access::Access;
use tidegate_gateway::endpoints::{Counted, Everything, Health};
use tidegate_gateway::front::{Front, FrontOptions};
use tidegate_gateway::ingest::Ingest;
use tidegate_gateway::openai::admission::Open;
use tidegate_gateway::openai::load::Shed;
use tidegate_gateway::openai::route::{Bounds, Endpoint, ModelEntry, Route, Settled};
use tidegate_gateway::openai::{OpenAi, Options};
use tidegate_gateway::outputs::Outputs;
use tidegate_gateway::requests::{self, Requests};
use tidegate_serving::{Engine, EngineOptions};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use crate::gated::{Gate, ROWS, Watched, source};
use crate::setting::{Nowhere, PATIENCE, asking, heard};

/// A front, a flow and an engine.
struct World {
    gate: Gate,
    watched: Arc<Watched>,
    requests: Requests,
    front: Front,
    run: Run,
    _engine: Engine,
    _runtime: tokio::runtime::Runtime,
}

fn route() -> Route {
    Route {
        name: "asked".into(),
        models: vec![ModelEntry {
            name: "small".into(),
            made: 0,
        }],
        endpoints: Endpoint::ALL.to_vec(),
        headers: Vec::new(),
        key_header: None,
        deadline: 2 * PATIENCE,
        class: 1,
        source: 0,
        bounds: Bounds {
            context_tokens: 256,
            answer_tokens: 64,
            dimensions: None,
        },
        ranks_whole: false,
        count: None,
        settled: Settled::Usually,
        present: Arc::new(String::new),
        has_form: false,
        token_text: None,
        is_silent: None,
        own: vec!["small".into()],
        steps: Vec::new(),
        others: Vec::new(),
    }
}

fn run(requests: &Requests, model: Arc<Watched>) -> Run {
    let key = StateKey::from_hex(&"55".repeat(32)).unwrap();
    let disk = Arc::new(MemoryDisk::new());
    let (log, recovered) = FileCommitLog::open(disk, Path::new("/state/log"), key).unwrap();
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let stages = vec![asking("ask", model, vec![Target::Sink(0)])];
    let heard = heard(&stages, "answer");
    let topology = Topology {
        sources: vec![Source {
            name: "asked".into(),
            targets: vec![Target::Stage(0)],
            fixed: true,
            positions: Positions::Nobody,
            called: true,
            beside: false,
            identities: vec!["requests".into()],
            apart: String::new(),
        }],
        stages,
        sinks: vec!["answers".into()],
        commit_point: CommitPoint::Log,
        batch: 8,
        batch_bytes: 1 << 20,
        cut_interval: Duration::from_millis(1),
        callers: Some(Called {
            callers: Arc::new(requests.clone()),
            sinks: [(0, heard)].into(),
            outdated: Outdated::default(),
        }),
        drain: Duration::from_secs(20),
    };
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![Box::new(requests.source(0))],
        sinks: vec![Box::new(requests.sink())],
        dead: Box::new(Nowhere),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let meters = Arc::new(Meters::new("callers", ["ask"]));
    Run::start(topology, vec![parts], log, recovered, meters).unwrap()
}

impl World {
    fn new() -> World {
        let gate = Gate::default();
        let engine = Engine::start(EngineOptions::default());
        let model = engine.load("small", source(&gate)).unwrap();
        // Those that a model is tried with are over.
        gate.hold();
        let watched = Arc::new(Watched::new(model));
        let requests = Requests::new(requests::Options::default());
        let endpoints = Everything {
            openai: OpenAi::new(Options {
                requests: requests.clone(),
                routes: vec![route()],
                admission: Arc::new(Open),
                max_body: 1 << 20,
                clock: || 0,
                repeated: None,
                shared: None,
                shed: Shed::default(),
                audit: None,
            }),
            ingest: Ingest::new(Vec::new()),
            outputs: Outputs::new(Vec::new(), Vec::new()),
            page: None,
            counted: Counted::default(),
            health: Health::default(),
            tracer: Default::default(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = FrontOptions::new("127.0.0.1:0".parse().unwrap(), Arc::new(Access::anyone()));
        let front = {
            let _inside = runtime.enter();
            Front::bind(options, Arc::new(endpoints)).unwrap()
        };
        World {
            run: run(&requests, watched.clone()),
            gate,
            watched,
            requests,
            front,
            _engine: engine,
            _runtime: runtime,
        }
    }

    fn ask(&self, words: usize, behind: usize) -> TcpStream {
        let mut client = TcpStream::connect(self.front.address()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let text = vec!["word"; words].join(" ");
        let body = json!({"model": "small", "stream": true, "max_tokens": 40,
            "messages": [{"role": "user", "content": text}]});
        let body = body.to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        client
            .write_all(request.repeat(1 + behind).as_bytes())
            .unwrap();
        client
    }

    fn end(self) {
        self.requests.close();
        self.run.controls().stop();
        let ended = self.run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
    }
}

/// Reads until these bytes have come so often.
fn read_until(client: &mut TcpStream, part: &str, times: usize) {
    let mut all = String::new();
    while all.matches(part).count() < times {
        let mut bytes = [0; 4096];
        let read = client.read(&mut bytes).expect("more comes");
        assert!(read > 0, "it ended after {all}");
        all.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
}

/// A client goes while the step of this number is under way, with as many requests behind its first.
fn goes(words: usize, step: usize, behind: usize) {
    let world = World::new();
    let mut client = world.ask(words, behind);
    let gate = &world.gate;
    for number in 1..step {
        gate.has_begun(number);
        gate.step();
    }
    gate.has_begun(step);
    let prefill = words.div_ceil(ROWS);
    if step > prefill + 1 {
        read_until(&mut client, "word", step - prefill - 1);
    }
    // What is held is told from one step to the next.
    assert_eq!(world.watched.stats().blocks_used > 0, step > 1);
    drop(client);
    until("the flow has cancelled it", PATIENCE, || {
        !world.watched.cancelled().is_empty()
    });
    let asked = world.watched.submitted();
    assert_eq!(world.watched.cancelled(), asked);
    assert_eq!(asked.len(), 1, "what was behind it is nobody's");
    gate.step();
    until("it is cancelled, and its blocks are free", PATIENCE, || {
        let stats = world.watched.stats();
        let left = (stats.blocks_used, stats.running, stats.waiting);
        stats.cancelled == 1 && left == (0, 0, 0)
    });
    assert_eq!(gate.begun(), step, "no step was taken for it after that");
    // Whoever comes after has all of it.
    gate.run_free();
    let mut client = world.ask(words, 0);
    read_until(&mut client, "[DONE]", 1);
    drop(client);
    until("nothing is held", PATIENCE, || {
        world.watched.stats().blocks_used == 0
    });
    assert_eq!(world.requests.waiting_callers(), 0);
    world.end();
}

#[test]
fn blocks_are_free_within_a_step_of_a_client_that_goes_before_the_first_token() {
    for behind in [0, 1] {
        goes(20, 1, behind);
    }
}

#[test]
fn blocks_are_free_within_a_step_of_a_client_that_goes_in_the_middle_of_its_prompt() {
    for behind in [0, 1] {
        goes(3 * ROWS, 2, behind);
    }
}

#[test]
fn blocks_are_free_within_a_step_of_a_client_that_goes_while_its_answer_is_made() {
    for behind in [0, 1] {
        goes(20, 5, behind);
    }
}
