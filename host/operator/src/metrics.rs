//! The metrics of a revision: what its operator declares and what it has measured.
//!
//! A measurement is bound to a record and counts when that record's outcome does, so that calls that are made again, tries
//! before a deployment and records that come again leave no trace.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_contract::Effects;
use tidegate_record::{OutcomesView, Sample};
use tidegate_telemetry::{is_plain, plain};

use crate::limits::NAME_BYTES;
use crate::shared::{COUNTER_NAME, COUNTERS, is_counter, lock};

/// Metrics an operator may have.
pub(crate) const METRICS: usize = 64;
/// Combinations of labels that a revision may have, over all its metrics; what is measured for others is counted.
pub(crate) const SERIES: usize = 1000;
/// Labels of a metric.
const LABELS: usize = 8;
/// Bytes of a label's value.
pub(crate) const LABEL_BYTES: usize = tidegate_record::MAX_LABEL;
/// Measurements of one record.
pub(crate) const SAMPLES: usize = tidegate_record::MAX_SAMPLES;
/// Bytes of a metric's help.
const HELP_BYTES: usize = 512;
/// Bounds of a histogram.
const BOUNDS: usize = 32;
/// Names of labels that the host gives itself.
const RESERVED: [&str; 3] = ["slot", "revision", "le"];
/// The usual bounds of a histogram, for seconds: those of Prometheus's client libraries.
const USUAL_BOUNDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum of amounts.
    Counter,
    /// The last value.
    Gauge,
    /// How often values fell between bounds.
    Histogram,
}

/// A metric that an operator declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name: `[a-z][a-z0-9_]*`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// One line for people.
    pub help: String,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram, ascending.
    pub bounds: Vec<f64>,
}

impl Metric {
    /// A counter without labels, as operators of the contract 0.1.0 have them.
    fn counter(name: String) -> Metric {
        Metric {
            name,
            kind: Kind::Counter,
            help: String::new(),
            labels: Vec::new(),
            bounds: Vec::new(),
        }
    }
}

/// What was measured under one combination of labels.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The sum of a counter.
    Sum(u64),
    /// The last value of a gauge.
    Last(f64),
    /// Of a histogram: how many values are at most each bound and at least the one before, those above the last, and
    /// the sum of all.
    Spread {
        /// One for each bound, and one for what is above them.
        counts: Vec<u64>,
        /// The sum of the values.
        sum: f64,
    },
}

/// Holds declared metrics against the WIT, and gives histograms without bounds the usual ones.
pub(crate) fn check(metrics: &mut [Metric]) -> Result<(), String> {
    if metrics.len() > METRICS {
        let found = metrics.len();
        return Err(format!("it has {found} metrics, limit {METRICS}"));
    }
    for at in 0..metrics.len() {
        let (before, rest) = metrics.split_at_mut(at);
        let Some(metric) = rest.first_mut() else {
            break;
        };
        if !is_counter(&metric.name) {
            let name = plain(&metric.name, NAME_BYTES);
            return Err(format!(
                "its metric \"{name}\" has a name that is not [a-z][a-z0-9_]*, at most {COUNTER_NAME} bytes"
            ));
        }
        let wrong = |why: String| Err(format!("its metric \"{}\" {why}", metric.name));
        if before.iter().any(|other| other.name == metric.name) {
            return wrong("is there twice".into());
        }
        if metric.help.len() > HELP_BYTES || !is_plain(&metric.help) {
            return wrong(format!(
                "has a help that is not one line of at most {HELP_BYTES} bytes"
            ));
        }
        if metric.labels.len() > LABELS {
            let found = metric.labels.len();
            return wrong(format!("has {found} labels, limit {LABELS}"));
        }
        for (index, label) in metric.labels.iter().enumerate() {
            let shown = plain(label, NAME_BYTES);
            if !is_counter(label) || RESERVED.contains(&label.as_str()) {
                return wrong(format!("has the label \"{shown}\", which no label may be"));
            }
            if metric.labels[..index].contains(label) {
                return wrong(format!("has the label \"{shown}\" twice"));
            }
        }
        let ascend = metric.bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascend || metric.bounds.iter().any(|bound| !bound.is_finite()) {
            return wrong("has bounds that are not finite and ascending".into());
        }
        if metric.bounds.len() > BOUNDS {
            let found = metric.bounds.len();
            return wrong(format!("has {found} bounds, limit {BOUNDS}"));
        }
        match (metric.kind, metric.bounds.is_empty()) {
            (Kind::Histogram, true) => metric.bounds = USUAL_BOUNDS.to_vec(),
            (Kind::Counter | Kind::Gauge, false) => {
                return wrong("has bounds and is no histogram".into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Holds the samples of a checked answer against the declared metrics. An error names the record
/// of the sample that is wrong, by its index.
pub(crate) fn check_samples(
    outcomes: &OutcomesView<'_>,
    metrics: &[Metric],
) -> Result<(), (usize, String)> {
    let mut found = Vec::new();
    for (index, sample) in outcomes.samples().enumerate() {
        let record = sample.record as usize;
        check_sample(index, &sample, metrics).map_err(|why| (record, why))?;
        if found.is_empty() {
            found.resize(outcomes.len(), 0);
        }
        // It has been checked that the batch has the record.
        if let Some(found) = found.get_mut(record) {
            *found += 1;
            if *found > SAMPLES {
                let why = format!("sample {index} is one too many of its record, limit {SAMPLES}");
                return Err((record, why));
            }
        }
    }
    Ok(())
}

fn check_sample(index: usize, sample: &Sample<'_>, metrics: &[Metric]) -> Result<(), String> {
    let Some(metric) = metrics.get(usize::from(sample.metric)) else {
        let (found, there) = (sample.metric, metrics.len());
        return Err(format!(
            "sample {index} is of metric {found}, the operator describes {there}"
        ));
    };
    let (labels, name) = (sample.labels().len(), &metric.name);
    if labels != metric.labels.len() {
        let declared = metric.labels.len();
        return Err(format!(
            "sample {index} has {labels} labels, {name} has {declared}"
        ));
    }
    if let Some(long) = sample.labels().find(|label| label.len() > LABEL_BYTES) {
        let bytes = long.len();
        return Err(format!(
            "sample {index} of {name} has a label of {bytes} bytes, limit {LABEL_BYTES}"
        ));
    }
    if metric.kind != Kind::Counter && !f64::from_bits(sample.bits).is_finite() {
        return Err(format!("sample {index} of {name} is not a finite number"));
    }
    Ok(())
}

/// What the instances of a revision have measured.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    declared: Vec<Metric>,
    series: Mutex<Series>,
    refused: AtomicU64,
}

/// By metric, what was measured under each combination of labels.
#[derive(Debug, Default)]
struct Series {
    /// Metrics that were counted without being declared, after the declared ones.
    named: Vec<Metric>,
    values: Vec<BTreeMap<Vec<String>, Value>>,
    count: usize,
}

impl Metrics {
    pub(crate) fn new(declared: Vec<Metric>) -> Metrics {
        let values = declared.iter().map(|_| BTreeMap::new()).collect();
        Metrics {
            declared,
            series: Mutex::new(Series {
                values,
                ..Series::default()
            }),
            refused: AtomicU64::new(0),
        }
    }

    pub(crate) fn declared(&self) -> &[Metric] {
        &self.declared
    }

    /// Adds what an answered call of the contract 0.1.0 has counted. Past the bound, new names are left out.
    pub(crate) fn count(&self, pending: BTreeMap<String, u64>) {
        let mut series = lock(&self.series);
        for (name, amount) in pending {
            let at = match series.named.iter().position(|metric| metric.name == name) {
                Some(at) => at,
                None if series.named.len() < COUNTERS => {
                    series.named.push(Metric::counter(name));
                    series.values.push(BTreeMap::new());
                    series.named.len() - 1
                }
                None => continue,
            };
            let at = self.declared.len() + at;
            let sum = series.values[at].entry(Vec::new());
            if let Value::Sum(sum) = sum.or_insert(Value::Sum(0)) {
                *sum = sum.saturating_add(amount);
            }
        }
    }

    fn take(&self, taken: &Taken) {
        let Some(metric) = self.declared.get(usize::from(taken.metric)) else {
            return;
        };
        let mut series = lock(&self.series);
        let full = series.count >= SERIES;
        let Some(values) = series.values.get_mut(usize::from(taken.metric)) else {
            return;
        };
        let (mut is_new, number) = (false, f64::from_bits(taken.bits));
        let value = match values.entry(taken.labels.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if full => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Entry::Vacant(new) => {
                is_new = true;
                new.insert(match metric.kind {
                    Kind::Counter => Value::Sum(0),
                    Kind::Gauge => Value::Last(0.0),
                    Kind::Histogram => Value::Spread {
                        counts: vec![0; metric.bounds.len() + 1],
                        sum: 0.0,
                    },
                })
            }
        };
        match value {
            Value::Sum(sum) => *sum = sum.saturating_add(taken.bits),
            Value::Last(last) => *last = number,
            Value::Spread { counts, sum } => {
                let at = metric.bounds.partition_point(|bound| *bound < number);
                counts[at] += 1;
                *sum += number;
            }
        }
        series.count += usize::from(is_new);
    }

    /// Every metric with what was measured, by the values of its labels.
    pub(crate) fn all(&self) -> Vec<(Metric, BTreeMap<Vec<String>, Value>)> {
        let series = lock(&self.series);
        let metrics = self.declared.iter().chain(&series.named).cloned();
        metrics.zip(series.values.iter().cloned()).collect()
    }

    /// Measurements that were left out, because there were too many combinations of labels.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A measurement that has not counted yet.
#[derive(Debug)]
struct Taken {
    record: u32,
    metric: u16,
    bits: u64,
    labels: Vec<String>,
}

/// What an answer measured, by record.
#[derive(Debug)]
pub(crate) struct Measured {
    metrics: Arc<Metrics>,
    /// By record.
    samples: Vec<Taken>,
}

impl Measured {
    /// The samples of an answer that is checked, if it has any.
    pub(crate) fn of(
        metrics: &Arc<Metrics>,
        outcomes: &OutcomesView<'_>,
    ) -> Option<Box<dyn Effects>> {
        let mut samples: Vec<Taken> = outcomes
            .samples()
            .map(|sample| Taken {
                record: sample.record,
                metric: sample.metric,
                bits: sample.bits,
                labels: sample
                    .labels()
                    .map(|label| plain(label, LABEL_BYTES).into_owned())
                    .collect(),
            })
            .collect();
        if samples.is_empty() {
            return None;
        }
        // Those of one record stay in their order: of a gauge the last counts.
        samples.sort_by_key(|sample| sample.record);
        Some(Box::new(Measured {
            metrics: Arc::clone(metrics),
            samples,
        }))
    }
}

impl Effects for Measured {
    fn accept(&mut self, record: usize) {
        let Ok(record) = u32::try_from(record) else {
            return;
        };
        let from = self
            .samples
            .partition_point(|sample| sample.record < record);
        let of_record = self.samples[from..]
            .iter()
            .take_while(|sample| sample.record == record);
        for sample in of_record {
            self.metrics.take(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_of_labels_are_bounded_and_those_left_out_are_counted() {
        let metrics = Metrics::new(vec![Metric {
            labels: vec!["word".into()],
            ..Metric::counter("seen".into())
        }]);
        for _ in 0..2 {
            for word in 0..SERIES + 5 {
                metrics.take(&Taken {
                    record: 0,
                    metric: 0,
                    bits: 1,
                    labels: vec![word.to_string()],
                });
            }
        }
        let (_, series) = metrics.all().swap_remove(0);
        assert_eq!(series.len(), SERIES);
        assert!(series.values().all(|value| *value == Value::Sum(2)));
        assert_eq!(metrics.refused(), 10);
    }
}
