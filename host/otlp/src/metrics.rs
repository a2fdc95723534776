//! Metrics as OpenTelemetry's messages. They are those of `/metrics`; units stand in their own field there and not in the
//! name.

use std::borrow::Cow;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use prost::Message as _;
use tidegate_telemetry::metrics::{Kind, Measured, Sample, Unit, Value};

use crate::options::{Resource, scope, text};

/// A message with everything that is measured, from one time to another, nanoseconds since the Unix epoch.
pub(crate) fn message(resource: &Resource, families: &[Measured], times: (u64, u64)) -> Bytes {
    let metrics = families.iter().filter(|family| !family.samples.is_empty());
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource.message()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics: metrics.map(|family| one(family, times)).collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    request.encode_to_vec().into()
}

/// The name without its unit, and the unit as UCUM has it: whoever makes Prometheus's name of them gets the one that
/// `/metrics` has.
fn named(family: &Measured) -> (&str, Cow<'static, str>) {
    let name = match family.kind {
        Kind::Counter => family.name.strip_suffix("_total").unwrap_or(&family.name),
        _ => &family.name,
    };
    let without = |suffix: &str| name.strip_suffix(suffix).unwrap_or(name);
    match family.unit {
        Unit::Seconds => (without("_seconds"), "s".into()),
        Unit::Timestamp => (without("_seconds"), "s".into()),
        Unit::Bytes => (without("_bytes"), "By".into()),
        Unit::Ratio => (without("_ratio"), "1".into()),
        Unit::Of(things) => (name, format!("{{{things}}}").into()),
        Unit::Truth => (name, "".into()),
    }
}

fn one(family: &Measured, times: (u64, u64)) -> Metric {
    let (name, unit) = named(family);
    let points = || {
        family
            .samples
            .iter()
            .filter_map(|sample| point(sample, times))
    };
    let data = match family.kind {
        Kind::Counter => metric::Data::Sum(Sum {
            data_points: points().collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        Kind::Gauge | Kind::Untyped => metric::Data::Gauge(Gauge {
            data_points: points().collect(),
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: (family.samples.iter())
                .filter_map(|sample| spread(sample, times))
                .collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
    };
    Metric {
        name: name.to_owned(),
        description: family.help.clone().into_owned(),
        unit: unit.into_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn labels(sample: &Sample) -> Vec<KeyValue> {
    let labels = sample.labels.iter();
    labels.map(|(name, value)| text(name, value)).collect()
}

fn point(sample: &Sample, (start, now): (u64, u64)) -> Option<NumberDataPoint> {
    let value = match sample.value {
        Value::Whole(number) => {
            number_data_point::Value::AsInt(i64::try_from(number).unwrap_or(i64::MAX))
        }
        Value::Real(number) => number_data_point::Value::AsDouble(number),
        Value::Spread(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: labels(sample),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn spread(sample: &Sample, (start, now): (u64, u64)) -> Option<HistogramDataPoint> {
    let Value::Spread(spread) = &sample.value else {
        return None;
    };
    Some(HistogramDataPoint {
        attributes: labels(sample),
        start_time_unix_nano: start,
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
    use tidegate_telemetry::metrics::Spread;

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
            }],
        }
    }

    #[test]
    fn what_is_measured_has_its_unit_beside_its_name_and_counts_from_the_start() {
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
        let bytes = message(&resource, &families, (1, 2));
        let read = ExportMetricsServiceRequest::decode(bytes).unwrap();
        let of = &read.resource_metrics[0].scope_metrics[0].metrics;
        let named: Vec<_> = of
            .iter()
            .map(|one| (one.name.as_str(), one.unit.as_str()))
            .collect();
        let expected = [
            ("tidegate_in_records", "{records}"),
            ("tidegate_busy", "s"),
            ("tidegate_memory", "By"),
            ("tidegate_fill", "1"),
            ("tidegate_ready", ""),
            ("tidegate_call", "s"),
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
}
