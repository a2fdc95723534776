//! Telemetry: events that log and count at once, meters, latencies, spans, and what a run says of itself.
//!
//! Every room may emit. This crate deliberately knows no file, no network and no terminal: it makes text, and who
//! called it writes it. It sets up no subscriber either; that is the binary's choice.
//!
//! Invariants:
//! - an event is counted and logged by one call, so that figures and log lines cannot disagree;
//! - counting never blocks and never fails; the way of a record takes no lock that another worker holds;
//! - a span that is made is exported, or counted as dropped: whoever makes it never waits;
//! - metrics are named `tidegate_<noun>_<unit>_total`, and a name never changes its meaning.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod edges;
mod ends;
pub mod events;
mod format;
mod lag;
mod lately;
mod latency;
mod meters;
pub mod metrics;
mod plain;
mod progress;
mod summary;
pub mod trace;
mod works;

pub use edges::{Edges, Sender, Taker};
pub use ends::{CutClock, SinkMeters, SourceLag, SourceMeters};
pub use format::{count, decimal, milliseconds, size};
pub use lag::{PartitionLag, SourcePart, UnreadNow};
pub use latency::LatencyRecorder;
pub use meters::{Counter, Meters, Snapshot, StageMeters, Unavailable};
pub use plain::{is_plain, plain, plain_json};
pub use progress::ProgressLine;
pub use summary::{LatencyMs, ModelTotals, Records, SlotSummary, Summary};
pub use works::{UnderWay, Work, WorkKind, Works, work_line};

#[cfg(test)]
mod tests;
