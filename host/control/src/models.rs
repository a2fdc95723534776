//! What the admin API says of models.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::api::{Percentiles, list};

/// A model of the pipeline and what it did since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its name in the pipeline file.
    pub name: String,
    /// Where it was loaded from.
    pub path: PathBuf,
    /// Whether it takes requests.
    pub loaded: bool,
    /// Whether those have to wait: it has lost its device and is loaded again, or does not go on, and so has every replica.
    #[serde(default)]
    pub away: bool,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The adapter it runs on.
    pub adapter: String,
    /// Positions of a sequence.
    pub context: u32,
    /// Sequences that run at once.
    pub sequences: u32,
    /// Bytes it holds on its adapter.
    pub memory: u64,
    /// Requests that wait, and that run.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// KV blocks there are; 0 for an encoder.
    pub blocks: usize,
    /// KV blocks in use.
    pub blocks_used: usize,
    /// KV blocks that prefixes of stages are pinned in.
    #[serde(default)]
    pub blocks_pinned: usize,
    /// Requests answered.
    pub answered: u64,
    /// Requests that failed, whatever the reason.
    pub failed: u64,
    /// Requests that whoever asked has left before their end.
    #[serde(default)]
    pub left: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Of these, tokens that were in the KV cache already.
    pub prefix_hit_tokens: u64,
    /// Tokens made.
    pub tokens: u64,
    /// From a request to the first token of its answer, as far as the buckets of the metrics tell.
    #[serde(default)]
    pub first_token_ms: Percentiles,
    /// Tokens guessed ahead.
    pub drafted: u64,
    /// Of these, tokens that were right.
    pub accepted: u64,
    /// Sequences that gave up their blocks and were computed again.
    pub preemptions: u64,
    /// Times its draft model failed and was left to rest.
    #[serde(default)]
    pub draft_failures: u64,
    /// Times it was loaded again after its device failed.
    pub reloads: u64,
    /// Requests that went to another replica: their own could do no more, or another was back and had less to do.
    #[serde(default)]
    pub moved: u64,
    /// Its replicas, where the file names several adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaReport>,
    /// The low-rank adapters that it is loaded with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<LoraReport>,
}

/// A low-rank adapter of a model. What it was asked is in the figures of the model, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoraReport {
    /// Its name in the pipeline file.
    pub name: String,
    /// Digest of its files, as they were read when it was loaded.
    pub digest: String,
    /// Its largest rank.
    pub rank: u32,
    /// Requests answered.
    pub answered: u64,
    /// Requests that failed, whatever the reason.
    pub failed: u64,
    /// Requests that whoever asked has left before their end.
    pub left: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of prompts that were in the KV cache already.
    pub prefix_hit_tokens: u64,
    /// Tokens made.
    pub tokens: u64,
}

/// A model on one adapter of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// The adapter it runs on.
    pub adapter: String,
    /// Whether it takes requests.
    pub standing: ReplicaState,
    /// Why it does not, where it was left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How long until it is tried again where it was left out and is, seconds: 0 while it is being tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_seconds: Option<u64>,
    /// Bytes it holds there.
    pub memory: u64,
    /// Answers or texts in the making.
    pub running: usize,
    /// KV blocks there are; 0 for an encoder.
    pub blocks: usize,
    /// KV blocks in use.
    pub blocks_used: usize,
    /// Requests answered.
    pub answered: u64,
    /// Tokens made.
    pub tokens: u64,
    /// Steps.
    pub steps: u64,
    /// Tokens of prompts that were in its KV cache already.
    pub prefix_hit_tokens: u64,
    /// Requests that came from another replica.
    pub moved: u64,
    /// Times it was loaded again after its device failed.
    pub reloads: u64,
}

/// Whether a replica takes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaState {
    /// It does.
    #[default]
    Serves,
    /// Its device has failed, and it is loaded again.
    Away,
    /// Its engine's thread does not go on: what it was asked goes to the others.
    Stalled,
    /// It was given up, or never came.
    LeftOut,
}

/// A model that another server has, and what it did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteReport {
    /// Its name in the pipeline file.
    pub name: String,
    /// The server, as the file names it.
    pub server: String,
    /// Requests that are under way, those that wait for their turn included.
    pub in_flight: usize,
    /// Of these, those that wait for their turn.
    pub waiting: usize,
    /// Requests answered.
    pub answered: u64,
    /// Requests that failed, whatever the reason.
    pub failed: u64,
    /// Requests that whoever asked has left before their end.
    #[serde(default)]
    pub left: u64,
    /// Whether the server is asked.
    pub breaker: BreakerState,
    /// For how long the server has not been known to be well, whole seconds; none while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_seconds: Option<u64>,
}

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerState {
    /// As usual.
    #[default]
    Closed,
    /// Not for a while: it is well, and asked for that.
    Resting,
    /// Not for a while: it has failed.
    Open,
    /// It has failed, and the next request tries it, or one does.
    HalfOpen,
}

/// A request for a model that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelRefused {
    /// The pipeline has no such model.
    #[error("no stage asks a model {name:?}; models: {}", list(.models))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those there are.
        models: Vec<String>,
    },
    /// It is being loaded or unloaded.
    #[error("model {name:?} is being loaded or unloaded; try again when that has ended")]
    UnderWay {
        /// The model.
        name: String,
    },
    /// It cannot be loaded, or does not fit the stages that ask it.
    #[error("{0}")]
    Refused(String),
    /// The host does not run yet.
    #[error("the pipeline is starting; try again when it runs")]
    Starting,
    /// The host is ending.
    #[error("the pipeline is ending")]
    Ending,
}
