//! Answers that refuse, in the shape of OpenAI's errors.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::json;

use crate::exchange::{Answered, Content};

/// Why a request gets nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    param: Option<&'static str>,
    message: String,
    /// Seconds after which asking again can help; without it, it cannot.
    after: Option<u32>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
    ) -> Refusal {
        Refusal {
            status,
            code,
            param: None,
            message: message.into(),
            after: None,
            headers: Vec::new(),
        }
    }

    /// What is wrong with a request.
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Which part of the request it is about.
    pub(crate) fn of(self, param: &'static str) -> Refusal {
        Refusal {
            param: Some(param),
            ..self
        }
    }

    /// Asking again can help after so many seconds.
    pub(crate) fn after(self, seconds: u32) -> Refusal {
        Refusal {
            after: Some(seconds),
            ..self
        }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: &'static str) -> Refusal {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        }
    }
}

impl From<Refusal> for Answered {
    fn from(refusal: Refusal) -> Answered {
        let body = json!({"error": {
            "message": refusal.message,
            "type": refusal.kind(),
            "param": refusal.param,
            "code": refusal.code,
        }});
        let mut headers = refusal.headers;
        let again = HeaderName::from_static("x-should-retry");
        match refusal.after {
            Some(seconds) => headers.push((RETRY_AFTER, HeaderValue::from(seconds))),
            None => headers.push((again, HeaderValue::from_static("false"))),
        }
        Answered {
            status: refusal.status,
            headers,
            content: Content::Whole {
                media_type: "application/json",
                bytes: Bytes::from(body.to_string()),
            },
        }
    }
}
