//! `tokenizer_config.json`: the special tokens by role, and the chat template.

use std::path::Path;

use serde_json::{Map, Value};

use crate::LoadError;

/// What this crate takes from `tokenizer_config.json`; everything else in it is for other programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenizerConfig {
    pub(crate) bos_token: Option<String>,
    pub(crate) eos_token: Option<String>,
    /// What ends a turn, beside the end of the sequence; only files that come from GGUF have it.
    pub(crate) eot_token: Option<String>,
    pub(crate) pad_token: Option<String>,
    pub(crate) unk_token: Option<String>,
    pub(crate) chat_template: Option<String>,
}

impl TokenizerConfig {
    /// Reads the text of a `tokenizer_config.json`; `file` is for the errors.
    pub(crate) fn parse(text: &[u8], file: &Path) -> Result<TokenizerConfig, LoadError> {
        let value: Value = serde_json::from_slice(text).map_err(|e| LoadError::Malformed {
            file: file.to_owned(),
            reason: e.to_string(),
        })?;
        let Value::Object(fields) = value else {
            return Err(LoadError::Malformed {
                file: file.to_owned(),
                reason: "not a JSON object".into(),
            });
        };
        let wrong = |field: &str, reason: String| LoadError::Field {
            file: file.to_owned(),
            field: field.to_owned(),
            reason,
        };
        let token = |field: &str| -> Result<Option<String>, LoadError> {
            special_token(fields.get(field)).map_err(|reason| wrong(field, reason))
        };
        Ok(TokenizerConfig {
            bos_token: token("bos_token")?,
            eos_token: token("eos_token")?,
            eot_token: token("eot_token")?,
            pad_token: token("pad_token")?,
            unk_token: token("unk_token")?,
            chat_template: chat_template(fields.get("chat_template"))
                .map_err(|reason| wrong("chat_template", reason))?,
        })
    }
}

impl TokenizerConfig {
    /// The text of a `tokenizer_config.json` that means the same.
    pub(crate) fn json(&self) -> String {
        let mut fields = Map::new();
        for (field, value) in [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
            ("eot_token", &self.eot_token),
            ("pad_token", &self.pad_token),
            ("unk_token", &self.unk_token),
            ("chat_template", &self.chat_template),
        ] {
            if let Some(value) = value {
                fields.insert(field.into(), value.as_str().into());
            }
        }
        format!("{:#}\n", Value::Object(fields))
    }
}

/// A token is written as a string, or as an object with `content`.
fn special_token(value: Option<&Value>) -> Result<Option<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(content)) => Ok(Some(content.clone())),
        Some(Value::Object(fields)) => match fields.get("content") {
            Some(Value::String(content)) => Ok(Some(content.clone())),
            _ => Err("an object needs a string `content`".into()),
        },
        Some(other) => Err(format!(
            "expected a string or an object with `content`, found {}",
            kind(other)
        )),
    }
}

/// A template is a string, or a list of `{name, template}`, of which `default` (or the only one) is taken.
fn chat_template(value: Option<&Value>) -> Result<Option<String>, String> {
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(source)) => return Ok(Some(source.clone())),
        Some(Value::Array(list)) => list,
        Some(other) => {
            return Err(format!(
                "expected a string or a list of templates, found {}",
                kind(other)
            ));
        }
    };
    let mut named = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        match (
            entry.get("name").and_then(Value::as_str),
            entry.get("template").and_then(Value::as_str),
        ) {
            (Some(name), Some(template)) => named.push((name, template)),
            _ => {
                return Err(format!(
                    "entry {index} needs the strings `name` and `template`"
                ));
            }
        }
    }
    match named.as_slice() {
        [] => Ok(None),
        [(_, template)] => Ok(Some((*template).to_owned())),
        many => match many.iter().find(|(name, _)| *name == "default") {
            Some((_, template)) => Ok(Some((*template).to_owned())),
            None => {
                let names: Vec<_> = many.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "none of the templates {} is named `default`",
                    names.join(", ")
                ))
            }
        },
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TokenizerConfig, String> {
        TokenizerConfig::parse(text.as_bytes(), Path::new("tokenizer_config.json"))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_token_is_a_string_or_an_object_with_content() {
        let config = parse(
            r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null}"#,
        );
        let config = config.unwrap();
        assert_eq!(config.bos_token.as_deref(), Some("<s>"));
        assert_eq!(config.eos_token.as_deref(), Some("</s>"));
        assert_eq!(config.pad_token, None);
    }

    #[test]
    fn of_named_templates_the_default_one_is_taken() {
        let two = r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#;
        assert_eq!(parse(two).unwrap().chat_template.as_deref(), Some("d"));
        let one = r#"{"chat_template": [{"name": "rag", "template": "r"}]}"#;
        assert_eq!(parse(one).unwrap().chat_template.as_deref(), Some("r"));
    }

    #[test]
    fn a_wrong_field_is_named_with_its_file() {
        let cases = [
            (
                r#"{"eos_token": 2}"#,
                "tokenizer_config.json: eos_token: expected a string or an object with `content`, found a number",
            ),
            (
                r#"{"bos_token": {"id": 1}}"#,
                "tokenizer_config.json: bos_token: an object needs a string `content`",
            ),
            (
                r#"{"chat_template": {}}"#,
                "tokenizer_config.json: chat_template: expected a string or a list of templates, found an object",
            ),
            (
                r#"{"chat_template": [{"name": "a"}]}"#,
                "tokenizer_config.json: chat_template: entry 0 needs the strings `name` and `template`",
            ),
            (
                r#"{"chat_template": [{"name": "a", "template": ""}, {"name": "b", "template": ""}]}"#,
                "tokenizer_config.json: chat_template: none of the templates a, b is named `default`",
            ),
            ("[]", "tokenizer_config.json: not a JSON object"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err(), message);
        }
        assert!(
            parse("{")
                .unwrap_err()
                .starts_with("tokenizer_config.json: EOF")
        );
    }
}
