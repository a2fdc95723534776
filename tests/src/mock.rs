//! What the model of `tidegate-with-mock` answers, so that a test knows it beforehand, and what it logs of its calls.

use std::path::Path;
use std::time::Duration;

use crate::Random;

/// The variable that puts a fault into `tidegate-with-mock`.
pub const PLANTED: &str = "TIDEGATE_PLANTED";
/// Records that were polled are kept while their partition is another's.
pub const RECORDS_KEPT: &str = "records-kept";
/// Offsets are committed before the outputs of their records.
pub const OFFSETS_FIRST: &str = "offsets-first";

/// The variable that names the topic to which `tidegate-with-mock` sends tokens as they are made, at its source's brokers.
pub const TOKENS_TO: &str = "TIDEGATE_TOKENS_TO";
/// The variable that has each process answer in its own words after what an answer has already, as a model does that is
/// not reproducible.
pub const DRIFTS: &str = "TIDEGATE_DRIFTS";

/// The variable that has a process stop in the middle of some answers, until it is killed.
pub const HOLDS: &str = "TIDEGATE_HOLDS";

/// Tokens of an answer.
pub const TOKENS: usize = 8;

/// A call of the model, as a line of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The rendered prompt, by which a test knows the record.
    pub prompt: String,
    /// Counted from 1.
    pub attempt: u32,
    /// Tokens it was told to go on from.
    pub forced: Vec<u32>,
}

impl Call {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let line = serde_json::json!({
            "prompt": self.prompt, "attempt": self.attempt, "forced": self.forced,
        });
        format!("{line}\n")
    }

    /// The calls of a log. A line that a kill cut short is none.
    pub fn read(path: &Path) -> Vec<Call> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(Call::parse).collect()
    }

    fn parse(line: &str) -> Option<Call> {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let forced = line["forced"].as_array()?.iter();
        Some(Call {
            prompt: line["prompt"].as_str()?.to_owned(),
            attempt: line["attempt"].as_u64()? as u32,
            forced: forced
                .map(|token| token.as_u64().map(|token| token as u32))
                .collect::<Option<_>>()?,
        })
    }
}

/// The tokens of a prompt's answer, whoever makes it and however often it is resumed.
pub fn tokens(prompt: &str) -> [u32; TOKENS] {
    let mut random = random(0, prompt);
    std::array::from_fn(|_| random.below(50_000) as u32)
}

/// Whether the answer to this prompt, a number, stops in the middle where [`HOLDS`] is set.
pub fn is_held(prompt: &str) -> bool {
    prompt
        .parse()
        .is_ok_and(|number: u64| number.is_multiple_of(8))
}

/// The text of these tokens.
pub fn text(tokens: &[u32]) -> String {
    let words: Vec<String> = tokens.iter().map(|token| format!("{token:x}")).collect();
    words.join(" ")
}

/// How long the whole answer takes: 200 ms, 150 more or less.
pub fn takes(seed: u64, prompt: &str) -> Duration {
    Duration::from_millis(50 + random(seed, prompt).below(301))
}

fn random(seed: u64, text: &str) -> Random {
    Random(text.bytes().fold(seed, |sum, byte| {
        sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
    }))
}
