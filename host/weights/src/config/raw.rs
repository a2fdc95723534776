//! The keys of a JSON object, by type; a null counts as absent.

use serde_json::{Map, Value};

use super::ConfigError;
use super::limits::Given;

/// A JSON object.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Raw<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Whether the key stands there, if only with a null.
    pub(super) fn names(self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn object(self, key: &str) -> Result<Option<Raw<'a>>, ConfigError> {
        self.typed(key, "an object", |value| value.as_object().map(Raw))
    }

    pub(super) fn count(self, key: &str) -> Result<Option<u64>, ConfigError> {
        self.typed(key, "a whole number, not negative", Value::as_u64)
    }

    pub(super) fn number(self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.typed(key, "a number", Value::as_f64)
    }

    pub(super) fn flag(self, key: &str) -> Result<bool, ConfigError> {
        Ok(self
            .typed(key, "true or false", Value::as_bool)?
            .unwrap_or(false))
    }

    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.typed(key, "a text", Value::as_str)
    }

    pub(super) fn list(self, key: &str) -> Result<Option<&'a [Value]>, ConfigError> {
        self.typed(key, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A count; `default` where the key is absent, nothing where it is null.
    pub(super) fn given(self, key: &str, default: Option<u64>) -> Result<Given, ConfigError> {
        let value = self.count(key)?;
        let absent = !self.names(key);
        Ok(Given {
            key: key.to_owned(),
            value: value.or(if absent { default } else { None }),
        })
    }

    fn typed<T>(
        self,
        key: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(ConfigError::out_of_range(key, value, what)),
            },
        }
    }
}
