//! `config.json` of a decoder: what was written, and the [`ModelConfig`] that it means.
//!
//! Keys, defaults and formulas are those of the transformers library, versions 4 and 5: `configuration_*.py` and
//! `modeling_*.py` of each family.

use half::{bf16, f16};
use serde_json::Value;

use super::limits::{self, GivenSizes, Sizes};
use super::raw::{Raw, short};
use super::rope_json::{self, Around};
use super::{Activation, ConfigError, LayerConfig, ModelConfig, Quantization, Rope};

/// What sets a family apart, and what it takes for a key that is absent.
struct Family {
    architecture: &'static str,
    kv_heads: Option<u64>,
    head_dim: Option<u64>,
    context: u64,
    epsilon: f64,
    theta: f64,
    tied: bool,
    windows: Windows,
    biases: Biases,
    head_norms: bool,
    gemma: Option<Gemma>,
    phi3: bool,
}

/// Which layers see only a window.
#[derive(Clone, Copy, PartialEq)]
enum Windows {
    /// None; a window in the file is refused.
    Nowhere,
    /// All, if the file gives a window; the default where the key is absent.
    Everywhere(Option<u64>),
    /// By `layer_types`, or from layer `max_window_layers` on, if `use_sliding_window`.
    Late,
    /// By `layer_types`, or where positions do not turn, if `use_sliding_window`.
    WhereNotTurning,
    /// By `layer_types`, or all but every n-th.
    AllButEvery(u64),
}

#[derive(Clone, Copy, PartialEq)]
enum Biases {
    Nowhere,
    /// Of queries, keys and values.
    Qkv,
    /// Of these and the output, if `attention_bias`.
    ByKey,
}

#[derive(Clone, Copy, PartialEq)]
enum Gemma {
    Two,
    Three,
}

/// What most families share.
const LLAMA: Family = Family {
    architecture: "LlamaForCausalLM",
    kv_heads: None,
    head_dim: None,
    context: 2048,
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    windows: Windows::Nowhere,
    biases: Biases::ByKey,
    head_norms: false,
    gemma: None,
    phi3: false,
};

const GEMMA3: Family = Family {
    architecture: "Gemma3ForCausalLM",
    kv_heads: Some(4),
    head_dim: Some(256),
    context: 131_072,
    theta: 1_000_000.0,
    tied: true,
    windows: Windows::AllButEvery(6),
    head_norms: true,
    gemma: Some(Gemma::Three),
    ..LLAMA
};

const FAMILIES: [Family; 9] = [
    LLAMA,
    Family {
        architecture: "MistralForCausalLM",
        kv_heads: Some(8),
        context: 131_072,
        windows: Windows::Everywhere(Some(4096)),
        biases: Biases::Nowhere,
        ..LLAMA
    },
    Family {
        architecture: "Qwen2ForCausalLM",
        kv_heads: Some(32),
        context: 32_768,
        windows: Windows::Late,
        biases: Biases::Qkv,
        ..LLAMA
    },
    Family {
        architecture: "Qwen3ForCausalLM",
        kv_heads: Some(32),
        head_dim: Some(128),
        context: 32_768,
        windows: Windows::Late,
        head_norms: true,
        ..LLAMA
    },
    Family {
        architecture: "SmolLM3ForCausalLM",
        kv_heads: Some(4),
        context: 32_768,
        theta: 2_000_000.0,
        tied: true,
        windows: Windows::WhereNotTurning,
        ..LLAMA
    },
    Family {
        architecture: "Phi3ForCausalLM",
        context: 4096,
        epsilon: 1e-5,
        windows: Windows::Everywhere(None),
        biases: Biases::Nowhere,
        phi3: true,
        ..LLAMA
    },
    Family {
        architecture: "Gemma2ForCausalLM",
        kv_heads: Some(4),
        head_dim: Some(256),
        context: 8192,
        tied: true,
        windows: Windows::AllButEvery(2),
        gemma: Some(Gemma::Two),
        ..LLAMA
    },
    GEMMA3,
    Family {
        architecture: "Gemma3ForConditionalGeneration",
        ..GEMMA3
    },
];

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
        let windows = self.windows(config, sizes.layers)?;
        let (ropes, turns) = self.ropes(config, sizes, &windows)?;
        let layers = windows
            .into_iter()
            .zip(turns)
            .map(|(window, rope)| LayerConfig { window, rope });
        let epsilon = config.number("rms_norm_eps")?.unwrap_or(self.epsilon);
        let bias = match self.biases {
            Biases::Nowhere => false,
            Biases::Qkv => true,
            Biases::ByKey => config.flag("attention_bias")?,
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
                ConfigError::out_of_range("tie_word_embeddings", short(value), "true or false")
            })?,
        };
        let tokens = |key| token_ids(key, outer.get(key).or(config.get(key)), sizes.vocabulary);
        Ok(ModelConfig {
            architecture: self.architecture.to_owned(),
            vocabulary: sizes.vocabulary,
            hidden: sizes.hidden,
            intermediate: sizes.intermediate,
            heads: sizes.heads,
            kv_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            layers: layers.collect(),
            ropes,
            norm_epsilon: limits::epsilon("rms_norm_eps", epsilon)?,
            norm_offset: if self.gemma.is_some() { 1.0 } else { 0.0 },
            post_norms: self.gemma.is_some(),
            head_norms: self.head_norms,
            qkv_bias: bias,
            output_bias: bias && self.biases == Biases::ByKey,
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
            quantization: quantization(outer)?,
            bos_token: tokens("bos_token_id")?.first().copied(),
            eos_tokens: tokens("eos_token_id")?,
        })
    }

    fn sizes(&self, config: Raw<'_>) -> Result<GivenSizes, ConfigError> {
        // Gemma's published files leave out what has the default.
        let gemma = |default: u64| self.gemma.map(|_| default);
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
            intermediate: config.given("intermediate_size", gemma(9216))?,
            layers: config.given("num_hidden_layers", gemma(26))?,
            heads: config.given("num_attention_heads", gemma(8))?,
            kv_heads: config.given("num_key_value_heads", self.kv_heads)?,
            head_dim: config.given("head_dim", self.head_dim)?,
            context: config.given("max_position_embeddings", Some(self.context))?,
        })
    }

    fn refuse_what_is_not_implemented(&self, config: Raw<'_>) -> Result<(), ConfigError> {
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

    /// The window of each layer.
    fn windows(&self, config: Raw<'_>, layers: usize) -> Result<Vec<Option<usize>>, ConfigError> {
        let default = match self.windows {
            Windows::Nowhere => return Ok(vec![None; layers]),
            Windows::Everywhere(default) => default,
            Windows::WhereNotTurning => None,
            Windows::Late | Windows::AllButEvery(_) => Some(4096),
        };
        let given = config.given("sliding_window", default)?;
        let by_flag = matches!(self.windows, Windows::Late | Windows::WhereNotTurning);
        if given.value.is_none() || (by_flag && !config.flag("use_sliding_window")?) {
            return Ok(vec![None; layers]);
        }
        let window = given.dimension()?;
        let sliding = match self.windows {
            Windows::Everywhere(_) | Windows::Nowhere => vec![true; layers],
            _ => match self.layer_types(config, layers)? {
                Some(sliding) => sliding,
                None => self.sliding_by_rule(config, layers)?,
            },
        };
        Ok(sliding
            .into_iter()
            .map(|sliding| sliding.then_some(window))
            .collect())
    }

    /// Whether each layer slides, if the file says so layer by layer.
    fn layer_types(
        &self,
        config: Raw<'_>,
        layers: usize,
    ) -> Result<Option<Vec<bool>>, ConfigError> {
        let Some(types) = config.list("layer_types")? else {
            return Ok(None);
        };
        if types.len() != layers {
            let limit = format!("one for each of num_hidden_layers {layers}");
            return Err(ConfigError::out_of_range(
                "layer_types",
                format!("a list of {}", types.len()),
                limit,
            ));
        }
        let one = |kind: &Value| match kind.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(ConfigError::unsupported(
                "layer_types",
                short(kind),
                "full_attention, sliding_attention",
            )),
        };
        types.iter().map(one).collect::<Result<_, _>>().map(Some)
    }

    fn sliding_by_rule(&self, config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
        Ok(match self.windows {
            Windows::Late => {
                let first = config.count("max_window_layers")?.unwrap_or(28);
                (0..layers).map(|layer| layer as u64 >= first).collect()
            }
            Windows::WhereNotTurning => self
                .turning(config, layers)?
                .iter()
                .map(|turns| !turns)
                .collect(),
            Windows::AllButEvery(every) => {
                // The older spelling of Gemma 3's files.
                let every = match self.gemma {
                    Some(Gemma::Three) => config.count("sliding_window_pattern")?.unwrap_or(every),
                    _ => every,
                };
                if every == 0 {
                    return Err(ConfigError::out_of_range(
                        "sliding_window_pattern",
                        every,
                        "above 0",
                    ));
                }
                (1..=layers as u64)
                    .map(|layer| !layer.is_multiple_of(every))
                    .collect()
            }
            Windows::Everywhere(_) | Windows::Nowhere => vec![true; layers],
        })
    }

    /// Whether each layer turns its queries and keys.
    fn turning(&self, config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
        if self.windows != Windows::WhereNotTurning {
            return Ok(vec![true; layers]);
        }
        if let Some(list) = config.list("no_rope_layers")? {
            if list.len() < layers {
                let limit = format!("one for each of num_hidden_layers {layers}");
                return Err(ConfigError::out_of_range(
                    "no_rope_layers",
                    format!("a list of {}", list.len()),
                    limit,
                ));
            }
            let one = |value: &Value| match value.as_u64() {
                Some(turns @ 0..=1) => Ok(turns == 1),
                _ => Err(ConfigError::out_of_range(
                    "no_rope_layers",
                    short(value),
                    "a list of 0 and 1",
                )),
            };
            return list[..layers].iter().map(one).collect();
        }
        let interval = config
            .given("no_rope_layer_interval", Some(4))?
            .dimension()?;
        Ok((1..=layers)
            .map(|layer| !layer.is_multiple_of(interval))
            .collect())
    }

    /// The rotary tables, and which each layer turns by.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn ropes(
        &self,
        config: Raw<'_>,
        sizes: Sizes,
        windows: &[Option<usize>],
    ) -> Result<(Vec<Rope>, Vec<Option<usize>>), ConfigError> {
        let around = Around {
            config,
            theta_key: "rope_theta",
            theta: self.theta,
            head_dim: sizes.head_dim,
            context: sizes.context,
            phi3: self.phi3,
        };
        if self.gemma == Some(Gemma::Three) {
            let local = Around {
                theta_key: "rope_local_base_freq",
                theta: 10_000.0,
                ..around
            };
            // Version 5 has an object for each type of layer, version 4 scales the layers with full attention alone.
            let nested = config.object("rope_parameters")?;
            let (full, sliding) = match nested {
                Some(nested) => (
                    nested.object("full_attention")?,
                    nested.object("sliding_attention")?,
                ),
                None => (config.object("rope_scaling")?, None),
            };
            let ropes = vec![
                rope_json::rope(around, full)?,
                rope_json::rope(local, sliding)?,
            ];
            let turns = windows
                .iter()
                .map(|window| Some(usize::from(window.is_some())));
            return Ok((ropes, turns.collect()));
        }
        let rope = rope_json::rope(around, rope_json::parameters(config)?)?;
        let turns = self.turning(config, sizes.layers)?;
        Ok((
            vec![rope],
            turns.into_iter().map(|turns| turns.then_some(0)).collect(),
        ))
    }

    fn activation(&self, config: Raw<'_>) -> Result<Activation, ConfigError> {
        let (key, default) = match self.gemma {
            Some(_) => ("hidden_activation", "gelu_pytorch_tanh"),
            None => ("hidden_act", "silu"),
        };
        activation(key, config.text(key)?.unwrap_or(default))
    }
}

/// The activation of that name.
pub(super) fn activation(key: &str, name: &str) -> Result<Activation, ConfigError> {
    match name {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Ok(Activation::GeluTanh),
        "gelu" => Ok(Activation::Gelu),
        other => Err(ConfigError::unsupported(
            key,
            other,
            "silu, gelu, gelu_pytorch_tanh",
        )),
    }
}

/// The precision the model was made in.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    F32,
    F16,
    Bf16,
}

fn precision(config: Raw<'_>, outer: Raw<'_>) -> Result<Precision, ConfigError> {
    for raw in [outer, config] {
        for key in ["dtype", "torch_dtype"] {
            match raw.text(key)? {
                None => {}
                Some("float32") => return Ok(Precision::F32),
                Some("float16") => return Ok(Precision::F16),
                Some("bfloat16") => return Ok(Precision::Bf16),
                Some(other) => {
                    return Err(ConfigError::unsupported(
                        key,
                        other,
                        "float32, float16, bfloat16",
                    ));
                }
            }
        }
    }
    Ok(Precision::F32)
}

/// The square root of the hidden width, rounded as transformers rounds it: to f32, then to the weights' precision.
pub(crate) fn gemma_embedding_scale(hidden: usize, precision: Precision) -> f64 {
    let root = (hidden as f64).sqrt() as f32;
    match precision {
        Precision::F32 => f64::from(root),
        Precision::F16 => f16::from_f32(root).to_f64(),
        Precision::Bf16 => bf16::from_f32(root).to_f64(),
    }
}

fn quantization(config: Raw<'_>) -> Result<Option<Quantization>, ConfigError> {
    let key = "quantization_config";
    let Some(quantization) = config.object(key)? else {
        return Ok(None);
    };
    let unsupported = |value: String| {
        let supported =
            "none (f32, f16 or bf16 weights), or tidegate with 8 or 4 bits in groups of 32";
        Err(ConfigError::unsupported(key, value, supported))
    };
    match quantization.text("quant_method")? {
        Some("tidegate") => {}
        other => return unsupported(other.unwrap_or("of no quant_method").to_owned()),
    }
    match (
        quantization.count("bits")?,
        quantization.count("group_size")?,
    ) {
        (Some(8), Some(32)) => Ok(Some(Quantization::Int8)),
        (Some(4), Some(32)) => Ok(Some(Quantization::Int4)),
        (bits, group) => {
            let number = |n: Option<u64>| n.map_or_else(|| "no".to_owned(), |n| n.to_string());
            unsupported(format!(
                "tidegate with {} bits in groups of {}",
                number(bits),
                number(group)
            ))
        }
    }
}

/// A token id, a list of them, or nothing.
pub(super) fn token_ids(
    key: &str,
    value: Option<&Value>,
    vocabulary: usize,
) -> Result<Vec<u32>, ConfigError> {
    let one = |value: &Value| match value.as_u64() {
        Some(id) if id < vocabulary as u64 => Ok(id as u32),
        _ => {
            let limit = format!("a token id below vocab_size {vocabulary}");
            Err(ConfigError::out_of_range(key, short(value), limit))
        }
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => Ok(vec![one(id)?]),
    }
}
