//! The metrics of a revision: what its operator declares and what it has measured.
//!
//! A measurement is bound to a record and counts when that record's outcome does, so that calls that are made again, tries
//! before a deployment and records that come again leave no trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tidegate_contract::Effects;
use tidegate_record::{OutcomesView, Sample};
use tidegate_telemetry::{is_plain, plain};

use crate::limits::NAME_BYTES;
use crate::names::{Names, Naming};
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
/// What the names of operators' metrics begin with where they are shown.
const SHOWN: &str = "tidegate_operator_";
/// What the lines of a histogram end with: counts by bound, the sum of the values, and how many there are.
pub const SPREAD: [&str; 3] = ["_bucket", "_sum", "_count"];
/// The host's own metric among those of operators: measurements that were left out.
pub const SERIES_REFUSED: &str = "tidegate_operator_series_refused_total";
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
    /// The name it is shown by.
    pub fn shown(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Counter if !name.ends_with("_total") => format!("{SHOWN}{name}_total"),
            _ => format!("{SHOWN}{name}"),
        }
    }

    /// All names that its lines have, the one it is shown by among them.
    pub(crate) fn all_shown(&self) -> Vec<String> {
        let shown = self.shown();
        let mut all = vec![shown.clone()];
        if self.kind == Kind::Histogram {
            all.extend(SPREAD.map(|end| format!("{shown}{end}")));
        }
        all
    }

    /// Which of its names another metric or the host has already, and whose that is.
    fn taken<'a>(&self, mut others: impl Iterator<Item = &'a Metric>) -> Option<(String, String)> {
        let own = self.all_shown();
        if own.iter().any(|name| name == SERIES_REFUSED) {
            return Some((SERIES_REFUSED.into(), "a metric of the host".into()));
        }
        others.find_map(|other| {
            let theirs = other.all_shown();
            let name = own.iter().find(|name| theirs.contains(name))?;
            Some((name.clone(), format!("its metric \"{}\"", other.name)))
        })
    }

    /// A counter without labels, as operators of the contract 0.1.0 have them.
    pub(crate) fn counter(name: String) -> Metric {
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

impl Value {
    fn add(&mut self, metric: &Metric, bits: u64) {
        let number = f64::from_bits(bits);
        match self {
            Value::Sum(sum) => *sum = sum.saturating_add(bits),
            Value::Last(last) => *last = number,
            Value::Spread { counts, sum } => {
                let at = metric.bounds.partition_point(|bound| *bound < number);
                if let Some(count) = counts.get_mut(at) {
                    *count += 1;
                }
                *sum += number;
            }
        }
    }
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
        if let Some((name, whose)) = metric.taken(before.iter()) {
            return wrong(format!("is shown as {name}, as {whose} is"));
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
#[derive(Debug)]
pub(crate) struct Metrics {
    declared: Vec<Metric>,
    /// One for each of them.
    namings: Vec<Arc<Naming>>,
    names: Arc<Names>,
    series: Mutex<Series>,
    refused: AtomicU64,
    since: SystemTime,
}

/// By metric, what was measured under each combination of labels.
#[derive(Debug, Default)]
struct Series {
    /// Metrics that were counted without being declared, after the declared ones.
    named: Vec<Metric>,
    /// One for each of those.
    namings: Vec<Arc<Naming>>,
    places: Vec<BTreeMap<Vec<String>, usize>>,
    /// What was measured, at the places that the combinations have.
    values: Vec<Value>,
    /// Combinations of the declared metrics.
    count: usize,
}

impl Series {
    /// The place of a combination of labels, which is made if it is new; none if there are too many.
    fn place(&mut self, at: usize, metric: &Metric, labels: &[String]) -> Option<usize> {
        let places = self.places.get_mut(at)?;
        if let Some(place) = places.get(labels) {
            return Some(*place);
        }
        if self.count >= SERIES {
            return None;
        }
        self.count += 1;
        places.insert(labels.to_vec(), self.values.len());
        self.values.push(match metric.kind {
            Kind::Counter => Value::Sum(0),
            Kind::Gauge => Value::Last(0.0),
            Kind::Histogram => Value::Spread {
                counts: vec![0; metric.bounds.len() + 1],
                sum: 0.0,
            },
        });
        Some(self.values.len() - 1)
    }
}

impl Metrics {
    /// Of a revision that declares these, beside all that have these names. It has them once its slot lets it stand.
    pub(crate) fn new(declared: Vec<Metric>, names: &Arc<Names>) -> Metrics {
        let places = declared.iter().map(|_| BTreeMap::new()).collect();
        Metrics {
            namings: declared.iter().map(naming).collect(),
            names: Arc::clone(names),
            declared,
            series: Mutex::new(Series {
                places,
                ..Series::default()
            }),
            refused: AtomicU64::new(0),
            since: SystemTime::now(),
        }
    }

    /// When nothing was measured.
    pub(crate) fn since(&self) -> SystemTime {
        self.since
    }

    pub(crate) fn declared(&self) -> &[Metric] {
        &self.declared
    }

    /// How all of them stand with the names that they are shown by, those included that were counted without being
    /// declared.
    pub(crate) fn namings(&self) -> Vec<Arc<Naming>> {
        let series = lock(&self.series);
        self.namings
            .iter()
            .chain(&series.namings)
            .cloned()
            .collect()
    }

    /// Adds what an answered call of the contract 0.1.0 has counted. New names past the bound are left out, and those that
    /// would be shown as another is, or as another slot's; that is counted.
    pub(crate) fn count(&self, pending: BTreeMap<String, u64>) {
        let is_new = {
            let series = lock(&self.series);
            let is_known = |name: &String| series.named.iter().any(|known| known.name == *name);
            !pending.keys().all(is_known)
        };
        if is_new && self.take_in(pending.keys()) {
            // The series are locked one after the other for this, these too.
            self.names.settle();
        }
        let mut series = lock(&self.series);
        for (name, amount) in pending {
            let known = series.named.iter().position(|metric| metric.name == name);
            let Some(at) = known.filter(|at| series.namings[*at].has_name()) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let at = self.declared.len() + at;
            let next = series.values.len();
            let at = *series.places[at].entry(Vec::new()).or_insert(next);
            if at == next {
                series.values.push(Value::Sum(0));
            }
            if let Value::Sum(sum) = &mut series.values[at] {
                *sum = sum.saturating_add(amount);
            }
        }
    }

    /// Makes metrics of names that were counted without being declared, as far as there may be so many and they would be
    /// shown as no other is. Returns whether it has made one.
    fn take_in<'a>(&self, names: impl Iterator<Item = &'a String>) -> bool {
        let mut series = lock(&self.series);
        let before = series.named.len();
        for name in names {
            if series.named.len() >= COUNTERS {
                break;
            }
            let metric = Metric::counter(name.clone());
            let mut known = self.declared.iter().chain(&series.named);
            if metric.taken(&mut known).is_none() {
                series.namings.push(naming(&metric));
                series.named.push(metric);
                series.places.push(BTreeMap::new());
            }
        }
        series.named.len() > before
    }

    /// Every metric that has its name now, with what was measured, by the values of its labels.
    pub(crate) fn all(&self) -> Vec<(Metric, BTreeMap<Vec<String>, Value>)> {
        let series = lock(&self.series);
        let metrics = self.declared.iter().chain(&series.named);
        let namings = self.namings.iter().chain(&series.namings);
        let measured = |places: &BTreeMap<Vec<String>, usize>| {
            let value = |(labels, place): (&Vec<String>, &usize)| {
                Some((labels.clone(), series.values.get(*place)?.clone()))
            };
            places.iter().filter_map(value).collect()
        };
        metrics
            .zip(&series.places)
            .zip(namings)
            .filter(|(_, naming)| naming.has_name())
            .map(|((metric, places), _)| (metric.clone(), measured(places)))
            .collect()
    }

    /// Whether a declared metric has its name now.
    fn has_name(&self, metric: u16) -> bool {
        let naming = self.namings.get(usize::from(metric));
        naming.is_some_and(|naming| naming.has_name())
    }

    /// Measurements that were left out, because there were too many combinations of labels, or for their name.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

fn naming(metric: &Metric) -> Arc<Naming> {
    Arc::new(Naming::new(metric))
}

/// A measurement that has not counted yet.
#[derive(Debug)]
struct Taken {
    record: u32,
    metric: u16,
    bits: u64,
    place: Place,
}

/// Where a measurement goes when it counts.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// To a combination of labels that is known.
    Known(usize),
    /// To one of those that the answer brings.
    New(usize),
    /// There are too many combinations, or its name is another's.
    Nowhere,
}

/// What an answer measured, by record. All that its labels take has been done when it is made: what is accepted is only
/// added, and of the labels those are kept that there is room for and that are new.
#[derive(Debug)]
pub(crate) struct Measured {
    metrics: Arc<Metrics>,
    /// By record.
    samples: Vec<Taken>,
    /// New combinations of labels, by metric. They are made when one of theirs counts, and leave no trace otherwise.
    new: Vec<(u16, Vec<String>)>,
}

impl Measured {
    /// The samples of an answer that is checked, if it has any.
    pub(crate) fn of(
        metrics: &Arc<Metrics>,
        outcomes: &OutcomesView<'_>,
    ) -> Option<Box<dyn Effects>> {
        let mut samples = outcomes.samples().peekable();
        samples.peek()?;
        let mut measured = Measured {
            metrics: Arc::clone(metrics),
            samples: Vec::new(),
            new: Vec::new(),
        };
        let series = lock(&metrics.series);
        let room = SERIES.saturating_sub(series.count);
        let mut places: HashMap<u16, BTreeMap<Vec<String>, usize>> = HashMap::new();
        let mut labels: Vec<String> = Vec::new();
        for sample in samples {
            let metric = sample.metric;
            let has_name = metrics.has_name(metric);
            labels.resize_with(sample.labels().len(), String::new);
            for (own, label) in labels.iter_mut().zip(sample.labels()) {
                own.clear();
                own.push_str(&plain(label, LABEL_BYTES));
            }
            let known = series.places.get(usize::from(metric));
            let known = known.and_then(|places| places.get(labels.as_slice()));
            let of_metric = places.entry(metric).or_default();
            let place = match (known, of_metric.get(labels.as_slice())) {
                (Some(place), _) => Place::Known(*place),
                (None, Some(place)) => Place::New(*place),
                (None, None) if has_name && measured.new.len() < room => {
                    of_metric.insert(labels.clone(), measured.new.len());
                    measured.new.push((metric, labels.clone()));
                    Place::New(measured.new.len() - 1)
                }
                (None, None) => Place::Nowhere,
            };
            measured.samples.push(Taken {
                record: sample.record,
                metric,
                bits: sample.bits,
                place,
            });
        }
        drop(series);
        // Those of one record stay in their order: of a gauge the last counts.
        measured.samples.sort_by_key(|sample| sample.record);
        Some(Box::new(measured))
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
        let own = self.samples[from..].partition_point(|sample| sample.record == record);
        if own == 0 {
            return;
        }
        let mut series = lock(&self.metrics.series);
        for sample in &self.samples[from..from + own] {
            let at = usize::from(sample.metric);
            let Some(metric) = self.metrics.declared.get(at) else {
                continue;
            };
            let place = match sample.place {
                _ if !self.metrics.has_name(sample.metric) => None,
                Place::Known(place) => Some(place),
                Place::New(new) => {
                    let labels = self.new.get(new);
                    labels.and_then(|(_, labels)| series.place(at, metric, labels))
                }
                Place::Nowhere => None,
            };
            match place.and_then(|place| series.values.get_mut(place)) {
                Some(value) => value.add(metric, sample.bits),
                None => {
                    self.metrics.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
