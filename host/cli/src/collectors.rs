//! What a run tells collectors of OpenTelemetry: which, and what goes there.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tidegate_control::config::{self, Pipeline};
use tidegate_otlp::{
    Collector, Endpoint, Exporter, Exports, Metrics, OtlpError, Resource, without_secrets,
};
use tidegate_telemetry::metrics::PointCounts;
use tidegate_telemetry::trace::{Sampler, Tracer};

use crate::exit::Failure;
use crate::host::RunningHost;
use crate::opening::Seen;

/// A kind of message.
struct Signal {
    /// Where a whole collector takes it, as OTLP over HTTP has it.
    path: &'static str,
    /// The variables of the environment that have endpoint and headers for it alone. They come before those for all.
    endpoint: &'static str,
    headers: &'static str,
}

const TRACES: Signal = Signal {
    path: "/v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
};
const METRICS: Signal = Signal {
    path: "/v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
};
/// How long what is left may take to be told at the end of a run.
const FLUSH: Duration = Duration::from_secs(5);

/// The host that is asked what it measures, once it runs.
type Measured = Arc<OnceLock<Weak<RunningHost>>>;

/// What tells them, for the time of a run.
#[derive(Default)]
pub(crate) struct Collectors {
    tracer: Tracer,
    points: Arc<PointCounts>,
    exporter: Option<Exporter>,
    host: Measured,
}

impl Collectors {
    /// Begins to tell what the pipeline file says is told.
    pub(crate) fn start(pipeline: &Pipeline) -> Result<Collectors, Failure> {
        let (host, points) = (Measured::default(), Arc::<PointCounts>::default());
        let telemetry = &pipeline.telemetry;
        let (mut tracer, mut traces, mut metrics) = (Tracer::default(), None, None);
        if let Some(told) = &telemetry.traces {
            let sampler = Sampler::new(told.sample).forced(told.forced);
            let (takes, spans) = Tracer::new(sampler, told.queue);
            tracer = takes;
            traces = Some((opened(&told.collector, &TRACES)?, spans));
        }
        if let Some(told) = &telemetry.metrics {
            let host = host.clone();
            let gather = move || {
                let host = host.get().and_then(Weak::upgrade)?;
                Some(host.exposition())
            };
            metrics = Some(Metrics {
                collector: opened(&told.collector, &METRICS)?,
                interval: told.interval,
                gather: Box::new(gather),
                counts: points.clone(),
            });
        }
        let exporter = match (&traces, &metrics) {
            (None, None) => None,
            _ => {
                let resource = Resource::of(&pipeline.name, &instance());
                let exports = Exports { traces, metrics };
                Some(Exporter::start(resource, exports).map_err(Failure::usage)?)
            }
        };
        Ok(Collectors {
            tracer,
            points,
            exporter,
            host,
        })
    }

    /// Where spans go.
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// What becomes of the points of metrics.
    pub(crate) fn points(&self) -> Arc<PointCounts> {
        self.points.clone()
    }

    /// What is measured from now on.
    pub(crate) fn measure(&self, host: &Arc<RunningHost>) {
        // Set once: a run has one host.
        let _ = self.host.set(Arc::downgrade(host));
    }

    /// The run has ended: what is left is told, for a while at most.
    pub(crate) fn finish(self) {
        if let Some(exporter) = self.exporter {
            exporter.finish(FLUSH);
        }
        if let Some(counts) = self.tracer.counts() {
            let (made, exported) = (counts.made.get(), counts.exported.get());
            let (full, failed) = (counts.full.get(), counts.failed.get());
            if full + failed > 0 {
                tracing::warn!(made, exported, full, failed, "not every span was exported");
            }
            tracing::info!(made, exported, full, failed, "spans");
        }
    }
}

/// Two processes of one pipeline are two instances of a service.
fn instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.unwrap_or_default();
    format!("{}-{}", host.trim(), std::process::id())
}

/// What each collector is told.
fn all(pipeline: &Pipeline) -> impl Iterator<Item = (&config::Collector, &'static Signal, String)> {
    let telemetry = &pipeline.telemetry;
    let traces = telemetry.traces.as_ref().map(|told| {
        let what = format!("traces, {} of those that begin here", told.sample);
        (&told.collector, &TRACES, what)
    });
    let metrics = telemetry.metrics.as_ref().map(|told| {
        let what = format!("metrics, every {:?}", told.interval);
        (&told.collector, &METRICS, what)
    });
    traces.into_iter().chain(metrics)
}

/// What is told to whom, a line each.
pub(crate) fn described(pipeline: &Pipeline) -> Vec<String> {
    let line = |(collector, signal, what): (&config::Collector, &Signal, String)| {
        let place = match found(collector, signal) {
            None => format!("the collector of {}", config::Collector::ENDPOINT),
            Some(found) => {
                let opened = Collector::new(found.endpoint(signal), "", Duration::ZERO);
                let url = opened.map_or_else(|_| without_secrets(&found.url), |to| to.url());
                match found.variable {
                    None => url,
                    Some(variable) => format!("{url} ({variable})"),
                }
            }
        };
        format!("{what}: to {place}")
    };
    all(pipeline).map(line).collect()
}

/// Looks at what the environment has to have.
pub(crate) fn look(pipeline: &Pipeline, seen: &mut Seen) {
    for (collector, signal, _) in all(pipeline) {
        if let Err(why) = told(collector, signal) {
            seen.lacks(pipeline.mistake_of_collector(collector, why));
        }
    }
}

fn opened(collector: &config::Collector, signal: &Signal) -> Result<Collector, Failure> {
    let opened = told(collector, signal).map_err(Failure::usage)?;
    // Of the file's endpoint the file's check has said so.
    if collector.endpoint.is_none() && opened.tells_headers() {
        let collector = opened.url();
        tracing::warn!(collector, "is not https: the headers are sent in the open");
    }
    Ok(opened)
}

/// Where a collector is, and who says so.
struct Found {
    url: String,
    /// The variable of the environment; none where the file has it.
    variable: Option<&'static str>,
    /// Whether it is the URL of a whole collector.
    is_base: bool,
}

impl Found {
    fn endpoint(&self, signal: &Signal) -> Endpoint<'_> {
        let (url, path) = (&*self.url, signal.path);
        match self.is_base {
            true => Endpoint::Base { url, path },
            false => Endpoint::Exact(url),
        }
    }
}

/// What the file says comes before what the environment does, and what that says of the kind of message before what it
/// says of all. A URL of the file with a path is exact.
fn found(collector: &config::Collector, signal: &Signal) -> Option<Found> {
    if let Some(url) = &collector.endpoint {
        let (_, rest) = url.split_once("://").unwrap_or_default();
        return Some(Found {
            url: url.clone(),
            variable: None,
            is_base: !rest.trim_end_matches('/').contains('/'),
        });
    }
    let named = |name: &'static str, is_base: bool| {
        Some(Found {
            url: variable(name)?,
            variable: Some(name),
            is_base,
        })
    };
    named(signal.endpoint, false).or_else(|| named(config::Collector::ENDPOINT, true))
}

/// A collector. The environment alone has nothing told, and its headers are for its own collectors.
fn told(collector: &config::Collector, signal: &Signal) -> Result<Collector, String> {
    let found = found(collector, signal).ok_or_else(|| {
        format!(
            "has no endpoint, and the environment variable {} is not set here, or empty; a run needs one of them",
            config::Collector::ENDPOINT
        )
    })?;
    let headers = match (&collector.headers_variable, found.variable) {
        (Some(name), _) => variable(name).ok_or_else(|| {
            format!("the environment variable {name} of headers-variable is not set here, or empty; a run needs it")
        })?,
        (None, Some(_)) => {
            let own = variable(signal.headers);
            own.or_else(|| variable(config::Collector::HEADERS))
                .unwrap_or_default()
        }
        (None, None) => String::new(),
    };
    Collector::new(found.endpoint(signal), &headers, collector.timeout)
        .map_err(|error: OtlpError| error.to_string())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
