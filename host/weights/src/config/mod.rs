//! What a model is: one description for every family.

mod encoder;
mod encoder_json;
mod error;
mod experts;
mod experts_json;
mod family;
mod json;
mod lacking;
mod layers_json;
pub(crate) mod limits;
mod preset;
mod quantization_json;
mod raw;
mod rope;
mod rope_json;
mod sentence_json;
mod values_json;

use serde_json::{Map, Value};

use raw::Raw;

use crate::packed::Scheme;

pub use encoder::{
    EncoderBiases, EncoderConfig, EncoderHead, EncoderLayer, HeadActivation, Pooling, Scoring,
    TextPrompts,
};
pub use error::ConfigError;
pub use experts::{ClampedGate, Experts};
pub use rope::{Rope, RopeScaling};

pub(crate) use encoder_json::{EncoderFamily, embedding_decoder, encoder_family};
pub(crate) use error::cut;
pub(crate) use lacking::with_what_is_lacking;
pub(crate) use rope_json::long_rope_attention_factor;
pub(crate) use values_json::{Precision, gemma_embedding_scale};

/// A model that can be loaded.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// Makes tokens.
    Decoder(ModelConfig),
    /// Makes vectors.
    Encoder(EncoderConfig),
}

impl Architecture {
    /// The name in the file: first entry of `architectures`, or `general.architecture` of a GGUF.
    pub(crate) fn name(&self) -> &str {
        match self {
            Architecture::Decoder(config) => &config.architecture,
            Architecture::Encoder(config) => &config.architecture,
        }
    }
}

/// The function between the matrices of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// GELU by its tanh approximation (`gelu_pytorch_tanh`, `gelu_new`).
    GeluTanh,
    /// GELU by the error function.
    Gelu,
}

/// How weights are stored beyond plain floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// Eight bits, a scale for every 32 elements of a row.
    Int8,
    /// Four bits, a scale for every 32 elements of a row.
    Int4,
    /// As another tool made it.
    Packed(Scheme),
}

/// What differs from layer to layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Positions a row sees, its own included; `None` is all before it.
    pub window: Option<usize>,
    /// Which rotary table it turns by: index into [`ModelConfig::ropes`]; `None` does not turn.
    pub rope: Option<usize>,
}

/// A validated decoder: pre-norm transformer with rotary positions and gated feed-forward layers.
///
/// Row `x` of a layer goes: `h = attention(norm(x))`, `x += post_norms ? norm(h) : h`; `m = down(act(gate(norm(x))) *
/// up(norm(x)))`, `x += post_norms ? norm(m) : m`. In a layer with experts `m` is what [`Experts`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The name in the file: first entry of `architectures`, or `general.architecture` of a GGUF.
    pub architecture: String,
    /// Token ids.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer, where it has no experts.
    pub intermediate: usize,
    /// The experts of those layers that have them.
    pub experts: Option<Experts>,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even, at most [`ModelConfig::LARGEST_HEAD`].
    pub head_dim: usize,
    /// One entry for each layer.
    pub layers: Vec<LayerConfig>,
    /// Rotary tables of the model; one, or two where local layers have their own.
    pub ropes: Vec<Rope>,
    /// Epsilon of every RMSNorm.
    pub norm_epsilon: f64,
    /// Added to every norm weight as it is read: 1 where the file stores them around 0 (Gemma).
    pub norm_offset: f32,
    /// Norms after attention and after the feed-forward layer, before each is added (Gemma 2 and 3).
    pub post_norms: bool,
    /// Norm of every query and key head before it turns (Qwen3, Gemma 3).
    pub head_norms: bool,
    /// Biases of queries, keys and values.
    pub qkv_bias: bool,
    /// Bias of the attention output.
    pub output_bias: bool,
    /// Whether each head has a sink (gpt-oss): a learned score that takes part in the softmax and adds no value.
    pub sinks: bool,
    /// Between gate and up.
    pub activation: Activation,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub attention_scale: f64,
    /// `cap · tanh(score / cap)` before the softmax (Gemma 2).
    pub attention_softcap: Option<f64>,
    /// `cap · tanh(logit / cap)` (Gemma 2).
    pub logit_softcap: Option<f64>,
    /// Factor of the embedding, 1 unless the family scales it (Gemma: sqrt(hidden) rounded to the model's precision).
    pub embedding_scale: f64,
    /// Positions the model was made for.
    pub context: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// How `config.json` says the weights are stored.
    pub quantization: Option<Quantization>,
    /// Token that begins a sequence, if the file names one.
    pub bos_token: Option<u32>,
    /// Tokens that end a sequence; may be empty.
    pub eos_tokens: Vec<u32>,
}

impl ModelConfig {
    /// Widest head.
    pub const LARGEST_HEAD: usize = 256;

    /// Most heads that have sinks: kernels find them beside their other parameters.
    pub const MOST_SINKS: usize = 256;
}

/// What stands beside a `config.json`.
#[derive(Default)]
pub(crate) struct Beside {
    /// `1_Pooling/config.json`.
    pub(crate) pooling: Option<Map<String, Value>>,
    /// `modules.json`.
    pub(crate) modules: Option<Vec<Value>>,
    /// `sentence_bert_config.json`.
    pub(crate) sentence: Option<Map<String, Value>>,
    /// `config_sentence_transformers.json`.
    pub(crate) named: Option<Map<String, Value>>,
    /// `generation_config.json`.
    pub(crate) generation: Option<Map<String, Value>>,
}

impl Architecture {
    /// The names under `architectures` of a `config.json` that can be loaded.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let decoders = json::architectures();
        decoders.chain(encoder_json::architectures()).collect()
    }

    /// Those of decoders whose rows make vectors where the files of sentence-transformers are beside them.
    #[must_use]
    pub fn embedding_decoders() -> &'static [&'static str] {
        &encoder_json::DECODERS
    }

    /// The names under `general.architecture` of a GGUF file that can be loaded.
    #[must_use]
    pub fn gguf_names() -> Vec<&'static str> {
        crate::gguf::architectures().collect()
    }

    /// Reads what a `config.json` and the files beside it say.
    pub(crate) fn from_json(
        config: &Map<String, Value>,
        beside: &Beside,
    ) -> Result<Self, ConfigError> {
        let config = Raw(config);
        let key = "architectures";
        let names = config.list(key)?.unwrap_or_default();
        let name = names
            .first()
            .and_then(Value::as_str)
            .ok_or_else(|| ConfigError::missing(key))?;
        // A decoder with the files of sentence-transformers makes vectors.
        let embeds = beside.modules.is_some();
        let bare = encoder_json::with_head(name).filter(|_| embeds);
        let name = bare.unwrap_or(name);
        if let Some(mut decoder) = json::decoder(name, config)? {
            // Models that are tuned to talk often name the end of a turn there alone.
            let more = beside
                .generation
                .as_ref()
                .and_then(|generation| generation.get("eos_token_id"));
            for token in values_json::token_ids("eos_token_id", more, decoder.vocabulary)? {
                if !decoder.eos_tokens.contains(&token) {
                    decoder.eos_tokens.push(token);
                }
            }
            return Ok(match embeds {
                true => Architecture::Encoder(encoder_json::of_decoder(decoder, beside)?),
                false => Architecture::Decoder(decoder),
            });
        }
        match encoder_json::encoder(name, config, beside)? {
            Some(encoder) => Ok(Architecture::Encoder(encoder)),
            None => {
                let supported = Architecture::names().join(", ");
                let name = with_what_is_lacking(name, Some(config.0));
                Err(ConfigError::unsupported(key, name, supported))
            }
        }
    }
}
