//! Metrics as OpenTelemetry's messages. They are those of `/metrics`, under the same names: what makes Prometheus's names
//! of them finds unit and `_total` there and adds nothing, and no two become one because something was left out.

use std::borrow::Cow;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use prost::Message as _;
use tidegate_telemetry::metrics::{Kind, Measured, Sample, Unit, Value};

use crate::options::{Resource, scope, text};

/// A message with everything that is measured at a time, nanoseconds since the Unix epoch; and how many points it has.
pub(crate) fn message(resource: &Resource, families: &[Measured], now: u64) -> (Bytes, u64) {
    let points = families.iter().map(|family| family.samples.len() as u64);
    let points = points.sum();
    let metrics = families.iter().filter(|family| !family.samples.is_empty());
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource.message()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics: metrics.map(|family| one(family, now)).collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    (request.encode_to_vec().into(), points)
}

/// How many points a collector that took the message says it has refused, and why.
pub(crate) fn refused(answer: &[u8]) -> Option<(u64, String)> {
    let answer = ExportMetricsServiceResponse::decode(answer).ok()?;
    let partial = answer.partial_success?;
    let refused = u64::try_from(partial.rejected_data_points).ok()?;
    (refused > 0).then_some((refused, partial.error_message))
}

/// As UCUM has it.
fn unit(unit: Unit) -> Cow<'static, str> {
    match unit {
        Unit::Seconds | Unit::Timestamp => "s".into(),
        Unit::Bytes => "By".into(),
        Unit::Ratio => "1".into(),
        Unit::Of("") | Unit::Truth => "".into(),
        Unit::Of(things) => format!("{{{things}}}").into(),
    }
}

fn one(family: &Measured, now: u64) -> Metric {
    let points = || {
        family
            .samples
            .iter()
            .filter_map(|sample| point(sample, now))
    };
    let data = match family.kind {
        Kind::Counter => metric::Data::Sum(Sum {
            data_points: points().collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        Kind::Gauge => metric::Data::Gauge(Gauge {
            data_points: points().collect(),
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: (family.samples.iter())
                .filter_map(|sample| spread(sample, now))
                .collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
    };
    Metric {
        name: family.name.clone().into_owned(),
        description: family.help.clone().into_owned(),
        unit: unit(family.unit).into_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn labels(sample: &Sample) -> Vec<KeyValue> {
    let labels = sample.labels.iter();
    labels.map(|(name, value)| text(name, value)).collect()
}

fn point(sample: &Sample, now: u64) -> Option<NumberDataPoint> {
    let value = match sample.value {
        Value::Whole(number) => {
            number_data_point::Value::AsInt(i64::try_from(number).unwrap_or(i64::MAX))
        }
        Value::Real(number) => number_data_point::Value::AsDouble(number),
        Value::Spread(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: labels(sample),
        start_time_unix_nano: sample.since,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn spread(sample: &Sample, now: u64) -> Option<HistogramDataPoint> {
    let Value::Spread(spread) = &sample.value else {
        return None;
    };
    Some(HistogramDataPoint {
        attributes: labels(sample),
        start_time_unix_nano: sample.since,
        time_unix_nano: now,
        count: spread.counts.iter().sum(),
        sum: Some(spread.sum),
        bucket_counts: spread.counts.to_vec(),
        explicit_bounds: spread.bounds.to_vec(),
        ..HistogramDataPoint::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_telemetry::metrics::{Spread, table};

    use super::*;

    fn family(name: &'static str, kind: Kind, unit: Unit, value: impl Into<Value>) -> Measured {
        Measured {
            name: name.into(),
            kind,
            unit,
            help: "what it is".into(),
            samples: vec![Sample {
                labels: vec![("stage".into(), "ask".to_owned())],
                value: value.into(),
                since: 1,
            }],
        }
    }

    #[test]
    fn what_is_measured_has_its_unit_beside_its_name_and_counts_from_its_own_beginning() {
        let spread = Spread {
            bounds: vec![0.1, 1.0].into(),
            counts: vec![1, 2, 3],
            sum: 9.5,
        };
        let families = [
            family(
                "tidegate_in_records_total",
                Kind::Counter,
                Unit::Of("records"),
                7u64,
            ),
            family(
                "tidegate_busy_seconds_total",
                Kind::Counter,
                Unit::Seconds,
                1.5,
            ),
            family("tidegate_memory_bytes", Kind::Gauge, Unit::Bytes, 8u64),
            family("tidegate_fill_ratio", Kind::Gauge, Unit::Ratio, 0.5),
            family("tidegate_ready", Kind::Gauge, Unit::Truth, true),
            family(
                "tidegate_call_seconds",
                Kind::Histogram,
                Unit::Seconds,
                spread,
            ),
        ];
        let resource = Resource::of("tickets", "1");
        let (bytes, points) = message(&resource, &families, 2);
        assert_eq!(points, 6);
        let read = ExportMetricsServiceRequest::decode(bytes).unwrap();
        let of = &read.resource_metrics[0].scope_metrics[0].metrics;
        let named: Vec<_> = of
            .iter()
            .map(|one| (one.name.as_str(), one.unit.as_str()))
            .collect();
        let expected = [
            ("tidegate_in_records_total", "{records}"),
            ("tidegate_busy_seconds_total", "s"),
            ("tidegate_memory_bytes", "By"),
            ("tidegate_fill_ratio", "1"),
            ("tidegate_ready", ""),
            ("tidegate_call_seconds", "s"),
        ];
        assert_eq!(named, expected);
        let Some(metric::Data::Sum(sum)) = &of[0].data else {
            panic!("{:?}", of[0]);
        };
        let cumulative = i32::from(AggregationTemporality::Cumulative);
        assert_eq!(
            (sum.is_monotonic, sum.aggregation_temporality),
            (true, cumulative)
        );
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        assert_eq!(point.value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!(point.attributes[0].key, "stage");
        let Some(metric::Data::Histogram(histogram)) = &of[5].data else {
            panic!("{:?}", of[5]);
        };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum), (6, Some(9.5)));
        assert_eq!(
            (&point.bucket_counts[..], &point.explicit_bounds[..]),
            (&[1, 2, 3][..], &[0.1, 1.0][..])
        );
    }

    #[test]
    fn no_two_families_have_one_name() {
        let families: Vec<_> = (table::ALL.iter())
            .map(|known| family(known.name, known.kind, known.unit, 1_u64))
            .collect();
        let names: BTreeSet<_> = (families.iter()).map(|known| one(known, 2).name).collect();
        assert_eq!(names.len(), families.len());
        // And those of operators, which differ by a suffix that some leave out.
        let named = |name, kind| one(&family(name, kind, Unit::Of(""), 1_u64), 2).name;
        let words = named("tidegate_operator_words_total", Kind::Counter);
        assert_ne!(words, named("tidegate_operator_words", Kind::Gauge));
    }
}
