//! `config.json`: what was written (`RawConfig`) and what it means ([`ModelConfig`]).
//!
//! Keys and defaults are those of the transformers library (`configuration_llama.py`, versions 4 and 5).

mod rope;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

pub use rope::RopeScaling;

use crate::kernels::LARGEST_HEAD;

const SUPPORTED_ARCHITECTURES: &[&str] = &["LlamaForCausalLM", "MistralForCausalLM"];

/// Largest value accepted for any width or count: beyond it a product of two no longer fits the kernels' u32 indices.
const LARGEST_DIMENSION: u64 = 1 << 20;

/// A validated Llama-family configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// First entry of `architectures`.
    pub architecture: String,
    /// Token ids.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub intermediate: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head; even, at most 256.
    pub head_dim: usize,
    /// Epsilon of every RMSNorm.
    pub norm_epsilon: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the rotary frequencies are stretched.
    pub rope_scaling: RopeScaling,
    /// Positions the model was made for.
    pub context: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Token that begins a sequence, if the file names one.
    pub bos_token: Option<u32>,
    /// Tokens that end a sequence; may be empty.
    pub eos_tokens: Vec<u32>,
}

/// Why a `config.json` was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not the JSON that was expected.
    #[error("{path} is not a model configuration: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A key is absent and has no default.
    #[error("config.json: key `{key}` is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A key has a value that this decoder does not implement.
    #[error("config.json: `{key}` is {value}, supported: {supported}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What would be accepted.
        supported: String,
    },
    /// A key has a value that cannot be right.
    #[error("config.json: `{key}` is {value}, must be {limit}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        limit: String,
    },
}

/// The keys as written.
#[derive(Debug, Deserialize)]
struct RawConfig {
    architectures: Option<Vec<String>>,
    vocab_size: Option<u64>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    num_hidden_layers: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    max_position_embeddings: Option<u64>,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f64>,
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    sliding_window: Option<u64>,
    #[serde(default)]
    tie_word_embeddings: bool,
    bos_token_id: Option<Value>,
    eos_token_id: Option<Value>,
    quantization_config: Option<Value>,
}

impl ModelConfig {
    /// Reads `config.json` in a model's directory.
    ///
    /// # Errors
    /// The first thing that is missing, absurd or not implemented, with its key and value.
    pub fn from_dir(directory: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = directory.as_ref().join("config.json");
        let text = std::fs::read(&path).map_err(|source| ConfigError::Read {
            path: path.clone(),
            source,
        })?;
        let raw: RawConfig =
            serde_json::from_slice(&text).map_err(|source| ConfigError::Parse { path, source })?;
        raw.validate()
    }

    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// As [`ModelConfig::from_dir`].
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let raw: RawConfig = serde_json::from_str(text).map_err(|source| ConfigError::Parse {
            path: PathBuf::from("config.json"),
            source,
        })?;
        raw.validate()
    }

    /// Parameters of the model, counted once where the head is tied.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let [vocabulary, hidden, intermediate, layers] =
            [self.vocabulary, self.hidden, self.intermediate, self.layers].map(|n| n as u64);
        let query = (self.heads * self.head_dim) as u64;
        let key = (self.kv_heads * self.head_dim) as u64;
        let layer = hidden * (2 * query + 2 * key + 3 * intermediate + 2);
        let embeddings = vocabulary * hidden * if self.tied { 1 } else { 2 };
        embeddings + layers * layer + hidden
    }
}

impl RawConfig {
    fn validate(self) -> Result<ModelConfig, ConfigError> {
        let architecture = self
            .architectures
            .as_ref()
            .and_then(|names| names.first())
            .cloned()
            .ok_or(ConfigError::Missing {
                key: "architectures",
            })?;
        if !SUPPORTED_ARCHITECTURES.contains(&architecture.as_str()) {
            return Err(unsupported(
                "architectures",
                &architecture,
                &SUPPORTED_ARCHITECTURES.join(", "),
            ));
        }
        self.refuse_what_is_not_implemented()?;

        let vocabulary = dimension("vocab_size", self.vocab_size)?;
        let hidden = dimension("hidden_size", self.hidden_size)?;
        let intermediate = dimension("intermediate_size", self.intermediate_size)?;
        let layers = dimension("num_hidden_layers", self.num_hidden_layers)?;
        let heads = dimension("num_attention_heads", self.num_attention_heads)?;
        let kv_heads = match self.num_key_value_heads {
            None => heads,
            some => dimension("num_key_value_heads", some)?,
        };
        if !heads.is_multiple_of(kv_heads) {
            let limit = format!("a divisor of num_attention_heads {heads}");
            return Err(out_of_range("num_key_value_heads", kv_heads, &limit));
        }
        let head_dim = match self.head_dim {
            Some(_) => dimension("head_dim", self.head_dim)?,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let limit =
                    format!("a multiple of num_attention_heads {heads} where head_dim is absent");
                return Err(out_of_range("hidden_size", hidden, &limit));
            }
        };
        if !head_dim.is_multiple_of(2) || head_dim > LARGEST_HEAD {
            return Err(out_of_range(
                "head_dim",
                head_dim,
                &format!("even and at most {LARGEST_HEAD}"),
            ));
        }
        let context = dimension(
            "max_position_embeddings",
            self.max_position_embeddings.or(Some(2048)),
        )?;
        let norm_epsilon = self.rms_norm_eps.unwrap_or(1e-6);
        if !(norm_epsilon > 0.0 && norm_epsilon < 1.0) {
            return Err(out_of_range(
                "rms_norm_eps",
                norm_epsilon,
                "above 0 and below 1",
            ));
        }
        let (rope_theta, rope_scaling) = rope::validate(
            self.rope_theta,
            self.rope_scaling.as_ref(),
            self.rope_parameters.as_ref(),
        )?;
        let bos_token = token_ids("bos_token_id", self.bos_token_id.as_ref(), vocabulary)?
            .first()
            .copied();
        let eos_tokens = token_ids("eos_token_id", self.eos_token_id.as_ref(), vocabulary)?;
        Ok(ModelConfig {
            architecture,
            vocabulary,
            hidden,
            intermediate,
            layers,
            heads,
            kv_heads,
            head_dim,
            norm_epsilon,
            rope_theta,
            rope_scaling,
            context,
            tied: self.tie_word_embeddings,
            bos_token,
            eos_tokens,
        })
    }

    fn refuse_what_is_not_implemented(&self) -> Result<(), ConfigError> {
        if let Some(activation) = self
            .hidden_act
            .as_deref()
            .filter(|a| *a != "silu" && *a != "swish")
        {
            return Err(unsupported("hidden_act", activation, "silu"));
        }
        if self.attention_bias {
            return Err(unsupported("attention_bias", true, "false"));
        }
        if self.mlp_bias {
            return Err(unsupported("mlp_bias", true, "false"));
        }
        if let Some(window) = self.sliding_window {
            return Err(unsupported(
                "sliding_window",
                window,
                "null (full attention)",
            ));
        }
        if let Some(quantization) = self.quantization_config.as_ref().filter(|q| !q.is_null()) {
            let method = quantization.get("quant_method").unwrap_or(quantization);
            return Err(unsupported(
                "quantization_config",
                method,
                "none (f32, f16 or bf16 weights)",
            ));
        }
        Ok(())
    }
}

/// A width or count: present, above 0, at most [`LARGEST_DIMENSION`].
fn dimension(key: &'static str, value: Option<u64>) -> Result<usize, ConfigError> {
    let value = value.ok_or(ConfigError::Missing { key })?;
    if value == 0 || value > LARGEST_DIMENSION {
        return Err(out_of_range(
            key,
            value,
            &format!("between 1 and {LARGEST_DIMENSION}"),
        ));
    }
    Ok(value as usize)
}

/// A token id, a list of them, or nothing.
fn token_ids(
    key: &'static str,
    value: Option<&Value>,
    vocabulary: usize,
) -> Result<Vec<u32>, ConfigError> {
    let one = |value: &Value| match value.as_u64() {
        Some(id) if id < vocabulary as u64 => Ok(id as u32),
        _ => Err(out_of_range(
            key,
            value,
            &format!("a token id below vocab_size {vocabulary}"),
        )),
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => Ok(vec![one(id)?]),
    }
}

fn unsupported(key: &'static str, value: impl ToString, supported: &str) -> ConfigError {
    ConfigError::Unsupported {
        key,
        value: value.to_string(),
        supported: supported.to_owned(),
    }
}

fn out_of_range(key: &'static str, value: impl ToString, limit: &str) -> ConfigError {
    ConfigError::OutOfRange {
        key,
        value: value.to_string(),
        limit: limit.to_owned(),
    }
}
