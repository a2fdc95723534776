//! How often the front has refused or cut, and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why the front lets no request through, or ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The head or the body is not as HTTP has it, or as only one reader may take it.
    MalformedRequest,
    /// The head has too many bytes or lines.
    HeadTooLarge,
    /// So has the body.
    BodyTooLarge,
    /// The body is compressed.
    UnsupportedEncoding,
    /// A head or a body did not come in time.
    RequestTimeout,
    /// Another version of HTTP.
    VersionNotSupported,
    /// `Expect` asks for something else than `100-continue`.
    ExpectationFailed,
    /// Without keys: another host.
    HostNotAllowed,
    /// A page of another origin.
    OriginNotAllowed,
    /// No key, or a wrong one.
    InvalidApiKey,
    /// Too many wrong ones of an address.
    TooManyFailures,
    /// The key is for other endpoints.
    EndpointNotAllowed,
    /// The key's requests a minute, or at once.
    RateLimitExceeded,
    /// Too many bytes of bodies at once.
    Overloaded,
    /// Too many of one client.
    TooManyBodies,
    /// Too many connections, of all or of an address.
    TooManyConnections,
    /// The handshake of TLS did not end, or not in time.
    TlsFailed,
    /// A reader took nothing for too long.
    ReaderStopped,
    /// A client sent too much ahead of its answer.
    SentAhead,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 19] = [
        Reason::MalformedRequest,
        Reason::HeadTooLarge,
        Reason::BodyTooLarge,
        Reason::UnsupportedEncoding,
        Reason::RequestTimeout,
        Reason::VersionNotSupported,
        Reason::ExpectationFailed,
        Reason::HostNotAllowed,
        Reason::OriginNotAllowed,
        Reason::InvalidApiKey,
        Reason::TooManyFailures,
        Reason::EndpointNotAllowed,
        Reason::RateLimitExceeded,
        Reason::Overloaded,
        Reason::TooManyBodies,
        Reason::TooManyConnections,
        Reason::TlsFailed,
        Reason::ReaderStopped,
        Reason::SentAhead,
    ];

    /// Its name in metrics; where a client hears of it, the code of the error.
    pub fn name(self) -> &'static str {
        match self {
            Reason::MalformedRequest => "malformed_request",
            Reason::HeadTooLarge => "head_too_large",
            Reason::BodyTooLarge => "body_too_large",
            Reason::UnsupportedEncoding => "unsupported_encoding",
            Reason::RequestTimeout => "request_timeout",
            Reason::VersionNotSupported => "version_not_supported",
            Reason::ExpectationFailed => "expectation_failed",
            Reason::HostNotAllowed => "host_not_allowed",
            Reason::OriginNotAllowed => "origin_not_allowed",
            Reason::InvalidApiKey => "invalid_api_key",
            Reason::TooManyFailures => "too_many_failures",
            Reason::EndpointNotAllowed => "endpoint_not_allowed",
            Reason::RateLimitExceeded => "rate_limit_exceeded",
            Reason::Overloaded => "overloaded",
            Reason::TooManyBodies => "too_many_bodies",
            Reason::TooManyConnections => "too_many_connections",
            Reason::TlsFailed => "tls_failed",
            Reason::ReaderStopped => "reader_stopped",
            Reason::SentAhead => "sent_ahead",
        }
    }
}

/// How often, by reason. A copy is the same.
#[derive(Clone, Debug, Default)]
pub struct Refused(Arc<[AtomicU64; Reason::ALL.len()]>);

impl Refused {
    pub(super) fn count(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All reasons, also those that have not come.
    pub fn all(&self) -> impl Iterator<Item = (Reason, u64)> {
        let count = |reason: Reason| self.0[reason as usize].load(Ordering::Relaxed);
        Reason::ALL
            .into_iter()
            .map(move |reason| (reason, count(reason)))
    }
}
