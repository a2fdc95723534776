//! The keys of a GGUF header, by type.

use std::collections::BTreeMap;

use super::header::Value;
use crate::config::ConfigError;
use crate::config::limits::Given;

/// The keys of a header.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a>(pub(super) &'a BTreeMap<String, Value>);

impl<'a> Keys<'a> {
    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(key, other, "a text")),
        }
    }

    pub(super) fn flag(self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Flag(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong(key, other, "true or false")),
        }
    }

    pub(super) fn number(self, key: &str) -> Result<Option<f64>, ConfigError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Float(number)) => Ok(Some(*number)),
            Some(Value::Unsigned(number)) => Ok(Some(*number as f64)),
            Some(Value::Signed(number)) => Ok(Some(*number as f64)),
            Some(other) => Err(wrong(key, other, "a number")),
        }
    }

    /// A count; of a list with one for each layer, which must be the same everywhere, that one.
    pub(super) fn count(self, key: &str) -> Result<Option<u64>, ConfigError> {
        let limit = "a whole number, not negative";
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(count)) => Ok(Some(*count)),
            Some(value @ Value::Signed(count)) => u64::try_from(*count)
                .map(Some)
                .map_err(|_| wrong(key, value, limit)),
            Some(value @ Value::Numbers(counts)) => match counts.first() {
                Some(first)
                    if counts.iter().all(|n| n == first)
                        && *first >= 0.0
                        && first.fract() == 0.0 =>
                {
                    Ok(Some(*first as u64))
                }
                _ => Err(wrong(key, value, "the same in every layer")),
            },
            Some(other) => Err(wrong(key, other, limit)),
        }
    }

    pub(super) fn texts(self, key: &str) -> Result<Option<&'a [String]>, ConfigError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Texts(texts)) => Ok(Some(texts)),
            Some(other) => Err(wrong(key, other, "a list of texts")),
        }
    }

    pub(super) fn numbers(self, key: &str) -> Result<Option<&'a [f64]>, ConfigError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Numbers(numbers)) => Ok(Some(numbers)),
            Some(other) => Err(wrong(key, other, "a list of numbers")),
        }
    }

    pub(super) fn given(self, key: String) -> Result<Given, ConfigError> {
        let value = self.count(&key)?;
        Ok(Given { key, value })
    }

    /// A token id; one past the vocabulary counts as none, as in llama.cpp (files name -1 for none).
    pub(super) fn token(self, key: &str, tokens: usize) -> Result<Option<u32>, ConfigError> {
        let id = match self.0.get(key) {
            Some(Value::Signed(id)) if *id < 0 => None,
            _ => self.count(key)?,
        };
        Ok(id
            .and_then(|id| u32::try_from(id).ok())
            .filter(|id| (*id as usize) < tokens))
    }
}

fn wrong(key: &str, value: &Value, limit: &str) -> ConfigError {
    let shown = match value {
        Value::Numbers(list) => format!("a list of {} numbers", list.len()),
        Value::Flags(list) => format!("a list of {} flags", list.len()),
        Value::Texts(list) => format!("a list of {} texts", list.len()),
        Value::Text(text) => text.clone(),
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    };
    ConfigError::out_of_range(key, shown, limit)
}
