//! A request, from the moment it is taken to its end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_contract::{
    Answer, Made, Makes, ModelError, ModelTask, Parameters, Prompt, RequestId, Timings,
};
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::answering::{Question, answer};
use super::assembly::{Assembly, Stopped};
use super::batch;
use super::encoding::Encoded;
use super::gate::Place;
use super::model::Shared;
use super::options::RemoteKind;
use super::reply::GuardedReply;
use super::request;
use super::server::locked;
use super::side::Side;
use super::stats::add;

/// What is told to a request that runs. The end of the channel means that the model is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// Nothing yet.
    Go,
    /// Its answers have said enough.
    End,
    /// Nobody waits for it.
    Cancel,
}

/// A request that can be cancelled, until this is dropped, be it by a panic.
pub(crate) struct Listed(pub Arc<Shared>, pub RequestId);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// A request that was taken.
pub(crate) struct Task {
    pub shared: Arc<Shared>,
    pub id: RequestId,
    pub seed: u64,
    pub class: u8,
    pub deadline: Option<Instant>,
    pub submitted: Instant,
    pub place: Place,
    pub signals: watch::Receiver<Signal>,
    pub listed: Listed,
    pub reply: GuardedReply,
}

impl Task {
    pub(crate) async fn run(mut self, task: ModelTask) {
        let result = match task {
            ModelTask::Generate {
                prompt, parameters, ..
            } => self.generate(&prompt, &parameters).await,
            ModelTask::Encode { text } => self.encode(text).await,
            ModelTask::Recognize { .. } => Err(self.wrong_task("recognize entities")),
            ModelTask::Rank { .. } => Err(self.wrong_task("rank")),
        };
        self.end(result);
    }

    /// Its place is free and it is forgotten before its reply hears, so that the next may be submitted at once.
    fn end(mut self, result: Result<Answer, ModelError>) {
        let counters = &self.shared.server.counters;
        match &result {
            Ok(answer) => {
                add(&counters.answered, 1);
                add(&counters.prompt_tokens, u64::from(answer.prompt_tokens));
                if let Made::Choices(choices) = &answer.made {
                    let tokens = choices.iter().map(|choice| choice.tokens.len() as u64);
                    add(&counters.tokens, tokens.sum());
                    let thought = choices
                        .iter()
                        .map(|choice| u64::from(choice.reasoning_tokens));
                    add(&counters.reasoning_tokens, thought.sum());
                }
            }
            Err(ModelError::Cancelled) => add(&counters.cancelled, 1),
            // What has failed is what the stream has failed at: of this only whoever asked hears.
            Err(_) if Side::of(self.class) == Side::Beside => {}
            Err(ModelError::Expired { .. }) => add(&counters.expired, 1),
            Err(_) => add(&counters.failed, 1),
        }
        drop(self.listed);
        drop(self.place);
        self.reply.done(result);
    }

    async fn generate(
        &mut self,
        prompt: &Prompt,
        parameters: &Parameters,
    ) -> Result<Answer, ModelError> {
        let shared = self.shared.clone();
        let RemoteKind::OpenAi(there) = &shared.protocol.kind else {
            return Err(self.wrong_task("generate"));
        };
        if shared.makes != Makes::Text {
            return Err(self.wrong_task("generate"));
        }
        let most = shared.protocol.most_tokens;
        let asked = request::generate(there, most, self.seed, prompt, parameters)?;
        let uri = match prompt {
            Prompt::Chat(_) => &shared.protocol.chat,
            Prompt::Raw(_) => &shared.protocol.completions,
        };
        let server = &shared.server;
        let traceparent = self.reply.traceparent();
        let assembly = Mutex::new(Assembly::new(&asked));
        let deadline = self.deadline;
        let started = Mutex::new(None);
        let (reply, signals) = (&mut self.reply, &mut self.signals);
        let question = Question {
            uri,
            asked: &asked,
            class: self.class,
            deadline,
            jitter: self.seed ^ self.id.0,
            traceparent: traceparent.as_deref(),
        };
        let work = answer(server, &question, &started, &assembly, reply);
        let worked = tokio::select! {
            biased;
            // First, so that what comes after a signal is not taken any more.
            ended = ended(signals) => ended.map(|()| locked(&assembly).end()),
            () = passed(deadline) => Err(ModelError::Expired { made: locked(&assembly).made() }),
            worked = work => worked.map_err(|stopped| match stopped {
                Stopped::Trouble(trouble) => server.error(Side::of(self.class), trouble),
                Stopped::Gone => ModelError::Cancelled,
            }),
        };
        worked?;
        let assembly = assembly
            .into_inner()
            .unwrap_or_else(|lock| lock.into_inner());
        let mut answer = assembly.answer();
        let started = locked(&started).unwrap_or_else(Instant::now);
        let queued = started.saturating_duration_since(self.submitted);
        answer.timings.queued = queued;
        answer.timings.prefill = answer.timings.prefill.saturating_sub(queued);
        Ok(answer)
    }

    async fn encode(&mut self, text: String) -> Result<Answer, ModelError> {
        let shared = self.shared.clone();
        if shared.makes == Makes::Text {
            return Err(self.wrong_task("embed"));
        }
        if text.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let started = Mutex::new(None);
        let wanted = batch::Wanted {
            text,
            deadline: self.deadline,
            traceparent: self.reply.traceparent(),
        };
        let work = batch::encode(&shared, self.class, wanted, &started);
        let encoded: Encoded = tokio::select! {
            biased;
            ended = cancelled(&mut self.signals) => Err(ended),
            () = passed(self.deadline) => Err(ModelError::Expired { made: 0 }),
            encoded = work => encoded,
        }?;
        let started = locked(&started).unwrap_or(self.submitted);
        Ok(Answer {
            made: encoded.made,
            prompt_tokens: encoded.tokens,
            adapter: String::new(),
            timings: Timings {
                queued: started.saturating_duration_since(self.submitted),
                prefill: started.elapsed(),
                decode: Duration::ZERO,
            },
        })
    }

    fn wrong_task(&self, task: &'static str) -> ModelError {
        ModelError::WrongTask {
            model: self.shared.facts.name.clone(),
            task,
        }
    }
}

/// When a request ends from outside: `Ok` if with what it has.
async fn ended(signals: &mut watch::Receiver<Signal>) -> Result<(), ModelError> {
    loop {
        if signals.changed().await.is_err() {
            return Err(ModelError::Closed);
        }
        let signal = *signals.borrow_and_update();
        match signal {
            Signal::Go => {}
            Signal::Cancel => return Err(ModelError::Cancelled),
            Signal::End => return Ok(()),
        }
    }
}

/// When a request without an answer that grows ends from outside.
async fn cancelled(signals: &mut watch::Receiver<Signal>) -> ModelError {
    while signals.changed().await.is_ok() {
        if *signals.borrow_and_update() != Signal::Go {
            return ModelError::Cancelled;
        }
    }
    ModelError::Closed
}

/// When the answer is of no more use.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
