//! The model port: the request contract.

use std::time::{Duration, Instant};

/// Number of a request, unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The operator of the pipeline.
    System,
    /// The record.
    User,
    /// The model, in an earlier turn.
    Assistant,
}

/// One message of a chat; the model's chat template renders them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub content: String,
}

/// How to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// Share of probability that is sampled from, 0 to 1.
    pub top_p: f32,
    /// The answer ends before any of these.
    pub stop: Vec<String>,
}

/// A request to a model.
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// Counted from 1; a reader of tokens keeps those of the highest.
    pub attempt: u32,
    /// Seed of the sampling.
    pub seed: u64,
    /// The chat, to be rendered with the model's template.
    pub messages: Vec<Message>,
    /// Tokens of the answer that are already made: generation goes on after them.
    pub forced_prefix: Vec<u32>,
    /// How to generate.
    pub parameters: Parameters,
    /// Lower goes first.
    pub class: u8,
    /// When the answer is of no more use.
    pub deadline: Option<Instant>,
    /// Where tokens and the answer go.
    pub reply: Box<dyn Reply>,
}

/// Receives what the model makes. Called on the engine's thread: must not block.
pub trait Reply: Send {
    /// A token of the answer: its index, its number, and the text that became certain with it (may be empty: a
    /// character or a stop string may be half made).
    fn token(&mut self, index: u32, token: u32, text: &str);

    /// The end of the request. Called exactly once.
    fn done(self: Box<Self>, result: Result<Answer, ModelError>);
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    End,
    /// A stop string came.
    Stop,
    /// `max_tokens` or the context was reached.
    Length,
}

impl Finish {
    /// The word used in records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Finish::End => "end",
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

/// How long the parts of a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission to the first step.
    pub queued: Duration,
    /// From the first step to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text, without stop string.
    pub text: String,
    /// The tokens made, forced prefix included.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Why it ended.
    pub finish: Finish,
    /// How long its parts took.
    pub timings: Timings,
}

/// What a model is, for messages, summaries and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Name: that of the directory.
    pub name: String,
    /// Digest of the weights, `sha256:` and hexadecimal digits.
    pub digest: String,
    /// The adapter it runs on, with its backend.
    pub adapter: String,
    /// Positions of a sequence.
    pub context: u32,
    /// Sequences that run at once.
    pub sequences: u32,
}

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Takes a request; never blocks. A full queue refuses with [`ModelError::Full`] and gives the request back, so
    /// that the task waits.
    #[allow(clippy::result_large_err)]
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)>;

    /// The request is of no more use; its reply still ends, with [`ModelError::Cancelled`] or an answer.
    fn cancel(&self, id: RequestId);

    /// How many tokens a text has.
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError>;

    /// The longest beginning of a text that has at most this many tokens, cut between characters.
    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError>;

    /// What it is.
    fn facts(&self) -> ModelFacts;
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The queue is full: ask again later.
    #[error("the model's queue is full ({limit} requests)")]
    Full {
        /// Most requests that wait.
        limit: usize,
    },
    /// The prompt does not fit.
    #[error("prompt of {tokens} tokens exceeds the limit of {limit}")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Most tokens, room for one answer token kept.
        limit: usize,
    },
    /// The prompt has no token.
    #[error("prompt is empty")]
    EmptyPrompt,
    /// The chat template or tokenizer refused the messages.
    #[error("prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The deadline passed first.
    #[error("deadline passed after {made} tokens")]
    Expired {
        /// Tokens made until then.
        made: usize,
    },
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The device failed under it.
    #[error("the device failed: {0}")]
    Device(String),
    /// The engine has ended.
    #[error("the model has ended")]
    Closed,
}
