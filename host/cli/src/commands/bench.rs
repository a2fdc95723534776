//! `tidegate bench`: what an operator costs on given records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tidegate_operator::EngineOptions;
use tidegate_trial::{BenchError, BenchOptions, Lines, bench, filled_records};

use super::{print, without_slot};
use crate::exit::{Failure, tell, with_causes};
use crate::{component, wire};

/// The one time that the operator sees.
const CLOCK: i64 = 1_700_000_000_000_000;
/// Longest file of a configuration, in bytes.
const CONFIG_BYTES: u64 = 4 << 20;

/// What is measured.
pub(crate) struct Bench<'a> {
    pub(crate) component: &'a Path,
    pub(crate) records: &'a Path,
    pub(crate) lines: Lines,
    /// JSON, or a file that has it.
    pub(crate) config: &'a str,
    /// Records of a batch.
    pub(crate) batch: usize,
    pub(crate) seconds: f64,
    pub(crate) json: bool,
}

/// Measures an operator beside one that lets everything pass.
pub(crate) fn measure(wanted: &Bench<'_>) -> Result<(), Failure> {
    let label = wanted.component.display().to_string();
    let bytes =
        component::read(wanted.component).map_err(|error| Failure::usage(with_causes(&error)))?;
    let (batches, read) = filled_records(wanted.records, wanted.lines, wanted.batch, CLOCK)
        .map_err(Failure::usage)?;
    let all: usize = batches.iter().map(|batch| batch.len()).sum();
    if all > read {
        tell(format_args!(
            "records read: {read}, fewer than a batch of {}: they come again until there are {all}\n",
            wanted.batch
        ));
    }
    let options = BenchOptions {
        config: config(wanted.config)?,
        time: Duration::from_secs_f64(wanted.seconds),
        engine: EngineOptions {
            instances: 8,
            ..wire::Compiled::User.options()?
        },
        ..BenchOptions::default()
    };
    let measured = bench(&bytes, &label, &batches, &options).map_err(|error| match error {
        BenchError::Operator(error) => without_slot(error),
        other => other.into(),
    })?;
    match wanted.json {
        true => print(&format!("{:#}\n", measured.to_json())),
        false => print(&format!("{measured}\n")),
    }
}

/// A configuration as it is written on the command line, or in the file that is named there.
fn config(text: &str) -> Result<String, Failure> {
    if text.trim_start().starts_with('{') {
        return Ok(text.to_owned());
    }
    let path = PathBuf::from(text);
    let length = std::fs::metadata(&path).map(|found| found.len());
    let read = length.and_then(|length| match length <= CONFIG_BYTES {
        true => std::fs::read_to_string(&path),
        false => Err(std::io::Error::other(format!(
            "it has {length} bytes, limit {CONFIG_BYTES}"
        ))),
    });
    let read = read.with_context(|| format!("cannot read the configuration {text}"));
    read.map_err(|error| Failure::usage(with_causes(&error)))
}
