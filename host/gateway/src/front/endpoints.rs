//! What the front asks.

use std::future::Future;
use std::pin::Pin;

use hyper::Method;

use super::timing::Timing;
use crate::access::Scope;
use crate::exchange::{Answered, Asked};

/// What is known of a request from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its body; more is refused with 413. None where its answer is the same whatever body it has: nothing of
    /// that is read.
    pub body: Option<u64>,
    /// Whether it needs no key. Who asks without one, or with a wrong one, is [`Who::anyone`](crate::access::Who::anyone).
    pub open: bool,
    /// What its key must be for; any will do without.
    pub scope: Option<Scope>,
    /// Whether it waits for a model or follows an output: a key may have only so many of these at once.
    pub lasts: bool,
    /// Whether requests with one idempotency key have one answer. They are one of those at once.
    pub repeats: bool,
}

/// Those who answer requests.
pub trait Endpoints: Send + Sync {
    /// Answers a request, also one for a path that is not there (404) or with a method that the path does not have
    /// (405, with `allow`).
    ///
    /// The future is dropped when the client goes. It runs in the connection's task: it must not block.
    fn answer(&self, asked: Asked) -> Pin<Box<dyn Future<Output = Answered> + Send>>;

    /// A stream of events that answered a request for this path has broken.
    fn broke(&self, path: &str);

    /// Whether only pages of this address may ask for this path, whatever other origins may ask for.
    fn is_own(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// A request for this path begins that is to be answered; none if nobody wants to know how long it takes.
    fn begins(&self, path: &str) -> Option<Timing> {
        let _ = path;
        None
    }

    /// Limits of a request with this method and path, before its body is read.
    fn limits(&self, method: &Method, path: &str) -> Limits;
}
