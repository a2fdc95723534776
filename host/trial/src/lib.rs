//! A built operator outside a pipeline: cases and what they should come to, records to try it on, and what it costs.
//!
//! It runs components in the `operator` room, with production's limits, bisection and retries, and knows no language:
//! how a component is built is another room's. Streams, models and disks are not here either.
//!
//! # Invariants
//!
//! - Every mistake in a file of cases is said with its file, its line, its case and its member.
//! - Each case has an instance that was started for it, so cases do not depend on their order.
//! - A case passes only if its records come to the same one by one: answers that depend on how records are batched differ
//!   after a failure, or with another source. So it is with a text that a model makes, however it is cut.
//! - Files, cases, records, lines and time are bounded; what is shown of an operator's words cannot disturb a terminal.
//! - Of a file that is updated only what differs is written anew.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod became;
mod bench;
mod cases;
mod compare;
mod heard;
mod json;
mod metrics;
mod outcome;
mod records;
mod report;
mod run;
mod show;
mod tokens;
mod trial;
mod update;
mod write;

pub use answer::answer_all;
pub use became::Became;
pub use bench::{Bench, BenchError, BenchOptions, Speed, Start, bench};
pub use cases::{
    Case, CaseFile, CasesError, MAX_BYTES, MAX_CASES, MAX_FILE, MAX_RECORDS, MAX_RETRIES, SCHEMA,
};
pub use compare::Difference;
pub use json::Mistake;
pub use records::{BATCH, Lines, RecordsError, filled_records, read_records, sample_records};
pub use report::{CaseReport, Report};
pub use run::refuses_configuration;
pub use trial::{Options, Trial, TrialError, run_cases};
