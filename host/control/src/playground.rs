//! What the admin API says of the playground: a model that is asked, and a record that is run through the pipeline and
//! written nowhere.

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_contract::Entity;

use crate::api::{list, or_default};

/// Longest value of a record that is tried, bytes.
pub const MAX_TRIED: usize = 1 << 20;
/// Longest key of a record that is tried, bytes, and most bytes of its headers.
pub const MAX_TRIED_HEAD: usize = 64 << 10;
/// Most headers of a record that is tried.
pub const MAX_TRIED_HEADERS: usize = 64;
/// Longest that a trial of a record may take, seconds.
pub const MAX_TRIED_SECONDS: u32 = 60;
/// How long a trial of a record may take, seconds, the least and the most.
pub(crate) const TRIED_SECONDS: (u32, u32) = (1, MAX_TRIED_SECONDS);
/// Longest prompt or system message of a question, bytes.
pub const MAX_PROMPT: usize = 64 << 10;
/// Most tokens of an answer.
pub const MAX_ANSWER: u32 = 2048;
/// How many tokens an answer may be given, the least and the most.
pub(crate) const ANSWER_TOKENS: (u32, u32) = (1, MAX_ANSWER);
/// Most that a temperature can be.
pub(crate) const MAX_TEMPERATURE: f64 = 2.0;

/// A question to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelQuestion {
    /// The model's name in the pipeline file.
    pub model: String,
    /// What is asked: the user's message, or the text of an encoder.
    pub prompt: String,
    /// The system message, if there is one.
    #[serde(default)]
    pub system: Option<String>,
    /// Whether the prompt goes to the model as it is, without its chat template.
    #[serde(default, deserialize_with = "or_default")]
    pub raw: bool,
    /// Most tokens of the answer.
    #[serde(default = "usual_tokens", deserialize_with = "or_usual_tokens")]
    pub max_tokens: u32,
    /// 0 takes the likeliest token each time.
    #[serde(default, deserialize_with = "or_default")]
    pub temperature: f64,
    /// Seed of the sampling.
    #[serde(default, deserialize_with = "or_default")]
    pub seed: u64,
}

fn usual_tokens() -> u32 {
    256
}

/// Null is as if it were not there.
fn or_usual_tokens<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(usual_tokens))
}

impl ModelQuestion {
    /// What is wrong with it, whatever model it is for: the value and its limit.
    pub fn fault(&self) -> Option<String> {
        let system = self.system.as_deref().unwrap_or_default();
        for (name, text) in [("prompt", self.prompt.as_str()), ("system", system)] {
            if text.len() > MAX_PROMPT {
                let bytes = text.len();
                return Some(format!("{name} has {bytes} bytes, more than {MAX_PROMPT}"));
            }
        }
        let tokens = outside("max_tokens", self.max_tokens, ANSWER_TOKENS);
        if tokens.is_some() {
            return tokens;
        }
        if !(0.0..=MAX_TEMPERATURE).contains(&self.temperature) {
            let heat = self.temperature;
            return Some(format!(
                "temperature {heat:?} is not from 0 to {MAX_TEMPERATURE}"
            ));
        }
        let raw = self.raw && self.system.is_some();
        raw.then(|| "a raw prompt has no system message: it goes to the model as it is".to_owned())
    }
}

/// Somebody who hears an answer as it is made. Neither call waits for long.
pub trait Hearer: Sync {
    /// The model has taken the question.
    fn begins(&self);

    /// The next part of the text, and how many tokens have been made.
    fn hears(&self, text: &str, tokens: u32);

    /// Whether anybody still does: if not, what is asked ends.
    fn is_there(&self) -> bool;
}

/// How a question to a model has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// Why there is no answer, or no more of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// How the text ended: `end`, `stop` or `length`; empty where there is none.
    pub finish: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub tokens: u32,
    /// From asking to the first step of the model, milliseconds. Of another server nobody knows.
    pub queued_ms: f64,
    /// From there to the first token.
    pub prefill_ms: f64,
    /// From the first token to the last.
    pub decode_ms: f64,
    /// From asking to the end.
    pub ms: f64,
    /// Of a model that classifies: labels with their probabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, f32)>,
    /// Of a model that labels tokens: the entities of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<Entity>>,
    /// Of a model that embeds: how long the vector is, and its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<(usize, Vec<f32>)>,
}

/// A record to be tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TryRecord {
    /// The source that it is read from, as it were: its format, key and required fields hold.
    pub source: String,
    /// Its key, if it comes with one.
    #[serde(default)]
    pub key: Option<String>,
    /// What is decoded.
    pub value: String,
    /// Its headers: name and value.
    #[serde(default, deserialize_with = "or_default")]
    pub headers: Vec<(String, String)>,
    /// Whether models are asked. Without, what would go to a model ends before it.
    #[serde(default, deserialize_with = "or_default")]
    pub ask: bool,
    /// How long it may take, seconds; without, as long as any may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

impl TryRecord {
    /// What is wrong with it, whatever the pipeline is: the value and its limit.
    pub fn fault(&self) -> Option<String> {
        let too_long = |what: &str, bytes: usize, most: usize| {
            (bytes > most).then(|| format!("{what} of {bytes} bytes exceeds {most}"))
        };
        let headers = self.headers.iter();
        let of_headers = headers.map(|(name, value)| name.len() + value.len()).sum();
        let number = self.headers.len();
        let key = self.key.as_ref().map_or(0, String::len);
        too_long("a value", self.value.len(), MAX_TRIED)
            .or_else(|| too_long("a key", key, MAX_TRIED_HEAD))
            .or_else(|| too_long("headers", of_headers, MAX_TRIED_HEAD))
            .or_else(|| {
                let many = number > MAX_TRIED_HEADERS;
                many.then(|| format!("{number} headers are more than {MAX_TRIED_HEADERS}"))
            })
            .or_else(|| outside("seconds", self.seconds?, TRIED_SECONDS))
    }
}

/// What is wrong with a number of this name that has these limits.
fn outside(name: &str, number: u32, (least, most): (u32, u32)) -> Option<String> {
    (!(least..=most).contains(&number))
        .then(|| format!("{name} {number} is not from {least} to {most}"))
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TriedRecord {
    /// The record as its source gave it; nothing if it could not be decoded.
    pub read: Vec<TriedValue>,
    /// The stages that it came to, in the order of the file.
    pub stages: Vec<TriedStage>,
    /// What sinks would have been given to write.
    pub written: Vec<TriedValue>,
    /// Dead letters.
    pub dead: Vec<TriedDeath>,
    /// How long all of it took, milliseconds.
    pub ms: f64,
    /// Why it was ended before its end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether more came of it than is here.
    pub cut: bool,
    /// Rows of CSV that were given after the first, which alone was tried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rows_left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a stage made of the record, or of what came of it before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TriedStage {
    /// Its name.
    pub name: String,
    /// Of an operator: its name for itself and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<(String, String)>,
    /// Records that came to it.
    #[serde(rename = "in")]
    pub input: u64,
    /// Records that it dropped.
    pub dropped: u64,
    /// Records that died here.
    pub dead: u64,
    /// Times that it sent one to retry.
    pub retried: u64,
    /// How long its calls took, milliseconds.
    pub ms: f64,
    /// Whether it asks a model that was not asked.
    pub unasked: bool,
    /// What it sent on.
    pub output: Vec<TriedValue>,
    /// What its operator said: level and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<(String, String)>,
    /// Lines of it that are left out after those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_left_out: u64,
    /// For what it waited when the trial was ended by its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// A record at some place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedValue {
    /// The output of the stage, empty for the main one; or the sink.
    pub at: String,
    /// Its key.
    pub key: Option<String>,
    /// The beginning of its value; what is no text is shown as well as can be.
    pub value: Option<String>,
    /// Length of the whole value, bytes.
    pub length: u64,
    /// What of it is shown in part: of `key`, `value` and headers by name the whole length in bytes, and under `headers`
    /// how many there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<(String, u64)>,
    /// Its headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

/// A dead letter that was written nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedDeath {
    /// The stage or sink that gave up, or `decode`.
    pub stage: String,
    /// Why.
    pub reason: String,
    /// Length of the whole reason in bytes, where its beginning is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
}

/// What cannot be asked or tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaygroundRefused {
    /// There is no such source or model.
    #[error("there is no {kind} {name:?}; there are: {}", list(.known))]
    Unknown {
        /// `source` or `model`.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// It cannot be run here.
    #[error("{0}")]
    Refused(String),
    /// The model has no room now.
    #[error("{0}; the stream goes first, so try again")]
    Busy(String),
    /// The host does not run yet, or is ending.
    #[error("the pipeline is starting or ending; try again when it runs")]
    NotRunning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_named_with_its_limit() {
        let question = ModelQuestion {
            prompt: "hello".into(),
            max_tokens: 1,
            ..ModelQuestion::default()
        };
        assert_eq!(question.fault(), None);
        type Change = fn(&mut ModelQuestion);
        let faults: [(Change, &str); 7] = [
            (
                |q| q.prompt = "x".repeat(MAX_PROMPT + 1),
                "prompt has 65537 bytes, more than 65536",
            ),
            (
                |q| q.system = Some("x".repeat(MAX_PROMPT + 1)),
                "system has 65537 bytes",
            ),
            (|q| q.max_tokens = 0, "max_tokens 0 is not from 1 to 2048"),
            (
                |q| q.max_tokens = 2049,
                "max_tokens 2049 is not from 1 to 2048",
            ),
            (
                |q| q.temperature = f64::NAN,
                "temperature NaN is not from 0 to 2",
            ),
            (
                |q| q.temperature = 1e308,
                "temperature 1e308 is not from 0 to 2",
            ),
            (
                |q| (q.raw, q.system) = (true, Some(String::new())),
                "a raw prompt has no system message",
            ),
        ];
        for (change, words) in faults {
            let mut question = question.clone();
            change(&mut question);
            let fault = question.fault().unwrap();
            assert!(fault.starts_with(words), "{fault}");
        }
        type Alter = fn(&mut TryRecord);
        let faults: [(Alter, &str); 5] = [
            (
                |r| r.value = "x".repeat(MAX_TRIED + 1),
                "a value of 1048577 bytes exceeds 1048576",
            ),
            (
                |r| r.key = Some("x".repeat(MAX_TRIED_HEAD + 1)),
                "a key of 65537 bytes exceeds 65536",
            ),
            (
                |r| r.headers = vec![("n".into(), "x".repeat(MAX_TRIED_HEAD))],
                "headers of 65537 bytes exceeds 65536",
            ),
            (
                |r| r.headers = vec![Default::default(); 65],
                "65 headers are more than 64",
            ),
            (|r| r.seconds = Some(61), "seconds 61 is not from 1 to 60"),
        ];
        for (alter, words) in faults {
            let mut record = TryRecord::default();
            alter(&mut record);
            assert_eq!(record.fault().as_deref(), Some(words));
        }
    }
}
