//! The summary of a run, as a file for programs and as a table for people.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::format::{count, decimal, milliseconds};

/// What a run did.
///
/// Records are accounted for: what was read, and what splits added, is written, dropped, dead or still in flight, so
/// `in + split = out + dropped + dead + in_flight`, with nothing in flight after a run that ended by itself. A record
/// that goes to several sinks counts once for each, and each copy beyond the first counts as split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the pipeline.
    pub pipeline: String,
    /// How long it ran, seconds.
    pub seconds: f64,
    /// What became of the records.
    pub records: Records,
    /// Records read a second.
    pub records_per_second: f64,
    /// From read to committed, milliseconds.
    pub latency_ms: LatencyMs,
    /// Tokens made.
    pub tokens: u64,
    /// Tokens made a second.
    pub tokens_per_second: f64,
    /// The adapter models ran on, if there was a model.
    pub adapter: Option<String>,
    /// What the models did.
    pub model: ModelTotals,
    /// Cuts committed.
    pub cuts: u64,
    /// Deployments that switched.
    pub swaps: u64,
    /// Longest time a task waited for a switch, milliseconds.
    pub longest_swap_wait_ms: f64,
    /// What each slot ran at the end, in the order of the file.
    pub slots: Vec<SlotSummary>,
}

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Read from the sources, those that could not be decoded included.
    #[serde(rename = "in")]
    pub input: u64,
    /// Written to the sinks.
    #[serde(rename = "out")]
    pub output: u64,
    /// Dropped by operators.
    pub dropped: u64,
    /// Ended as dead letters.
    pub dead: u64,
    /// Records that came of others: of a split into n, n - 1; of a fan-out to n, n - 1.
    pub split: u64,
    /// Sent back to an operator or a model once more; the record is counted in `in` once.
    pub retried: u64,
    /// Not finished when the run ended; they go on from the commit log.
    pub in_flight: u64,
}

/// A distribution of times, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// Half are faster.
    pub p50: f64,
    /// 95 of 100 are faster.
    pub p95: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// None is slower.
    pub max: f64,
}

/// What the models did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTotals {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that ended without an answer.
    pub failed: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub generated_tokens: u64,
}

/// What a slot ran at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSummary {
    /// Its name: that of the stage.
    pub slot: String,
    /// The operator's name for itself.
    pub name: String,
    /// The operator's version.
    pub version: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

impl Summary {
    /// As a JSON file, with a final line end.
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of numbers and strings always becomes JSON; numbers that are not finite become null.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// As a table for people.
    pub fn table(&self) -> String {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        row("records in", self.with_rate(self.records.input));
        row("records out", count(self.records.output));
        row("dropped", count(self.records.dropped));
        row("dead letters", count(self.records.dead));
        for (name, number) in [
            ("from splits", self.records.split),
            ("retried", self.records.retried),
            ("in flight", self.records.in_flight),
        ] {
            if number > 0 {
                row(name, count(number));
            }
        }
        let latency = &self.latency_ms;
        row(
            "latency",
            format!(
                "p50 {}  p95 {}  p99 {}  max {}",
                milliseconds(latency.p50),
                milliseconds(latency.p95),
                milliseconds(latency.p99),
                milliseconds(latency.max)
            ),
        );
        if self.model.requests > 0 || self.tokens > 0 {
            row(
                "tokens",
                format!(
                    "{} ({}/s), of {} prompt tokens in {} requests",
                    count(self.tokens),
                    decimal(self.tokens_per_second),
                    count(self.model.prompt_tokens),
                    count(self.model.requests)
                ),
            );
        }
        if let Some(adapter) = &self.adapter {
            row("adapter", adapter.clone());
        }
        if self.swaps > 0 {
            row(
                "swaps",
                format!(
                    "{}, longest wait {}",
                    count(self.swaps),
                    milliseconds(self.longest_swap_wait_ms)
                ),
            );
        }
        for slot in &self.slots {
            row(
                &format!("slot {}", slot.slot),
                format!("{} {} {}", slot.name, slot.version, short(&slot.digest)),
            );
        }
        let width = rows
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let mut table = format!("{} in {:.2} s\n", self.pipeline, self.seconds);
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "  {name:width$}  {value}");
        }
        table
    }

    fn with_rate(&self, number: u64) -> String {
        format!("{} ({}/s)", count(number), decimal(self.records_per_second))
    }
}

/// The beginning of a digest, enough to tell two apart.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}
