//! The load on an engine in this process: what is left when nothing is between it and the one who asks.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use tidegate_benches::cpu_seconds;
use tidegate_contract::{
    Answer, Conversation, Made, Message, Model as _, ModelError, ModelTask, Parameters, Piece,
    Prompt, Reply, Request, RequestId, Role,
};
use tidegate_serving::ModelHandle;

use crate::figures::{Seen, of_answers};
use crate::load::{Load, PATIENCE};
use crate::model;

/// Writes down when pieces come, as the streams of a gateway are told them.
struct Reader {
    seen: Seen,
    ended: Sender<Result<Seen, ModelError>>,
}

impl Reply for Reader {
    fn token(&mut self, _index: u32, _token: u32, _text: &str) {}

    fn piece(&mut self, piece: &Piece<'_>) {
        if !piece.text.is_empty() {
            self.seen.pieces.push(Instant::now());
        }
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let Reader { mut seen, ended } = *self;
        let result = result.map(|answer| {
            if let Made::Choices(choices) = &answer.made {
                seen.tokens = choices.iter().map(|one| one.tokens.len() as u64).sum();
            }
            seen
        });
        // Nobody waits any more after an error.
        let _ = ended.send(result);
    }
}

/// Runs it.
pub(crate) fn run(
    path: &Path,
    sequences: usize,
    adapter: Option<&str>,
    load: &Load,
) -> anyhow::Result<Value> {
    let (engine, model) = model::open(path, sequences, adapter)?;
    let (ended, endings) = channel();
    let before = cpu_seconds();
    let window = load.period.window()?;
    let mut number = load.first;
    for _ in 0..load.streams {
        ask(&model, load, number, ended.clone())?;
        number += 1;
    }
    let (mut running, mut answers) = (load.streams, Vec::new());
    while running > 0 {
        let seen = endings
            .recv_timeout(PATIENCE)
            .with_context(|| format!("no answer ended for {PATIENCE:?}"))?;
        answers.push(seen?);
        if window.is_over() {
            running -= 1;
        } else {
            ask(&model, load, number, ended.clone())?;
            number += 1;
        }
    }
    let mut found = of_answers(&answers, &window);
    // Without loading the model, but with all that was not counted, of which `tokens_in_all` says how much it was.
    let used = before.zip(cpu_seconds());
    found["cpu_s"] = json!(used.map(|([before, _], [after, _])| after - before));
    found["adapter"] = json!(model.facts().adapter);
    drop(engine);
    Ok(found)
}

fn ask(
    model: &ModelHandle,
    load: &Load,
    number: u64,
    ended: Sender<Result<Seen, ModelError>>,
) -> anyhow::Result<()> {
    // Before anything is made of it, as over HTTP.
    let seen = Seen::asked_now();
    let request = Request {
        id: RequestId(number),
        attempt: 1,
        seed: number,
        task: ModelTask::Generate {
            prompt: Prompt::Chat(Conversation {
                messages: vec![Message::new(Role::User, load.prompt(number))],
                lanes: true,
                ..Conversation::default()
            }),
            forced_prefix: Vec::new(),
            parameters: Parameters {
                max_tokens: load.max_tokens,
                ..Parameters::default()
            },
        },
        class: 0,
        deadline: None,
        reply: Box::new(Reader { seen, ended }),
    };
    let sent = model.submit(request);
    sent.map_err(|(_, error)| anyhow!("request {number} was given back: {error}"))
}
