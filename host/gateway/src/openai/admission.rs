//! What the endpoints need to know of those who ask: may they, and how much.

use hyper::header::{HeaderName, HeaderValue};

use crate::access::{Exceeded, Reservation, Scope, Who};

/// Whether someone may do something, and how much of it is left.
pub trait Admission: Send + Sync {
    /// Whether this one may ask this model so.
    fn may(&self, who: &Who, scope: Scope, model: &str) -> bool;

    /// Takes so many tokens, and a stream, for a request.
    fn reserve(&self, who: &Who, tokens: u64, stream: bool) -> Result<Box<dyn Reserved>, Exceeded>;
}

/// Tokens that are taken.
pub trait Reserved: Send {
    /// What is left, for the answer's headers.
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)>;

    /// So many were used.
    fn settle(self: Box<Self>, used: u64);
}

/// Everyone may do everything.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Admission for Open {
    fn may(&self, _: &Who, _: Scope, _: &str) -> bool {
        true
    }

    fn reserve(&self, _: &Who, _: u64, _: bool) -> Result<Box<dyn Reserved>, Exceeded> {
        Ok(Box::new(Open))
    }
}

impl Reserved for Open {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        Vec::new()
    }

    fn settle(self: Box<Self>, _: u64) {}
}

/// By the key or the token of each, and its quota.
#[derive(Clone, Copy, Debug)]
pub struct Quotas;

impl Admission for Quotas {
    fn may(&self, who: &Who, scope: Scope, model: &str) -> bool {
        who.may(scope, Some(model))
    }

    fn reserve(&self, who: &Who, tokens: u64, stream: bool) -> Result<Box<dyn Reserved>, Exceeded> {
        Ok(Box::new(who.reserve(tokens, stream)?))
    }
}

impl Reserved for Reservation {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        Reservation::headers(self)
    }

    fn settle(self: Box<Self>, used: u64) {
        Reservation::settle(*self, used);
    }
}
