//! What an engine and its models are started with.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{Decoder, Encoder, ModelFacts, Structure};
use tidegate_text::Tokenizer;

use crate::pauses::Pauses;
use crate::pins::Pin;

/// How an engine is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Bytes that all models together may hold on the device.
    pub memory_budget: u64,
    /// How long a caller waits for a model to be loaded, and requests for one that is loaded again after a fault.
    pub load_limit: Duration,
    /// After so long in one round of its thread an engine is taken for stalled: what the replicas on it were asked goes to the
    /// others of their models. More than any step takes; an idle thread sleeps for a second at most.
    pub stalled_after: Duration,
    /// Before a replica that could not be loaded again, and was left out, is tried again.
    pub pauses: Pauses,
}

impl Default for EngineOptions {
    /// No budget, ten minutes, a minute, and pauses from a second to a minute.
    fn default() -> Self {
        EngineOptions {
            memory_budget: u64::MAX,
            load_limit: Duration::from_secs(600),
            stalled_after: Duration::from_secs(60),
            pauses: Pauses::default(),
        }
    }
}

/// Loads a decoder; called again after a fault that is fatal to the one before. The error says why it could not.
pub type LoadDecoder = Box<dyn FnMut() -> Result<Box<dyn Decoder>, String> + Send>;

/// Loads an encoder; as [`LoadDecoder`].
pub type LoadEncoder = Box<dyn FnMut() -> Result<Box<dyn Encoder>, String> + Send>;

/// What a model is run by.
pub enum ModelLoader {
    /// It generates.
    Decoder(LoadDecoder),
    /// It embeds, classifies, recognizes or ranks.
    Encoder(LoadEncoder),
}

/// A model to load.
pub struct ModelSource {
    /// Its tokenizer; it must know no more tokens than the model.
    pub tokenizer: Arc<Tokenizer>,
    /// What it is; context and sequences are set to what it runs with.
    pub facts: ModelFacts,
    /// Bytes it will hold on the device, as far as is known before; taken from the budget before it is loaded.
    pub bytes: u64,
    /// How it is loaded. Called on the engine's loader thread, while other models serve.
    pub load: ModelLoader,
    /// How it is served.
    pub options: ModelOptions,
}

/// A smaller model with the same vocabulary that guesses tokens ahead.
pub struct Draft {
    /// How it is loaded.
    pub load: LoadDecoder,
    /// Bytes it will hold on the device.
    pub bytes: u64,
}

/// A low-rank adapter that a model is loaded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedLora {
    /// What it is asked by.
    pub name: String,
    /// What answers through it are made with: as the name and the digest of [`ModelFacts`], of base and adapter together.
    pub makes: (String, String),
    /// Digest of its own numbers.
    pub digest: String,
    /// Its largest rank.
    pub rank: u32,
}

/// Most tokens that are guessed ahead in a step: with the row of the token before them they are eight rows, as many as
/// kernels for few rows take at once.
pub const MOST_GUESSES: usize = 7;

/// How a model is served.
pub struct ModelOptions {
    /// Most requests that wait; one more is refused.
    pub queue: usize,
    /// Most rows of a step; the decoder's own limit applies as well.
    pub step_tokens: usize,
    /// Most rows of a step that prompts may take while answers are being generated, at least 1: what a long prompt may
    /// cost the next token of the others. Without others a prompt takes all rows.
    pub prefill_tokens: usize,
    /// Prompts' rows are cut so that a step in which answers are generated takes about this long, by measured steps; a
    /// KV block's worth of rows goes in any case, and with it those that cost nothing more.
    pub step_time: Duration,
    /// Most answers in the making at once; never more than rows of a step or tokens that can be drawn in one.
    pub sequences: usize,
    /// For each of these that a request waits it rises a class; see [`crate::Engine`] for the bound this gives.
    pub aging: Duration,
    /// Most answers (`n`) of a request.
    pub most_choices: u32,
    /// Tokens that end an answer, beside the tokenizer's own end of sequence.
    pub end_tokens: Vec<u32>,
    /// Most tokens of an answer that are guessed ahead in a step; 0 is none, and more than [`MOST_GUESSES`] are as many as
    /// that.
    pub look_ahead: usize,
    /// What answers will have to be: compiled while the model is loaded, so that the first request with it does not
    /// keep its caller waiting. Others are compiled when they are first asked for, on the thread that asks.
    pub structures: Vec<Structure>,
    /// Decoders: beginnings of prompts that stay in KV blocks, computed before the model serves. More blocks than
    /// [`crate::most_pinned`] are refused.
    pub pins: Vec<Pin>,
    /// Decoders: the low-rank adapters that it is loaded with, in the order of their numbers.
    pub loras: Vec<LoadedLora>,
    /// Who guesses; without, guesses are looked up in prompt and answer.
    pub draft: Option<Draft>,
    /// Encoders with scores, of texts or tokens: the label of each score.
    pub labels: Vec<String>,
    /// Encoders: whether too long texts are cut down, and not refused.
    pub truncate: bool,
}

impl Default for ModelOptions {
    /// 1024 waiting requests, steps as large as the decoder takes and cut to 50 ms, aging by a class a second, up to 16
    /// answers, as many guesses as there may be.
    fn default() -> Self {
        ModelOptions {
            queue: 1024,
            step_tokens: usize::MAX,
            prefill_tokens: usize::MAX,
            step_time: Duration::from_millis(50),
            sequences: usize::MAX,
            aging: Duration::from_secs(1),
            most_choices: 16,
            end_tokens: Vec::new(),
            look_ahead: MOST_GUESSES,
            structures: Vec::new(),
            pins: Vec::new(),
            loras: Vec::new(),
            draft: None,
            labels: Vec::new(),
            truncate: false,
        }
    }
}
