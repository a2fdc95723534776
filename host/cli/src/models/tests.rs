//! A model on a real adapter, as a pipeline has it.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tidegate_contract::{
    Answer, Made, Message, Model, ModelError, ModelTask, Parameters, Prompt, Reply, Request,
    RequestId, Role,
};
use tidegate_control::config::{self, Pipeline};

use super::{Adapters, HostedModel};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/support-bot/model"
);

fn pipeline() -> Pipeline {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipeline.toml");
    std::fs::write(directory.path().join("in.jsonl"), "{}\n").unwrap();
    let file = format!(
        r#"
[pipeline]
name = "ask"

[source.in]
type = "file"
paths = ["in.jsonl"]
format = "json"

[model.support]
path = {MODEL:?}
adapter = "cpu"
sequences = 2
context = 256

[[stage]]
name = "answer"
model = "support"
prompt = "{{text}}"
max-tokens = 8

[sink.out]
type = "file"
path = "out.jsonl"
"#
    );
    std::fs::write(&path, file).unwrap();
    config::load(&path).unwrap()
}

struct Waiting(Sender<Result<Answer, ModelError>>);

impl Reply for Waiting {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.0.send(result).unwrap();
    }
}

/// The tokens of an answer.
fn ask(model: &HostedModel, id: u64) -> Vec<u32> {
    let (reply, answer) = channel();
    let request = Request {
        id: RequestId(id),
        attempt: 1,
        seed: 7,
        task: ModelTask::Generate {
            prompt: Prompt::Chat(
                vec![Message::new(Role::User, "My order came incomplete.")].into(),
            ),
            forced_prefix: Vec::new(),
            parameters: Parameters {
                max_tokens: 8,
                ..Parameters::default()
            },
        },
        class: 5,
        deadline: None,
        reply: Box::new(Waiting(reply)),
    };
    assert!(model.submit(request).is_ok());
    let answer = answer.recv_timeout(Duration::from_secs(120)).unwrap();
    match answer.unwrap().made {
        Made::Choices(choices) => choices.into_iter().next().unwrap().tokens,
        other => panic!("no answer but {other:?}"),
    }
}

#[test]
fn a_model_answers_the_same_after_its_device_was_lost() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let adapter = adapters.get(Some("cpu")).unwrap();
    let model = HostedModel::load(&pipeline, 0, &adapters, &adapter).unwrap();
    let before = ask(&model, 1);
    assert_eq!(before.len(), 8);
    assert_eq!(model.report().reloads, 0);

    adapter.device(&mut None).unwrap().lose();
    assert_eq!(ask(&model, 2), before);
    assert_eq!(model.report().reloads, 1);
    assert_eq!(ask(&model, 3), before);
    assert_eq!(model.report().reloads, 1, "the new device stays");
}

#[test]
fn a_model_that_is_loaded_after_an_unnoticed_loss_gets_a_new_device() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let adapter = adapters.get(Some("cpu")).unwrap();
    let opened = |seen: &mut Option<u64>| adapter.device(seen).unwrap();
    let mut first = None;
    opened(&mut first).lose();
    let model = HostedModel::load(&pipeline, 0, &adapters, &adapter).unwrap();
    assert_eq!(ask(&model, 1).len(), 8);
    assert_eq!(
        model.report().reloads,
        0,
        "the device is sound from the start"
    );
    let mut second = None;
    assert_eq!(opened(&mut second).loss(), None);
    assert_ne!(first, second);
    // A device that is sound stays, whoever asks.
    let mut third = None;
    opened(&mut third);
    assert_eq!(second, third);
}
