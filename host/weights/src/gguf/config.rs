//! What the keys and the names in a GGUF header mean.
//!
//! Keys, defaults and what is not written but known are those of llama.cpp (`llama-model.cpp`, `llm_load_hparams`;
//! `convert_hf_to_gguf.py`).

use super::header::{Entry, Header, Value};
use super::keys::Keys;
use super::lookup::block_of;
use super::parts::Parts;
use crate::config::limits::{self, GivenSizes, Sizes};
use crate::config::{
    Activation, Architecture, ConfigError, LayerConfig, ModelConfig, Precision,
    gemma_embedding_scale, with_what_is_lacking,
};

/// What sets an architecture apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Llama, Mistral, SmolLM.
    Llama,
    SmolLm3,
    Qwen2,
    Qwen3,
    Qwen2Moe,
    Qwen3Moe,
    Phi3,
    Gemma2,
    Gemma3,
    GptOss,
    /// BERT, MiniLM and others of its form, whatever their tokenizer.
    Bert,
    NomicBert,
}

const ARCHITECTURES: [(&str, Family); 12] = [
    ("llama", Family::Llama),
    ("smollm3", Family::SmolLm3),
    ("qwen2", Family::Qwen2),
    ("qwen3", Family::Qwen3),
    ("qwen2moe", Family::Qwen2Moe),
    ("qwen3moe", Family::Qwen3Moe),
    ("phi3", Family::Phi3),
    ("gemma2", Family::Gemma2),
    ("gemma3", Family::Gemma3),
    ("gpt-oss", Family::GptOss),
    ("bert", Family::Bert),
    ("nomic-bert", Family::NomicBert),
];

/// The architectures that are implemented.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|(name, _)| *name)
}

impl Family {
    pub(super) fn is_encoder(self) -> bool {
        matches!(self, Family::Bert | Family::NomicBert)
    }

    fn is_gemma(self) -> bool {
        matches!(self, Family::Gemma2 | Family::Gemma3)
    }

    /// Whether the rows of queries and keys are stored with the two halves of every head interleaved.
    pub(super) fn interleaves(self) -> bool {
        matches!(self, Family::Llama | Family::SmolLm3)
    }
}

/// Reads what a header says of its model. `parts` are the files, of which the factors of frequencies are read.
pub(super) fn read(header: &Header, parts: &Parts) -> Result<(Family, Architecture), ConfigError> {
    let key = "general.type";
    if let Some(kind) = Keys(&header.keys)
        .text(key)?
        .filter(|kind| *kind != "model")
    {
        let what = match kind {
            "adapter" => "adapter (a low-rank adapter, which has no weights of its own)",
            other => other,
        };
        return Err(ConfigError::unsupported(key, what, "model"));
    }
    let key = "general.architecture";
    let name = Keys(&header.keys)
        .text(key)?
        .ok_or_else(|| ConfigError::missing(key))?;
    let Some((name, family)) = ARCHITECTURES.iter().find(|(known, _)| *known == name) else {
        let supported: Vec<&str> = architectures().collect();
        let name = with_what_is_lacking(name, None);
        return Err(ConfigError::unsupported(key, name, supported.join(", ")));
    };
    let reader = Reader {
        header,
        parts,
        name,
        family: *family,
    };
    let architecture = if family.is_encoder() {
        Architecture::Encoder(reader.encoder()?)
    } else {
        match reader.embeds()? {
            Some(pooling) => Architecture::Encoder(reader.embedding(pooling)?),
            None => Architecture::Decoder(reader.read()?),
        }
    };
    Ok((*family, architecture))
}

/// Reads the keys of one architecture.
pub(super) struct Reader<'a> {
    pub(super) header: &'a Header,
    pub(super) parts: &'a Parts,
    pub(super) name: &'static str,
    pub(super) family: Family,
}

impl Reader<'_> {
    pub(super) fn read(&self) -> Result<ModelConfig, ConfigError> {
        self.refuse_what_is_not_implemented()?;
        let sizes = self.sizes()?.check()?;
        let most = ModelConfig::MOST_SINKS;
        if self.family == Family::GptOss && sizes.heads > most {
            let key = self.key("attention.head_count");
            let limit = format!("at most {most} heads with sinks");
            return Err(ConfigError::out_of_range(key, sizes.heads, limit));
        }
        let experts = self.experts(sizes)?;
        let windows = self.windows(sizes.layers)?;
        let ropes = self.ropes(sizes)?;
        let local_rope = ropes.len() - 1;
        let layers = windows
            .into_iter()
            .enumerate()
            .map(|(layer, window)| LayerConfig {
                window,
                rope: match self.family {
                    // `n_no_rope_layer_step` is 4.
                    Family::SmolLm3 if (layer + 1).is_multiple_of(4) => None,
                    _ => Some(if window.is_some() { local_rope } else { 0 }),
                },
            });
        let epsilon = self.key("attention.layer_norm_rms_epsilon");
        let cap = |name: &str, default: Option<f64>| {
            let key = self.key(name);
            let cap = self
                .keys()
                .number(&key)?
                .or(default)
                .filter(|_| self.family.is_gemma());
            cap.map(|cap| limits::positive(&key, cap)).transpose()
        };
        let is_gemma2 = self.family == Family::Gemma2;
        let gemma = self.family.is_gemma();
        let token = |key| self.keys().token(key, sizes.vocabulary);
        let mut eos_tokens = Vec::new();
        for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
            eos_tokens.extend(token(key)?.filter(|id| !eos_tokens.contains(id)));
        }
        Ok(ModelConfig {
            architecture: self.name.to_owned(),
            vocabulary: sizes.vocabulary,
            hidden: sizes.hidden,
            intermediate: sizes.intermediate,
            experts,
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            layers: layers.collect(),
            ropes,
            norm_epsilon: match self.keys().number(&epsilon)? {
                Some(value) => limits::epsilon(&epsilon, value)?,
                None => return Err(ConfigError::missing(epsilon)),
            },
            // The converter adds Gemma's 1.
            norm_offset: 0.0,
            post_norms: gemma,
            head_norms: matches!(
                self.family,
                Family::Qwen3 | Family::Qwen3Moe | Family::Gemma3
            ),
            // One in any block is wanted in all of them: the check of tensors names those that are missing.
            qkv_bias: ["attn_q.bias", "attn_k.bias", "attn_v.bias"]
                .iter()
                .any(|bias| self.in_a_block(bias).is_some()),
            output_bias: self.in_a_block("attn_output.bias").is_some(),
            sinks: self.family == Family::GptOss,
            activation: if gemma {
                Activation::GeluTanh
            } else {
                Activation::Silu
            },
            attention_scale: self.attention_scale(sizes)?,
            attention_softcap: cap("attn_logit_softcapping", is_gemma2.then_some(50.0))?,
            logit_softcap: cap("final_logit_softcapping", is_gemma2.then_some(30.0))?,
            embedding_scale: if gemma {
                gemma_embedding_scale(sizes.hidden, Precision::F32)
            } else {
                1.0
            },
            context: sizes.context,
            tied: !self.there("output.weight"),
            quantization: None,
            bos_token: token("tokenizer.ggml.bos_token_id")?,
            eos_tokens,
        })
    }

    pub(super) fn keys(&self) -> Keys<'_> {
        Keys(&self.header.keys)
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }

    pub(super) fn there(&self, tensor: &str) -> bool {
        self.header.tensors.contains_key(tensor)
    }

    /// The tensor of this name in the first block that has one.
    pub(super) fn in_a_block(&self, part: &str) -> Option<&str> {
        let of_block = |name| match block_of(name)? {
            (block, own) if own == part => Some((block, name)),
            _ => None,
        };
        let names = self.header.tensors.keys().map(String::as_str);
        names.filter_map(of_block).min().map(|(_, name)| name)
    }

    fn refuse_what_is_not_implemented(&self) -> Result<(), ConfigError> {
        let key = self.key("attention.causal");
        match self.keys().flag(&key)? {
            Some(false) => Err(ConfigError::unsupported(key, false, "true")),
            _ => Ok(()),
        }
    }

    pub(super) fn sizes(&self) -> Result<GivenSizes, ConfigError> {
        let given = |name: &str| self.keys().given(self.key(name));
        let mut vocabulary = given("vocab_size")?;
        // Written since 2024 only; the embedding's rows are as many in all files.
        if let Some(Entry { shape, .. }) = self.header.tensors.get("token_embd.weight")
            && let [_, rows] = shape.as_slice()
        {
            vocabulary.value = vocabulary.value.or(Some(*rows as u64));
        }
        let head_dim = given("attention.key_length")?;
        let value_dim = given("attention.value_length")?;
        if let (Some(key), Some(value)) = (head_dim.value, value_dim.value)
            && key != value
        {
            let supported = format!("as {}, {key}", head_dim.key);
            return Err(ConfigError::unsupported(value_dim.key, value, supported));
        }
        Ok(GivenSizes {
            vocabulary,
            hidden: given("embedding_length")?,
            intermediate: given("feed_forward_length")?,
            layers: given("block_count")?,
            heads: given("attention.head_count")?,
            kv_heads: given("attention.head_count_kv")?,
            head_dim,
            context: given("context_length")?,
        })
    }

    /// The window of each layer.
    fn windows(&self, layers: usize) -> Result<Vec<Option<usize>>, ConfigError> {
        let mut window = self.keys().given(self.key("attention.sliding_window"))?;
        if self.family == Family::Gemma2 {
            window.value = window.value.or(Some(4096));
        }
        if self.family == Family::GptOss && window.value.is_none() {
            return Err(ConfigError::missing(window.key));
        }
        // 0 is written where there is none.
        if window.value.unwrap_or(0) == 0 {
            return Ok(vec![None; layers]);
        }
        let window = window.dimension()?;
        let pattern = self.key("attention.sliding_window_pattern");
        let sliding: Vec<bool> = match self.header.keys.get(&pattern) {
            Some(Value::Flags(flags)) if flags.len() >= layers => flags[..layers].to_vec(),
            Some(Value::Flags(flags)) => {
                let limit = format!("one for each of {layers} layers");
                return Err(ConfigError::out_of_range(
                    pattern,
                    format!("a list of {}", flags.len()),
                    limit,
                ));
            }
            _ => {
                let every = match self.keys().count(&pattern)? {
                    Some(every) => every,
                    None => match self.family {
                        Family::Gemma2 | Family::GptOss => 2,
                        Family::Gemma3 => 6,
                        _ => 0,
                    },
                };
                // Every n-th layer sees all; 0 is none.
                (1..=layers as u64)
                    .map(|layer| every == 0 || !layer.is_multiple_of(every))
                    .collect()
            }
        };
        Ok(sliding
            .into_iter()
            .map(|sliding| sliding.then_some(window))
            .collect())
    }

    fn attention_scale(&self, sizes: Sizes) -> Result<f64, ConfigError> {
        let key = self.key("attention.scale");
        if let Some(scale) = self.keys().number(&key)? {
            return limits::positive(&key, scale);
        }
        // The largest of each Gemma scales by hidden / heads instead, which no key says.
        let largest = match self.family {
            Family::Gemma2 => sizes.layers == 46,
            Family::Gemma3 => sizes.layers == 62,
            _ => false,
        };
        let width = if largest {
            sizes.hidden as f64 / sizes.heads as f64
        } else {
            sizes.head_dim as f64
        };
        Ok(width.powf(-0.5))
    }
}
