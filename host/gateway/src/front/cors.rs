//! Pages of other origins, as far as they may ask.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN,
    VARY,
};
use hyper::{Method, Request, StatusCode};

use super::options::Cors;
use super::refusal::Refusal;
use super::refused::Reason;
use crate::exchange::{Answered, Content};

/// What a page may read beside the usual.
const EXPOSED: &str = "x-request-id, retry-after, x-should-retry, x-ratelimit-limit-requests, \
    x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, \
    x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

/// The configured origins.
#[derive(Debug)]
pub(super) struct Origins {
    all: bool,
    origins: Vec<HeaderValue>,
    credentials: bool,
}

impl Origins {
    /// Says what is wrong with an option.
    pub(super) fn new(cors: &Cors) -> Result<Origins, String> {
        let all = cors.origins.iter().any(|origin| origin == "*");
        if all && cors.credentials {
            return Err(
                "the origin `*` with credentials would let every page act for whoever looks at it"
                    .to_owned(),
            );
        }
        let mut origins = Vec::new();
        for origin in cors.origins.iter().filter(|origin| *origin != "*") {
            let https = origin.strip_prefix("https://").map(|rest| (rest, ":443"));
            let rest = https.or_else(|| Some((origin.strip_prefix("http://")?, ":80")));
            let whole = rest.filter(|(host, _)| {
                !host.is_empty() && !host.contains(['/', '?', '#', '*', ' ', ','])
            });
            match (whole, HeaderValue::from_str(origin)) {
                (Some((host, usual)), _) if host.ends_with(usual) => {
                    return Err(format!(
                        "the origin `{origin}` is never sent: browsers leave `{usual}` out"
                    ));
                }
                (Some(_), Ok(value)) => origins.push(value),
                _ => {
                    return Err(format!(
                        "the origin `{origin}` is not `http://` or `https://` with a host"
                    ));
                }
            }
        }
        Ok(Origins {
            all,
            origins,
            credentials: cors.credentials,
        })
    }

    /// What the answer says of the origin of a request; none if it has none, or one that is not allowed.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.all {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.contains(origin).then(|| origin.clone())
    }

    /// The answer to a browser that asks whether it may ask.
    pub(super) fn preflight<B>(&self, request: &Request<B>) -> Option<Result<Answered, Refusal>> {
        let headers = request.headers();
        if request.method() != Method::OPTIONS
            || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        {
            return None;
        }
        if self.of(headers).is_none() {
            let why = "pages of this origin may not ask here";
            let refusal = Refusal::fixed(StatusCode::FORBIDDEN, Reason::OriginNotAllowed, why);
            return Some(Err(refusal));
        }
        let mut answer = vec![
            (
                ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, POST, OPTIONS"),
            ),
            (ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        ];
        // The keys decide who may ask; which headers come with them does not matter.
        if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.push((ACCESS_CONTROL_ALLOW_HEADERS, asked.clone()));
        }
        let content = Content::Whole {
            media_type: "",
            bytes: bytes::Bytes::new(),
        };
        Some(Ok(Answered {
            status: StatusCode::NO_CONTENT,
            headers: answer,
            content,
        }))
    }

    /// Adds to an answer what the page's browser wants to know.
    pub(super) fn mark(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        if !self.all {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        let Some(origin) = origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
        if self.credentials {
            headers.insert(
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
        }
    }
}
