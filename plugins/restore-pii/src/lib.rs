//! `restore-pii`: puts back what `redact-pii` replaced by placeholders.
//!
//! It reads the private attribute `pii.map` and replaces every placeholder that stands in it by the original, in one
//! pass: an original that looks like a placeholder is not looked at again. A placeholder the map does not know stays.
//! Then the attribute is removed. In a JSON value only strings are touched, and stay valid, those that are JSON themselves
//! too; a number that was redacted is a number again where its placeholder is the whole string.
//!
//! On tokens it does the same while an answer is made, in what is said, in what is thought and in the arguments of calls,
//! never in their ids and names. What is JSON stays so there, in a string of a string too: an original is escaped as often as
//! strings are around it. A number stays text where its placeholder was the whole string: the quote before it has been read
//! already.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod map;
mod stream;

use tidegate_sdk::json::{
    Edits, MAX_NESTED, Paths, Scalar, looks_like_json, scalars_and_names, strings,
};
use tidegate_sdk::{
    Changes, Configuration, Failure, Lane, Operator, Outcome, Record, Through, Tokens, operator,
};

use map::Map;
use stream::Restoring;

/// The attribute in which `redact-pii` keeps the originals.
pub const ATTRIBUTE: &str = "pii.map";

/// Where placeholders are replaced.
#[derive(Debug, Configuration)]
pub struct Config {
    /// Members of a JSON value to restore in, as "answer"; every string without it.
    pub paths: Paths,
    /// Private attributes to restore in as well, as "answer".
    #[config(default, each(length = 1..))]
    pub attributes: Vec<String>,
}

/// The operator.
#[derive(Debug)]
pub struct RestorePii {
    paths: Paths,
    attributes: Vec<String>,
}

#[operator(name = "restore-pii", reads = ["value", "attributes"], panics = "trap", tokens)]
impl Operator for RestorePii {
    type Config = Config;

    fn new(config: Config) -> Result<RestorePii, Failure> {
        if config.attributes.iter().any(|name| name == ATTRIBUTE) {
            return Err(format!(
                "config key `attributes` has {ATTRIBUTE:?}; name attributes with text, as \"answer\""
            )
            .into());
        }
        Ok(RestorePii {
            paths: config.paths,
            attributes: config.attributes,
        })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        let Some(map) = record.attribute(ATTRIBUTE) else {
            return Outcome::Pass;
        };
        let map = match Map::read(map) {
            Ok(map) => map,
            Err(why) => {
                return Outcome::dead_letter(format!(
                    "attribute `{ATTRIBUTE}` cannot be read: {why}"
                ));
            }
        };
        let mut changes = Changes::new().remove_attribute(ATTRIBUTE);
        if let Ok(text) = record.text()
            && let Some(restored) = self.restore(&map, text)
        {
            changes = changes.value(restored);
        }
        for name in &self.attributes {
            let text = record.attribute_text(name);
            if let Some(restored) = text.and_then(|text| map.restore(text)) {
                changes = changes.attribute(name, restored);
            }
        }
        Outcome::replace(changes)
    }
}

impl Tokens for RestorePii {
    type Answer = Restoring;

    fn open(&self, lane: &Lane<'_>) -> Result<Restoring, Failure> {
        let map = lane.attribute(ATTRIBUTE).map(Map::read).transpose();
        let map = map.map_err(|why| {
            let why = format!("attribute `{ATTRIBUTE}` cannot be read: {why}");
            Failure::permanent("bad-map", why)
        })?;
        Ok(Restoring::new(map, lane.kind))
    }

    fn step(&self, answer: &mut Restoring, text: &str, last: bool) -> Through {
        answer.step(text, last)
    }
}

impl RestorePii {
    /// The text with originals in it, if there are any to put.
    fn restore(&self, map: &Map, text: &str) -> Option<String> {
        if looks_like_json(text) {
            let mut edits = Edits::default();
            let walked = strings(text, |place, string| {
                if !self.paths.cover(place) {
                    return;
                }
                let decoded = string.decoded();
                if let Some(number) = map.number(&decoded) {
                    edits.replace_by_number(&string, number);
                } else if let Some(restored) = within(map, &decoded, 1) {
                    edits.replace(&string, &restored);
                }
            });
            if walked.is_ok() {
                return (!edits.is_empty()).then(|| edits.apply(text));
            }
        }
        map.restore(text)
    }
}

/// A string of a JSON value with originals in it. One that is JSON itself, as the arguments of a call are, stays so, and
/// so do its strings that are. `depth` is how many strings it stands in.
fn within(map: &Map, text: &str, depth: usize) -> Option<String> {
    if depth < MAX_NESTED && text.trim_start().starts_with(['{', '[']) {
        let mut edits = Edits::default();
        let walked = scalars_and_names(text, |_, scalar| match scalar {
            Scalar::String(string) => {
                let decoded = string.decoded();
                if let Some(number) = map.number(&decoded) {
                    edits.replace_by_number(&string, number);
                } else if let Some(restored) = within(map, &decoded, depth + 1) {
                    edits.replace(&string, &restored);
                }
            }
            Scalar::Name(name) => {
                if let Some(restored) = map.restore(&name.decoded()) {
                    edits.replace(&name, &restored);
                }
            }
            Scalar::Number(_) => {}
        });
        if walked.is_ok() {
            return (!edits.is_empty()).then(|| edits.apply(text));
        }
    }
    map.restore(text)
}

#[cfg(test)]
mod tests;
