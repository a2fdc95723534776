//! Reading a body, within its limits of size and time, and counted as long as its bytes are anywhere.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::bodies::{Client, Full, Held};
use super::refusal::Refusal;
use super::refused::Reason;
use super::service::Service;

/// Bytes that count among those of all bodies until the last copy of them is dropped.
struct Counted {
    bytes: BytesMut,
    _held: Held,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body.
pub(super) async fn collect(
    service: &Service,
    client: Client,
    mut body: Incoming,
    limit: u64,
) -> Result<Bytes, Refusal> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let bounds = &service.bounds;
    let mut held = service.bodies.of(client, limit);
    let mut whole = BytesMut::new();
    let start = Instant::now();
    let mut step = start + bounds.body_step;
    let mut progress = 0;
    loop {
        let until = step.min(start + bounds.body_time);
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                let why = "the body ends early, or its chunks are malformed";
                return Err(Refusal::fixed(
                    StatusCode::BAD_REQUEST,
                    Reason::MalformedRequest,
                    why,
                ));
            }
            Err(_) => return Err(Refusal::slow("the body did not come in time")),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() as u64 + data.len() as u64 > limit {
            return Err(Refusal::body_too_large(limit));
        }
        let grown = held.grow(whole.len() + data.len());
        grown.map_err(|full| match full {
            Full::All => {
                let why = "too many bodies are on their way at the moment";
                Refusal::busy(Reason::Overloaded, why)
            }
            Full::Client => {
                let why = "too many bodies of this client are on their way at the moment";
                let status = StatusCode::TOO_MANY_REQUESTS;
                Refusal::passing(status, Reason::TooManyBodies, why, 1)
            }
        })?;
        whole.extend_from_slice(&data);
        progress += data.len() as u64;
        if progress >= bounds.body_progress {
            progress = 0;
            step = Instant::now() + bounds.body_step;
        }
    }
    Ok(Bytes::from_owner(Counted {
        bytes: whole,
        _held: held,
    }))
}
