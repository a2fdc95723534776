//! An answer that is whole.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};

/// An answer that would be the same later, and may be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Body,
    /// The records that it was made of, as an audit names them.
    pub(super) records: Vec<String>,
}

/// Its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// JSON.
    Whole(Bytes),
    /// Events, to the end of the stream.
    Stream(Bytes),
}

impl Body {
    /// That of a whole body.
    pub(super) const MEDIA_TYPE: &str = "application/json";

    pub(super) fn bytes(&self) -> &Bytes {
        let (Body::Whole(bytes) | Body::Stream(bytes)) = self;
        bytes
    }
}

/// Headers that were true for one reader, at one time: what was left of a quota.
pub(super) fn is_momentary(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-ratelimit-") || name.starts_with("ratelimit")
}

impl Finished {
    /// None of what may be otherwise the next time: a failure of the moment, and what an operator refused (it may have
    /// another mind then).
    pub(super) fn of(
        status: StatusCode,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        body: Body,
    ) -> Option<Finished> {
        headers.retain(|(name, _)| !is_momentary(name));
        status.is_success().then_some(Finished {
            status,
            headers,
            body,
            records: Vec::new(),
        })
    }

    /// What it takes to keep it.
    pub(super) fn size(&self) -> usize {
        let records = self.records.iter().map(String::len).sum::<usize>();
        256 + self.headers.len() * 64 + records + self.body.bytes().len()
    }
}
