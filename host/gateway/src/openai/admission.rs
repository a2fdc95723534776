//! What the endpoints need to know of those who ask: which models are there for them, and how many tokens they may use.

use crate::access::{Exceeded, Reservation, Who};

/// Whether someone may ask a model, and for how much of it.
pub trait Admission: Send + Sync {
    /// Whether this model is there for this one.
    fn may(&self, who: &Who, model: &str) -> bool;

    /// Takes so many tokens for a request.
    fn reserve(&self, who: &Who, tokens: u64) -> Result<Box<dyn Reserved>, Exceeded>;
}

/// Tokens that are taken.
pub trait Reserved: Send {
    /// So many were used.
    fn settle(self: Box<Self>, used: u64);
}

/// Everyone may do everything.
#[derive(Clone, Copy, Debug)]
pub struct Open;

impl Admission for Open {
    fn may(&self, _: &Who, _: &str) -> bool {
        true
    }

    fn reserve(&self, _: &Who, _: u64) -> Result<Box<dyn Reserved>, Exceeded> {
        Ok(Box::new(Open))
    }
}

impl Reserved for Open {
    fn settle(self: Box<Self>, _: u64) {}
}

/// By the key or the token of each, and its quota.
#[derive(Clone, Copy, Debug)]
pub struct Quotas;

impl Admission for Quotas {
    fn may(&self, who: &Who, model: &str) -> bool {
        who.may_ask(model)
    }

    fn reserve(&self, who: &Who, tokens: u64) -> Result<Box<dyn Reserved>, Exceeded> {
        Ok(Box::new(who.reserve(tokens)?))
    }
}

impl Reserved for Reservation {
    fn settle(self: Box<Self>, used: u64) {
        Reservation::settle(*self, used);
    }
}
