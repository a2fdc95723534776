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
//! it stands. Keys, headers and names of JSON members are not looked at.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod find;
mod names;
mod placeholder;
mod redact;

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_sdk::json::Paths;
use tidegate_sdk::{Operator, Outcome, Record, operator};

use find::{Kind, Kinds};
use placeholder::Placeholders;
use redact::{Field, Rules};

/// The private attribute with the map of placeholders to originals, JSON.
pub const ATTRIBUTE: &str = "pii.map";

/// The configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Kinds to look for; all without it.
    pub types: Option<Vec<String>>,
    /// Members of a JSON value to look through; every string without it.
    pub paths: Option<Vec<String>>,
    /// Members that are personal data as a whole, and the label of their placeholders.
    pub fields: BTreeMap<String, String>,
    /// What becomes of a value that is not UTF-8.
    pub binary: Binary,
}

/// What becomes of a value that is not UTF-8, and cannot be looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binary {
    /// It goes to the dead letters.
    #[default]
    DeadLetter,
    /// It goes on, unseen.
    Pass,
}

/// The operator.
#[derive(Debug)]
pub struct RedactPii {
    rules: Rules,
    binary: Binary,
}

#[operator(name = "redact-pii", reads = ["value", "attributes"])]
impl Operator for RedactPii {
    type Config = Config;
    const CONFIG_SCHEMA: &'static str = include_str!("../config.schema.json");

    fn new(config: Config) -> Result<RedactPii, String> {
        let kinds = match &config.types {
            Some(names) => Kinds::of(&kinds(names)?),
            None => Kinds::ALL,
        };
        let mut fields = Vec::new();
        for (path, label) in config.fields {
            let key = format!("fields.{path}");
            let good = label.starts_with(|letter: char| letter.is_ascii_uppercase())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
                && label.len() <= 32;
            if !good {
                return Err(format!(
                    "config key `{key}` is {label:?}; a label is up to 32 of A-Z, 0-9 and _, beginning with a letter, as \"NAME\""
                ));
            }
            let path = Paths::configured(&key, Some(&[path]))?;
            fields.push(Field { path, label });
        }
        Ok(RedactPii {
            rules: Rules {
                kinds,
                paths: Paths::configured("paths", config.paths.as_deref())?,
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
            Some(redacted) if !placeholders.is_empty() => Outcome::replace()
                .value(redacted)
                .attribute(ATTRIBUTE, placeholders.map()),
            _ => Outcome::Pass,
        }
    }
}

fn kinds(names: &[String]) -> Result<Vec<Kind>, String> {
    if names.is_empty() {
        return Err(
            "config key `types` is an empty list; leave it out for all, or name some".to_owned(),
        );
    }
    let kind = |name: &String| {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                format!(
                    "config key `types` has {name:?}; it can have {:?}",
                    Kind::ALL.map(Kind::name)
                )
            })
    };
    names.iter().map(kind).collect()
}

#[cfg(test)]
mod tests;
