//! The engine: many requests, one decoder.
//!
//! One thread owns the decoder. Between two steps requests join and leave: those whose deadline passed and those that
//! were cancelled go, waiting ones take the free KV slots in the order of class, deadline and arrival, and the rows of
//! the next step are filled with one row for every sequence that generates and then with pieces of prompts.
//!
//! It deliberately does not know streams, records or HTTP, nor the device: it sees a [`Decoder`] and a tokenizer.
//!
//! Invariants:
//! - every accepted request ends with exactly one `done`, also when a reply panics, the device fails or the engine ends;
//! - an answer depends on its request only, never on what ran beside it or on whether it was resumed, as far as the
//!   decoder's logits do not;
//! - a request that ended holds no slot; the queue never holds more than its limit;
//! - nothing here waits without a limit.

mod answer;
mod load;
mod options;
mod plan;
mod queue;
mod reply;
mod sampler;
mod sequence;
mod stats;
mod worker;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidegate_contract::{Model, ModelError, ModelFacts, Request, RequestId, Role};
use tidegate_text::{ChatMessage, Tokenizer};

use crate::decoder::Decoder;

pub use load::{LoadModelError, LoadOptions, load_model};
pub use options::EngineOptions;
pub use stats::EngineStats;

use queue::{Permit, Submission};
use reply::GuardedReply;
use stats::Shared;
use worker::{Command, Worker};

/// How long a dropped engine waits for its thread; a step of the GPU decoder has a shorter limit of its own.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Loads the decoder again after its device was lost; the error says why it could not.
pub type Reload = Box<dyn FnMut() -> Result<Box<dyn Decoder>, String> + Send>;

/// A model that serves requests. Dropping it ends its thread and every request with [`ModelError::Closed`].
pub struct Engine {
    commands: Sender<Command>,
    shared: Arc<Shared>,
    tokenizer: Arc<Tokenizer>,
    facts: ModelFacts,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("facts", &self.facts)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the thread. A decoder that fails three times in a row, or whose device is lost, ends the engine.
    pub fn start(
        decoder: Box<dyn Decoder>,
        tokenizer: Arc<Tokenizer>,
        facts: ModelFacts,
        options: EngineOptions,
    ) -> Engine {
        Engine::start_reloading(decoder, None, tokenizer, facts, options)
    }

    /// As [`Engine::start`], with a way to load the decoder again when it is of no more use: the running requests
    /// fail with [`ModelError::Device`], the waiting ones run on the new decoder.
    pub fn start_reloading(
        decoder: Box<dyn Decoder>,
        reload: Option<Reload>,
        tokenizer: Arc<Tokenizer>,
        facts: ModelFacts,
        options: EngineOptions,
    ) -> Engine {
        let (commands, receiver) = unbounded();
        let (alive, ended) = crossbeam_channel::bounded(0);
        let shared = Arc::new(Shared::new(options.queue, decoder.shape()));
        let worker = Worker::new(
            decoder,
            reload,
            Arc::clone(&tokenizer),
            options,
            Arc::clone(&shared),
            receiver,
        );
        let spawned = thread::Builder::new()
            .name("tidegate-engine".into())
            .spawn(move || {
                let _alive: Sender<()> = alive;
                worker.run();
            });
        if let Err(error) = &spawned {
            tracing::error!(%error, "the engine's thread could not be started");
            shared.closed.store(true, Ordering::Release);
        }
        Engine {
            commands,
            shared,
            tokenizer,
            facts,
            thread: spawned.ok(),
            ended,
        }
    }

    /// What the engine has done and is doing.
    pub fn stats(&self) -> EngineStats {
        self.shared.snapshot()
    }

    /// Ends the engine without waiting for it: every request ends with [`ModelError::Closed`].
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let _ = self.commands.send(Command::Close);
    }

    /// The prompt's tokens, if the model can take them.
    fn prompt(&self, request: &Request) -> Result<Vec<u32>, ModelError> {
        if request.messages.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let messages: Vec<ChatMessage<'_>> = request
            .messages
            .iter()
            .map(|m| ChatMessage {
                role: role(m.role),
                content: &m.content,
            })
            .collect();
        let prompt = self
            .tokenizer
            .encode_chat(&messages)
            .map_err(|e| ModelError::Prompt(e.to_string()))?;
        let limit = self.shared.context.saturating_sub(1);
        if prompt.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if prompt.len() > limit {
            return Err(ModelError::PromptTooLong {
                tokens: prompt.len(),
                limit,
            });
        }
        let unknown = |id: &&u32| **id as usize >= self.shared.vocabulary;
        if let Some(id) = prompt.iter().chain(&request.forced_prefix).find(unknown) {
            let limit = self.shared.vocabulary;
            return Err(ModelError::Prompt(format!(
                "token {id} is not below the model's vocabulary of {limit}"
            )));
        }
        Ok(prompt)
    }
}

/// The role's name in chat templates.
fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

impl Model for Engine {
    /// Renders and encodes the prompt on the caller's thread. What is wrong with the prompt itself is told to the
    /// request's reply; only [`ModelError::Full`] and [`ModelError::Closed`] give the request back.
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err((request, ModelError::Closed));
        }
        let Some(permit) = Permit::take(&self.shared) else {
            return Err((
                request,
                ModelError::Full {
                    limit: self.shared.queue,
                },
            ));
        };
        let submission = Submission {
            prompt: self.prompt(&request),
            id: request.id,
            seed: request.seed,
            prefix: request.forced_prefix,
            parameters: request.parameters,
            class: request.class,
            deadline: request.deadline,
            reply: GuardedReply::new(request.reply),
            submitted: Instant::now(),
            _permit: permit,
        };
        // If the thread has just ended, the submission is dropped here and its reply answers `Closed`.
        let _ = self.commands.send(Command::Submit(Box::new(submission)));
        Ok(())
    }

    fn cancel(&self, id: RequestId) {
        let _ = self.commands.send(Command::Cancel(id));
    }

    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        self.tokenizer
            .count(text)
            .map_err(|e| ModelError::Prompt(e.to_string()))
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        self.tokenizer
            .truncate(text, tokens)
            .map_err(|e| ModelError::Prompt(e.to_string()))
    }

    fn facts(&self) -> ModelFacts {
        self.facts.clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A reply may hold the last reference to the engine: its thread cannot wait for itself.
        if thread.thread().id() == thread::current().id() {
            return;
        }
        match self.ended.recv_timeout(END_LIMIT) {
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                tracing::error!(limit = ?END_LIMIT, "the engine's thread did not end in time and is left alone");
            }
            _ => {
                let _ = thread.join();
            }
        }
    }
}
