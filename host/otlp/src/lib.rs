//! Sends spans and metrics to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! The only crate that names `opentelemetry*`, and of that only the messages, as OpenTelemetry publishes them. Its SDK
//! is left out on purpose: its batches drop what does not fit without saying so, and spans here are values that were
//! made and counted before (`tidegate_telemetry::trace`). No tonic and no reqwest either: the HTTP client is the one that
//! remote models are asked with. It knows no pipeline and no record.
//!
//! Invariants:
//! - whoever makes spans never waits for this crate, and neither does the end of a run for longer than it allows;
//! - every span that is taken from the queue is counted once: exported, or failed; so is every point of a metric;
//! - every request has a deadline, what is read of an answer has a limit, and a collector that is away is asked the less
//!   often the longer it is;
//! - a collector's address may be told, the headers that are sent to it are not.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod away;
mod client;
mod end;
mod exporter;
mod measurements;
mod metrics;
mod options;
mod spans;
mod traces;
mod trouble;
mod wire;

pub use exporter::{Exporter, Exports, Gather, Metrics};
pub use options::{Collector, Endpoint, OtlpError, Resource, without_secrets};
