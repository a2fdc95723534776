//! `redact-pii`: replaces personal data in a record's value by placeholders, before a model or anyone else sees it.
//!
//! Found by their form are e-mail addresses, telephone numbers, payment cards (Luhn), IBANs (check digits), US social
//! security numbers, IP addresses, and user and password in URLs. Members of a JSON value can be named as personal data
//! as a whole, a customer's name for example; they are then found again in the other texts of the record.
//!
//! A placeholder is `[EMAIL_1]`, `[EMAIL_2]` and so on, numbered by first appearance in the record; the same value has
//! the same placeholder. What stood there is kept in the private attribute `pii.map`, which no sink writes, and which
//! `restore-pii` reads. A text that already has `[EMAIL_1]` in it keeps it: that number is not given out, so a user who
//! types a placeholder gets back what was typed and nobody else's data.
//!
//! In a JSON value only strings are touched (and integers that are card numbers and the like), everything else stays as
//! it stands. Keys, headers and names of JSON members are not looked at. A string that is JSON itself, as the arguments of
//! a call are, is looked through as such, the names of its members included.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod find;
mod names;
mod placeholder;
mod redact;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_sdk::config::Place;
use tidegate_sdk::json::Paths;
use tidegate_sdk::{Changes, Configuration, Failure, Operator, Outcome, Record, operator};

use find::{Kind, Kinds};
use placeholder::Placeholders;
use redact::{Field, Rules};

/// The private attribute with the map of placeholders to originals, JSON.
pub const ATTRIBUTE: &str = "pii.map";

/// What is replaced, and where.
#[derive(Debug, Configuration)]
pub struct Config {
    /// Kinds to look for; all without it.
    #[config(length = 1..)]
    pub types: Option<Vec<Kind>>,
    /// Members of a JSON value to look through, as "text" or "customer.note"; every string without it.
    pub paths: Paths,
    /// Members that are personal data as a whole, and the label of their placeholders, as name = "NAME".
    #[config(default)]
    pub fields: BTreeMap<String, Label>,
    /// What becomes of a value that is not UTF-8, and cannot be looked through.
    #[config(default)]
    pub binary: Binary,
}

/// What becomes of a value that is not UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Configuration)]
pub enum Binary {
    /// It goes to the dead letters.
    #[default]
    DeadLetter,
    /// It goes on, unseen.
    Pass,
}

/// What stands in a placeholder before its number: `NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

impl Configuration for Label {
    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[A-Z][A-Z0-9_]{0,31}$"})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<Label, String> {
        let label = String::read(json, place)?;
        let good = label.starts_with(|letter: char| letter.is_ascii_uppercase())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && label.len() <= 32;
        match good {
            true => Ok(Label(label)),
            false => Err(place.wrong(
                json,
                "up to 32 of A-Z, 0-9 and _, beginning with a letter, as \"NAME\"",
            )),
        }
    }

    fn show(&self) -> Value {
        Value::from(self.0.as_str())
    }
}

/// The operator.
#[derive(Debug)]
pub struct RedactPii {
    rules: Rules,
    binary: Binary,
}

#[operator(name = "redact-pii", reads = ["value", "attributes"], panics = "trap")]
impl Operator for RedactPii {
    type Config = Config;

    fn new(config: Config) -> Result<RedactPii, Failure> {
        let mut fields = Vec::new();
        for (path, label) in config.fields {
            let path = Paths::configured(&format!("fields.{path}"), Some(&[path]))?;
            fields.push(Field {
                path,
                label: label.0,
            });
        }
        Ok(RedactPii {
            rules: Rules {
                kinds: config.types.map_or(Kinds::ALL, |kinds| Kinds::of(&kinds)),
                paths: config.paths,
                fields,
            },
            binary: config.binary,
        })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        let Some(value) = record.value() else {
            return Outcome::Pass;
        };
        let Ok(value) = std::str::from_utf8(value) else {
            return match self.binary {
                Binary::Pass => Outcome::Pass,
                Binary::DeadLetter => {
                    Outcome::dead_letter("value is not UTF-8, personal data in it cannot be found")
                }
            };
        };
        let mut placeholders = Placeholders::default();
        if let Some(map) = record.attribute(ATTRIBUTE) {
            let taken = std::str::from_utf8(map).map_err(|error| error.to_string());
            if let Err(why) = taken.and_then(|map| placeholders.take_over(map)) {
                return Outcome::dead_letter(format!(
                    "attribute `{ATTRIBUTE}` cannot be read: {why}"
                ));
            }
        }
        match self.rules.redact(value, &mut placeholders) {
            Some(redacted) if !placeholders.is_empty() => Outcome::replace(
                Changes::new()
                    .value(redacted)
                    .attribute(ATTRIBUTE, placeholders.map()),
            ),
            _ => Outcome::Pass,
        }
    }
}

#[cfg(test)]
mod tests;
