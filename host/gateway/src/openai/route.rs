//! Routes: which models are asked through which source.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use tidegate_contract::{AskingRecord, ModelError};

use super::load::{OtherModel, Step};
use tidegate_telemetry::trace::names;

use crate::access::Scope;

/// What a model is asked for, by the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/rerank`.
    Rerank,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Endpoint; 5] = [
        Endpoint::Chat,
        Endpoint::Completions,
        Endpoint::Responses,
        Endpoint::Embeddings,
        Endpoint::Rerank,
    ];

    /// The one at this path.
    pub(crate) fn of(path: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|each| each.path() == path)
    }

    /// The word in records and configuration.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Chat => "chat",
            Endpoint::Completions => "completions",
            Endpoint::Responses => "responses",
            Endpoint::Embeddings => "embeddings",
            Endpoint::Rerank => "rerank",
        }
    }

    /// What a model is asked for, as OpenTelemetry has it.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Endpoint::Chat | Endpoint::Responses => names::CHAT,
            Endpoint::Completions => names::TEXT_COMPLETION,
            Endpoint::Embeddings => names::EMBEDDINGS,
            Endpoint::Rerank => names::RERANK,
        }
    }

    /// What a client must be allowed to ask it.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Endpoint::Chat => Scope::Chat,
            Endpoint::Completions => Scope::Completions,
            Endpoint::Responses => Scope::Responses,
            Endpoint::Embeddings => Scope::Embeddings,
            Endpoint::Rerank => Scope::Rerank,
        }
    }

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Completions => "/v1/completions",
            Endpoint::Responses => "/v1/responses",
            Endpoint::Embeddings => "/v1/embeddings",
            Endpoint::Rerank => "/v1/rerank",
        }
    }

    /// Whether its answers are texts, which can be shown as they are made.
    pub(crate) fn has_pieces(self) -> bool {
        !matches!(self, Endpoint::Embeddings | Endpoint::Rerank)
    }

    /// The member that the prompt stands in.
    pub(crate) fn prompt(self) -> &'static str {
        match self {
            Endpoint::Chat => "messages",
            Endpoint::Completions => "prompt",
            Endpoint::Responses | Endpoint::Embeddings => "input",
            Endpoint::Rerank => "documents",
        }
    }
}

/// A model as clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelEntry {
    /// The name that is shown.
    pub name: String,
    /// When it was made, seconds since the Unix epoch.
    pub made: u64,
}

/// Bounds that a request is held against before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tokens of prompt and answer.
    pub context_tokens: u32,
    /// Most tokens of an answer.
    pub answer_tokens: u32,
    /// Length of a vector, where it is known.
    pub dimensions: Option<u32>,
}

/// What a prompt costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptCost {
    /// Its tokens.
    pub tokens: usize,
}

/// Counts the tokens of what is asked; of `input` of an embedding, `prompt` has the text.
pub type Count = Arc<dyn Fn(&AskingRecord) -> Result<PromptCost, ModelError> + Send + Sync>;

/// What makes the answers of a route at this time: models, operators, handlers of tokens. Answers that were asked for and
/// made under one such text, which never comes back once it was another, may be given again under it.
pub type Present = Arc<dyn Fn() -> String + Send + Sync>;

/// Which requests of a route have the same answer each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// None: a stage draws, whatever is asked.
    Never,
    /// Those that say that they are greedy, or name a seed.
    WhereAsked,
    /// Those as well that do not say how they are drawn.
    Usually,
}

/// A token as text.
pub type TokenText = Arc<dyn Fn(u32) -> Option<String> + Send + Sync>;

/// Whether the server of a model has failed and is left alone: what is asked of it waits.
pub type IsSilent = Arc<dyn Fn() -> bool + Send + Sync>;

/// A way through the pipeline.
#[derive(Clone)]
pub struct Route {
    /// Its name in the pipeline file.
    pub name: String,
    /// The models that are asked through it.
    pub models: Vec<ModelEntry>,
    /// The names in the pipeline of those that answer.
    pub own: Vec<String>,
    /// What is done under load, in this order.
    pub steps: Vec<Step>,
    /// The models that answer then.
    pub others: Vec<OtherModel>,
    /// The endpoints that it serves.
    pub endpoints: Vec<Endpoint>,
    /// Headers of the request that its record has.
    pub headers: Vec<HeaderName>,
    /// The header that is its record's key.
    pub key_header: Option<HeaderName>,
    /// The longest that a request may take.
    pub deadline: Duration,
    /// Priority class; lower goes first.
    pub class: u8,
    /// Index of its source in the pipeline.
    pub source: u16,
    /// What is checked before.
    pub bounds: Bounds,
    /// Whether rankings are asked for with one record, which has the query and all documents, and not made of the vector of
    /// each text.
    pub ranks_whole: bool,
    /// Counts prompts; none where only the model can.
    pub count: Option<Count>,
    /// Which requests may share an answer.
    pub settled: Settled,
    /// What makes it.
    pub present: Present,
    /// Whether a stage that its requests get to gives answers a form.
    pub has_form: bool,
    /// Shows tokens, for log-probabilities.
    pub token_text: Option<TokenText>,
    /// Whether a model that answers is silent; none where all are here.
    pub is_silent: Option<IsSilent>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("name", &self.name)
            .field("models", &self.models)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}
