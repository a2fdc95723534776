//! What the front answers where no endpoint is asked: errors in OpenAI's shape.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

use super::refused::Reason;
use crate::access::Exceeded;
use crate::exchange::{Answered, Content};

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    reason: Reason,
    message: Cow<'static, str>,
    /// Seconds until asking again can help; none if the same request never can.
    after: Option<u64>,
}

impl Refusal {
    /// One that the same request meets always.
    pub(super) fn fixed(
        status: StatusCode,
        reason: Reason,
        message: impl Into<Cow<'static, str>>,
    ) -> Refusal {
        Refusal {
            status,
            reason,
            message: message.into(),
            after: None,
        }
    }

    /// One that ends by itself after so many seconds, at least one.
    pub(super) fn passing(
        status: StatusCode,
        reason: Reason,
        message: impl Into<Cow<'static, str>>,
        after: u64,
    ) -> Refusal {
        Refusal {
            status,
            reason,
            message: message.into(),
            after: Some(after.max(1)),
        }
    }

    pub(super) fn head_too_large(message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::fixed(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Reason::HeadTooLarge,
            message,
        )
    }

    pub(super) fn body_too_large(limit: u64) -> Refusal {
        let message = format!("the body exceeds {limit} bytes");
        Refusal::fixed(StatusCode::PAYLOAD_TOO_LARGE, Reason::BodyTooLarge, message)
    }

    pub(super) fn slow(what: &'static str) -> Refusal {
        Refusal::passing(StatusCode::REQUEST_TIMEOUT, Reason::RequestTimeout, what, 1)
    }

    pub(super) fn busy(reason: Reason, what: &'static str) -> Refusal {
        Refusal::passing(StatusCode::SERVICE_UNAVAILABLE, reason, what, 1)
    }

    pub(super) fn exceeded(exceeded: &Exceeded) -> Refusal {
        // A place among the requests at once, and one of those a minute, always come.
        let after = exceeded
            .after
            .unwrap_or_default()
            .as_millis()
            .div_ceil(1000);
        Refusal::passing(
            StatusCode::TOO_MANY_REQUESTS,
            Reason::RateLimitExceeded,
            exceeded.to_string(),
            u64::try_from(after).unwrap_or(u64::MAX),
        )
    }

    /// Why, for the count.
    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    /// The type that OpenAI gives errors of this status.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            408 | 500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn bytes(&self) -> Bytes {
        let body = serde_json::json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": null,
            "code": self.reason.name(),
        }});
        Bytes::from(body.to_string())
    }

    /// The answer.
    pub(super) fn answer(&self) -> Answered {
        let mut headers = Vec::new();
        match self.after {
            Some(seconds) => headers.push((RETRY_AFTER, HeaderValue::from(seconds))),
            None => headers.push((
                HeaderName::from_static("x-should-retry"),
                HeaderValue::from_static("false"),
            )),
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        Answered {
            status: self.status,
            headers,
            content: Content::Whole {
                media_type: "application/json",
                bytes: self.bytes(),
            },
        }
    }

    /// The answer as bytes, for a connection that never gets as far as a request.
    pub(super) fn raw(&self, id: &str) -> Vec<u8> {
        let body = self.bytes();
        let reason = self.status.canonical_reason().unwrap_or("Refused");
        let retry = match self.after {
            Some(seconds) => format!("retry-after: {seconds}"),
            None => "x-should-retry: false".to_owned(),
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
             x-request-id: {id}\r\n{retry}\r\n\r\n",
            self.status.as_u16(),
            body.len(),
        );
        [head.as_bytes(), &body].concat()
    }
}
