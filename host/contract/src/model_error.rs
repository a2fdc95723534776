//! Why a model has no answer, and whose affair that is.

use std::time::Duration;

/// Whose affair it is that a request has no answer. By this alone it is decided what kind of answer whoever asked gets, and
/// whether its record is a dead letter, which only those who run the host read: see [`ModelError::blame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Of whoever asked: the same request never has an answer here.
    Asker,
    /// Of the time that there was.
    Time,
    /// Of the moment: there is no room, or the model has just gone. The same request may have an answer later.
    Moment,
    /// Of another server.
    Elsewhere,
    /// Of this host.
    Host,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The queue is full, or the model is left alone for now: ask again later. A request that ends with it was not made:
    /// it counts as no attempt.
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
    /// A parameter is out of range, or the structure cannot be understood.
    #[error("{name} is {value}, must be {limit}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        limit: String,
    },
    /// The model cannot do what was asked: an encoder cannot generate, a decoder cannot embed.
    #[error("the model {model} cannot {task}")]
    WrongTask {
        /// The model.
        model: String,
        /// What was asked: "generate", "embed", "classify", "recognize" or "rank".
        task: &'static str,
    },
    /// By the measured times of steps the deadline would pass before the answer could be complete.
    #[error("the deadline in {left:?} cannot be met: {needed:?} are needed")]
    Hopeless {
        /// Time until the deadline.
        left: Duration,
        /// Time that the request would take.
        needed: Duration,
    },
    /// No model of this name is loaded.
    #[error("no model {0} is loaded")]
    Unknown(String),
    /// The deadline passed first.
    #[error("deadline passed after {made} tokens")]
    Expired {
        /// Tokens made until then.
        made: usize,
    },
    /// A server that was asked for the answer has none.
    #[error("{server} has no answer: {why}")]
    Remote {
        /// The server, by its address.
        server: String,
        /// What it said, or what came of the connection: for those who run this host.
        why: String,
        /// What of that is told to whoever asked: the kind of failure. The words of the server only where it refused what
        /// was asked, and that was of nobody else.
        told: String,
        /// Whether the same request may have an answer later.
        again: bool,
        /// How long the server asks to be left alone before that. It is well, and puts the request off, which is no attempt;
        /// none where it failed, whatever else it says.
        after: Option<Duration>,
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

impl ModelError {
    /// Whose affair it is.
    pub fn blame(&self) -> Blame {
        match self {
            ModelError::PromptTooLong { .. }
            | ModelError::EmptyPrompt
            | ModelError::Prompt(_)
            | ModelError::Parameter { .. }
            | ModelError::WrongTask { .. }
            | ModelError::Unknown(_) => Blame::Asker,
            ModelError::Hopeless { .. } | ModelError::Expired { .. } => Blame::Time,
            ModelError::Full { .. } | ModelError::Cancelled | ModelError::Closed => Blame::Moment,
            ModelError::Remote { .. } => Blame::Elsewhere,
            ModelError::Device(_) => Blame::Host,
        }
    }
}
