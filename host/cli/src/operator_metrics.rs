//! The metrics of operators in Prometheus's text format (0.0.4).

use std::collections::BTreeMap;

use tidegate_operator::{Kind, Metric, RevisionMetrics, SERIES_REFUSED, SPREAD, Value};

use crate::revisions::{escaped, labels};

/// A metric by its full name, over all slots.
struct Family {
    kind: Kind,
    /// Whether operators disagree on what it is.
    disagree: bool,
    help: String,
    lines: String,
}

/// What the operators of all slots have measured: each slot's name with what its revisions did.
pub(crate) fn operator_metrics<'a>(
    slots: impl Iterator<Item = (&'a str, Vec<RevisionMetrics>)>,
) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut refused = String::new();
    for (slot, revisions) in slots {
        for revision in revisions {
            let own = labels(slot, &revision.version);
            for (metric, series) in &revision.metrics {
                let name = metric.shown();
                let family = families.entry(name.clone()).or_insert_with(|| Family {
                    kind: metric.kind,
                    disagree: false,
                    help: metric.help.clone(),
                    lines: String::new(),
                });
                family.disagree |= family.kind != metric.kind;
                for (values, value) in series {
                    write(&mut family.lines, &name, &own, metric, values, value);
                }
            }
            let left_out = revision.refused;
            refused += &format!("{SERIES_REFUSED}{{{own}}} {left_out}\n");
        }
    }
    let mut text = format!("# TYPE {SERIES_REFUSED} counter\n{refused}");
    for (name, family) in families {
        if !family.help.is_empty() {
            text += &format!("# HELP {name} {}\n", family.help.replace('\\', "\\\\"));
        }
        let kind = match (family.disagree, family.kind) {
            (true, _) => "untyped",
            (_, Kind::Counter) => "counter",
            (_, Kind::Gauge) => "gauge",
            (_, Kind::Histogram) => "histogram",
        };
        text += &format!("# TYPE {name} {kind}\n{}", family.lines);
    }
    text
}

fn write(
    lines: &mut String,
    name: &str,
    own: &str,
    metric: &Metric,
    values: &[String],
    value: &Value,
) {
    let mut labels = own.to_owned();
    for (label, value) in metric.labels.iter().zip(values) {
        labels += &format!(",{label}=\"{}\"", escaped(value));
    }
    match value {
        Value::Sum(sum) => *lines += &format!("{name}{{{labels}}} {sum}\n"),
        Value::Last(last) => *lines += &format!("{name}{{{labels}}} {last}\n"),
        Value::Spread { counts, sum } => {
            let [bucket, total, number] = SPREAD;
            let mut below = 0;
            let bounds = metric.bounds.iter().map(f64::to_string);
            for (count, bound) in counts.iter().zip(bounds.chain(["+Inf".to_owned()])) {
                below += count;
                *lines += &format!("{name}{bucket}{{{labels},le=\"{bound}\"}} {below}\n");
            }
            *lines +=
                &format!("{name}{total}{{{labels}}} {sum}\n{name}{number}{{{labels}}} {below}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_contract::{KeptRevision, OperatorVersion};

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
        let text = operator_metrics([("one", vec![new, old]), ("two", vec![other])].into_iter());
        let expected = "\
# TYPE tidegate_operator_series_refused_total counter
tidegate_operator_series_refused_total{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 2
tidegate_operator_series_refused_total{slot=\"one\",revision=\"aaaaaaaaaaaaaaaa\"} 2
tidegate_operator_series_refused_total{slot=\"two\",revision=\"cccc\"} 2
# HELP tidegate_operator_size Words, by kind
# TYPE tidegate_operator_size histogram
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"0.5\"} 1
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"2\"} 3
tidegate_operator_size_bucket{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\",le=\"+Inf\"} 6
tidegate_operator_size_sum{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 12.5
tidegate_operator_size_count{slot=\"one\",revision=\"bbbbbbbbbbbbbbbb\"} 6
# HELP tidegate_operator_words_total Words, by kind
# TYPE tidegate_operator_words_total counter
tidegate_operator_words_total{slot=\"one\",revision=\"aaaaaaaaaaaaaaaa\",kind=\"a\\\"b\"} 3
tidegate_operator_words_total{slot=\"two\",revision=\"cccc\",kind=\"x\"} 1
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_that_operators_use_for_different_things_has_no_type() {
        let gauge = revision("aa", vec![(metric("load", Kind::Gauge, &[], &[]), vec![])]);
        let histogram = revision(
            "bb",
            vec![(metric("load", Kind::Histogram, &[], &[1.0]), vec![])],
        );
        let text = operator_metrics([("one", vec![gauge]), ("two", vec![histogram])].into_iter());
        assert!(
            text.contains("# TYPE tidegate_operator_load untyped\n"),
            "{text}"
        );
    }
}
