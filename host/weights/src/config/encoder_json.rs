//! `config.json` of an encoder, and the files of sentence-transformers beside it.
//!
//! Keys and defaults are those of transformers' `configuration_bert.py` and `configuration_roberta.py`, and of
//! sentence-transformers' `modules.json`, `1_Pooling/config.json` and `sentence_bert_config.json`.

use serde_json::Value;
use tidegate_contract::ScoreScale;

use super::limits::{self, Given, GivenSizes};
use super::raw::Raw;
use super::{Beside, ConfigError, EncoderConfig, EncoderHead, Pooling, values_json};

/// Name, whether of the RoBERTa family, whether it classifies.
const ARCHITECTURES: [(&str, bool, bool); 9] = [
    ("BertModel", false, false),
    ("BertForMaskedLM", false, false),
    ("BertForSequenceClassification", false, true),
    ("RobertaModel", true, false),
    ("RobertaForMaskedLM", true, false),
    ("RobertaForSequenceClassification", true, true),
    ("XLMRobertaModel", true, false),
    ("XLMRobertaForMaskedLM", true, false),
    ("XLMRobertaForSequenceClassification", true, true),
];

/// Most labels of a classification head.
const MOST_LABELS: usize = 1 << 16;

/// The encoders that are implemented.
pub(super) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|(name, ..)| *name)
}

/// Whether an encoder's tensors are named as RoBERTa's are.
pub(crate) fn is_roberta(architecture: &str) -> bool {
    ARCHITECTURES
        .iter()
        .any(|(name, roberta, _)| *name == architecture && *roberta)
}

/// Reads an encoder's configuration; nothing if `architecture` is not one.
pub(super) fn encoder(
    architecture: &str,
    config: Raw<'_>,
    beside: &Beside,
) -> Result<Option<EncoderConfig>, ConfigError> {
    let Some((_, roberta, classifies)) = ARCHITECTURES
        .iter()
        .find(|(name, ..)| *name == architecture)
    else {
        return Ok(None);
    };
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
    if config.flag("is_decoder")? {
        return Err(ConfigError::unsupported("is_decoder", true, "false"));
    }
    if let Some(quantization) = config.get("quantization_config") {
        let supported = "none (f32, f16 or bf16 weights) for encoders";
        return Err(ConfigError::unsupported(
            "quantization_config",
            quantization,
            supported,
        ));
    }
    let sizes = GivenSizes {
        vocabulary: config.given("vocab_size", Some(if *roberta { 50_265 } else { 30_522 }))?,
        hidden: config.given("hidden_size", Some(768))?,
        intermediate: config.given("intermediate_size", Some(3072))?,
        layers: config.given("num_hidden_layers", Some(12))?,
        heads: config.given("num_attention_heads", Some(12))?,
        kv_heads: Given {
            key: String::new(),
            value: None,
        },
        head_dim: Given {
            key: "head_dim".to_owned(),
            value: None,
        },
        context: config.given("max_position_embeddings", Some(512))?,
    }
    .check()?;
    let first_position = if *roberta {
        let padding = config.count("pad_token_id")?.unwrap_or(1);
        let limit = || format!("below max_position_embeddings {} less 1", sizes.context);
        usize::try_from(padding)
            .ok()
            .filter(|padding| padding + 1 < sizes.context)
            .map(|padding| padding + 1)
            .ok_or_else(|| ConfigError::out_of_range("pad_token_id", padding, limit()))?
    } else {
        0
    };
    let longest = sizes.context - first_position;
    let context = match beside
        .sentence
        .as_ref()
        .map(Raw)
        .map(|sentence| sentence.count("max_seq_length"))
    {
        None => longest,
        Some(length) => match length? {
            None => longest,
            Some(0) => return Err(ConfigError::out_of_range("max_seq_length", 0, "above 0")),
            Some(length) => longest.min(usize::try_from(length).unwrap_or(longest)),
        },
    };
    let head = if *classifies {
        match labels(config)? {
            labels if labels.len() == 1 => EncoderHead::Relevance(score_scale(config)?),
            labels => EncoderHead::Classification(labels),
        }
    } else {
        check_modules(beside.modules.as_deref().unwrap_or_default())?;
        EncoderHead::Embedding(match &beside.pooling {
            None => Pooling::Mean,
            Some(pooling) => read_pooling(Raw(pooling))?,
        })
    };
    let epsilon = config.number("layer_norm_eps")?.unwrap_or(1e-12);
    Ok(Some(EncoderConfig {
        architecture: architecture.to_owned(),
        vocabulary: sizes.vocabulary,
        hidden: sizes.hidden,
        intermediate: sizes.intermediate,
        layers: sizes.layers,
        heads: sizes.heads,
        norm_epsilon: limits::epsilon("layer_norm_eps", epsilon)?,
        activation: values_json::activation(
            "hidden_act",
            config.text("hidden_act")?.unwrap_or("gelu"),
        )?,
        positions: sizes.context,
        first_position,
        types: config.given("type_vocab_size", Some(2))?.dimension()?,
        context,
        head,
    }))
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

/// What sentence-transformers would do after the encoder: a layer more would make other vectors.
fn check_modules(modules: &[Value]) -> Result<(), ConfigError> {
    for module in modules {
        let kind = module.get("type").and_then(Value::as_str);
        let name = kind.and_then(|kind| kind.rsplit('.').next());
        if !matches!(name, Some("Transformer" | "Pooling" | "Normalize")) {
            let found = kind.map_or_else(|| module.to_string(), str::to_owned);
            let supported = "Transformer, Pooling, Normalize";
            return Err(ConfigError::unsupported("modules.json", found, supported));
        }
    }
    Ok(())
}

fn read_pooling(pooling: Raw<'_>) -> Result<Pooling, ConfigError> {
    // The newer files name one mode, the older ones have a flag for each.
    if let Some(mode) = pooling.text("pooling_mode")? {
        return match mode {
            "mean" => Ok(Pooling::Mean),
            "cls" => Ok(Pooling::First),
            other => Err(ConfigError::unsupported("pooling_mode", other, "mean, cls")),
        };
    }
    let modes = pooling
        .0
        .iter()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true));
    let modes: Vec<&str> = modes.map(|(key, _)| key.as_str()).collect();
    match modes.as_slice() {
        [] | ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        ["pooling_mode_cls_token"] => Ok(Pooling::First),
        others => Err(ConfigError::unsupported(
            "1_Pooling/config.json",
            others.join(", "),
            "one of pooling_mode_mean_tokens, pooling_mode_cls_token",
        )),
    }
}
