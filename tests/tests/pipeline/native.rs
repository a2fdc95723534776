//! Models that are written in the test, and the stages that ask them: a whole run without a device.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    Answer, Choice, CommitLog, CommitPoint, FileLayer, Finish, Made, Model, ModelError, ModelFacts,
    ModelTask, Parameters, Prompt, PromptTemplate, Request, Sink, Timings,
};
use tidegate_flow::{
    AnswerInto, Ask, Ended, ModelStage, Order, Positions, Run, Source, Stage, StageKind, Target,
    Topology, WorkerParts,
};
use tidegate_state::{FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;

/// The user message and the forced prefix, or the text.
pub(crate) fn asked(request: &Request) -> (String, Vec<u32>) {
    match &request.task {
        ModelTask::Generate {
            prompt: Prompt::Chat(chat),
            forced_prefix,
            ..
        } => (
            chat.messages.last().unwrap().content.clone(),
            forced_prefix.clone(),
        ),
        ModelTask::Generate {
            prompt: Prompt::Raw(text),
            forced_prefix,
            ..
        } => (text.clone(), forced_prefix.clone()),
        ModelTask::Encode { text } | ModelTask::Recognize { text, .. } => {
            (text.clone(), Vec::new())
        }
        ModelTask::Rank { query, .. } => (query.clone(), Vec::new()),
    }
}

/// One answer that ended by itself.
pub(crate) fn answer(text: String, tokens: Vec<u32>) -> Answer {
    made(Made::Choices(vec![Choice {
        text,
        tokens,
        finish: Finish::End,
        reasoning: String::new(),
        reasoning_tokens: 0,
        calls: Vec::new(),
        logprobs: Vec::new(),
    }]))
}

/// An answer.
pub(crate) fn made(made: Made) -> Answer {
    Answer {
        made,
        prompt_tokens: 3,
        adapter: String::new(),
        timings: Timings::default(),
    }
}

/// A stage that asks for a short answer, which becomes the value.
pub(crate) fn asking(model: Arc<dyn Model>, prompt: &str) -> ModelStage {
    ModelStage {
        name: "model".into(),
        model,
        alternatives: Vec::new(),
        ask: Ask::Generate {
            from_record: false,
            turns: Vec::new(),
            template_arguments: Default::default(),
            reasoning: None,
            raw: false,
            system: None,
            parameters: Box::new(Parameters {
                max_tokens: 6,
                ..Parameters::default()
            }),
        },
        prompt: PromptTemplate::parse(prompt).unwrap(),
        truncate: Vec::new(),
        prompt_tokens: 100,
        seed: 0,
        class: None,
        order: Order::Key,
        max_in_flight: 64,
        max_in_flight_per_key: 4,
        deadline: None,
        tokens: Vec::new(),
        token_feeds: Vec::new(),
        attempts: 1,
        into: AnswerInto::Value,
        field: "answer".into(),
    }
}

/// The rest of a model whose tokens are bytes.
macro_rules! tokens_are_bytes {
    () => {
        fn cancel(&self, _: tidegate_contract::RequestId) {}
        fn count_tokens(&self, text: &str) -> Result<usize, tidegate_contract::ModelError> {
            Ok(text.len())
        }
        fn truncate<'a>(
            &self,
            text: &'a str,
            tokens: usize,
        ) -> Result<&'a str, tidegate_contract::ModelError> {
            Ok(&text[..tokens.min(text.len())])
        }
    };
}
pub(crate) use tokens_are_bytes;

/// What a model says that runs nowhere.
pub(crate) fn facts() -> ModelFacts {
    ModelFacts {
        name: "native".into(),
        digest: "sha256:0".into(),
        adapter: "none".into(),
        context: 1000,
        sequences: 8,
    }
}

type Script = dyn Fn(usize, &mut Request) -> Result<Answer, ModelError> + Send + Sync;

/// Answers as the test says, at once.
pub(crate) struct Scripted {
    script: Box<Script>,
    asked: AtomicUsize,
    /// What it says it is; a test may change it while it is asked.
    digest: Arc<Mutex<String>>,
}

impl Scripted {
    /// The script is given how often the model was asked before.
    pub(crate) fn new(
        script: impl Fn(usize, &mut Request) -> Result<Answer, ModelError> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Arc::new(Scripted {
            script: Box::new(script),
            asked: AtomicUsize::new(0),
            digest: Arc::new(Mutex::new("sha256:0".into())),
        })
    }

    /// The same, with a digest that the test holds too.
    pub(crate) fn with_digest(self: Arc<Self>, digest: Arc<Mutex<String>>) -> Arc<Scripted> {
        let own = Arc::into_inner(self).expect("nobody else has it yet");
        Arc::new(Scripted { digest, ..own })
    }

    /// How often it was asked.
    pub(crate) fn times(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Model for Scripted {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let before = self.asked.fetch_add(1, Ordering::SeqCst);
        match (self.script)(before, &mut request) {
            // Refused before it was taken.
            Err(error @ (ModelError::Full { .. } | ModelError::Unknown(_))) => {
                Err((request, error))
            }
            other => {
                request.reply.done(other);
                Ok(())
            }
        }
    }
    tokens_are_bytes!();
    fn token_text(&self, token: u32) -> Option<String> {
        char::from_u32(token).map(String::from)
    }
    fn facts(&self) -> ModelFacts {
        ModelFacts {
            digest: self.digest.lock().unwrap().clone(),
            ..facts()
        }
    }
}

/// What a run left.
pub(crate) struct Left {
    pub(crate) ended: Ended,
    pub(crate) disk: MemoryDisk,
}

impl Left {
    /// The lines of a sink, or of `dead-letters`.
    pub(crate) fn text(&self, sink: &str) -> String {
        let bytes = self.disk.bytes(Path::new(&format!("/out/{sink}")));
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn lines(&self, sink: &str) -> Vec<serde_json::Value> {
        self.text(sink)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Runs lines of JSON through one stage. Sink 0 takes its main output; a stage may route to the others.
pub(crate) fn run_stage(stage: ModelStage, sinks: &[&str], lines: &[&str]) -> Left {
    let stage = Stage {
        name: "ask".into(),
        targets: vec![Target::Sink(0)],
        kind: StageKind::Model(Box::new(stage)),
    };
    run_stages(vec![stage], sinks, lines)
}

/// Runs lines of JSON through stages, of which the first takes them.
pub(crate) fn run_stages(stages: Vec<Stage>, sinks: &[&str], lines: &[&str]) -> Left {
    let input = tempfile::tempdir().unwrap();
    let path = input.path().join("input.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let disk = MemoryDisk::new();
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let key = StateKey::from_hex(&"33".repeat(32)).unwrap();
    let (log, recovered) =
        FileCommitLog::open(layer.clone(), Path::new("/state/log"), key).unwrap();
    let sink = |name: &str| -> Box<dyn Sink> {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, format!("/out/{name}"), layer.clone(), encoder);
        sink.recover(&[]).unwrap();
        Box::new(sink)
    };
    let source = FileSource::open(FileSourceOptions {
        source: 0,
        paths: vec![path],
        partitions: None,
        decoder: DecoderOptions::default(),
        follow: false,
    })
    .unwrap();
    let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
    let topology = Topology {
        sources: vec![Source {
            name: "input".into(),
            targets: vec![Target::Stage(0)],
            fixed: true,
            positions: Positions::Cuts,
            called: false,
            beside: false,
            identities: vec!["input.jsonl".into()],
            apart: String::new(),
        }],
        stages,
        sinks: sinks.iter().map(ToString::to_string).collect(),
        commit_point: CommitPoint::Log,
        batch: 8,
        batch_bytes: 1 << 20,
        cut_interval: Duration::from_millis(5),
        callers: None,
        drain: Duration::from_secs(5),
    };
    let log: Arc<dyn CommitLog> = Arc::new(log);
    let parts = WorkerParts {
        seal: None,
        audit: None,
        sources: vec![Box::new(source)],
        sinks: sinks.iter().map(|name| sink(name)).collect(),
        dead: sink("dead-letters"),
        committer: Box::new(LogCommitter::alone(log.clone())),
    };
    let meters = Arc::new(Meters::new("native", names.iter().map(String::as_str)));
    let run = Run::start(topology, vec![parts], log, recovered, meters).unwrap();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!(
        counts.input + counts.split,
        counts.output + counts.dropped + counts.dead,
        "every record is accounted for: {counts:?}"
    );
    Left { ended, disk }
}
