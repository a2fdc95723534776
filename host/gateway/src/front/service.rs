//! A request from its head to its answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue,
};
use hyper::{Request, Response, StatusCode, Version};

use super::bodies::{Bodies, Client};
use super::body::{Breaks, InFlight, Sent};
use super::collecting::collect;
use super::cors::Origins;
use super::endpoints::{Endpoints, Limits};
use super::options::FrontBounds;
use super::refusal::Refusal;
use super::refused::{Reason, Refused};
use super::wire::Shared;
use crate::access::{Access, Denied, UnderWay, Who};
use crate::exchange::{Answered, Asked, Content, Gone};
use crate::idempotency::header;

/// Longest id of a request that a client may give.
const ID: usize = 128;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What every request of every connection is answered with.
pub(super) struct Service {
    pub(super) endpoints: Arc<dyn Endpoints>,
    pub(super) access: Arc<Access>,
    pub(super) origins: Option<Origins>,
    pub(super) bounds: FrontBounds,
    /// Bodies that are held.
    pub(super) bodies: Bodies,
    /// What was refused.
    pub(super) refused: Refused,
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
    let mut in_flight = InFlight {
        wire: wire.clone(),
        _there: there,
        under_way: None,
        timing: None,
    };
    let mut known = None;
    let id = request_id(request.headers().get(&REQUEST_ID));
    let path = request.uri().path().to_owned();
    let old = request.version() == Version::HTTP_10;
    let refused = wire.wire().take_refusal();
    let origins = service
        .origins
        .as_ref()
        .filter(|_| !service.endpoints.is_own(&path));
    let origin = origins.and_then(|origins| origins.of(request.headers()));
    let answered = match refused {
        Some(refusal) => Err(refusal),
        None => match origins.and_then(|origins| origins.preflight(&request)) {
            Some(answered) => answered,
            None => match enter(&service, peer, &request, &mut known).await {
                Ok(entered) => {
                    in_flight.under_way = entered.under_way.clone();
                    in_flight.timing = service.endpoints.begins(&path);
                    ask(&service, &wire, peer, request, entered, &id, gone).await
                }
                Err(refusal) => Err(refusal),
            },
        },
    };
    let answered = answered.and_then(|answered| match answered.content.has_no_length() && old {
        true => Err(Refusal::fixed(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Reason::VersionNotSupported,
            "a stream needs HTTP/1.1, for without chunks its end cannot be told from a break",
        )),
        false => Ok(answered),
    });
    let mut answered = answered.unwrap_or_else(|refusal| {
        service.refused.count(refusal.reason());
        wire.wire().end_unless_read();
        refusal.answer()
    });
    if let Some(timing) = &mut in_flight.timing {
        timing.answered(answered.status.as_u16());
    }
    // What is left after all that was taken for it.
    answered.headers.extend(known.iter().flat_map(Who::left));

    let mut response = Response::builder().status(answered.status);
    if let Some(headers) = response.headers_mut() {
        for (name, value) in answered.headers {
            headers.append(name, value);
        }
        let kind = match &answered.content {
            Content::Whole { media_type, .. } => media_type,
            Content::Upgraded(_) | Content::Streamed(_) => "",
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
        if let Some(origins) = origins {
            origins.mark(origin, headers);
        }
        if wire.wire().is_last() && answered.status != StatusCode::SWITCHING_PROTOCOLS {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    let body = match answered.content {
        Content::Whole { bytes, .. } => Sent::whole(bytes, in_flight),
        Content::Upgraded(takeover) => {
            let takeover = takeover.holding(in_flight.under_way.take());
            wire.wire().open(upgrade, takeover);
            Sent::whole(Bytes::new(), in_flight)
        }
        Content::Events(parts) => {
            let breaks = breaks(&service, path);
            Sent::events(parts, breaks, service.bounds.comment, in_flight)
        }
        Content::Streamed(body) => Sent::streamed(body, breaks(&service, path), in_flight),
    };
    // The status and the headers are typed: nothing of them can be wrong here.
    Ok(response
        .body(body)
        .unwrap_or_else(|_| unreachable!("a response of typed parts")))
}

fn breaks(service: &Service, path: String) -> Breaks {
    let endpoints = service.endpoints.clone();
    Breaks { endpoints, path }
}

/// Someone who was let in, and has taken a request of his quota.
struct Entered {
    who: Who,
    limits: Limits,
    /// None of requests that nobody counts.
    under_way: Option<UnderWay>,
}

/// Lets the request in: by its key, what the key is for, and how much of it is left. Nothing of a body is read before.
/// `known` is whoever it is of, also where it is refused.
async fn enter<B>(
    service: &Service,
    peer: IpAddr,
    request: &Request<B>,
    known: &mut Option<Who>,
) -> Result<Entered, Refusal> {
    let path = request.uri().path();
    let limits = service.endpoints.limits(request.method(), path);
    if service.access.lets_anyone_in() {
        let origins = service.origins.as_ref();
        let allowed = origins.and_then(|origins| origins.of(request.headers()));
        super::near::check(request.headers(), allowed.is_some())?;
    }
    let who = match service.access.admit(request.headers(), peer).await {
        Ok(who) => who,
        Err(_) if limits.open => Who::anyone(),
        Err(denied) => return Err(refusal_of(denied)),
    };
    if limits.open {
        return Ok(Entered {
            who,
            limits,
            under_way: None,
        });
    }
    *known = Some(who.clone());
    let key = limits.repeats.then(|| header::key(request.headers()));
    // One that is wrong is refused where it is taken.
    let repeats = key.and_then(|key| Some(format!("{path} {}", key.ok()??)));
    let begun = who.begin(limits.lasts, repeats.as_deref());
    let under_way = begun.map_err(|exceeded| Refusal::exceeded(&exceeded))?;
    if let Some(scope) = limits.scope.filter(|scope| !who.may_use(*scope)) {
        return Err(Refusal::fixed(
            StatusCode::FORBIDDEN,
            Reason::EndpointNotAllowed,
            format!("this key may not use {}", scope.name()),
        ));
    }
    Ok(Entered {
        who,
        limits,
        under_way: Some(under_way),
    })
}

/// Reads the body of a request that was let in, and asks the endpoint.
async fn ask(
    service: &Service,
    wire: &Shared,
    peer: IpAddr,
    request: Request<Incoming>,
    entered: Entered,
    id: &str,
    gone: Gone,
) -> Result<Answered, Refusal> {
    let (head, body) = request.into_parts();
    let body = match entered.limits.body {
        Some(limit) => {
            if body.size_hint().lower() > limit {
                return Err(Refusal::body_too_large(limit));
            }
            let mut encodings = head.headers.get_all(CONTENT_ENCODING).iter();
            if let Some(encoding) = encodings.find(|encoding| *encoding != "identity") {
                return Err(Refusal::fixed(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    Reason::UnsupportedEncoding,
                    format!("Content-Encoding {encoding:?} is not taken, identity is"),
                ));
            }
            let client = Client::of(&entered.who, peer);
            let body = collect(service, client, body, limit).await?;
            wire.wire().read_whole();
            body
        }
        None => {
            match body.is_end_stream() {
                true => wire.wire().read_whole(),
                false => wire.wire().end_unless_read(),
            }
            Bytes::new()
        }
    };
    let asked = Asked {
        id: id.to_owned(),
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body,
        who: entered.who,
        under_way: entered.under_way,
        gone,
        trace: None,
    };
    Ok(service.endpoints.answer(asked).await)
}

fn refusal_of(denied: Denied) -> Refusal {
    match denied {
        Denied::Unknown(why) => {
            Refusal::fixed(StatusCode::UNAUTHORIZED, Reason::InvalidApiKey, why)
        }
        Denied::Guessing { after } => Refusal::passing(
            StatusCode::TOO_MANY_REQUESTS,
            Reason::TooManyFailures,
            "too many keys from this address were wrong",
            after.as_secs(),
        ),
    }
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
