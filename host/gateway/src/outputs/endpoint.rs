//! `GET /v1/outputs/NAME`.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::header::ALLOW;
use hyper::{Method, StatusCode};
use tokio::sync::mpsc;

use super::log::OutputLog;
use super::reader::{Begin, Reader};
use super::{events, origin, websocket};
use crate::exchange::{Answered, Asked, Content, Takeover};
use crate::ingest::Refusal;

const PREFIX: &str = "/v1/outputs/";

/// An output that clients read.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// Its name in the pipeline, and in the path.
    pub name: String,
    /// Its records.
    pub log: Arc<OutputLog>,
}

/// All outputs that clients read. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Outputs {
    logs: Arc<HashMap<String, Arc<OutputLog>>>,
    origins: Arc<[String]>,
}

impl Outputs {
    /// With these outputs. `origins` are the sites whose pages may read them, as browsers write them:
    /// `https://console.example`.
    pub fn new(
        outputs: impl IntoIterator<Item = OutputOptions>,
        origins: impl IntoIterator<Item = String>,
    ) -> Outputs {
        let named = |output: OutputOptions| (output.name, output.log);
        Outputs {
            logs: Arc::new(outputs.into_iter().map(named).collect()),
            origins: origins.into_iter().collect(),
        }
    }

    /// There is no more to come: all readers end once they have seen what is there.
    pub fn close(&self) {
        for log in self.logs.values() {
            log.close();
        }
    }

    /// Answers a request to a path below `/v1/outputs/`. To be called within a runtime of tokio.
    pub async fn answer(&self, asked: Asked) -> Answered {
        self.follow(asked).unwrap_or_else(Answered::from)
    }

    fn follow(&self, asked: Asked) -> Result<Answered, Refusal> {
        let name = asked.path.strip_prefix(PREFIX).unwrap_or_default();
        let log = self.logs.get(name).ok_or_else(|| {
            let message = format!("there is no output at {}", asked.path);
            Refusal::new(StatusCode::NOT_FOUND, "unknown_output", message)
        })?;
        if asked.method != Method::GET {
            let message = format!("{} is not taken here, GET is", asked.method);
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(status, "method_not_allowed", message).with(ALLOW, "GET"));
        }
        let mut headers = origin::check(&asked.headers, &self.origins)?;
        let begin = begin(&asked)?;
        let upgrade = websocket::is_asked_for(&asked.headers);
        if upgrade {
            headers.extend(websocket::accept(&asked.headers)?);
        }
        let place = log.place().ok_or_else(|| {
            let message = format!("output {name} has {} readers", log.limits().readers);
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_readers", message).after(5)
        })?;
        let reader = Reader::new(log, place, begin)?;
        if upgrade {
            return Ok(Answered {
                status: StatusCode::SWITCHING_PROTOCOLS,
                headers,
                content: Content::Upgraded(Takeover::new(|connection| {
                    websocket::serve(reader, connection)
                })),
            });
        }
        // The window of `events` bounds what waits in it.
        let (parts, received) = mpsc::unbounded_channel();
        tokio::spawn(events::send(reader, parts, asked.gone));
        Ok(Answered {
            status: StatusCode::OK,
            headers,
            content: Content::Events(received),
        })
    }
}

/// Where to begin: a browser that connects again does so with the address it had and the id it saw, which counts.
fn begin(asked: &Asked) -> Result<Begin, Refusal> {
    let invalid = |text: &str, param| {
        let text: String = text.chars().take(64).collect();
        let why = format!("{text:?} is neither now nor start nor an id");
        Refusal::bad("invalid_event_id", why).of(param)
    };
    let seen = asked.headers.get("last-event-id");
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        let text = seen.to_str().unwrap_or("(not ASCII)");
        let begin = Begin::parse(text).filter(|begin| matches!(begin, Begin::After { .. }));
        return begin.ok_or_else(|| invalid(text, "Last-Event-ID"));
    }
    let query = asked.query.as_deref().unwrap_or_default();
    let mut given = query
        .split('&')
        .filter_map(|part| part.strip_prefix("from="));
    match (given.next(), given.next()) {
        (None, _) => Ok(Begin::Now),
        (Some(text), None) => Begin::parse(text).ok_or_else(|| invalid(text, "from")),
        (Some(_), Some(_)) => {
            Err(Refusal::bad("invalid_event_id", "from is given twice").of("from"))
        }
    }
}
