//! All endpoints of the gateway: which path is whose, what a key must be for, and how many were answered.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Method, StatusCode};
use tidegate_telemetry::trace::Tracer;
use tracing::field::display;

use crate::access::Scope;
use crate::exchange::{Answered, Asked, Content};
use crate::front::{Endpoints, Limits, Times, Timing};
use crate::ingest::Ingest;
use crate::openai::OpenAi;
use crate::openai::error::ApiError;
use crate::openai::route::Endpoint;
use crate::outputs::Outputs;
use crate::traced::Trace;

/// Whether the process answers, without a key.
const HEALTH: &str = "/health";

/// Whether its threads go on, and whether it does its work: for a probe, without a key and without a reason.
const LIVE: &str = "/healthz/live";
const READY: &str = "/healthz/ready";

/// Who knows whether the process is well, once it runs. A copy is the same.
#[derive(Clone, Default)]
pub struct Health(Arc<OnceLock<Box<dyn Fn() -> WellBeing + Send + Sync>>>);

/// Whether a process is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WellBeing {
    /// Its threads go on.
    pub live: bool,
    /// It does its work.
    pub ready: bool,
}

impl Health {
    /// From now on this one is asked, who waits for nothing.
    pub fn known_by(&self, who: impl Fn() -> WellBeing + Send + Sync + 'static) {
        // There is one run in a process.
        let _ = self.0.set(Box::new(who));
    }

    fn now(&self) -> WellBeing {
        let starting = WellBeing {
            live: true,
            ready: false,
        };
        self.0.get().map_or(starting, |who| who())
    }
}

/// Where the page is.
const PAGE: &str = "/tidegate";

/// A page of the pipeline while it runs, with what it asks. Paths are those below its own, from their `/` on.
pub trait Page: Send + Sync {
    /// Answers a request that has no body, of whoever has the key of this name. Dropped when the client goes; it must not
    /// block.
    fn answer(
        &self,
        key: &str,
        method: Method,
        path: &str,
        query: Option<&str>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send>>;

    /// Whether there is nothing of the pipeline at this path, so that whoever has no key yet may have it.
    fn is_open(&self, path: &str) -> bool;
}

/// Every endpoint.
pub struct Everything {
    /// OpenAI's.
    pub openai: OpenAi,
    /// Records that are handed over.
    pub ingest: Ingest,
    /// Records that are followed.
    pub outputs: Outputs,
    /// The page, where a key is for it.
    pub page: Option<Arc<dyn Page>>,
    /// What was answered.
    pub counted: Counted,
    /// Whether the process is well.
    pub health: Health,
    /// Where their spans go.
    pub tracer: Tracer,
}

/// Whose a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    OpenAi,
    Ingest,
    Outputs,
    Page,
    Health,
    Nowhere,
}

impl Place {
    fn of(path: &str) -> Place {
        match path {
            HEALTH | LIVE | READY => Place::Health,
            path if path.starts_with("/v1/ingest/") => Place::Ingest,
            path if path.starts_with("/v1/outputs/") => Place::Outputs,
            path if OpenAi::serves(path) => Place::OpenAi,
            path if below_page(path).is_some() => Place::Page,
            _ => Place::Nowhere,
        }
    }

    /// The word that counters have.
    fn name(self, path: &str) -> &'static str {
        match self {
            Place::OpenAi => Endpoint::of(path).map_or("models", Endpoint::name),
            Place::Ingest => "ingest",
            Place::Outputs => "outputs",
            Place::Page => "page",
            Place::Health => "health",
            Place::Nowhere => "none",
        }
    }
}

/// The path below the page's, which is empty for that itself; none beside it.
fn below_page(path: &str) -> Option<&str> {
    let below = path.strip_prefix(PAGE)?;
    (below.is_empty() || below.starts_with('/')).then_some(below)
}

impl Everything {
    fn place(&self, path: &str) -> Place {
        match Place::of(path) {
            Place::Page if self.page.is_none() => Place::Nowhere,
            place => place,
        }
    }

    /// The page's answer. Its address ends with `/`, so that what it asks is below it.
    fn paged(&self, asked: &Asked) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let below = below_page(&asked.path).filter(|below| !below.is_empty());
        match (&self.page, below) {
            (Some(page), Some(below)) => {
                let query = asked.query.as_deref();
                page.answer(&asked.who.name, asked.method.clone(), below, query)
            }
            _ => Box::pin(std::future::ready(Answered {
                status: StatusCode::PERMANENT_REDIRECT,
                headers: vec![(LOCATION, HeaderValue::from_static("/tidegate/"))],
                content: Content::Whole {
                    media_type: "",
                    bytes: Bytes::new(),
                },
            })),
        }
    }
}

impl Endpoints for Everything {
    fn answer(&self, mut asked: Asked) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let place = self.place(&asked.path);
        let paged = (place == Place::Page).then(|| self.paged(&asked));
        let name = place.name(&asked.path);
        let health = self.health.clone();
        let (openai, ingest, outputs) = (
            self.openai.clone(),
            self.ingest.clone(),
            self.outputs.clone(),
        );
        let path = asked.path.clone();
        let traced = matches!(place, Place::OpenAi | Place::Ingest);
        if traced && asked.method == Method::POST {
            let method = asked.method.as_str();
            asked.trace = Trace::begin(&self.tracer, &asked.headers, method, name);
        }
        let (id, trace) = (asked.id.clone(), asked.trace.clone());
        Box::pin(async move {
            let answered = match place {
                Place::OpenAi => openai.answer(asked).await,
                Place::Ingest => ingest.answer(asked).await,
                Place::Outputs => outputs.answer(asked).await,
                Place::Page => match paged {
                    Some(paged) => paged.await,
                    None => not_there(&asked),
                },
                Place::Health => match path.as_str() {
                    LIVE => healthy(health.now().live),
                    READY => healthy(health.now().ready),
                    _ => healthy(true),
                },
                Place::Nowhere => not_there(&asked),
            };
            if let Some(trace) = &trace {
                trace.has(answered.status);
            }
            let trace_id = trace.and_then(|trace| trace.id()).map(display);
            let status = answered.status.as_u16();
            tracing::debug!(
                endpoint = name,
                status,
                request = id,
                trace_id,
                "request answered"
            );
            answered
        })
    }

    fn broke(&self, path: &str) {
        self.counted.broke(self.place(path).name(path));
    }

    fn is_own(&self, path: &str) -> bool {
        self.place(path) == Place::Page
    }

    fn begins(&self, path: &str) -> Option<Timing> {
        let times = self.counted.times(self.place(path).name(path));
        Some(Timing::new(times))
    }

    fn limits(&self, method: &Method, path: &str) -> Limits {
        let place = self.place(path);
        let below = below_page(path).unwrap_or_default();
        let open = self.page.as_ref().is_some_and(|page| page.is_open(below));
        let asks = Endpoint::of(path);
        let longest = match place {
            Place::OpenAi => asks.map(|_| self.openai.max_body()),
            Place::Ingest => self.ingest.max_body(path),
            Place::Outputs | Place::Page | Place::Health | Place::Nowhere => None,
        };
        let body = match longest {
            Some(longest) if *method == Method::POST => Some(longest as u64),
            None if *method == Method::GET || place == Place::Health => Some(0),
            // What is not there is not there with any body.
            _ => None,
        };
        let scope = match place {
            Place::OpenAi => Some(asks.map_or(Scope::Models, Endpoint::scope)),
            Place::Ingest => Some(Scope::Ingest),
            Place::Outputs => Some(Scope::Outputs),
            Place::Page => Some(Scope::Page),
            Place::Health | Place::Nowhere => None,
        };
        Limits {
            body,
            open: place == Place::Health || place == Place::Page && open,
            scope,
            lasts: asks.is_some() || matches!(place, Place::Outputs | Place::Page),
            repeats: asks.is_some() && self.openai.repeats(),
        }
    }
}

fn not_there(asked: &Asked) -> Answered {
    let message = format!("There is no {} {}", asked.method, asked.path);
    ApiError::no_path(StatusCode::NOT_FOUND, message).answered()
}

fn healthy(well: bool) -> Answered {
    let (status, bytes) = match well {
        true => (StatusCode::OK, "{\"status\":\"ok\"}"),
        false => (
            StatusCode::SERVICE_UNAVAILABLE,
            "{\"status\":\"unavailable\"}",
        ),
    };
    Answered {
        status,
        headers: Vec::new(),
        content: Content::Whole {
            media_type: "application/json",
            bytes: bytes.into(),
        },
    }
}

/// How many requests were answered, by endpoint and status, and how many of the answers were streams that broke. A copy
/// is the same.
#[derive(Clone, Debug, Default)]
pub struct Counted(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    broken: BTreeMap<&'static str, u64>,
    times: BTreeMap<&'static str, Arc<Times>>,
}

impl Counted {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broke(&self, endpoint: &'static str) {
        *self.counts().broken.entry(endpoint).or_default() += 1;
    }

    fn times(&self, endpoint: &'static str) -> Arc<Times> {
        self.counts().times.entry(endpoint).or_default().clone()
    }

    /// How long requests took, by endpoint.
    pub fn all_times(&self) -> Vec<(&'static str, Arc<Times>)> {
        let counts = self.counts();
        let all = counts.times.iter();
        all.map(|(endpoint, times)| (*endpoint, times.clone()))
            .collect()
    }

    /// All there are: endpoint, status, and how many.
    pub fn all(&self) -> Vec<(&'static str, u16, u64)> {
        let all = self.all_times().into_iter().flat_map(|(endpoint, times)| {
            let statuses = times.statuses().into_iter();
            statuses.map(move |(status, count)| (endpoint, status, count))
        });
        all.collect()
    }

    /// Streams that broke: endpoint, and how many.
    pub fn broken(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts();
        let all = counts.broken.iter();
        all.map(|(endpoint, count)| (*endpoint, *count)).collect()
    }
}
