//! What operators measure, under their own names.

use std::borrow::Cow;

use tidegate_operator::{Kind, Metric, RevisionMetrics, Value};
use tidegate_telemetry::metrics::{
    self as shown, Exposition, Measured, Sample, Spread, Unit, table,
};

use tidegate_telemetry::trace::nanoseconds;

use super::short;

/// The help of a metric whose operator says nothing of it.
const NO_HELP: &str = "Measured by an operator, which does not say what it is";

/// What the operators of all slots have measured: each slot's name with what its revisions did. Their number is bounded:
/// revisions of a slot, metrics of a revision, and combinations of labels over all of its metrics.
pub(crate) fn operators<'a>(
    exposition: &mut Exposition,
    slots: impl Iterator<Item = (&'a str, Vec<RevisionMetrics>)>,
) {
    exposition.declare(&table::OPERATOR_SERIES_REFUSED);
    for (slot, revisions) in slots {
        for revision in revisions {
            let own = [slot, short(&revision.version)];
            let refused = revision.refused;
            let (family, since) = (&table::OPERATOR_SERIES_REFUSED, revision.since);
            exposition.add_since(family, &own, refused, since);
            for (metric, series) in &revision.metrics {
                let family = exposition.family(described(metric));
                for (values, value) in series {
                    let mut sample = sample(own, metric, values, value);
                    if metric.kind != Kind::Gauge {
                        sample.since = nanoseconds(since);
                    }
                    family.samples.push(sample);
                }
            }
        }
    }
}

fn described(metric: &Metric) -> Measured {
    Measured {
        name: metric.shown().into(),
        kind: match metric.kind {
            Kind::Counter => shown::Kind::Counter,
            Kind::Gauge => shown::Kind::Gauge,
            Kind::Histogram => shown::Kind::Histogram,
        },
        unit: Unit::Of(""),
        help: match metric.help.is_empty() {
            true => NO_HELP.into(),
            false => metric.help.clone().into(),
        },
        samples: Vec::new(),
    }
}

fn sample(
    [slot, revision]: [&str; 2],
    metric: &Metric,
    values: &[String],
    value: &Value,
) -> Sample {
    let host = [("slot", slot), ("revision", revision)];
    let host = host.map(|(name, value)| (Cow::Borrowed(name), value.to_owned()));
    let own = metric.labels.iter().zip(values);
    let own = own.map(|(name, value)| (Cow::Owned(name.clone()), value.clone()));
    Sample {
        labels: host.into_iter().chain(own).collect(),
        since: 0,
        value: match value {
            Value::Sum(sum) => shown::Value::Whole(*sum),
            Value::Last(last) => shown::Value::Real(*last),
            Value::Spread { counts, sum } => shown::Value::Spread(Spread {
                bounds: metric.bounds.clone().into(),
                counts: counts.clone(),
                sum: *sum,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use tidegate_contract::{KeptRevision, OperatorVersion};
    use tidegate_operator::SERIES_REFUSED;

    use super::*;

    type Measured = Vec<(Vec<&'static str>, Value)>;

    fn revision(digest: &str, metrics: Vec<(Metric, Measured)>) -> RevisionMetrics {
        let series = |series: Measured| {
            series
                .into_iter()
                .map(|(labels, value)| (labels.into_iter().map(str::to_owned).collect(), value))
                .collect()
        };
        RevisionMetrics {
            version: Arc::new(OperatorVersion {
                name: "o".into(),
                version: "1.0.0".into(),
                digest: "sha256:of-the-component".into(),
                reads: tidegate_record::Fields::ALL,
                outputs: Vec::new(),
                revision: KeptRevision {
                    digest: format!("sha256:{digest}"),
                    ..KeptRevision::default()
                },
            }),
            metrics: metrics
                .into_iter()
                .map(|(metric, values)| (metric, series(values)))
                .collect(),
            refused: 2,
            since: SystemTime::UNIX_EPOCH,
        }
    }

    fn metric(name: &str, kind: Kind, labels: &[&str], bounds: &[f64]) -> Metric {
        Metric {
            name: name.into(),
            kind,
            help: "Words, by kind".into(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            bounds: bounds.to_vec(),
        }
    }

    fn text<'a>(slots: impl Iterator<Item = (&'a str, Vec<RevisionMetrics>)>) -> String {
        let mut exposition = Exposition::default();
        operators(&mut exposition, slots);
        exposition.text()
    }

    #[test]
    fn metrics_of_one_name_stand_together_by_slot_revision_and_label() {
        let words = || metric("words", Kind::Counter, &["kind"], &[]);
        let old = revision(
            "aaaaaaaaaaaaaaaa4321",
            vec![(words(), vec![(vec!["a\"b"], Value::Sum(3))])],
        );
        let sizes = metric("size", Kind::Histogram, &[], &[0.5, 2.0]);
        let spread = Value::Spread {
            counts: vec![1, 2, 3],
            sum: 12.5,
        };
        let new = revision(
            "bbbbbbbbbbbbbbbb4321",
            vec![(words(), vec![]), (sizes, vec![(vec![], spread)])],
        );
        let other = revision("cccc", vec![(words(), vec![(vec!["x"], Value::Sum(1))])]);
        let slots = [("one", vec![new, old]), ("two", vec![other])];
        let text = text(slots.into_iter());
        assert_eq!(table::OPERATOR_SERIES_REFUSED.name, SERIES_REFUSED);
        let help = table::OPERATOR_SERIES_REFUSED.help;
        let expected = "\
# TYPE tidegate_operator_series_refused_total counter
tidegate_operator_series_refused_total{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 2
tidegate_operator_series_refused_total{slot=\"one\",revision=\"aaaaaaaaaaaaaaaa\"} 2
tidegate_operator_series_refused_total{slot=\"two\",revision=\"cccc\"} 2
# HELP tidegate_operator_words_total Words, by kind
# TYPE tidegate_operator_words_total counter
tidegate_operator_words_total{slot=\"one\",revision=\"aaaaaaaaaaaaaaaa\",kind=\"a\\\"b\"} 3
tidegate_operator_words_total{slot=\"two\",revision=\"cccc\",kind=\"x\"} 1
# HELP tidegate_operator_size Words, by kind
# TYPE tidegate_operator_size histogram
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"0.5\"} 1
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"2\"} 3
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"+Inf\"} 6
tidegate_operator_size_sum{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 12.5
tidegate_operator_size_count{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 6
";
        let expected = format!("# HELP {SERIES_REFUSED} {help}\n{expected}");
        assert_eq!(text, expected);
    }
}
