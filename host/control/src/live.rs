//! What the page and `tidegate top` show beside the rest of the status.

use serde::{Deserialize, Serialize};

use crate::api::{ComponentVersion, Percentiles, SlotCounters};

/// A stage and what it did since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: StageRole,
    /// The model it asks, if it asks one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Records in, out, dropped, dead and retried.
    #[serde(flatten)]
    pub counters: SlotCounters,
    /// Batches it answered, or requests to its model.
    pub batches: u64,
    /// Records that have come to it and that it has not taken.
    pub inbox: u64,
    /// Records that wait in it: for an answer, a retry, or others of their lane.
    pub waiting: u64,
    /// Most that may wait in it, in all tasks together; 0 before anything has come.
    pub limit: u64,
    /// For how long it, or one after it, took no more, seconds since the start.
    pub full_seconds: f64,
    /// How long calls of its operator took, each with a batch, or requests to its model: of those since about ten seconds,
    /// if somebody looked then, else of all. As far as the buckets of the metrics tell.
    pub time_ms: Percentiles,
}

/// A source, what it has read since the start and how far it is behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its name.
    pub name: String,
    /// Records that were decoded.
    pub records: u64,
    /// Input that could not become a record.
    pub rejected: u64,
    /// Records that lie unread, where that is known.
    #[serde(default)]
    pub unread_records: Option<u64>,
    /// Bytes that do, where that is known.
    #[serde(default)]
    pub unread_bytes: Option<u64>,
    /// Age of the record that was read last, or nothing once all is read, seconds; none where records do not say when they
    /// arose.
    #[serde(default)]
    pub behind_seconds: Option<f64>,
}

/// The cuts since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CutsReport {
    /// Those that hold.
    pub held: u64,
    /// Those that came to nothing.
    pub aborted: u64,
    /// How old the oldest is that no cut may have, seconds.
    pub uncommitted_seconds: f64,
    /// How long those took that hold, as far as the buckets of the metrics tell.
    pub time_ms: Percentiles,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageRole {
    /// It runs a component.
    #[default]
    Operator,
    /// It asks a model.
    Model,
}

/// A deployment, as the status tells it: of those since the start, the last [`DEPLOYMENTS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentReport {
    /// When it ended, milliseconds since 1970.
    pub at: u64,
    /// The slot.
    pub slot: String,
    /// What was said when it was deployed.
    pub label: String,
    /// What the slot ran before.
    pub old: ComponentVersion,
    /// What it was to run, and runs if nothing went wrong; none of a component that could not be understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ComponentVersion>,
    /// Why it changed nothing, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the host did it by itself, because a breaker had opened.
    pub fell_back: bool,
}

/// Most deployments that are told.
pub const DEPLOYMENTS: usize = 20;

/// Lines of a slot's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReport {
    /// Those that are still there, the oldest first.
    pub lines: Vec<LogLine>,
    /// What `after` is to be for what comes next.
    pub next: u64,
    /// How many that were asked for are not among them: of a slot the last thousand lines are kept, 256 KiB of them at most,
    /// and of more than a hundred in a second none.
    pub missed: u64,
}

/// A line that an operator has logged, or has written to its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number in the slot, from 0.
    pub number: u64,
    /// When it was said, milliseconds since 1970.
    pub at: u64,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The text, without control characters, at most 4 KiB.
    pub text: String,
}
