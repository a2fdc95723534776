//! Reading a JSON object member by member, with the name of the one that is wrong.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;

type Read<T> = Result<T, ApiError>;

/// The members of an object that were not read yet. `null` is as good as nothing.
pub(crate) struct Fields {
    path: String,
    members: Map<String, Value>,
}

/// How a member is named that is accepted without effect, or refused.
pub(crate) struct Known {
    /// Accepted, and without effect.
    pub(crate) idle: &'static [&'static str],
    /// Refused: name, and why.
    pub(crate) refused: &'static [(&'static str, &'static str)],
}

impl Fields {
    /// A body.
    pub(crate) fn body(bytes: &[u8]) -> Read<Fields> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(members)) => Ok(Fields {
                path: String::new(),
                members,
            }),
            Ok(other) => Err(ApiError::bad(
                "invalid_json",
                format!("The body is {}, must be a JSON object", kind(&other)),
            )),
            Err(error) => Err(ApiError::bad(
                "invalid_json",
                format!("The body is not JSON: {error}"),
            )),
        }
    }

    /// An object within one.
    pub(crate) fn object(path: String, value: Value) -> Read<Fields> {
        match value {
            Value::Object(members) => Ok(Fields { path, members }),
            other => Err(wrong_type(&path, &other, "an object")),
        }
    }

    /// Where a member is.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// A member that is not read by this.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        let value = self.members.get_mut(name)?.take();
        self.members.shift_remove(name);
        Some(value).filter(|value| !value.is_null())
    }

    pub(crate) fn missing(&self, name: &str) -> ApiError {
        let at = self.at(name);
        ApiError::invalid(
            &at,
            "missing_required_parameter",
            format!("{at} is missing"),
        )
    }

    pub(crate) fn wrong(&self, name: &str, why: impl std::fmt::Display) -> ApiError {
        let at = self.at(name);
        ApiError::invalid(&at, "invalid_value", format!("{at} {why}"))
    }

    pub(crate) fn text(&mut self, name: &str) -> Read<Option<String>> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(&self.at(name), &other, "a string")),
        }
    }

    pub(crate) fn needed_text(&mut self, name: &str) -> Read<String> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Read<Option<bool>> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong_type(&self.at(name), &other, "true or false")),
        }
    }

    pub(crate) fn number(&mut self, name: &str, range: &RangeInclusive<f32>) -> Read<Option<f32>> {
        let Some(value) = self.any(name) else {
            return Ok(None);
        };
        let at = self.at(name);
        number(&at, &value, range).map(Some)
    }

    pub(crate) fn integer(&mut self, name: &str, least: u64, most: u64) -> Read<Option<u64>> {
        let Some(value) = self.any(name) else {
            return Ok(None);
        };
        let at = self.at(name);
        let Some(found) = value
            .as_u64()
            .filter(|found| (least..=most).contains(found))
        else {
            return Err(if value.is_number() {
                self.wrong(
                    name,
                    format!("is {value}, must be an integer from {least} to {most}"),
                )
            } else {
                wrong_type(&at, &value, "an integer")
            });
        };
        Ok(Some(found))
    }

    /// Any integer of 64 bits.
    pub(crate) fn signed(&mut self, name: &str) -> Read<Option<i64>> {
        match self.any(name) {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or_else(|| wrong_type(&self.at(name), &value, "an integer of 64 bits")),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Read<Option<Vec<Value>>> {
        match self.any(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong_type(&self.at(name), &other, "an array")),
        }
    }

    pub(crate) fn inner(&mut self, name: &str) -> Read<Option<Fields>> {
        let path = self.at(name);
        self.any(name)
            .map(|value| Fields::object(path, value))
            .transpose()
    }

    /// What is left is accepted without effect, refused by name, or not known.
    pub(crate) fn end(self, known: &Known) -> Read<()> {
        for (name, value) in &self.members {
            let at = self.at(name);
            if let Some((_, why)) = known.refused.iter().find(|(refused, _)| refused == name) {
                // Said to be off, it asks for nothing.
                if value.is_null() || *value == Value::Bool(false) {
                    continue;
                }
                return Err(ApiError::invalid(
                    &at,
                    "unsupported_parameter",
                    format!("{at} is not supported: {why}"),
                ));
            }
            if !known.idle.contains(&name.as_str()) {
                return Err(ApiError::invalid(
                    &at,
                    "unknown_parameter",
                    format!("{at} is not known"),
                ));
            }
        }
        Ok(())
    }
}

/// A number within bounds.
pub(crate) fn number(at: &str, value: &Value, range: &RangeInclusive<f32>) -> Read<f32> {
    let Some(found) = value.as_f64() else {
        return Err(wrong_type(at, value, "a number"));
    };
    let (least, most) = (range.start(), range.end());
    if !(f64::from(*least)..=f64::from(*most)).contains(&found) {
        let why = format!("{at} is {value}, must be from {least} to {most}");
        return Err(ApiError::invalid(at, "invalid_value", why));
    }
    Ok(found as f32)
}

/// A text.
pub(crate) fn text(at: &str, value: Value) -> Read<String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong_type(at, &other, "a string")),
    }
}

pub(crate) fn wrong_type(at: &str, found: &Value, wanted: &str) -> ApiError {
    let why = format!("{at} is {}, must be {wanted}", kind(found));
    ApiError::invalid(at, "invalid_type", why)
}

pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
