//! The files of sentence-transformers beside an encoder: `modules.json`, `1_Pooling/config.json`,
//! `sentence_bert_config.json` and `config_sentence_transformers.json`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::raw::Raw;
use super::{Beside, ConfigError, EncoderHead, Pooling, TextPrompts, cut};

const MODULES: &str = "modules.json";
const POOLING: &str = "1_Pooling/config.json";
const SENTENCE: &str = "sentence_bert_config.json";
const PROMPTS: &str = "config_sentence_transformers.json";

/// Most tokens of a text, as sentence-transformers limits them.
pub(super) fn most_tokens(beside: &Beside, longest: usize) -> Result<usize, ConfigError> {
    read_most_tokens(beside, longest).map_err(|error| error.beside(SENTENCE))
}

fn read_most_tokens(beside: &Beside, longest: usize) -> Result<usize, ConfigError> {
    let length = beside.sentence.as_ref().map(Raw);
    let length = length.map(|sentence| sentence.count("max_seq_length"));
    match length.transpose()?.flatten() {
        None => Ok(longest),
        Some(0) => Err(ConfigError::out_of_range("max_seq_length", 0, "above 0")),
        Some(length) => Ok(longest.min(usize::try_from(length).unwrap_or(longest))),
    }
}

/// How rows become a vector, by the files of sentence-transformers. Of a model that has none of them it is the mean, as that takes it.
pub(super) fn pooling(beside: &Beside) -> Result<Pooling, ConfigError> {
    check_modules(beside).map_err(|error| error.beside(MODULES))?;
    match &beside.pooling {
        None => Ok(Pooling::Mean),
        Some(pooling) => read_pooling(Raw(pooling)).map_err(|error| error.beside(POOLING)),
    }
}

/// What sentence-transformers would do after the encoder: a layer more would make other vectors.
fn check_modules(beside: &Beside) -> Result<(), ConfigError> {
    if beside.modules.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConfigError::missing("type"));
    }
    for (index, module) in beside.modules.iter().flatten().enumerate() {
        let kind = module.get("type").and_then(Value::as_str);
        let name = kind.and_then(|kind| kind.rsplit('.').next());
        if !matches!(name, Some("Transformer" | "Pooling" | "Normalize")) {
            let found = kind.map_or_else(|| module.to_string(), str::to_owned);
            let supported = "Transformer, Pooling, Normalize";
            return Err(ConfigError::unsupported("type", found, supported));
        }
        if (name == Some("Transformer")) != (index == 0) {
            let found = format!("{} as module {index}", kind.unwrap_or_default());
            let supported = "a Transformer before all others";
            return Err(ConfigError::unsupported("type", found, supported));
        }
        let path = module.get("path").and_then(Value::as_str);
        if name == Some("Pooling") && path.is_some_and(|path| path != "1_Pooling") {
            let found = path.unwrap_or_default();
            return Err(ConfigError::unsupported("path", found, "1_Pooling"));
        }
        // That has no default for it either.
        if name == Some("Pooling") && beside.pooling.is_none() {
            let found = format!("{} without 1_Pooling/config.json", kind.unwrap_or_default());
            let supported = "a Pooling that this file describes";
            return Err(ConfigError::unsupported("type", found, supported));
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
            "lasttoken" => Ok(Pooling::Last),
            other => Err(ConfigError::unsupported(
                "pooling_mode",
                other,
                "mean, cls, lasttoken",
            )),
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
        ["pooling_mode_lasttoken"] => Ok(Pooling::Last),
        others => Err(ConfigError::unsupported(
            "pooling_mode",
            others.join(", "),
            "one of pooling_mode_mean_tokens, pooling_mode_cls_token, pooling_mode_lasttoken",
        )),
    }
}

/// Those that every model of sentence-transformers has, empty where the file does not say them.
const ALWAYS_THERE: [&str; 2] = ["query", "document"];

/// Most names that a refusal lists, and most characters of each.
const LISTED: usize = 10;
const NAME: usize = 64;

/// What may stand before texts (`_validate_prompts` of sentence-transformers). A model that scores pairs is given none here, so its
/// files may ask for none; for labels nobody reads them.
pub(super) fn prompts(beside: &Beside, head: &EncoderHead) -> Result<TextPrompts, ConfigError> {
    read_prompts(beside, head).map_err(|error| error.beside(PROMPTS))
}

fn read_prompts(beside: &Beside, head: &EncoderHead) -> Result<TextPrompts, ConfigError> {
    let said = match (beside.named.as_ref(), head) {
        (Some(said), EncoderHead::Embedding(_) | EncoderHead::Relevance(_)) => Raw(said),
        _ => return Ok(TextPrompts::default()),
    };
    let all = said.object("prompts")?;
    let all = all.into_iter().flat_map(|all| all.0);
    let named: BTreeMap<String, String> = all
        .map(|(name, text)| match text {
            Value::String(text) => Ok((name.clone(), text.clone())),
            Value::Null => Ok((name.clone(), String::new())),
            other => {
                let key = format!("prompts.{}", cut(name, NAME));
                Err(ConfigError::out_of_range(key, other, "a text"))
            }
        })
        .collect::<Result<_, _>>()?;
    let usual = said.text("default_prompt_name")?;
    let text = usual.and_then(|usual| named.get(usual)).map(String::as_str);
    if let Some(usual) = usual
        && text.is_none()
        && !ALWAYS_THERE.contains(&usual)
    {
        let others = named.keys().map(String::as_str);
        let others = others
            .filter(|name| !ALWAYS_THERE.contains(name))
            .take(LISTED);
        let names: Vec<_> = others
            .map(|name| cut(name, NAME))
            .chain(ALWAYS_THERE.map(str::to_owned))
            .collect();
        let limit = format!("the name of a prompt: {}", names.join(", "));
        return Err(ConfigError::out_of_range(
            "default_prompt_name",
            usual,
            limit,
        ));
    }
    if let EncoderHead::Relevance(_) = head {
        return match text.unwrap_or_default() {
            "" => Ok(TextPrompts::default()),
            _ => Err(ConfigError::unsupported(
                "default_prompt_name",
                usual.unwrap_or_default(),
                "null of a model that scores pairs",
            )),
        };
    }
    let pooling = beside.pooling.as_ref();
    let included = pooling.and_then(|pooling| pooling.get("include_prompt"));
    Ok(TextPrompts {
        // One that is not there is empty.
        usual: text.and(usual).map(str::to_owned),
        named,
        left_out: included == Some(&Value::Bool(false)),
    })
}
