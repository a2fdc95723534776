//! The validated pipeline's models that other servers have.

use std::path::PathBuf;
use std::time::Duration;

/// A model that is asked for over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteModel {
    /// How the server is spoken to.
    pub protocol: RemoteProtocol,
    /// Where it is: up to `/v1` for OpenAI's protocol, before `/v2` for KServe's.
    pub url: String,
    /// What it calls the model.
    pub model: String,
    /// The variable of the environment that has the key; none is sent without.
    pub key_variable: Option<String>,
    /// Certificates of those who may vouch for the server, PEM, absolute; without, those whom the system trusts.
    pub certificates: Option<PathBuf>,
    /// Most tokens of an answer; without, as many as the context has.
    pub max_tokens: Option<u32>,
    /// Most requests at once.
    pub in_flight: usize,
    /// How long is waited.
    pub timeouts: RemoteTimeouts,
    /// How often a request is sent, the first time included.
    pub attempts: u32,
    /// Repeats as a share of the requests; beyond it nothing is repeated.
    pub retry_budget: f64,
    /// When it is asked a second time.
    pub hedge: RemoteHedge,
    /// When it is asked no more for a while.
    pub breaker: RemoteBreaker,
    /// Most texts of one call for vectors or labels.
    pub batch: usize,
}

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteProtocol {
    /// OpenAI's HTTP API.
    OpenAi {
        /// Whether it knows what vLLM does beyond it.
        vllm: bool,
        /// Whether the most tokens are `max_completion_tokens` there, not `max_tokens`.
        completion_tokens: bool,
    },
    /// KServe's inference protocol, version 2.
    Kserve {
        /// The model's version there; the server's choice without.
        version: Option<String>,
        /// The tensor that texts go into.
        input: String,
        /// The tensor that numbers come from.
        output: String,
        /// Whether texts have a dimension of their own.
        column: bool,
        /// Whether the numbers are logits.
        logits: bool,
        /// The names of labels, in their order; none of a model that makes vectors.
        labels: Vec<String>,
    },
}

/// How long is waited for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteTimeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first token of an answer.
    pub first: Duration,
    /// For each further part of it.
    pub between: Duration,
    /// For all of it.
    pub whole: Duration,
}

impl Default for RemoteTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first: Duration::from_secs(60),
            between: Duration::from_secs(30),
            whole: Duration::from_secs(600),
        }
    }
}

/// When a server that has shown nothing is asked a second time; the first that answers counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteHedge {
    /// Never.
    Off,
    /// When nineteen of twenty have begun to answer.
    Late,
    /// After so long.
    After(Duration),
}

/// When a server is asked no more for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteBreaker {
    /// Over how long failures are counted.
    pub within: Duration,
    /// Fewest requests in it that say anything.
    pub least: u32,
    /// Share of them that fail.
    pub share: f64,
    /// For this long.
    pub open: Duration,
}

impl Default for RemoteBreaker {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            least: 10,
            share: 0.5,
            open: Duration::from_secs(10),
        }
    }
}
