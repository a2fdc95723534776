//! The tokenizer in a GGUF file.

use super::keys::Keys;
use crate::config::ConfigError;

/// The tokenizer in a GGUF file: keys `tokenizer.ggml.*` as llama.cpp reads them, `tokenizer.chat_template`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufVocabulary {
    /// `model`: `gpt2` (byte-level BPE), `llama` (SentencePiece with byte fallback), `bert`, ...
    pub model: String,
    /// `pre`: which rule splits text before BPE.
    pub pre: Option<String>,
    /// `tokens`, one for each id.
    pub tokens: Vec<String>,
    /// `scores`, one for each id, or none.
    pub scores: Vec<f32>,
    /// `token_type`, one for each id, or none: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    pub types: Vec<i32>,
    /// `merges`, two tokens with a space between, best first.
    pub merges: Vec<String>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: ends a turn.
    pub end_of_turn: Option<u32>,
    /// `unknown_token_id`.
    pub unknown: Option<u32>,
    /// `padding_token_id`.
    pub padding: Option<u32>,
    /// `seperator_token_id`, as it is spelled there.
    pub separator: Option<u32>,
    /// `cls_token_id`.
    pub cls: Option<u32>,
    /// `add_bos_token`: whether a text begins with `bos`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`: whether a text ends with `eos`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`: whether a text is read as if it began with a space.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

impl GgufVocabulary {
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
            tokens,
        }))
    }
}
