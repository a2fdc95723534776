//! `tidegate component --try`, and the samples of `tidegate check`: an operator's answers to a few records, checked as in
//! a pipeline.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_contract::{Operator, Processed, Slot as _};
use tidegate_operator::{ComponentSlot, Engine, Grants, SlotOptions, Value};
use tidegate_record::{Batch, Change, Emission, Outcome, OutcomesView, Patch};
use tidegate_telemetry::plain;
use tidegate_trial::{BATCH, Lines, RecordsError, answer_all, read_records, sample_records};

use super::model::size;
use super::{print, without_slot};
use crate::exit::Failure;

/// Bytes of a field that are shown.
const SHOWN: usize = 128;

fn clock() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as i64)
}

/// Runs the component on records; a record that it cannot answer for is a failure.
pub(crate) fn try_out(
    engine: &Engine,
    component: (&[u8], &str),
    records: Option<&Path>,
    config: &str,
) -> Result<(), Failure> {
    let batches = match records {
        Some(path) => read(path)?,
        None => sample_records(clock()).map_err(Failure::usage)?,
    };
    let began = Instant::now();
    let options = SlotOptions {
        grants: Grants::ALL,
        config: config.to_owned(),
        ..SlotOptions::new("try")
    };
    let slot =
        ComponentSlot::new(engine, options, component.0, component.1).map_err(without_slot)?;
    let (_, mut operator) = slot.instance().map_err(without_slot)?;
    let started = began.elapsed();
    let (mut failed, mut records) = (0, 0);
    for batch in &batches {
        records += batch.len();
        failed += answers(&mut *operator, batch)?;
    }
    print(&report(&slot, started))?;
    match failed {
        0 => Ok(()),
        failed => Err(anyhow::anyhow!(
            "{}: {failed} of {records} records have no answer",
            component.1
        )
        .into()),
    }
}

/// The samples of a stage that its operator cannot answer for: each with why.
pub(crate) fn failed_samples(slot: &ComponentSlot, file: &Path) -> Result<Vec<String>, Failure> {
    let batches = read(file)?;
    let (_, mut operator) = slot.instance()?;
    let mut failed = Vec::new();
    for batch in &batches {
        answer_all(&mut *operator, batch, None, |batch, processed| {
            if let Processed::Poison(cause) = processed {
                let id = batch.view().get(cause.record).map(|record| record.id());
                // Offsets of samples count their lines from 0.
                let line = id.map_or(0, |id| id.offset + 1);
                let file = file.display();
                failed.push(format!("samples: {file}: record {line}: {}", cause.reason));
            }
            Ok::<(), Failure>(())
        })?;
    }
    Ok(failed)
}

fn read(file: &Path) -> Result<Vec<Batch>, Failure> {
    match read_records(file, Lines::Records, BATCH, clock()) {
        // Nothing to try is no mistake.
        Err(RecordsError::Empty { .. }) => Ok(Vec::new()),
        batches => batches.map_err(Failure::usage),
    }
}

/// Prints what becomes of each record; how many have no answer.
fn answers(operator: &mut dyn Operator, batch: &Batch) -> Result<usize, Failure> {
    let outputs = operator.version().outputs.clone();
    let mut failed = 0;
    answer_all(operator, batch, None, |batch, processed| {
        let mut text = String::new();
        match processed {
            Processed::Answer {
                first,
                count,
                outcomes,
                mut effects,
            } => {
                let view = OutcomesView::parse(&outcomes, count, outputs.len() as u16)?;
                for (index, outcome) in view.iter().enumerate() {
                    line(&mut text, batch, first + index, &shown(&outcome, &outputs));
                    let again = matches!(outcome, Outcome::Retry { .. });
                    if let Some(effects) = effects.as_mut().filter(|_| !again) {
                        effects.accept(index);
                    }
                }
            }
            Processed::Poison(cause) => {
                failed += 1;
                let why = format!("FAILED {}", cause.reason);
                line(&mut text, batch, cause.record, &why);
                for frame in cause.backtrace.iter().flat_map(|frames| frames.lines()) {
                    let _ = writeln!(text, "    {frame}");
                }
            }
            Processed::Untried { .. } => {}
        }
        print(&text)
    })?;
    Ok(failed)
}

fn line(text: &mut String, batch: &Batch, record: usize, what: &str) {
    let id = batch
        .view()
        .get(record)
        .map(|record| record.id().to_string());
    let _ = writeln!(text, "record {:<8} {what}", id.unwrap_or_default());
}

/// An outcome as a person reads it.
fn shown(outcome: &Outcome<'_>, outputs: &[String]) -> String {
    let emission = |emission: &Emission<'_>| {
        let output = match emission.output.checked_sub(1) {
            None => "main output".to_owned(),
            Some(named) => {
                let name = outputs.get(usize::from(named));
                format!("output \"{}\"", name.map_or("", String::as_str))
            }
        };
        format!("{output}: {}", patch(&emission.patch))
    };
    match outcome {
        Outcome::Pass => "pass".into(),
        Outcome::Drop => "drop".into(),
        Outcome::Replace(changes) => format!("replace  {}", patch(changes)),
        Outcome::Split(pieces) => {
            let mut text = format!("split    into {}", pieces.len());
            for piece in pieces {
                let _ = write!(text, "\n    {}", emission(piece));
            }
            text
        }
        Outcome::Route(piece) => format!("route    {}", emission(piece)),
        Outcome::Retry { delay_ms, reason } => {
            format!("retry    after {delay_ms} ms: {}", plain(reason, SHOWN))
        }
        Outcome::DeadLetter { reason } => format!("dead-letter  {}", plain(reason, SHOWN)),
    }
}

fn patch(changes: &Patch<'_>) -> String {
    let bytes = |bytes: Option<&[u8]>| match bytes {
        None => "null".to_owned(),
        Some(bytes) => format!("\"{}\"", plain(&String::from_utf8_lossy(bytes), SHOWN)),
    };
    let mut parts = Vec::new();
    if let Some(key) = changes.key() {
        parts.push(format!("key {}", bytes(key)));
    }
    if let Some(value) = changes.value() {
        parts.push(format!("value {}", bytes(value)));
    }
    let pair = |what: &str, change: Change<'_>| match change {
        Change::Set { name, value } => {
            format!("set {what} {} to {}", plain(name, SHOWN), bytes(value))
        }
        Change::Add { name, value } => {
            format!("add {what} {} {}", plain(name, SHOWN), bytes(value))
        }
        Change::Remove { name } => format!("remove {what} {}", plain(name, SHOWN)),
    };
    parts.extend(changes.headers().map(|change| pair("header", change)));
    parts.extend(changes.attributes().map(|change| pair("attribute", change)));
    match changes.event_time() {
        None => {}
        Some(None) => parts.push("no event time".into()),
        Some(Some(time)) => parts.push(format!("event time {time}")),
    }
    match parts.is_empty() {
        true => "unchanged".into(),
        false => parts.join(", "),
    }
}

/// What was measured, and what it took.
fn report(slot: &ComponentSlot, started: Duration) -> String {
    let mut text = String::new();
    for revision in slot.metrics().iter().take(1) {
        for (metric, series) in &revision.metrics {
            for (values, value) in series {
                let pairs = metric.labels.iter().zip(values);
                let labels: Vec<String> = pairs
                    .map(|(name, value)| format!("{name}=\"{}\"", plain(value, SHOWN)))
                    .collect();
                let value = match value {
                    Value::Sum(sum) => sum.to_string(),
                    Value::Last(last) => last.to_string(),
                    Value::Spread { counts, sum } => {
                        format!("{} values, sum {sum}", counts.iter().sum::<u64>())
                    }
                };
                let _ = writeln!(
                    text,
                    "metric    {}{{{}}} {value}",
                    metric.name,
                    labels.join(",")
                );
            }
        }
    }
    let (totals, stats) = (slot.totals(), slot.stats());
    let _ = writeln!(
        text,
        "time      {started:.1?} to start, {:.1?} in the guest\nmemory    {}",
        totals.guest_time,
        size(totals.memory)
    );
    if stats.instances_lost > 0 {
        let _ = writeln!(text, "lost      {} instances", stats.instances_lost);
    }
    text
}
