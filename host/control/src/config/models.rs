//! The validated pipeline's models, and the stages that ask them.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_contract::{
    Aggregation, Parameters, PromptPart, PromptTemplate, Role, TemplateArguments,
};

use super::findings::Typed;
use super::remote_models::RemoteModel;
use super::text::Span;

/// Positions of a sequence unless the file says otherwise, or the model has fewer. Another server's model has so many.
pub const DEFAULT_CONTEXT: usize = 2048;
/// Sequences of a model unless the file says otherwise, or a step has fewer tokens: each has one in every step.
const DEFAULT_SEQUENCES: usize = 32;
/// Most tokens of an answer unless the file says otherwise, or the model makes fewer.
const MAX_TOKENS: usize = 256;

/// What the models of an adapter share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Most bytes of all models together, on each adapter; without it, what is available at the start (software) or as much
    /// as the device gives (GPU).
    pub memory: Option<u64>,
    /// Most tokens of a step: decode rows and pieces of prompts together.
    pub step_tokens: usize,
}

impl Engine {
    /// Sequences of a model of which the file does not say how many.
    pub(super) fn usual_sequences(self) -> usize {
        DEFAULT_SEQUENCES.min(self.step_tokens)
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            memory: None,
            step_tokens: 256,
        }
    }
}

/// A model to load.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Name.
    pub name: String,
    /// A directory with `config.json` and safetensors, or a `.gguf` file; absolute.
    pub path: PathBuf,
    /// What it runs on, at least one: a replica on each. One that stands there twice has two.
    pub adapters: Vec<AdapterChoice>,
    /// Most sequences that run at once, of which each has a token in every step; an encoder has none.
    pub sequences: usize,
    /// Positions of a sequence; without it the smaller of the model's own and 2048.
    pub context: Option<usize>,
    /// Most requests that wait.
    pub queue: usize,
    /// Bytes of the KV cache that all sequences share; without it, every sequence has room for its whole context.
    pub kv_memory: Option<u64>,
    /// Precision of the KV cache.
    pub kv_precision: KvPrecision,
    /// Whether an answer has the same bits whatever runs beside it.
    pub reproducible: bool,
    /// The kernels by name; without it, the best that pass their test on the adapter.
    pub kernels: Option<String>,
    /// How byte-level BPE of a GGUF file that does not say so splits its texts, as `tokenizer.ggml.pre` would name it.
    pub pre_tokenizer: Option<String>,
    /// A small model of the same vocabulary that guesses tokens ahead; absolute.
    pub draft: Option<PathBuf>,
    /// If it is another model of the file through a low-rank adapter: the rest is then that model's.
    pub lora: Option<LoraOf>,
    /// If another server has it: that is asked, and nothing is loaded. Then only name, context and queue are of use here.
    pub remote: Option<Box<RemoteModel>>,
    pub(super) place: Span,
    /// Where `sequences` is said, and by which key, if it is.
    pub(super) sequences_typed: Option<(Span, String)>,
    /// Where each of `adapters` is named, and by which key, if it is.
    pub(super) adapters_typed: Vec<Option<(Span, String)>>,
}

/// A low-rank adapter of a model that is loaded here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraOf {
    /// Index of that model.
    pub base: usize,
    /// A directory with `adapter_config.json` and `adapter_model.safetensors`; absolute.
    pub path: PathBuf,
}

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvPrecision {
    /// Four bytes a number.
    F32,
    /// Two bytes a number.
    #[default]
    F16,
    /// A byte a number, and four for each head of each position.
    Int8,
}

/// The adapter a model runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The best there is.
    Any,
    /// A software adapter.
    Cpu,
    /// The k-th of the list, counted from 0.
    Index(usize),
    /// The first whose name contains this, in any case.
    Named(String),
}

impl From<&str> for AdapterChoice {
    fn from(typed: &str) -> Self {
        match typed.parse() {
            Ok(index) => AdapterChoice::Index(index),
            Err(_) if typed.eq_ignore_ascii_case("cpu") => AdapterChoice::Cpu,
            Err(_) if typed.is_empty() => AdapterChoice::Any,
            Err(_) => AdapterChoice::Named(typed.to_owned()),
        }
    }
}

/// A stage that asks a model.
#[derive(Clone, Debug)]
pub struct ModelStage {
    /// Index of the model.
    pub model: usize,
    /// Those that answer in its place where a record asks for one: the models of sources under load.
    pub alternatives: Vec<usize>,
    /// What it is asked.
    pub ask: Ask,
    /// The user message, the raw prompt, or the text to be encoded.
    pub prompt: PromptTemplate,
    /// Whether the record says what is asked (`AskingRecord`), in the place of a prompt.
    pub messages: bool,
    /// Operator stages whose handlers see the answer's text, in this order.
    pub tokens: Vec<usize>,
    /// Feeds that the answer's text goes to as it is made.
    pub tokens_to: Vec<usize>,
    /// What is cut when the prompt is too long; without it such a record is a dead letter.
    pub truncate: Option<Truncated>,
    /// Most tokens of the rendered user message; without it, what the context leaves beside the answer.
    pub prompt_tokens: Option<usize>,
    /// Seed of the sampling.
    pub seed: u64,
    /// 0 goes first, 9 last. Requests of clients never go before this; where the file does not say it they go by their
    /// source's alone.
    pub priority: Option<u8>,
    /// In which order answers leave the stage.
    pub order: Order,
    /// The same, where the file says it.
    pub(crate) typed_order: Option<Typed<Order>>,
    /// Most records of a task that wait for the model.
    pub max_in_flight: usize,
    /// The same, where the file says it.
    pub(crate) in_flight: Option<Typed<usize>>,
    /// Most of them with the same key.
    pub max_in_flight_per_key: usize,
    /// The same, where the file says it.
    pub(crate) per_key: Option<Typed<usize>>,
    /// Most tokens of an answer, where the file says it.
    pub(crate) typed_max_tokens: Option<Typed<usize>>,
    /// Most tokens of its reasoning, where the file says it.
    pub(crate) typed_reasoning_tokens: Option<Typed<u64>>,
    /// The member of its reasoning.
    pub(crate) typed_reasoning: Option<Typed<String>>,
    /// That its prefix is pinned.
    pub(crate) typed_pin_prefix: Option<Typed<bool>>,
    /// The name of the model's prompt that stands before its texts.
    pub(crate) typed_prompt_name: Option<Typed<String>>,
    /// Longest wait for an answer.
    pub deadline: Option<Duration>,
    /// How often a record is sent when the device fails, the first time included.
    pub attempts: u32,
    /// Where the answer goes.
    pub into: Into,
    /// Name of the attribute and the member that the answer becomes.
    pub field: String,
}

impl ModelStage {
    /// Whether it asks the model with this index, always or where a record asks for it.
    pub fn asks(&self, model: usize) -> bool {
        self.model == model || self.alternatives.contains(&model)
    }

    /// The name of the model's prompt that stands before its texts, where the file says one.
    pub fn prompt_name(&self) -> Option<&str> {
        let typed = self.typed_prompt_name.as_ref();
        typed.map(|typed| typed.value.as_str())
    }

    /// What the file says of its models settles how long answers are; what is known of them later may make it less.
    pub(crate) fn settle_length<'m>(&mut self, models: impl IntoIterator<Item = &'m Model>) {
        let most = self.max_tokens(models.into_iter().filter_map(Model::told));
        if let Ask::Generate(generate) = &mut self.ask {
            generate.parameters.max_tokens = u32::try_from(most).unwrap_or(u32::MAX);
        }
    }

    /// The indexes of its models: its own, then those that answer in its place.
    pub fn models(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.model).chain(self.alternatives.iter().copied())
    }

    /// Most tokens that its models are asked for: as the file says, whether or not they can make so many. Where the file
    /// says nothing, no more than each of them can.
    pub fn max_tokens(&self, models: impl IntoIterator<Item = Holds>) -> usize {
        let told = self.typed_max_tokens.as_ref().map(|typed| typed.value);
        told.unwrap_or_else(|| {
            let each = models.into_iter().map(Holds::usual_answer);
            each.fold(MAX_TOKENS, usize::min)
        })
    }
}

/// How long what a model is asked and answers may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Positions of a sequence: prompt and answer together.
    pub context: usize,
    /// Tokens of an answer.
    pub answer: usize,
}

impl Holds {
    /// A model whose answers are bounded by its positions alone.
    pub fn positions(context: usize) -> Holds {
        Holds {
            context,
            answer: context,
        }
    }

    /// Most tokens of an answer where no file says it: half of the positions are the prompt's.
    fn usual_answer(self) -> usize {
        (self.context / 2).min(self.answer)
    }
}

impl Model {
    /// What it holds as far as the file says it: all of another server's model, and of one that is loaded here its
    /// positions, if they are given.
    pub fn told(&self) -> Option<Holds> {
        match (&self.remote, self.context) {
            (Some(remote), context) => {
                let holds = Holds::positions(context.unwrap_or(DEFAULT_CONTEXT));
                let answer = remote.max_tokens.map(|most| most as usize);
                Some(Holds {
                    answer: answer.unwrap_or(holds.answer),
                    ..holds
                })
            }
            (None, context) => context.map(Holds::positions),
        }
    }
}

/// What a stage asks of its model.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// An answer.
    Generate(Box<Generate>),
    /// The vector of a text.
    Embed,
    /// The label of a text.
    Classify {
        /// Least probability of a label; below it the text has none.
        threshold: f32,
    },
    /// The entities in a text.
    Recognize {
        /// How tokens become entities.
        aggregation: Aggregation,
        /// Least probability of an entity; one below it is not told.
        threshold: f32,
    },
    /// The order of documents by how well they answer a query, which is the stage's prompt.
    Rerank {
        /// Where the list of documents stands in the value.
        documents: Vec<String>,
        /// How many of the best are told; none is all.
        top: Option<usize>,
    },
}

/// How answers are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// Whether the KV blocks of what all its prompts begin with stay on the device.
    pub pin_prefix: bool,
    /// Whether the prompt goes to the model as it is, without a chat template.
    pub raw: bool,
    /// The system message; a text, not a template.
    pub system: Option<String>,
    /// The messages of a chat, in the place of a prompt and a system message; none where those are asked. One of the
    /// assistant at the end is the beginning of the answer.
    pub turns: Vec<Turn>,
    /// What the chat template is given beside the messages.
    pub template_arguments: TemplateArguments,
    /// Name of the attribute and the member that the reasoning becomes; without one it is dropped.
    pub reasoning: Option<String>,
    /// How tokens are drawn. `logit_bias` is empty: see [`Generate::bias`].
    pub parameters: Parameters,
    /// Added to the logits of tokens.
    pub bias: Vec<(BiasedToken, f32)>,
}

/// A message of a chat, as it is rendered for each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who speaks: system, user or assistant.
    pub role: Role,
    /// What is said.
    pub content: PromptTemplate,
}

/// A token whose logit is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BiasedToken {
    /// By its number.
    Id(u32),
    /// By its text, which must be one token.
    Text(String),
}

/// The part of a prompt that is cut when the prompt is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// A field of the value.
    Field(Vec<String>),
    /// The whole value, `$value`.
    Value,
}

impl Truncated {
    /// Whether this part of the prompt is the one to cut.
    pub fn matches(&self, part: &PromptPart) -> bool {
        match (self, part) {
            (Truncated::Field(wanted), PromptPart::Field { path, .. }) => wanted == path,
            (Truncated::Value, PromptPart::Value) => true,
            _ => false,
        }
    }
}

/// In which order answers leave a model stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Records of one key in the order they came.
    Key,
    /// All records of a partition in the order they came.
    Partition,
    /// As they are finished.
    None,
}

/// Where an answer goes. Attributes are set in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// It becomes a member of the JSON object that the value is; of another value it takes the place.
    Member,
    /// It becomes the record's value.
    Value,
    /// The value stays; only attributes are set.
    Attributes,
}
