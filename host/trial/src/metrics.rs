//! What an operator measures in a case: the sums over its answers.

use std::collections::BTreeMap;

use tidegate_operator::{Kind, Metric, RevisionMetrics, Value};
use tidegate_record::OutcomesView;

use crate::cases::{Measured, Measurement};

/// A metric's name, and names and values of its labels by name.
type Series = (String, Vec<(String, String)>);

/// Adds up what is measured.
#[derive(Debug, Default)]
pub(crate) struct Sums(BTreeMap<Series, Sum>);

#[derive(Clone, Copy, Debug)]
enum Sum {
    Counter(u64),
    Gauge(f64),
    Spread { count: u64, sum: f64 },
}

impl Sums {
    /// Adds the measurements of an answer, but for the records that come again.
    pub(crate) fn add(
        &mut self,
        answer: &OutcomesView<'_>,
        metrics: &[Metric],
        comes_again: impl Fn(usize) -> bool,
    ) {
        let mut samples: Vec<_> = answer.samples().collect();
        // Of a gauge the value of the last record counts.
        samples.sort_by_key(|sample| sample.record);
        for sample in samples {
            let metric = metrics.get(usize::from(sample.metric));
            let Some(metric) = metric.filter(|_| !comes_again(sample.record as usize)) else {
                continue;
            };
            let labels = metric.labels.iter().cloned();
            let mut labels: Vec<_> = labels.zip(sample.labels().map(str::to_owned)).collect();
            labels.sort();
            let number = f64::from_bits(sample.bits);
            let sum = self
                .0
                .entry((metric.name.clone(), labels))
                .or_insert(match metric.kind {
                    Kind::Counter => Sum::Counter(0),
                    Kind::Gauge => Sum::Gauge(0.0),
                    Kind::Histogram => Sum::Spread { count: 0, sum: 0.0 },
                });
            match sum {
                Sum::Counter(sum) => *sum = sum.saturating_add(sample.bits),
                Sum::Gauge(last) => *last = number,
                Sum::Spread { count, sum } => {
                    *count += 1;
                    *sum += number;
                }
            }
        }
    }

    /// All of them; a counter that stayed at zero is as if it had not been measured.
    pub(crate) fn all(self) -> Vec<Measurement> {
        let sums = self.0.into_iter().map(|((name, labels), sum)| Measurement {
            name,
            labels,
            value: match sum {
                Sum::Counter(sum) => Measured::Number(sum as f64),
                Sum::Gauge(last) => Measured::Number(last),
                Sum::Spread { count, sum } => Measured::Spread { count, sum },
            },
        });
        sums.collect()
    }
}

/// What operators of the contract 0.1.0 have counted in a slot: by name, for all records together.
pub(crate) fn counted(slot: &[RevisionMetrics]) -> BTreeMap<String, u64> {
    let metrics = slot.first().map_or(&[][..], |revision| &revision.metrics);
    let sums = metrics
        .iter()
        .filter_map(|(metric, series)| match series.values().next() {
            Some(Value::Sum(sum)) => Some((metric.name.clone(), *sum)),
            _ => None,
        });
    sums.collect()
}
