//! The wasm room against real components: what operators answer, and how hostile ones end.
//!
//! The guests are built by `cargo xtask operators`; `fixtures/` holds the few that are committed as binaries.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod cache;
mod components;
mod contract;
mod deploy;
mod descriptions;
mod functions;
mod handlers;
mod heard;
mod hostile;
mod lifting;
mod made;
mod plain;
mod released;
mod revisions;
mod room;
mod schemas;
mod slow;
mod support;
mod tokens;
mod toolchains;
mod wasi;
