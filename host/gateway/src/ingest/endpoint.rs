//! `POST /v1/ingest/SOURCE`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName};
use hyper::{Method, StatusCode};
use serde_json::json;
use tidegate_codec::DecoderOptions;
use tidegate_contract::{IngestBatch, IngestError, IngestLog, Ingested};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Refusal;
use super::decode::{Media, Shared, records};
use super::idempotency;
use crate::exchange::{Answered, Asked, Content};
use crate::idempotency::header;
use crate::traced::{Trace, is_of_trace};

const PREFIX: &str = "/v1/ingest/";
/// Requests of a source that are decoded and written at once; more wait.
const AT_ONCE: usize = 32;
/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(10);

/// A source that clients post records to.
#[derive(Clone, Debug)]
pub struct IngestOptions {
    /// Its name in the pipeline, and in the path.
    pub source: String,
    /// Its log.
    pub log: Arc<dyn IngestLog>,
    /// Key, event time and required fields of JSON records, and the longest record. The format is the request's.
    pub decoder: DecoderOptions,
    /// The request header that becomes the key of records without one of their own.
    pub key_header: Option<HeaderName>,
    /// Request headers that become headers of records.
    pub headers: Vec<HeaderName>,
    /// Most records of a request.
    pub max_records: usize,
    /// Longest body in bytes.
    pub max_body: usize,
}

/// All sources that clients post to. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Ingest {
    sources: Arc<HashMap<String, Posted>>,
}

/// A source, and the turns of its requests: one with a slow disk holds up no other.
#[derive(Clone, Debug)]
struct Posted {
    options: Arc<IngestOptions>,
    turns: Arc<Semaphore>,
}

impl Ingest {
    /// With these sources.
    pub fn new(sources: impl IntoIterator<Item = IngestOptions>) -> Ingest {
        let named = |options: IngestOptions| {
            let source = Posted {
                options: Arc::new(options),
                turns: Arc::new(Semaphore::new(AT_ONCE)),
            };
            (source.options.source.clone(), source)
        };
        Ingest {
            sources: Arc::new(sources.into_iter().map(named).collect()),
        }
    }

    /// Longest body that is taken at a path below `/v1/ingest/`; none where nothing is.
    pub fn max_body(&self, path: &str) -> Option<usize> {
        let source = self.sources.get(path.strip_prefix(PREFIX)?)?;
        Some(source.options.max_body)
    }

    /// Answers a request to a path below `/v1/ingest/`, once what it has is durable.
    pub async fn answer(&self, asked: Asked) -> Answered {
        self.keep(asked).await.unwrap_or_else(Answered::from)
    }

    async fn keep(&self, asked: Asked) -> Result<Answered, Refusal> {
        let name = asked.path.strip_prefix(PREFIX).unwrap_or_default();
        let Posted {
            options: source,
            turns,
        } = self.sources.get(name).cloned().ok_or_else(|| {
            let message = format!("there is no ingest source at {}", asked.path);
            Refusal::new(StatusCode::NOT_FOUND, "unknown_source", message)
        })?;
        if asked.method != Method::POST {
            let message = format!("{} is not taken here, POST is", asked.method);
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(status, "method_not_allowed", message).with(ALLOW, "POST"));
        }
        if asked.body.len() > source.max_body {
            let message = format!(
                "the body has {} bytes, at most {} are taken",
                asked.body.len(),
                source.max_body
            );
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(Refusal::new(status, "body_too_large", message));
        }
        let busy = || {
            let message = "too many requests are being written";
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", message).after(1)
        };
        let turn = timeout(TURN, turns.acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
        let name = source.source.clone();
        // It goes on if the client goes away: what it asked for may be on the disk already.
        let kept = spawn_blocking(move || append(&source, &asked, turn)).await;
        let kept = kept.map_err(|_| {
            let message = "the request could not be worked on";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
        })??;
        Ok(answer(&name, kept))
    }
}

/// Decodes and keeps. Blocks.
fn append(
    source: &IngestOptions,
    asked: &Asked,
    _turn: OwnedSemaphorePermit,
) -> Result<Ingested, Refusal> {
    let content_type = asked.headers.get(CONTENT_TYPE);
    let content_type = content_type.map(|value| value.to_str().unwrap_or("(not ASCII)"));
    let media = Media::of(content_type)?;
    let key = header::key(&asked.headers).map_err(|bad| {
        let why = format!("the header {} {bad}", header::NAME);
        Refusal::bad("invalid_idempotency_key", why).of(header::NAME)
    })?;
    let record_key = source.key_header.as_ref();
    let record_key = record_key.and_then(|name| asked.headers.get(name));
    let record_key = record_key.map(|value| value.as_bytes());
    let trace = asked.trace.as_ref();
    let mut headers: Vec<_> = source
        .headers
        .iter()
        .filter(|name| trace.is_none() || !is_of_trace(name.as_str()))
        .flat_map(|name| {
            let values = asked.headers.get_all(name).iter();
            values.map(|value| (name.as_str(), Some(value.as_bytes())))
        })
        .collect();
    let idempotency = key.map(|key| {
        let scope = [asked.who.name.as_bytes(), source.source.as_bytes()];
        let with = record_key.unwrap_or_default();
        let mut body = vec![media.name().as_bytes(), with, &asked.body[..]];
        for (name, value) in &headers {
            body.extend([name.as_bytes(), value.unwrap_or_default()]);
        }
        idempotency::digests(&key, &scope, &body)
    });
    // They are no part of what is the same when it comes again.
    let of_trace: Vec<_> = trace.into_iter().flat_map(Trace::headers).collect();
    let of_trace = of_trace
        .iter()
        .map(|(name, value)| (*name, Some(value.as_bytes())));
    headers.extend(of_trace);
    let shared = Shared {
        key: record_key,
        headers: &headers,
        arrived: now(),
    };
    let batch = IngestBatch {
        records: records(
            media,
            &asked.body,
            shared,
            &source.decoder,
            source.max_records,
        )?,
        idempotency,
    };
    source.log.append(&batch).map_err(|error| refused(&error))
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as i64)
}

/// What a client is told where the log keeps nothing.
fn refused(error: &IngestError) -> Refusal {
    let message = error.to_string();
    match error {
        IngestError::Full { .. } => {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "ingest_full", message).after(1)
        }
        IngestError::TooLarge { .. } => {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        }
        IngestError::OtherBody => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Refusal::new(status, "idempotency_key_reused", message).of(header::NAME)
        }
        IngestError::Slow { .. } => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ingest_slow", message).after(5)
        }
        IngestError::Write { kind, .. } => {
            tracing::error!(%error, "ingest");
            // Paths are the operator's affair.
            let (status, code, message, after) = match kind {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
                    StatusCode::INSUFFICIENT_STORAGE,
                    "storage_full",
                    "there is no room on the disk",
                    10,
                ),
                _ => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "ingest_failed",
                    "the ingest log cannot be written",
                    10,
                ),
            };
            Refusal::new(status, code, message).after(after)
        }
        _ => {
            tracing::error!(%error, "ingest");
            let message = "the ingest log cannot be used";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "ingest_failed", message)
        }
    }
}

fn answer(source: &str, kept: Ingested) -> Answered {
    let mut body = json!({
        "source": source,
        "accepted": kept.count,
        "first_offset": kept.first,
        "last_offset": kept.first + u64::from(kept.count) - 1,
    });
    if kept.replayed {
        body["replayed"] = true.into();
    }
    Answered {
        status: StatusCode::OK,
        headers: Vec::new(),
        content: Content::Whole {
            media_type: "application/json",
            bytes: Bytes::from(body.to_string()),
        },
    }
}
