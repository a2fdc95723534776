//! The tokenizer in a GGUF file.

use tidegate_contract::GgufVocabulary;

use super::keys::Keys;
use crate::config::ConfigError;

/// Reads it; nothing if the file has none.
pub(super) fn read(keys: Keys<'_>) -> Result<Option<GgufVocabulary>, ConfigError> {
    let Some(model) = keys.text("tokenizer.ggml.model")? else {
        return Ok(None);
    };
    let key = "tokenizer.ggml.tokens";
    let tokens = keys
        .texts(key)?
        .ok_or_else(|| ConfigError::missing(key))?
        .to_vec();
    let for_each = |key: &'static str| match keys.numbers(key)? {
        None => Ok(Vec::new()),
        Some(list) if list.len() == tokens.len() => Ok(list.to_vec()),
        Some(list) => {
            let limit = format!("one for each of the {} tokens", tokens.len());
            Err(ConfigError::out_of_range(
                key,
                format!("a list of {}", list.len()),
                limit,
            ))
        }
    };
    let id = |key: &str| keys.token(&format!("tokenizer.ggml.{key}_token_id"), tokens.len());
    let flag = |key: &str| keys.flag(&format!("tokenizer.ggml.{key}"));
    Ok(Some(GgufVocabulary {
        model: model.to_owned(),
        pre: keys.text("tokenizer.ggml.pre")?.map(str::to_owned),
        scores: for_each("tokenizer.ggml.scores")?
            .iter()
            .map(|n| *n as f32)
            .collect(),
        types: for_each("tokenizer.ggml.token_type")?
            .iter()
            .map(|n| *n as i32)
            .collect(),
        merges: keys
            .texts("tokenizer.ggml.merges")?
            .unwrap_or_default()
            .to_vec(),
        bos: id("bos")?,
        eos: id("eos")?,
        end_of_turn: id("eot")?,
        unknown: id("unknown")?,
        padding: id("padding")?,
        // Spelled so in the format.
        separator: id("seperator")?,
        cls: id("cls")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        chat_template: keys.text("tokenizer.chat_template")?.map(str::to_owned),
        strip_after_special: keys.text("general.architecture")? == Some("phi3"),
        tokens,
    }))
}
