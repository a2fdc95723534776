//! An operator's project on disk: a directory with an `operator.toml`, sources in one language, and the SDK in `tidegate/`.
//!
//! The crate reads the manifest, makes projects out of what the program carries within itself, finds and installs
//! toolchains, and has them build the component. It runs no component and knows no wasmtime: what it builds is tried in
//! `tidegate-trial` and run by `tidegate-operator`.
//!
//! Invariants:
//! - a manifest is read as a whole: every mistake in it is told at once, with line, key, value and what would be right;
//! - a source of a manifest stays within the project: its path is relative and never leads upwards;
//! - nothing in a project points outside of it;
//! - the same sources make the same component, wherever they lie and whenever they are built: with Rust, C and Go on every
//!   machine with the same toolchain, with Python and JavaScript on one machine as long as its cache keeps them;
//! - of Python and JavaScript that is not bundled a tool reads what its component is known by, and nothing else;
//! - one build of a project goes on at a time, and one run of tests that are compiled in it; none writes through a link;
//! - a toolchain that does not end in time, or whose user has had enough, is ended with all that it started;
//! - a toolchain is installed only when that is asked for; what is missing is named with what installs it;
//! - what is there is whole: projects, toolchains and components are written beside their place first.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod build;
mod command;
mod create;
mod disk;
mod embedded;
mod language;
mod lock;
mod manifest;
mod mistake;
mod name;
mod project;
mod sdk;
mod toolchain;

pub use build::{BuildOptions, Built, NativeTests};
pub use command::{end_all, run_aloud};
pub use create::NewProject;
pub use language::{Engine, Grant, Handler, Language};
pub use manifest::Manifest;
pub use mistake::{Mistake, Mistakes};
pub use name::{Name, NameError};
pub use project::{CASES, MANIFEST, Project, ProjectError, SDK};
pub use sdk::Refreshed;
pub use toolchain::{BuildError, Machine, Missing, Remedy, user_cache};
