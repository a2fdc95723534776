//! Why a model is not loaded.

use std::time::Duration;

use tidegate_contract::DecodeError;

/// Why [`crate::Engine::load`] did not load a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It does not fit beside the others.
    #[error("model {name} needs {needed} bytes, {free} of the budget of {budget} are free")]
    Budget {
        /// The model.
        name: String,
        /// Bytes it holds, with its draft model.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes of all models together.
        budget: u64,
    },
    /// Its files or its device said no.
    #[error("model {name} cannot be loaded: {reason}")]
    Failed {
        /// The model.
        name: String,
        /// Why.
        reason: String,
    },
    /// A size is zero, or too small to make one token.
    #[error("model {name}: {what} is {value}, must be at least {least}")]
    Shape {
        /// The model.
        name: String,
        /// Which size.
        what: &'static str,
        /// What it is.
        value: usize,
        /// What it must be.
        least: usize,
    },
    /// The tokenizer knows tokens that the model does not.
    #[error("the tokenizer of model {name} has {tokenizer} tokens, the model only {model}")]
    Vocabulary {
        /// The model.
        name: String,
        /// Tokens of the tokenizer.
        tokenizer: usize,
        /// Tokens of the model.
        model: usize,
    },
    /// A draft model must know the same tokens.
    #[error("the draft model of {name} has {draft} tokens, the model {model}")]
    DraftVocabulary {
        /// The model.
        name: String,
        /// Tokens of the draft model.
        draft: usize,
        /// Tokens of the model.
        model: usize,
    },
    /// Labels and scores differ in number.
    #[error("model {name} makes {scores} scores and has {labels} labels")]
    Labels {
        /// The model.
        name: String,
        /// Scores that the encoder makes; 0 if it makes vectors.
        scores: usize,
        /// Labels that were given.
        labels: usize,
    },
    /// The first step failed.
    #[error("model {name} fails its first step: {error}")]
    FirstStep {
        /// The model.
        name: String,
        /// Why.
        error: DecodeError,
    },
    /// The first step gave numbers that are none.
    #[error("model {name} fails its first step: number {index} of {of} is {value}")]
    NotFinite {
        /// The model.
        name: String,
        /// Which number.
        index: usize,
        /// How many there are.
        of: usize,
        /// What it is.
        value: String,
    },
    /// More is to be pinned than may be.
    #[error(
        "model {name}: what the prompts of {stages} begin with takes {pinned} KV blocks, and at most {most} of its {blocks} may \
         be pinned: half, and none that one sequence of its whole context needs; pin fewer, or give it more KV memory or less \
         context"
    )]
    Pinned {
        /// The model.
        name: String,
        /// Whose prompts are pinned.
        stages: String,
        /// Blocks that they take.
        pinned: usize,
        /// Blocks there are.
        blocks: usize,
        /// Blocks that may be pinned.
        most: usize,
    },
    /// What is to be pinned goes through a low-rank adapter that the model does not have.
    #[error(
        "model {name}: what is pinned for {stage} goes through low-rank adapter {lora}, and there are {loras}"
    )]
    PinnedThrough {
        /// The model.
        name: String,
        /// Whose prompts are pinned.
        stage: String,
        /// The adapter.
        lora: u32,
        /// Adapters there are.
        loras: usize,
    },
    /// What is to be pinned could not be computed.
    #[error("model {name} fails to compute what is pinned for {stage}: {error}")]
    PinFailed {
        /// The model.
        name: String,
        /// Whose prompts are pinned.
        stage: String,
        /// Why.
        error: DecodeError,
    },
    /// It is to be loaded nowhere.
    #[error("model {name} has no replica: name an engine at least")]
    NoReplica {
        /// The model.
        name: String,
    },
    /// Its replicas are not one model.
    #[error(
        "model {name} on {other} is another than on {first}: its replicas have the same positions, vocabulary and kind"
    )]
    Unlike {
        /// The model.
        name: String,
        /// What the first runs on.
        first: String,
        /// What the other runs on.
        other: String,
    },
    /// It was not loaded in time; if it comes later it is dropped.
    #[error("model {name} was not loaded within {limit:?}")]
    TookTooLong {
        /// The model.
        name: String,
        /// The limit.
        limit: Duration,
    },
    /// Too many models are being loaded.
    #[error("{limit} models are being loaded already")]
    Busy {
        /// Most at once.
        limit: usize,
    },
    /// The engine has ended.
    #[error("the engine has ended")]
    Closed,
}

impl LoadError {
    /// Whether it is the device that fails, and another may do.
    pub(crate) fn is_of_the_device(&self) -> bool {
        match self {
            LoadError::Failed { .. }
            | LoadError::FirstStep { .. }
            | LoadError::NotFinite { .. }
            | LoadError::PinFailed { .. }
            | LoadError::TookTooLong { .. }
            | LoadError::Closed => true,
            LoadError::Budget { .. }
            | LoadError::Vocabulary { .. }
            | LoadError::DraftVocabulary { .. }
            | LoadError::Shape { .. }
            | LoadError::Labels { .. }
            | LoadError::Pinned { .. }
            | LoadError::PinnedThrough { .. }
            | LoadError::NoReplica { .. }
            | LoadError::Unlike { .. }
            | LoadError::Busy { .. } => false,
        }
    }
}
