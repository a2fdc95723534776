//! `config.json` of an encoder.
//!
//! Keys and defaults are those of transformers' `configuration_*.py` of each family and, for Nomic, those that its maker
//! publishes (`modeling_hf_nomic_bert.py`).

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_contract::ScoreScale;

use super::limits::{self, Given, GivenSizes, Sizes};
use super::raw::Raw;
use super::rope_json::{self, Around};
use super::{
    Activation, Beside, ConfigError, EncoderBiases, EncoderConfig, EncoderHead, EncoderLayer,
    HeadActivation, LayerConfig, ModelConfig, Pooling, Quantization, Rope, Scoring, TextPrompts,
    quantization_json, sentence_json, values_json,
};

/// Whose keys and names of tensors an encoder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncoderFamily {
    Bert,
    Roberta,
    DistilBert,
    ModernBert,
    NomicBert,
}

use EncoderFamily as Family;

/// What an architecture has on top of its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Top {
    /// Nothing that is of use here: its rows become vectors.
    Rows,
    /// Scores of a text, or of a pair of texts.
    Text,
    /// Scores of each token.
    Tokens,
}

/// Name, family, and what is on top.
const ARCHITECTURES: [(&str, Family, Top); 22] = [
    ("BertModel", Family::Bert, Top::Rows),
    ("BertForMaskedLM", Family::Bert, Top::Rows),
    ("BertForSequenceClassification", Family::Bert, Top::Text),
    ("BertForTokenClassification", Family::Bert, Top::Tokens),
    ("RobertaModel", Family::Roberta, Top::Rows),
    ("RobertaForMaskedLM", Family::Roberta, Top::Rows),
    (
        "RobertaForSequenceClassification",
        Family::Roberta,
        Top::Text,
    ),
    (
        "RobertaForTokenClassification",
        Family::Roberta,
        Top::Tokens,
    ),
    ("XLMRobertaModel", Family::Roberta, Top::Rows),
    ("XLMRobertaForMaskedLM", Family::Roberta, Top::Rows),
    (
        "XLMRobertaForSequenceClassification",
        Family::Roberta,
        Top::Text,
    ),
    (
        "XLMRobertaForTokenClassification",
        Family::Roberta,
        Top::Tokens,
    ),
    ("DistilBertModel", Family::DistilBert, Top::Rows),
    ("DistilBertForMaskedLM", Family::DistilBert, Top::Rows),
    (
        "DistilBertForSequenceClassification",
        Family::DistilBert,
        Top::Text,
    ),
    (
        "DistilBertForTokenClassification",
        Family::DistilBert,
        Top::Tokens,
    ),
    ("ModernBertModel", Family::ModernBert, Top::Rows),
    ("ModernBertForMaskedLM", Family::ModernBert, Top::Rows),
    (
        "ModernBertForSequenceClassification",
        Family::ModernBert,
        Top::Text,
    ),
    (
        "ModernBertForTokenClassification",
        Family::ModernBert,
        Top::Tokens,
    ),
    ("NomicBertModel", Family::NomicBert, Top::Rows),
    ("NomicBertForMaskedLM", Family::NomicBert, Top::Rows),
];

/// Most labels of a classification head.
const MOST_LABELS: usize = 1 << 16;

/// Nomic's base of rotary frequencies where nothing is said.
const NOMIC_THETA: f64 = 1000.0;

/// The encoders that are implemented.
pub(super) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|(name, ..)| *name)
}

/// The family of an encoder that is implemented.
pub(crate) fn encoder_family(architecture: &str) -> EncoderFamily {
    let known = ARCHITECTURES
        .iter()
        .find(|(name, ..)| *name == architecture);
    match (known, architecture) {
        (Some((_, family, _)), _) => *family,
        // As GGUF files call it.
        (None, "nomic-bert") => Family::NomicBert,
        (None, _) => Family::Bert,
    }
}

/// Reads an encoder's configuration; nothing if `architecture` is not one.
pub(super) fn encoder(
    architecture: &str,
    config: Raw<'_>,
    beside: &Beside,
) -> Result<Option<EncoderConfig>, ConfigError> {
    let known = ARCHITECTURES
        .iter()
        .find(|(name, ..)| *name == architecture);
    let Some((_, family, top)) = known else {
        return Ok(None);
    };
    let family = *family;
    family.refuse_what_is_not_implemented(config)?;
    let quantization = own_quantization(config)?;
    let sizes = family.sizes(config)?.check()?;
    let (ropes, layers) = family.layers(config, sizes)?;
    let first_position = family.first_position(config, sizes.context)?;
    let longest = family.longest(config, sizes.context)? - first_position;
    let head = match top {
        Top::Text => match labels(config)? {
            labels if labels.len() == 1 => EncoderHead::Relevance(score_scale(config)?),
            labels => EncoderHead::Classification(apart(labels)?),
        },
        // Parts of texts are told by the names of their labels.
        Top::Tokens if !config.names("id2label") => return Err(ConfigError::missing("id2label")),
        Top::Tokens => EncoderHead::TokenClassification(labels(config)?),
        Top::Rows => EncoderHead::Embedding(sentence_json::pooling(beside)?),
    };
    let learned = matches!(family, Family::Bert | Family::Roberta | Family::DistilBert);
    Ok(Some(EncoderConfig {
        architecture: architecture.to_owned(),
        vocabulary: sizes.vocabulary,
        hidden: sizes.hidden,
        intermediate: sizes.intermediate,
        layers,
        ropes,
        heads: sizes.heads,
        kv_heads: sizes.heads,
        head_dim: sizes.head_dim,
        causal: false,
        head_norms: false,
        rms_norms: false,
        first_norm: true,
        norm_epsilon: family.epsilon(config)?,
        pre_norm: family == Family::ModernBert,
        biases: EncoderBiases {
            heads: learned,
            output: learned,
            feed_forward: learned,
            norms: family != Family::ModernBert || config.flag("norm_bias")?,
        },
        activation: family.activation(config)?,
        gated: !learned,
        positions: if learned { sizes.context } else { 0 },
        first_position,
        types: family.types(config)?,
        context: sentence_json::most_tokens(beside, longest)?,
        scoring: match head {
            EncoderHead::Embedding(_) => None,
            EncoderHead::Classification(_) | EncoderHead::Relevance(_) => {
                Some(family.scoring(config)?)
            }
            EncoderHead::TokenClassification(_) => match family {
                Family::ModernBert => Some(family.scoring(config)?),
                _ => None,
            },
        },
        prompts: sentence_json::prompts(beside, &head)?,
        head,
        quantization,
        decoder: None,
    }))
}

/// Decoders whose rows make embeddings, without their heads: those whose layers have nothing that encoders' do not.
pub(super) const DECODERS: [&str; 4] = [
    "Qwen3ForCausalLM",
    "Qwen2ForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
];

/// The name of the decoder that a bare model (`Qwen3Model`) is one without its head of.
pub(super) fn with_head(architecture: &str) -> Option<&'static str> {
    let bare = architecture.strip_suffix("Model")?;
    let of = |name: &&&str| name.strip_suffix("ForCausalLM") == Some(bare);
    DECODERS.iter().find(of).copied()
}

/// The encoder that a decoder is, where the files of sentence-transformers say how its rows are pooled.
pub(super) fn of_decoder(
    decoder: ModelConfig,
    beside: &Beside,
) -> Result<EncoderConfig, ConfigError> {
    let pooling = sentence_json::pooling(beside)?;
    if !DECODERS.contains(&decoder.architecture.as_str()) {
        let supported = format!("{} for embeddings", DECODERS.join(", "));
        return Err(ConfigError::unsupported(
            "architectures",
            &decoder.architecture,
            supported,
        ));
    }
    let context = sentence_json::most_tokens(beside, decoder.context)?;
    let prompts = sentence_json::prompts(beside, &EncoderHead::Embedding(pooling))?;
    Ok(EncoderConfig {
        prompts,
        ..embedding_decoder(decoder, pooling, context)
    })
}

/// The encoder that a decoder is whose rows are pooled so, and whose texts have at most `context` tokens.
pub(crate) fn embedding_decoder(
    decoder: ModelConfig,
    pooling: Pooling,
    context: usize,
) -> EncoderConfig {
    let layer = |layer: &LayerConfig| EncoderLayer {
        // A window counts the row's own position.
        reach: layer.window.map(|window| window - 1),
        rope: layer.rope,
    };
    EncoderConfig {
        architecture: decoder.architecture.clone(),
        vocabulary: decoder.vocabulary,
        hidden: decoder.hidden,
        intermediate: decoder.intermediate,
        layers: decoder.layers.iter().map(layer).collect(),
        ropes: decoder.ropes.clone(),
        heads: decoder.heads,
        kv_heads: decoder.kv_heads,
        head_dim: decoder.head_dim,
        causal: true,
        head_norms: decoder.head_norms,
        norm_epsilon: decoder.norm_epsilon,
        rms_norms: true,
        first_norm: false,
        pre_norm: true,
        biases: EncoderBiases {
            heads: decoder.qkv_bias,
            output: decoder.output_bias,
            feed_forward: false,
            norms: false,
        },
        activation: decoder.activation,
        gated: true,
        positions: 0,
        first_position: 0,
        types: 0,
        context,
        head: EncoderHead::Embedding(pooling),
        prompts: TextPrompts::default(),
        scoring: None,
        quantization: decoder.quantization,
        decoder: Some(Box::new(decoder)),
    }
}

/// How the weights are stored: as `convert` writes them, if not in floats.
fn own_quantization(config: Raw<'_>) -> Result<Option<Quantization>, ConfigError> {
    let key = "quantization_config";
    let Some(said) = config.object(key)? else {
        return Ok(None);
    };
    match said.text("quant_method")? {
        Some("tidegate") => quantization_json::quantization(config),
        other => Err(ConfigError::unsupported(
            key,
            other.unwrap_or("of no quant_method"),
            "none (f32, f16 or bf16 weights) or tidegate for encoders",
        )),
    }
}

impl EncoderFamily {
    /// What its `config.json` calls the number of layers.
    pub(crate) fn layers_key(self) -> &'static str {
        match self {
            Family::DistilBert => "n_layers",
            _ => "num_hidden_layers",
        }
    }

    fn refuse_what_is_not_implemented(self, config: Raw<'_>) -> Result<(), ConfigError> {
        if let Some(kind) = config
            .text("position_embedding_type")?
            .filter(|kind| *kind != "absolute")
        {
            return Err(ConfigError::unsupported(
                "position_embedding_type",
                kind,
                "absolute",
            ));
        }
        let flags: &[&str] = match self {
            Family::ModernBert => &["is_decoder", "attention_bias", "mlp_bias"],
            Family::NomicBert => &[
                "is_decoder",
                "prenorm",
                "use_rms_norm",
                "rotary_emb_interleaved",
                "qkv_proj_bias",
                "mlp_fc1_bias",
                "mlp_fc2_bias",
                "parallel_block",
                "causal",
            ],
            _ => &["is_decoder"],
        };
        for key in flags {
            if config.flag(key)? {
                return Err(ConfigError::unsupported(*key, true, "false"));
            }
        }
        if self == Family::NomicBert {
            for key in ["num_experts", "moe_every_n_layers"] {
                if let Some(count) = config.count(key)?.filter(|count| *count > 0) {
                    return Err(ConfigError::unsupported(key, count, "0"));
                }
            }
            if let Some(part) = config.number("rotary_emb_fraction")?
                && part != 1.0
            {
                return Err(ConfigError::unsupported("rotary_emb_fraction", part, "1"));
            }
            if let Some(base) = config.number("rotary_emb_scale_base")? {
                return Err(ConfigError::unsupported(
                    "rotary_emb_scale_base",
                    base,
                    "null",
                ));
            }
        }
        Ok(())
    }

    fn sizes(self, config: Raw<'_>) -> Result<GivenSizes, ConfigError> {
        // Its maker's keys, and those of transformers.
        let either = |key, other, default| match config.names(key) {
            true => config.given(key, None),
            false => config.given(other, default),
        };
        let none = |key: &str| Given {
            key: key.to_owned(),
            value: None,
        };
        let (vocabulary, context) = match self {
            Family::Roberta => (50_265, 512),
            Family::ModernBert => (50_368, 8192),
            Family::NomicBert => (30_528, 2048),
            Family::Bert | Family::DistilBert => (30_522, 512),
        };
        let vocabulary = config.given("vocab_size", Some(vocabulary))?;
        Ok(match self {
            Family::DistilBert => GivenSizes {
                vocabulary,
                hidden: config.given("dim", Some(768))?,
                intermediate: config.given("hidden_dim", Some(3072))?,
                layers: config.given("n_layers", Some(6))?,
                heads: config.given("n_heads", Some(12))?,
                kv_heads: none(""),
                head_dim: none("head_dim"),
                context: config.given("max_position_embeddings", Some(context))?,
            },
            Family::NomicBert => GivenSizes {
                vocabulary,
                hidden: either("n_embd", "hidden_size", Some(768))?,
                intermediate: either("n_inner", "intermediate_size", Some(3072))?,
                layers: either("n_layer", "num_hidden_layers", Some(12))?,
                heads: either("n_head", "num_attention_heads", Some(12))?,
                kv_heads: none(""),
                head_dim: none("head_dim"),
                context: either("n_positions", "max_position_embeddings", Some(context))?,
            },
            Family::Bert | Family::Roberta | Family::ModernBert => {
                let (layers, intermediate) = match self {
                    Family::ModernBert => (22, 1152),
                    _ => (12, 3072),
                };
                GivenSizes {
                    vocabulary,
                    hidden: config.given("hidden_size", Some(768))?,
                    intermediate: config.given("intermediate_size", Some(intermediate))?,
                    layers: config.given("num_hidden_layers", Some(layers))?,
                    heads: config.given("num_attention_heads", Some(12))?,
                    kv_heads: none(""),
                    head_dim: none("head_dim"),
                    context: config.given("max_position_embeddings", Some(context))?,
                }
            }
        })
    }

    /// Positions that a text may have. Nomic's tables that stretch with the text are as they are up to the length that the model
    /// was trained with.
    fn longest(self, config: Raw<'_>, context: usize) -> Result<usize, ConfigError> {
        if self != Family::NomicBert || config.number("rotary_scaling_factor")?.is_none() {
            return Ok(context);
        }
        let trained = config.given("max_trained_positions", Some(2048))?;
        Ok(trained.dimension()?.min(context))
    }

    fn first_position(self, config: Raw<'_>, context: usize) -> Result<usize, ConfigError> {
        if self != Family::Roberta {
            return Ok(0);
        }
        let padding = config.count("pad_token_id")?.unwrap_or(1);
        let limit = || format!("below max_position_embeddings {context} less 1");
        usize::try_from(padding)
            .ok()
            .filter(|padding| padding + 1 < context)
            .map(|padding| padding + 1)
            .ok_or_else(|| ConfigError::out_of_range("pad_token_id", padding, limit()))
    }

    fn types(self, config: Raw<'_>) -> Result<usize, ConfigError> {
        match self {
            Family::DistilBert | Family::ModernBert => Ok(0),
            Family::Bert | Family::Roberta | Family::NomicBert => {
                let types = config.given("type_vocab_size", Some(2))?;
                // Nomic's own code has no table then; of BERT it is what a conversion of DistilBERT out of a GGUF file is.
                match types.value {
                    Some(0) if self != Family::Roberta => Ok(0),
                    _ => types.dimension(),
                }
            }
        }
    }

    fn epsilon(self, config: Raw<'_>) -> Result<f64, ConfigError> {
        let (key, usual) = match self {
            // It is written into the library.
            Family::DistilBert => return Ok(1e-12),
            Family::ModernBert => ("norm_eps", 1e-5),
            Family::NomicBert if config.names("layer_norm_epsilon") => {
                ("layer_norm_epsilon", 1e-12)
            }
            Family::Bert | Family::Roberta | Family::NomicBert => ("layer_norm_eps", 1e-12),
        };
        limits::epsilon(key, config.number(key)?.unwrap_or(usual))
    }

    fn activation(self, config: Raw<'_>) -> Result<Activation, ConfigError> {
        let (key, usual) = match self {
            Family::DistilBert => ("activation", "gelu"),
            Family::ModernBert => ("hidden_activation", "gelu"),
            Family::NomicBert => {
                let key = "activation_function";
                return match config.text(key)? {
                    None => values_json::activation(
                        "hidden_act",
                        config.text("hidden_act")?.unwrap_or("silu"),
                    ),
                    Some("swiglu") => Ok(Activation::Silu),
                    Some(other) => Err(ConfigError::unsupported(key, other, "swiglu")),
                };
            }
            Family::Bert | Family::Roberta => ("hidden_act", "gelu"),
        };
        values_json::activation(key, config.text(key)?.unwrap_or(usual))
    }

    /// Rotary tables, and what of them and of the text each layer takes.
    fn layers(
        self,
        config: Raw<'_>,
        sizes: Sizes,
    ) -> Result<(Vec<Rope>, Vec<EncoderLayer>), ConfigError> {
        let around = |theta_key, theta| Around {
            config,
            theta_key,
            theta,
            head_dim: sizes.head_dim,
            context: sizes.context,
            phi3: false,
        };
        let alike = |rope| {
            let layer = EncoderLayer { reach: None, rope };
            vec![layer; sizes.layers]
        };
        match self {
            Family::Bert | Family::Roberta | Family::DistilBert => Ok((Vec::new(), alike(None))),
            Family::NomicBert => {
                let around = around("rotary_emb_base", NOMIC_THETA);
                let rope = rope_json::rope(around, rope_json::parameters(config)?)?;
                Ok((vec![rope], alike(Some(0))))
            }
            Family::ModernBert => {
                let parameters = config.object("rope_parameters")?;
                let of = |kind| match parameters {
                    Some(parameters) => parameters.object(kind),
                    None => config.object("rope_scaling"),
                };
                let whole = around("global_rope_theta", 160_000.0);
                let local = around("local_rope_theta", 10_000.0);
                let ropes = vec![
                    rope_json::rope(whole, of("full_attention")?)?,
                    rope_json::rope(local, of("sliding_attention")?)?,
                ];
                let span = config.given("local_attention", Some(128))?.dimension()?;
                let layer = |whole: bool| EncoderLayer {
                    reach: (!whole).then_some(span / 2),
                    rope: Some(usize::from(!whole)),
                };
                let whole = whole_layers(config, sizes.layers)?;
                Ok((ropes, whole.into_iter().map(layer).collect()))
            }
        }
    }

    fn scoring(self, config: Raw<'_>) -> Result<Scoring, ConfigError> {
        let (pooling, bias, activation) = match self {
            Family::Bert | Family::Roberta | Family::NomicBert => {
                (Pooling::First, true, HeadActivation::Tanh)
            }
            Family::DistilBert => (Pooling::First, true, HeadActivation::Relu),
            Family::ModernBert => {
                let key = "classifier_pooling";
                let pooling = match config.text(key)? {
                    None | Some("cls") => Pooling::First,
                    Some("mean") => Pooling::Mean,
                    Some(other) => return Err(ConfigError::unsupported(key, other, "cls, mean")),
                };
                let key = "classifier_activation";
                let name = config.text(key)?.unwrap_or("gelu");
                let activation = HeadActivation::Of(values_json::activation(key, name)?);
                (pooling, config.flag("classifier_bias")?, activation)
            }
        };
        Ok(Scoring {
            pooling,
            bias,
            activation,
            norm: self == Family::ModernBert,
        })
    }
}

/// Which of ModernBERT's layers see whole texts: what `layer_types` says, or every so many from the first.
fn whole_layers(config: Raw<'_>, layers: usize) -> Result<Vec<bool>, ConfigError> {
    let key = "layer_types";
    if let Some(types) = config.list(key)? {
        if types.len() != layers {
            let limit = format!("a list of num_hidden_layers {layers}");
            let found = format!("a list of {}", types.len());
            return Err(ConfigError::out_of_range(key, found, limit));
        }
        let whole = |kind: &Value| match kind.as_str() {
            Some("full_attention") => Ok(true),
            Some("sliding_attention") => Ok(false),
            _ => Err(ConfigError::unsupported(
                key,
                kind,
                "full_attention, sliding_attention",
            )),
        };
        return types.iter().map(whole).collect();
    }
    let every = config.given("global_attn_every_n_layers", Some(3))?;
    let every = every.dimension()?;
    Ok((0..layers)
        .map(|layer| layer.is_multiple_of(every))
        .collect())
}

/// How sentence-transformers' CrossEncoder reads a single score: what the model names, newer files in a section of their own,
/// or the logistic function.
fn score_scale(config: Raw<'_>) -> Result<ScoreScale, ConfigError> {
    let section = config.object("sentence_transformers")?;
    let named = section.map(|section| section.text("activation_fn"));
    let older = "sbert_ce_default_activation_function";
    let (key, name) = match named.transpose()?.flatten() {
        Some(name) => ("sentence_transformers.activation_fn", Some(name)),
        None => (older, config.text(older)?),
    };
    match name {
        None | Some("torch.nn.modules.activation.Sigmoid") => Ok(ScoreScale::Sigmoid),
        Some("torch.nn.modules.linear.Identity") => Ok(ScoreScale::Raw),
        Some(other) => Err(ConfigError::unsupported(
            key,
            other,
            "torch.nn.modules.activation.Sigmoid, torch.nn.modules.linear.Identity",
        )),
    }
}

/// The labels in the order of their ids; two nameless ones where the file says nothing.
/// Labels of which each has a score of its own.
fn apart(labels: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let mut seen = BTreeSet::new();
    match labels.iter().find(|label| !seen.insert(label.as_str())) {
        Some(label) => Err(ConfigError::out_of_range(
            "id2label",
            format!("an object with {label:?} twice"),
            "an object of labels that differ",
        )),
        None => Ok(labels),
    }
}

fn labels(config: Raw<'_>) -> Result<Vec<String>, ConfigError> {
    let key = "id2label";
    let Some(Raw(map)) = config.object(key)? else {
        let count = config
            .given("num_labels", Some(2))?
            .dimension()?
            .min(MOST_LABELS);
        return Ok((0..count).map(|id| format!("LABEL_{id}")).collect());
    };
    if map.is_empty() || map.len() > MOST_LABELS {
        let limit = format!("between 1 and {MOST_LABELS} labels");
        return Err(ConfigError::out_of_range(
            key,
            format!("an object of {}", map.len()),
            limit,
        ));
    }
    (0..map.len())
        .map(|id| match map.get(&id.to_string()) {
            Some(Value::String(label)) => Ok(label.clone()),
            Some(other) => Err(ConfigError::out_of_range(key, other, "an object of texts")),
            None => {
                let limit = format!(
                    "an object with a label for each of the ids 0 to {}",
                    map.len() - 1
                );
                Err(ConfigError::out_of_range(
                    key,
                    format!("without id {id}"),
                    limit,
                ))
            }
        })
        .collect()
}
