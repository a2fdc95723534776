//! How a remote model is asked.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_contract::Makes;

use super::clock::Clock;
use super::secret::Secret;

/// A model on a server, and how it is asked.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// Its name here.
    pub name: String,
    /// What server it is.
    pub kind: RemoteKind,
    /// Positions of a sequence, as the server has them.
    pub context: u32,
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// Most requests at once.
    pub concurrency: usize,
    /// Most requests that wait for their turn; beyond, [`Full`](tidegate_contract::ModelError::Full).
    pub queue: usize,
    /// How long is waited.
    pub timeouts: RemoteTimeouts,
    /// How often a request is tried in all, at least 1.
    pub attempts: u32,
    /// Wait before the second try, longer if the server says so; doubled each time, at most 8 s. A server that asks to be
    /// left alone is so for no less.
    pub backoff: Duration,
    /// How much is tried again.
    pub budget: RetryBudget,
    /// When a second try is begun beside one that is slow.
    pub hedge: Hedge,
    /// When the server is left alone.
    pub breaker: BreakerOptions,
    /// Who vouches for the server.
    pub roots: Roots,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// Where requests run; none is a thread of the model's own.
    pub runtime: Option<tokio::runtime::Handle>,
    /// The time of breaker, budget and hedging.
    pub clock: Clock,
}

impl RemoteOptions {
    /// A model with the usual values for everything else.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: RemoteKind, context: u32) -> RemoteOptions {
        RemoteOptions {
            name: name.into(),
            kind,
            context,
            max_tokens: context,
            concurrency: 32,
            queue: 256,
            timeouts: RemoteTimeouts::default(),
            attempts: 3,
            backoff: Duration::from_millis(500),
            budget: RetryBudget::default(),
            hedge: Hedge::Off,
            breaker: BreakerOptions::default(),
            roots: Roots::System,
            headers: Vec::new(),
            runtime: None,
            clock: Clock::default(),
        }
    }
}

/// What server a model is on.
#[derive(Clone, Debug)]
pub enum RemoteKind {
    /// One that speaks OpenAI's protocol.
    OpenAi(OpenAi),
    /// One that speaks KServe's version 2.
    Kserve(Kserve),
}

/// A model on a server that speaks OpenAI's protocol.
#[derive(Clone, Debug)]
pub struct OpenAi {
    /// The base URL as OpenAI's clients take it, `https://host/v1`. Without a path, `/v1` is meant.
    pub url: String,
    /// Sent as a bearer token.
    pub key: Option<Secret>,
    /// The model's name there.
    pub model: String,
    /// [`Makes::Text`] or [`Makes::Embeddings`].
    pub makes: Makes,
    /// What the server knows beyond OpenAI's own.
    pub dialect: Dialect,
    /// How `max_tokens` is called.
    pub limit_name: LimitName,
    /// Most texts of one call for embeddings.
    pub batch: usize,
}

impl OpenAi {
    /// A model that makes text.
    #[must_use]
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> OpenAi {
        OpenAi {
            url: url.into(),
            key: None,
            model: model.into(),
            makes: Makes::Text,
            dialect: Dialect::OpenAi,
            limit_name: LimitName::MaxTokens,
            batch: 1,
        }
    }
}

/// What a server knows beyond OpenAI's own protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Nothing: what cannot be said is refused.
    #[default]
    OpenAi,
    /// vLLM's `top_k`, `min_p`, `repetition_penalty`, `structured_outputs` and `reasoning_content` of messages.
    Vllm,
}

/// How the most tokens of an answer are called in a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitName {
    /// `max_tokens`, which every compatible server knows.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models ask for.
    MaxCompletionTokens,
}

/// A model on a server that speaks KServe's version 2: an encoder or a classifier.
#[derive(Clone, Debug)]
pub struct Kserve {
    /// The base URL, before `/v2`.
    pub url: String,
    /// Sent as a bearer token.
    pub key: Option<Secret>,
    /// The model's name there.
    pub model: String,
    /// Its version; none is the server's choice.
    pub version: Option<String>,
    /// The input tensor, of BYTES: texts.
    pub input: String,
    /// The output tensor, of FP32: a row for each text.
    pub output: String,
    /// Whether the input has the shape [texts, 1], as servers with batching of their own ask for; else [texts].
    pub column: bool,
    /// Names of the columns of the output; empty is a vector.
    pub labels: Vec<String>,
    /// Whether the output is logits, of which probabilities are made here.
    pub logits: bool,
    /// Most texts of one call.
    pub batch: usize,
}

impl Kserve {
    /// A model that makes vectors.
    #[must_use]
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Kserve {
        Kserve {
            url: url.into(),
            key: None,
            model: model.into(),
            version: None,
            input: "text".into(),
            output: "output".into(),
            column: false,
            labels: Vec::new(),
            logits: false,
            batch: 1,
        }
    }
}

/// How long is waited for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTimeouts {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For the first token of an answer, connection and queue of the server included; of vectors and labels, for all of
    /// them.
    pub first: Duration,
    /// After it, for each further part of an answer. Comments that keep a connection open are none.
    pub between: Duration,
    /// For a whole answer.
    pub whole: Duration,
}

impl Default for RemoteTimeouts {
    /// 5 s, 60 s, 30 s and 10 min.
    fn default() -> RemoteTimeouts {
        RemoteTimeouts {
            connect: Duration::from_secs(5),
            first: Duration::from_secs(60),
            between: Duration::from_secs(30),
            whole: Duration::from_secs(600),
        }
    }
}

/// How much is tried again, hedging included, so that a server in trouble is not asked several times as much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// As a share of the requests, 0 to 1.
    pub share: f64,
    /// So much a second always, however few the requests are.
    pub least: f64,
}

impl Default for RetryBudget {
    /// A tenth of the requests, and one in 2 s.
    fn default() -> RetryBudget {
        RetryBudget {
            share: 0.1,
            least: 0.5,
        }
    }
}

/// When a second try is begun beside one that has shown nothing yet. The first of which something comes goes on, and
/// the other is let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hedge {
    /// Never.
    #[default]
    Off,
    /// After so long.
    After(Duration),
    /// When nineteen of twenty have begun to answer, by the last 128 of them; not before 20 have.
    Late,
}

/// When a server is left alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerOptions {
    /// Over how long failures are counted.
    pub window: Duration,
    /// Fewest tries in it that say anything.
    pub least: u32,
    /// Share of failures, above 0 to 1, that opens it; above 1 it never opens.
    pub share: f64,
    /// How long it stays open before one request tries.
    pub open: Duration,
}

impl Default for BreakerOptions {
    /// Half of at least 10 tries in 30 s, then 10 s.
    fn default() -> BreakerOptions {
        BreakerOptions {
            window: Duration::from_secs(30),
            least: 10,
            share: 0.5,
            open: Duration::from_secs(10),
        }
    }
}

/// Who vouches for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Those whom the system trusts.
    #[default]
    System,
    /// The certificates of a PEM file.
    File(PathBuf),
}

/// Why a remote model cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// An address that is none.
    #[error("url is {url:?}, must be {limit}")]
    Url {
        /// As it was given.
        url: String,
        /// What it must be.
        limit: &'static str,
    },
    /// An option out of range.
    #[error("{name} is {value}, must be {limit}")]
    Option {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        limit: &'static str,
    },
    /// Nobody can vouch for servers.
    #[error("trusted certificates cannot be read from {place}: {why}")]
    Roots {
        /// From where.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// No thread for it.
    #[error("no thread can be started: {0}")]
    Thread(String),
}
