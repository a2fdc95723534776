//! An operator's project on disk: a directory with an `operator.toml`, sources in one language, and the SDK in `tidegate/`.
//!
//! The crate reads the manifest and says what is wrong in it. It runs no component and knows no wasmtime: what it builds
//! is tried in `tidegate-trial` and run by `tidegate-operator`.
//!
//! Invariants:
//! - a manifest is read as a whole: every mistake in it is told at once, with line, key, value and what would be right;
//! - a path of a manifest stays within the project: it is relative and never leads upwards;
//! - nothing in a project points outside of it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod language;
mod manifest;
mod mistake;
mod name;
mod project;

pub use language::{Engine, Grant, Language};
pub use manifest::Manifest;
pub use mistake::{Mistake, Mistakes};
pub use name::{Name, NameError};
pub use project::{CASES, MANIFEST, Project, ProjectError, SDK};
