//! `config.json` of a decoder: what was written, and the [`ModelConfig`] that it means.
//!
//! Keys, defaults and formulas are those of the transformers library, versions 4 and 5: `configuration_*.py` and
//! `modeling_*.py` of each family.

use super::family::{Biases, FAMILIES, Family, Gemma, Windows};
use super::limits::{self, GivenSizes};
use super::quantization_json::quantization;
use super::raw::Raw;
use super::values_json::{activation, gemma_embedding_scale, precision, token_ids};
use super::{Activation, ConfigError, ModelConfig, Quantization};
use crate::packed::Scheme;

/// The decoders that are implemented.
pub(super) fn architectures() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.architecture)
}

/// Reads a decoder's configuration; nothing if `architecture` is not one.
pub(super) fn decoder(
    architecture: &str,
    config: Raw<'_>,
) -> Result<Option<ModelConfig>, ConfigError> {
    let Some(family) = FAMILIES
        .iter()
        .find(|family| family.architecture == architecture)
    else {
        return Ok(None);
    };
    // Of a model with several parts, the part that reads text.
    let text = config
        .object("text_config")?
        .filter(|_| family.gemma.is_some());
    family.read(text.unwrap_or(config), config).map(Some)
}

impl Family {
    /// `config` holds the model's keys, `outer` is the whole file.
    fn read(&self, config: Raw<'_>, outer: Raw<'_>) -> Result<ModelConfig, ConfigError> {
        self.refuse_what_is_not_implemented(config)?;
        let sizes = self.sizes(config)?.check()?;
        if self.gpt_oss && sizes.heads > ModelConfig::MOST_SINKS {
            let limit = format!("at most {} heads with sinks", ModelConfig::MOST_SINKS);
            return Err(ConfigError::out_of_range(
                "num_attention_heads",
                sizes.heads,
                limit,
            ));
        }
        let (ropes, layers) = self.layers(config, sizes)?;
        let epsilon = config.number("rms_norm_eps")?.unwrap_or(self.epsilon);
        let bias = match self.biases {
            Biases::Nowhere => false,
            Biases::Qkv => true,
            Biases::QkvByKey => config.get("qkv_bias").is_none() || config.flag("qkv_bias")?,
            Biases::ByKey => config.flag("attention_bias")?,
            Biases::UnlessKey => {
                config.get("attention_bias").is_none() || config.flag("attention_bias")?
            }
        };
        let scalar = match self.gemma {
            Some(_) => limits::positive(
                "query_pre_attn_scalar",
                config.number("query_pre_attn_scalar")?.unwrap_or(256.0),
            )?,
            None => sizes.head_dim as f64,
        };
        let cap = |key: &'static str, default: f64| match self.gemma {
            Some(Gemma::Two) if !config.names(key) => Ok(Some(default)),
            Some(_) => config
                .number(key)?
                .map(|cap| limits::positive(key, cap))
                .transpose(),
            None => Ok(None),
        };
        let tied = match config
            .get("tie_word_embeddings")
            .or(outer.get("tie_word_embeddings"))
        {
            None => self.tied,
            Some(value) => value.as_bool().ok_or_else(|| {
                ConfigError::out_of_range("tie_word_embeddings", value, "true or false")
            })?,
        };
        let tokens = |key| token_ids(key, outer.get(key).or(config.get(key)), sizes.vocabulary);
        Ok(ModelConfig {
            architecture: self.architecture.to_owned(),
            vocabulary: sizes.vocabulary,
            hidden: sizes.hidden,
            intermediate: sizes.intermediate,
            experts: self.experts(config, sizes.layers)?,
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            layers,
            ropes,
            norm_epsilon: limits::epsilon("rms_norm_eps", epsilon)?,
            norm_offset: if self.gemma.is_some() { 1.0 } else { 0.0 },
            post_norms: self.gemma.is_some(),
            head_norms: self.head_norms,
            qkv_bias: bias,
            output_bias: bias && matches!(self.biases, Biases::ByKey | Biases::UnlessKey),
            sinks: self.gpt_oss,
            activation: self.activation(config)?,
            attention_scale: scalar.powf(-0.5),
            attention_softcap: cap("attn_logit_softcapping", 50.0)?,
            logit_softcap: cap("final_logit_softcapping", 30.0)?,
            embedding_scale: match self.gemma {
                Some(_) => gemma_embedding_scale(sizes.hidden, precision(config, outer)?),
                None => 1.0,
            },
            context: sizes.context,
            tied,
            quantization: self.quantization(outer)?,
            bos_token: tokens("bos_token_id")?.first().copied(),
            eos_tokens: tokens("eos_token_id")?,
        })
    }

    fn quantization(&self, outer: Raw<'_>) -> Result<Option<Quantization>, ConfigError> {
        let found = quantization(outer)?;
        if found == Some(Quantization::Packed(Scheme::Mxfp4)) && !self.gpt_oss {
            let supported = format!("another quant_method for {}", self.architecture);
            return Err(ConfigError::unsupported(
                "quantization_config",
                "mxfp4",
                supported,
            ));
        }
        Ok(found)
    }

    fn sizes(&self, config: Raw<'_>) -> Result<GivenSizes, ConfigError> {
        // Gemma's published files leave out what has the default.
        let gemma = |default: u64| self.gemma.map(|_| default);
        let dense = self.mixture.as_ref().and_then(|mixture| mixture.dense);
        let vocabulary = self.gemma.map(|gemma| {
            if gemma == Gemma::Two {
                256_000
            } else {
                262_208
            }
        });
        Ok(GivenSizes {
            vocabulary: config.given("vocab_size", vocabulary)?,
            hidden: config.given("hidden_size", gemma(2304))?,
            intermediate: config.given("intermediate_size", gemma(9216).or(dense))?,
            layers: config.given("num_hidden_layers", gemma(26))?,
            heads: config.given("num_attention_heads", gemma(8))?,
            kv_heads: config.given("num_key_value_heads", self.kv_heads)?,
            head_dim: config.given("head_dim", self.head_dim)?,
            context: config.given("max_position_embeddings", Some(self.context))?,
        })
    }

    fn refuse_what_is_not_implemented(&self, config: Raw<'_>) -> Result<(), ConfigError> {
        // As the library has it: a row sees those after it where this stands there and is not true, so by a null too.
        let key = "is_causal";
        if config.names(key) && !config.flag(key)? {
            let found = config.get(key).map_or("null", |_| "false");
            return Err(ConfigError::unsupported(key, found, "true"));
        }
        for key in ["mlp_bias", "use_bidirectional_attention"] {
            if config.flag(key)? {
                return Err(ConfigError::unsupported(key, true, "false"));
            }
        }
        if self.biases == Biases::Nowhere && config.flag("attention_bias")? {
            return Err(ConfigError::unsupported("attention_bias", true, "false"));
        }
        if self.windows == Windows::Nowhere
            && let Some(window) = config.count("sliding_window")?
        {
            let supported = format!("null (full attention) for {}", self.architecture);
            return Err(ConfigError::unsupported(
                "sliding_window",
                window,
                supported,
            ));
        }
        if self.gemma == Some(Gemma::Three)
            && let Some(cap) = config.number("attn_logit_softcapping")?
        {
            return Err(ConfigError::unsupported(
                "attn_logit_softcapping",
                cap,
                "null",
            ));
        }
        Ok(())
    }

    fn activation(&self, config: Raw<'_>) -> Result<Activation, ConfigError> {
        let (key, default) = match self.gemma {
            Some(_) => ("hidden_activation", "gelu_pytorch_tanh"),
            None => ("hidden_act", "silu"),
        };
        activation(key, config.text(key)?.unwrap_or(default))
    }
}
