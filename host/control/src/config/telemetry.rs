//! What a pipeline tells of itself to a collector of OpenTelemetry.

use std::time::Duration;

use super::text::Span;

/// What is told; nothing unless the file says so.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// Traces.
    pub traces: Option<Traces>,
    /// Metrics.
    pub metrics: Option<OtlpMetrics>,
}

/// Traces that are told.
#[derive(Clone, Debug)]
pub struct Traces {
    /// Where they go.
    pub collector: Collector,
    /// Part of the traces that begin here.
    pub sample: f64,
    /// Traces of others that are recorded because those ask for it, a second, of each source and of the gateway.
    pub forced: u32,
    /// Spans that wait for the collector.
    pub queue: usize,
}

/// Metrics that are told.
#[derive(Clone, Debug)]
pub struct OtlpMetrics {
    /// Where they go.
    pub collector: Collector,
    /// How often.
    pub interval: Duration,
}

/// Where something is told.
#[derive(Clone, Debug)]
pub struct Collector {
    /// A URL; without one it is in the environment.
    pub endpoint: Option<String>,
    /// The variable of the environment that has headers for it, where the file names one.
    pub headers_variable: Option<String>,
    /// How long an answer may take.
    pub timeout: Duration,
    pub(super) key: &'static str,
    pub(super) place: Span,
}

impl Collector {
    /// The variable that has the URL of a whole collector where the file has no endpoint.
    pub const ENDPOINT: &'static str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    /// The variable that has headers for the collectors of the environment, where the file names none.
    pub const HEADERS: &'static str = "OTEL_EXPORTER_OTLP_HEADERS";
}
