//! Reads `[telemetry]`: what is told to a collector of OpenTelemetry.

use std::time::Duration;

use super::read_gateway_access::read_variable;
use super::read_url::{Expected, check_url};
use super::reader::Table;
use super::telemetry::{Collector, OtlpMetrics, Telemetry, Traces};

pub(crate) fn read_telemetry(table: Table<'_>) -> Telemetry {
    let telemetry = Telemetry {
        traces: table.table("traces").map(read_traces),
        metrics: table.table("metrics").map(read_metrics),
    };
    if telemetry.traces.is_none() && telemetry.metrics.is_none() {
        table.found.warning(
            &table.place,
            "telemetry",
            "has neither traces nor metrics: nothing is told; write [telemetry.traces] or [telemetry.metrics]",
        );
    }
    table.finish();
    telemetry
}

fn read_traces(table: Table<'_>) -> Traces {
    let traces = Traces {
        collector: read_collector(&table, "telemetry.traces"),
        sample: table
            .real("sample", |part| (0.0..=1.0).contains(&part), "0.0 to 1.0")
            .map_or(0.01, |typed| typed.value),
        forced: table
            .number("forced-per-second", 0..=1_000_000)
            .map_or(1000, |typed| u32::try_from(typed.value).unwrap_or(u32::MAX)),
        queue: table
            .count("queue", 1..=1_000_000)
            .map_or(8192, |typed| typed.value),
    };
    table.finish();
    traces
}

fn read_metrics(table: Table<'_>) -> OtlpMetrics {
    let times = Duration::from_secs(1)..=Duration::from_secs(3600);
    let metrics = OtlpMetrics {
        collector: read_collector(&table, "telemetry.metrics"),
        interval: table
            .duration("interval", "s", times)
            .map_or(Duration::from_secs(60), |typed| typed.value),
    };
    table.finish();
    metrics
}

fn read_collector(table: &Table<'_>, key: &'static str) -> Collector {
    let times = Duration::from_millis(10)..=Duration::from_secs(600);
    let endpoint = table.string("endpoint");
    let headers = read_variable(table, "headers-variable");
    if let Some(endpoint) = &endpoint {
        let expected = Expected {
            whose: "a collector",
            example: "http://127.0.0.1:4318",
            secret: headers
                .as_ref()
                .map(|_| "the headers of headers-variable are"),
        };
        check_url(table, endpoint, &expected);
    }
    Collector {
        endpoint: endpoint.map(|typed| typed.value),
        headers_variable: headers.map(|typed| typed.value),
        timeout: table
            .duration("timeout", "s", times)
            .map_or(Duration::from_secs(10), |typed| typed.value),
        key,
        place: table.place.clone(),
    }
}
