//! What an operator did, in the form of cases.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_record::{Change, Outcome, Patch, RecordView};

use super::bytes::canonical;
use crate::Described;
use crate::metrics::Kind;
use crate::testing::Answer;

/// An outcome, which is also applied to its record as the host does it.
pub(super) fn outcome(
    record: &RecordView<'_>,
    outcome: Outcome<'_>,
    outputs: &[String],
) -> Result<Value, String> {
    Answer::of(record, outcome.clone(), outputs)?;
    let sent = |output: u16, patch: &Patch<'_>| {
        let mut members = changed(patch);
        let index = usize::from(output).checked_sub(1);
        if let Some(name) = index.and_then(|index| outputs.get(index)) {
            members.insert("to".into(), name.as_str().into());
        }
        members
    };
    let replaced = |members: Map<String, Value>| match members.is_empty() {
        true => Value::from("pass"),
        false => json!({"replace": members}),
    };
    Ok(match outcome {
        Outcome::Pass => "pass".into(),
        Outcome::Drop => "drop".into(),
        Outcome::Replace(patch) => replaced(changed(&patch)),
        // What means the same is the same, as for the host.
        Outcome::Split(pieces) if pieces.is_empty() => "drop".into(),
        Outcome::Split(pieces) => {
            let pieces = pieces.iter().map(|piece| sent(piece.output, &piece.patch));
            json!({"split": pieces.collect::<Vec<_>>()})
        }
        Outcome::Route(emission) => match emission.output {
            // To the main output it is a replacement.
            0 => replaced(changed(&emission.patch)),
            output => json!({"route": sent(output, &emission.patch)}),
        },
        Outcome::Retry { delay_ms, reason } => {
            json!({"retry": {"after-ms": delay_ms, "reason": reason}})
        }
        Outcome::DeadLetter { reason } => json!({"dead-letter": reason}),
    })
}

fn changed(patch: &Patch<'_>) -> Map<String, Value> {
    let mut members = Map::new();
    if let Some(key) = patch.key() {
        members.insert("key".into(), canonical(key));
    }
    if let Some(value) = patch.value() {
        members.insert("value".into(), canonical(value));
    }
    let lists = [
        ("headers", patch.headers().map(change).collect::<Vec<_>>()),
        ("attributes", patch.attributes().map(change).collect()),
    ];
    for (name, changes) in lists {
        if !changes.is_empty() {
            members.insert(name.into(), changes.into());
        }
    }
    if let Some(time) = patch.event_time() {
        members.insert("event-time".into(), time.into());
    }
    members
}

fn change(change: Change<'_>) -> Value {
    match change {
        Change::Set { name, value } => json!(["set", name, canonical(value)]),
        Change::Add { name, value } => json!(["add", name, canonical(value)]),
        Change::Remove { name } => json!(["remove", name]),
    }
}

type Samples = BTreeMap<(String, Vec<String>), Vec<u64>>;

/// What was measured: amounts, or the bits of values, by metric and labels.
#[derive(Default)]
pub(super) struct Measured(Samples);

impl Measured {
    pub(super) fn add(&mut self, samples: Samples) {
        for (series, mut bits) in samples {
            self.0.entry(series).or_default().append(&mut bits);
        }
    }

    /// Each series with what counts at the end.
    pub(super) fn values<T: Described>(&self) -> Vec<Value> {
        let series = self.0.iter().filter_map(|((name, labels), bits)| {
            let mut declared = T::DESCRIPTION.metrics.iter();
            let metric = declared.find(|metric| metric.name == name)?;
            let numbers = || bits.iter().map(|bits| f64::from_bits(*bits));
            let value = match metric.kind {
                Kind::Counter => json!(bits.iter().sum::<u64>()),
                Kind::Gauge => json!(numbers().next_back()),
                Kind::Histogram => json!({"count": bits.len(), "sum": numbers().sum::<f64>()}),
            };
            let labels = metric
                .labels
                .iter()
                .map(|label| (*label).to_owned())
                .zip(labels.iter().map(|label| Value::from(label.as_str())));
            Some(json!({"name": name, "labels": Map::from_iter(labels), "value": value}))
        });
        series.collect()
    }
}
