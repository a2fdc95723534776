//! The front while it listens.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::AuditDoor;
use tidegate_control::Host;
use tidegate_control::admin::ReadOnlyPage;
use tidegate_control::config::{self, FeedKind, Pipeline, SinkKind, SourceKind};
use tidegate_flow::Topology;
use tidegate_gateway::endpoints::{Counted, Everything, Health, Page};
use tidegate_gateway::front::{Bound, Front, Refused};
use tidegate_gateway::idempotency::{Answers, Options as KeptOptions};
use tidegate_gateway::ingest::{Ingest, IngestOptions};
use tidegate_gateway::openai::admission::Quotas;
use tidegate_gateway::openai::load::Shed;
use tidegate_gateway::openai::{self, OpenAi};
use tidegate_gateway::outputs::{OutputOptions, Outputs};
use tidegate_gateway::requests::Requests;
use tidegate_telemetry::trace::Tracer;
use tokio::runtime::Runtime;

use super::Gateway;
use super::page::PageOfKeys;
use super::routes::routes;
use crate::exit::Failure;
use crate::metrics::GatewayNow;
use crate::wire::Models;
use crate::wire::feeds::of_stages;
use crate::wire::ports::decoder;

/// Threads of the front: requests wait on the pipeline, not on them.
const THREADS: usize = 2;

/// The front, and what it answers from.
pub(crate) struct Serving {
    address: SocketAddr,
    secure: bool,
    front: Mutex<Option<Front>>,
    requests: Requests,
    repeated: Answers,
    outputs: Outputs,
    /// Until it ends: it knows the host, which has this.
    page: Mutex<Option<Arc<ReadOnlyPage>>>,
    counted: Counted,
    pub(crate) health: Health,
    refused: Refused,
    shed: Shed,
    /// Last: the front is on it.
    runtime: Mutex<Option<Runtime>>,
}

impl Serving {
    /// Listens from now on, on the address that was taken before.
    pub(crate) fn start(
        pipeline: &Pipeline,
        configured: &config::Gateway,
        bound: Bound,
        gateway: &Gateway,
        (models, topology): (&Models, &Topology),
        (tracer, audit): (Tracer, Option<Arc<dyn AuditDoor>>),
        host: Arc<dyn Host>,
    ) -> Result<Arc<Serving>, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("tidegate-gateway")
            .enable_all()
            .build()?;
        let shed = Shed::default();
        let openai = OpenAi::new(openai::Options {
            requests: gateway.requests.clone(),
            routes: routes(pipeline, models, topology, openai::clock()),
            admission: Arc::new(Quotas),
            max_body: configured.limits.body,
            clock: openai::clock,
            repeated: Some(gateway.repeated.clone()),
            shared: shared(configured)?,
            shed: shed.clone(),
            audit,
        });
        let outputs = gateway.outputs.iter().map(|(name, log)| OutputOptions {
            name: name.clone(),
            log: log.clone(),
        });
        let outputs = Outputs::new(outputs, configured.origins.iter().cloned());
        let page = configured
            .shows_page()
            .then(|| Arc::new(ReadOnlyPage::new(host)));
        let (counted, health) = (Counted::default(), Health::default());
        let endpoints = Everything {
            openai,
            ingest: Ingest::new(ingest(pipeline, configured, gateway)),
            outputs: outputs.clone(),
            page: page
                .clone()
                .map(|page| Arc::new(PageOfKeys(page)) as Arc<dyn Page>),
            counted: counted.clone(),
            health: health.clone(),
            tracer,
        };
        runtime.spawn(forget_old(
            gateway.repeated.clone(),
            gateway.requests.clone(),
        ));
        let front = {
            let _inside = runtime.enter();
            bound.serve(Arc::new(endpoints)).map_err(Failure::usage)?
        };
        Ok(Arc::new(Serving {
            address: front.address(),
            secure: configured.tls.is_some(),
            refused: front.refused(),
            front: Mutex::new(Some(front)),
            requests: gateway.requests.clone(),
            repeated: gateway.repeated.clone(),
            outputs,
            page: Mutex::new(page),
            counted,
            health,
            shed,
            runtime: Mutex::new(Some(runtime)),
        }))
    }

    /// Where clients reach it.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Requests that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.waiting_callers()
    }

    /// Requests that were answered, by endpoint and status.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u16, u64)> {
        self.counted.all()
    }

    /// All that is counted.
    pub(crate) fn now(&self) -> GatewayNow {
        let refused = self.refused.all();
        let refused = refused.map(|(reason, count)| (reason.name(), count));
        GatewayNow {
            waiting: self.waiting(),
            answered: self.counted.all(),
            broken: self.counted.broken(),
            times: self.counted.all_times(),
            refused: refused.collect(),
            shed: self.shed(),
        }
    }

    /// Requests with which load has done something, by source and step.
    pub(crate) fn shed(&self) -> Vec<(String, String, u64)> {
        self.shed.all()
    }

    /// Takes no more requests; answers that are being made have so long. Then nobody waits for anything.
    pub(crate) async fn stop(&self, within: Duration) {
        self.close_streams();
        let front = self
            .front
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(front) = front {
            front.stop(within).await;
        }
        self.repeated.close();
        self.requests.close();
    }
}

impl Serving {
    /// The same at once.
    pub(crate) fn stop_now(&self) {
        self.close_streams();
        self.repeated.close();
        self.requests.close();
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped, it ends.
        *front = None;
    }
}

impl Serving {
    /// What has no end by itself has one now.
    fn close_streams(&self) {
        self.outputs.close();
        let page = self
            .page
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(page) = page {
            page.close();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let runtime = self
            .runtime
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn kept(kept: &config::Kept, mark: &'static str) -> Result<KeptOptions, Failure> {
    let mark = mark.parse();
    let mark = mark.map_err(|_| anyhow::anyhow!("the mark of kept answers is no header"))?;
    Ok(KeptOptions {
        ttl: kept.ttl,
        bytes: kept.bytes,
        mark,
        lasting: false,
    })
}

/// Answers that equal requests share: kept for a while, or only while they are made.
fn shared(configured: &config::Gateway) -> Result<Option<openai::Shared>, Failure> {
    let none = config::Kept {
        ttl: Duration::ZERO,
        bytes: 64 << 20,
    };
    let kinds = (configured.cache.as_ref(), configured.share_equal_requests);
    let store = match kinds {
        (Some(cache), _) => cache,
        (None, true) => &none,
        (None, false) => return Ok(None),
    };
    Ok(Some(openai::Shared {
        answers: Answers::new(kept(store, "x-cache")?),
        everyone: false,
    }))
}

/// Lets go of answers whose time is over, also while nobody asks.
async fn forget_old(repeated: Answers, requests: Requests) {
    let mut turns = tokio::time::interval(Duration::from_secs(10));
    loop {
        turns.tick().await;
        repeated.forget_old();
        requests.forget_left();
    }
}

fn ingest<'a>(
    pipeline: &'a Pipeline,
    configured: &'a config::Gateway,
    gateway: &'a Gateway,
) -> impl Iterator<Item = IngestOptions> + 'a {
    let sources = pipeline.sources.iter().enumerate();
    sources.filter_map(move |(index, source)| match &source.kind {
        SourceKind::Ingest(ingest) => Some(IngestOptions {
            source: source.name.clone(),
            log: gateway.logs.get(&index)?.clone(),
            decoder: decoder(&source.decoding),
            key_header: (ingest.key_header.as_ref()).and_then(|name| name.parse().ok()),
            headers: (ingest.headers.iter())
                .filter_map(|name| name.parse().ok())
                .collect(),
            max_records: ingest.max_records,
            max_body: configured.limits.body,
        }),
        _ => None,
    })
}

/// What is done when many requests of a source wait, in its order.
fn under_load(pipeline: &Pipeline, route: &config::Route) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, step) in (1..).zip(&route.under_load) {
        let waiting = step.waiting.map(|most| format!("{most} waiting"));
        let oldest = step.oldest.map(|most| format!("a wait of {most:?}"));
        let from: Vec<String> = waiting.into_iter().chain(oldest).collect();
        let model = step.model.and_then(|model| pipeline.models.get(model));
        let model = model.map(|model| format!("model {} answers", model.name));
        let shorter = step.max_tokens;
        let shorter = shorter.map(|most| format!("answers have {most} tokens at most"));
        let refuse = step.refuse.then(|| "429".to_owned());
        let does: Vec<String> = model.into_iter().chain(shorter).chain(refuse).collect();
        let (from, does) = (from.join(" or "), does.join(", "));
        lines.push(format!("  {number}. from {from}: {does}"));
    }
    if !lines.is_empty() {
        lines.push(format!("  from {} waiting: 429", route.max_waiting));
    }
    lines
}

/// What of the pipeline the gateway serves, for those who look at it before it runs.
pub(crate) fn described(pipeline: &Pipeline) -> Vec<String> {
    let mut lines = Vec::new();
    for source in &pipeline.sources {
        match &source.kind {
            SourceKind::Gateway(route) => {
                let endpoints: Vec<&str> = route.endpoints.iter().map(|one| one.name()).collect();
                lines.push(format!(
                    "{} for {}, through source {}",
                    endpoints.join(", "),
                    route.models.join(", "),
                    source.name
                ));
                lines.extend(under_load(pipeline, route));
            }
            SourceKind::Ingest(_) => lines.push(format!("POST /v1/ingest/{}", source.name)),
            _ => {}
        }
    }
    let outputs = pipeline.sinks.iter();
    let outputs = outputs.filter(|sink| matches!(sink.kind, SinkKind::Output { .. }));
    lines.extend(outputs.map(|sink| format!("GET /v1/outputs/{}", sink.name)));
    if pipeline
        .gateway
        .as_ref()
        .is_some_and(config::Gateway::shows_page)
    {
        lines.push("GET /tidegate/, the page, for keys with endpoints = [\"page\"]".to_owned());
    }
    for (index, feed) in pipeline.feeds.iter().enumerate() {
        if let FeedKind::Output { .. } = feed.kind {
            let of = of_stages(&pipeline.senders(index));
            lines.push(format!("GET /v1/outputs/{}, {of}", feed.name));
        }
    }
    lines
}
