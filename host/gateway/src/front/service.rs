//! A request from its head to its answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::body::{InFlight, Sent};
use super::cors::Origins;
use super::endpoints::Endpoints;
use super::options::FrontBounds;
use super::refusal::Refusal;
use super::wire::Shared;
use crate::access::{Access, Denied};
use crate::exchange::{Answered, Asked, Content, Gone};

/// Longest id of a request that a client may give.
const ID: usize = 128;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What every request of every connection is answered with.
pub(super) struct Service {
    pub(super) endpoints: Arc<dyn Endpoints>,
    pub(super) access: Arc<Access>,
    pub(super) origins: Option<Origins>,
    pub(super) bounds: FrontBounds,
    /// KiB of bodies that may still be held.
    pub(super) bodies: Arc<Semaphore>,
}

/// Answers a request. Dropped when the client goes.
pub(super) async fn serve(
    service: Arc<Service>,
    wire: Shared,
    peer: IpAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Sent>, Infallible> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (there, gone) = Gone::new();
    let in_flight = InFlight {
        wire: wire.clone(),
        _there: there,
    };
    let id = request_id(request.headers().get(&REQUEST_ID));
    let old = request.version() == Version::HTTP_10;
    let refused = wire.wire().take_refusal();
    let origin = service
        .origins
        .as_ref()
        .and_then(|origins| origins.of(request.headers()));
    let answered = match refused {
        Some(refusal) => Err(refusal),
        None => match service
            .origins
            .as_ref()
            .and_then(|origins| origins.preflight(&request))
        {
            Some(answered) => Ok(answered),
            None => ask(&service, &wire, peer, request, &id, gone).await,
        },
    };
    let mut answered = answered.unwrap_or_else(|refusal| {
        wire.wire().end_unless_read();
        refusal.answer()
    });
    if old && matches!(answered.content, Content::Events(_)) {
        let refusal = "an event stream needs HTTP/1.1, for without chunks its end cannot be told from a break";
        answered = Refusal::fixed(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "version_not_supported",
            refusal,
        )
        .answer();
    }

    let mut response = Response::builder().status(answered.status);
    if let Some(headers) = response.headers_mut() {
        for (name, value) in answered.headers {
            headers.append(name, value);
        }
        let kind = match &answered.content {
            Content::Whole { media_type, .. } => media_type,
            Content::Upgraded(_) => "",
            Content::Events(_) => {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                headers.insert(
                    HeaderName::from_static("x-accel-buffering"),
                    HeaderValue::from_static("no"),
                );
                "text/event-stream"
            }
        };
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        // An id is visible ASCII.
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Some(origins) = &service.origins {
            origins.mark(origin, headers);
        }
        if wire.wire().is_last() && answered.status != StatusCode::SWITCHING_PROTOCOLS {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    let body = match answered.content {
        Content::Whole { bytes, .. } => Sent::whole(bytes, in_flight),
        Content::Upgraded(takeover) => {
            wire.wire().open(upgrade, takeover);
            Sent::whole(Bytes::new(), in_flight)
        }
        Content::Events(parts) => Sent::events(parts, service.bounds.comment, in_flight),
    };
    // The status and the headers are typed: nothing of them can be wrong here.
    Ok(response
        .body(body)
        .unwrap_or_else(|_| unreachable!("a response of typed parts")))
}

/// Lets the request in, reads its body, and asks the endpoint.
async fn ask(
    service: &Service,
    wire: &Shared,
    peer: IpAddr,
    request: Request<Incoming>,
    id: &str,
    gone: Gone,
) -> Result<Answered, Refusal> {
    let path = request.uri().path().to_owned();
    let limits = service.endpoints.limits(request.method(), &path);
    if service.access.lets_anyone_in() {
        let origins = service.origins.as_ref();
        let allowed = origins.and_then(|origins| origins.of(request.headers()));
        super::near::check(request.headers(), allowed.is_some())?;
    }
    let who = match service.access.admit(request.headers(), peer).await {
        Ok(who) => who,
        Err(_) if limits.open => crate::access::Who::anyone(),
        Err(denied) => return Err(refusal_of(denied)),
    };
    if request.body().size_hint().lower() > limits.body {
        return Err(Refusal::body_too_large(limits.body));
    }
    let (head, body) = request.into_parts();
    let (body, _held) = collect(service, body, limits.body).await?;
    wire.wire().read_whole();
    let asked = Asked {
        id: id.to_owned(),
        method: head.method,
        path,
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body,
        who,
        gone,
    };
    Ok(service.endpoints.answer(asked).await)
}

fn refusal_of(denied: Denied) -> Refusal {
    match denied {
        Denied::Unknown(why) => Refusal::fixed(StatusCode::UNAUTHORIZED, "invalid_api_key", why),
        Denied::Guessing { after } => Refusal::passing(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_failures",
            "too many keys from this address were wrong",
            after.as_secs(),
        ),
    }
}

/// Reads a body, within its limits of size and time.
async fn collect(
    service: &Service,
    mut body: Incoming,
    limit: u64,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    let bounds = &service.bounds;
    let mut held: Option<OwnedSemaphorePermit> = None;
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
                    "malformed_request",
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
        let more = kib(whole.len() + data.len())
            - held.as_ref().map_or(0, |held| held.num_permits() as u32);
        if more > 0 {
            let more = service.bodies.clone().try_acquire_many_owned(more);
            let more =
                more.map_err(|_| Refusal::busy("too many bodies are on their way at the moment"))?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
        }
        whole.extend_from_slice(&data);
        progress += data.len() as u64;
        if progress >= bounds.body_progress {
            progress = 0;
            step = Instant::now() + bounds.body_step;
        }
    }
    Ok((whole.freeze(), held))
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// The client's own id if it is sane, else a made one.
fn request_id(given: Option<&HeaderValue>) -> String {
    given
        .and_then(|given| given.to_str().ok())
        .filter(|id| (1..=ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()))
        .map_or_else(made_id, str::to_owned)
}

/// An id that no other request has.
pub(super) fn made_id() -> String {
    let mut random = [0; 16];
    // Without randomness ids may repeat, which harms logs alone.
    let _ = getrandom::fill(&mut random);
    random
        .iter()
        .fold("req_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}
