//! `tidegate bench`: what an operator costs on given records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args};
use tidegate_operator::EngineOptions;
use tidegate_trial::{BenchError, BenchOptions, Lines, bench, filled_records};

use super::numbers::{bench_batch, seconds};
use super::{print, print_json, without_slot};
use crate::exit::{Failure, tell, with_causes};
use crate::{component, wire};

/// The one time that the operator sees.
const CLOCK: i64 = 1_700_000_000_000_000;
/// Longest file of a configuration, in bytes.
const CONFIG_BYTES: u64 = 4 << 20;

/// Measure what an operator costs: time for a record, start, memory, and how much of it is the border's.
#[derive(Args)]
#[command(group(ArgGroup::new("on").required(true).args(["records", "lines"])), after_help = "Examples:\n  \
    tidegate bench redact.wasm --records samples.jsonl\n  \
    tidegate bench redact.wasm --lines tickets.jsonl --config '{\"longest\": 80}' --json\n\n\
    Beside it runs an operator that reads the same and lets everything pass. Rounds of both take turns; the median and\n\
    the fastest are shown.")]
pub(crate) struct Arguments {
    /// The component, or a core module that carries its component type.
    component: PathBuf,
    /// A file of records: JSON lines with key, value, headers, attributes and event-time.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// A file of which each line is the value of a record.
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// The configuration: JSON, or a file that has it.
    #[arg(long, default_value = "{}")]
    config: String,
    /// Records of a batch.
    #[arg(long, default_value_t = tidegate_trial::BATCH, value_parser = bench_batch)]
    batch: usize,
    /// About how long is measured.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Measures an operator beside one that lets everything pass.
pub(crate) fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let label = arguments.component.display().to_string();
    let bytes = component::read(&arguments.component)
        .map_err(|error| Failure::usage(with_causes(&error)))?;
    // One of both is there.
    let (file, lines) = match (&arguments.lines, &arguments.records) {
        (Some(lines), _) => (lines.as_path(), Lines::Values),
        (None, records) => (records.as_deref().unwrap_or(Path::new("")), Lines::Records),
    };
    let (batches, read) =
        filled_records(file, lines, arguments.batch, CLOCK).map_err(Failure::usage)?;
    let all: usize = batches.iter().map(|batch| batch.len()).sum();
    if all > read {
        tell(format_args!(
            "records read: {read}, fewer than a batch of {}: they come again until there are {all}\n",
            arguments.batch
        ));
    }
    let options = BenchOptions {
        config: config(&arguments.config)?,
        time: Duration::from_secs_f64(arguments.seconds),
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
    match arguments.json {
        true => print_json(&format!("{:#}", measured.to_json())),
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
