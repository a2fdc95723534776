//! The pipeline at run time: workers, tasks and cuts.
//!
//! A worker is an OS thread that owns sources, sinks and tasks. A task is one input partition's run of the pipeline: a
//! fold over one sequence of events (a batch came, an answer came, a retry is due, a deployment came), so no lock
//! stands on the way of a record. A cut closes over everything a worker's tasks have done since the last one.
//!
//! This crate knows the ports of `contract` and none of what stands behind them: no wasm, no GPU, no file, no broker.
//!
//! Invariants:
//! - between two events a task is whole: a cut is only ever taken there;
//! - a cut that was begun may come to nothing: then all tasks of the worker go back to the last one that holds, and
//!   requests that models have are kept for the records they were made for;
//! - what a step costs does not grow with what waits;
//! - every record that came in is in flight, or went out, was dropped, or is a dead letter; the counters of each cut
//!   say so: `in + split = out + dropped + dead + in flight`;
//! - nothing holds a worker for longer than a few turns of 100 ms, or calls of an operator that take longer, before it
//!   looks after cuts, deployments, sources and its other tasks;
//! - a stage that has no instance of its operator keeps its records waiting, uncounted and in order, and is tried again;
//! - a cut names the version of a slot that every task runs, or the last that every task ran;
//! - a task whose waiting stages are full is not read; nothing is dropped for lack of room.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod asked;
mod audit;
mod begin;
mod counts;
mod entry;
mod error;
mod feeding;
mod handlers;
mod hearing;
mod kept;
mod ledger;
mod makers;
mod output;
mod pieces;
mod prompt;
mod pulse;
mod ranking;
mod refused;
mod run;
mod running;
mod showing;
mod stored;
mod task;
mod topology;
mod traced;
mod versions;
mod waiting;
mod worker;

pub use counts::Counts;
pub use error::FlowError;
pub use makers::{Makers, Outdated};
pub use pulse::WorkerHealth;
pub use run::{Controls, Ended, Run, SwitchReport, WorkerParts};
pub use topology::{
    Alternative, AnswerInto, Ask, Called, Heard, ModelStage, OperatorStage, Order, Positions,
    PromptTurn, Source, Stage, StageKind, Target, Topology, USUAL_CLASS,
};
