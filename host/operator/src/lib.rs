//! The wasm room: runs users' operators as sandboxed WebAssembly components.
//!
//! An [`Engine`] compiles components, a [`ComponentSlot`] holds the revision that runs (a component with configuration,
//! grants and limits) and hands out instances, an instance answers for batches. Only this crate names wasmtime.
//!
//! It does not know where batches come from, what becomes of outcomes, when a slot is deployed to or how often it may
//! fail: that is the pipeline's. It keeps nothing on disk but compiled code.
//!
//! # Invariants
//!
//! - An operator reaches only what its slot grants: an import beyond that keeps it from starting, or a call of it is a
//!   trap, by name. WASI interfaces are there and empty (environment, arguments, files, network), their clocks stand at
//!   the batch's clock and move only by what the guest waits, and nothing in them waits in fact.
//! - A guest is bounded in time, memory, tables, output, log lines and counters ([`Limits`]), whatever it does; none of
//!   the host functions blocks.
//! - What a guest says of itself and of its failures is bounded before it is copied, and can be shown as it is when it
//!   leaves this crate: one line, no control characters.
//! - A failed call costs the instance and never the call: every record of a batch is answered or named as poison, in
//!   order, once, or is among the last that come again untried. What a failed call has counted does not count.
//! - A record is poison only if a call for it alone failed, with the whole of the deadline.
//! - An answer that is handed out has been checked: one outcome for each record, all payloads inside, all outputs known.
//! - A deployment that fails leaves the running version as it is.
//! - Instances share no pool: what one component takes keeps no other from starting. An instance that cannot be started
//!   leaves its records unanswered, to come again; no panic of a library that works on a component ends the host.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod breaker;
mod budget;
mod cache;
mod call_size;
mod census;
mod compiler;
mod component;
mod description;
mod ending;
mod engine;
mod failure;
mod given;
mod grants;
mod guest;
mod host;
mod instance;
mod json;
mod last_words;
mod limits;
mod listener;
mod meters;
mod metrics;
mod names;
mod panics;
mod recent;
mod remembered;
mod revision;
mod samples;
mod schema;
mod shared;
mod slot;
mod spares;
mod ticker;
mod tokens;
mod ungranted;
mod wasi;
mod world;

pub use breaker::Breaker;
pub use compiler::{ChildCompiler, CompileLimits, Compiler, compile_for_parent};
pub use component::Component;
pub use description::Description;
pub use ending::Ending;
pub use engine::{Engine, EngineOptions, KeptFunctions};
pub use given::Given;
pub use grants::{Grants, Ungranted, UnknownGrant};
pub use json::check as check_json;
pub use limits::Limits;
pub use listener::{Level, Listener};
pub use meters::{OUTCOMES, RevisionStats};
pub use metrics::{Kind, Metric, SERIES_REFUSED, SPREAD, Value};
pub use recent::{LogLine, LogLines};
pub use shared::SlotStats;
pub use slot::{Change, ComponentSlot, Deployment, RevisionMetrics, RevisionReport, SlotOptions};
pub use tidegate_component::digest;
