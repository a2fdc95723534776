//! What a run tells collectors of OpenTelemetry: which, and what goes there.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tidegate_control::config::{self, Pipeline};
use tidegate_otlp::{Collector, Exporter, Exports, OtlpError, Resource};
use tidegate_telemetry::trace::{Sampler, Tracer};

use crate::exit::Failure;
use crate::host::RunningHost;
use crate::opening::Seen;

/// Where a collector takes each kind of message, as OTLP over HTTP has it.
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";
/// How long what is left may take to be told at the end of a run.
const FLUSH: Duration = Duration::from_secs(5);

/// The host that is asked what it measures, once it runs.
type Measured = Arc<OnceLock<Weak<RunningHost>>>;

/// What tells them, for the time of a run.
#[derive(Default)]
pub(crate) struct Collectors {
    tracer: Tracer,
    exporter: Option<Exporter>,
    host: Measured,
}

impl Collectors {
    /// Begins to tell what the pipeline file says is told.
    pub(crate) fn start(pipeline: &Pipeline) -> Result<Collectors, Failure> {
        let host = Measured::default();
        let telemetry = &pipeline.telemetry;
        let (mut tracer, mut traces, mut metrics) = (Tracer::default(), None, None);
        if let Some(told) = &telemetry.traces {
            let (takes, spans) = Tracer::new(Sampler::new(told.sample), told.queue);
            tracer = takes;
            traces = Some((opened(&told.collector, TRACES)?, spans));
        }
        if let Some(told) = &telemetry.metrics {
            let host = host.clone();
            let gather = move || {
                let host = host.get().and_then(Weak::upgrade)?;
                Some(host.exposition())
            };
            let collector = opened(&told.collector, METRICS)?;
            metrics = Some((collector, told.interval, Box::new(gather) as _));
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
            exporter,
            host,
        })
    }

    /// Where spans go.
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer.clone()
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

/// What each collector is told, and where it is.
fn all(pipeline: &Pipeline) -> impl Iterator<Item = (&config::Collector, &'static str, String)> {
    let telemetry = &pipeline.telemetry;
    let traces = telemetry.traces.as_ref().map(|told| {
        let what = format!("traces, {} of those that begin here", told.sample);
        (&told.collector, TRACES, what)
    });
    let metrics = telemetry.metrics.as_ref().map(|told| {
        let what = format!("metrics, every {:?}", told.interval);
        (&told.collector, METRICS, what)
    });
    traces.into_iter().chain(metrics)
}

/// What is told to whom, a line each.
pub(crate) fn described(pipeline: &Pipeline) -> Vec<String> {
    let line = |(collector, path, what): (&config::Collector, &str, String)| {
        let place = match &collector.endpoint {
            Some(url) => shown(url, path),
            None => match variable(config::Collector::ENDPOINT) {
                Some(url) => format!("{} ({})", shown(&url, path), config::Collector::ENDPOINT),
                None => format!("the collector of {}", config::Collector::ENDPOINT),
            },
        };
        format!("{what}: to {place}")
    };
    all(pipeline).map(line).collect()
}

fn shown(url: &str, path: &str) -> String {
    let collector = Collector::new(url, path, "", Duration::ZERO);
    collector.map_or_else(|_| url.to_owned(), |collector| collector.url())
}

/// Looks at what the environment has to have.
pub(crate) fn look(pipeline: &Pipeline, seen: &mut Seen) {
    for (collector, path, _) in all(pipeline) {
        if let Err(why) = told(collector, path) {
            seen.lacks(pipeline.mistake_of_collector(collector, why));
        }
    }
}

fn opened(collector: &config::Collector, path: &str) -> Result<Collector, Failure> {
    told(collector, path).map_err(Failure::usage)
}

/// A collector: what the file says comes before what the environment does, and the environment alone has nothing told.
fn told(collector: &config::Collector, path: &str) -> Result<Collector, String> {
    let endpoint = collector.endpoint.clone();
    let endpoint = endpoint.or_else(|| variable(config::Collector::ENDPOINT));
    let endpoint = endpoint.ok_or_else(|| {
        format!(
            "has no endpoint, and the environment variable {} is not set here, or empty; a run needs one of them",
            config::Collector::ENDPOINT
        )
    })?;
    let headers = match &collector.headers_variable {
        None => variable(config::Collector::HEADERS).unwrap_or_default(),
        Some(name) => variable(name).ok_or_else(|| {
            format!("the environment variable {name} of headers-variable is not set here, or empty; a run needs it")
        })?,
    };
    Collector::new(&endpoint, path, &headers, collector.timeout)
        .map_err(|error: OtlpError| error.to_string())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
