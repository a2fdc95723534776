//! One module for each command.

pub(crate) mod check;
pub(crate) mod component;
pub(crate) mod deploy;
pub(crate) mod model;
pub(crate) mod run;
pub(crate) mod status;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use tidegate_control::config::{Pipeline, load};

use crate::exit::Failure;

/// Reads a pipeline file; every mistake in it ends with exit code 2.
fn read_pipeline(path: &Path) -> Result<Pipeline, Failure> {
    load(path).map_err(|mistakes| Failure::Usage(mistakes.to_string()))
}

/// Writes to standard output; a reader that has gone is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.context("cannot write to standard output")?),
    }
}
