//! Pipeline files and what is said of them: every `NAME.toml` in `tests/config` has its `NAME.expected`. With
//! `TIDEGATE_UPDATE=1` in the environment the expectations are written anew, to be read before they are kept.

mod asking;
mod guarantees;
mod meant;
mod mistakes;
mod places;
mod topics;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

pub(super) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config")
}

pub(super) fn content(name: &str) -> String {
    fs::read_to_string(directory().join(name)).unwrap()
}

pub(super) fn parsed(content: &str) -> Result<Pipeline, Mistakes> {
    parse(
        Path::new("pipeline.toml"),
        &directory().join("pipeline.toml"),
        content.to_owned(),
    )
}

/// What `tidegate check` says of a file.
pub(super) fn said(content: &str) -> String {
    let said = match parsed(content) {
        Ok(pipeline) => {
            let mut said = String::new();
            for warning in &pipeline.warnings {
                writeln!(said, "warning: {warning}").unwrap();
            }
            writeln!(said, "{}", guarantee(&pipeline)).unwrap();
            said
        }
        Err(mistakes) => format!("{mistakes}\n"),
    };
    said.replace(&directory().display().to_string(), "DIRECTORY")
}
