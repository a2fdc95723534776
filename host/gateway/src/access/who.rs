//! Someone who asks.

use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};

use super::clock::SystemClock;
use super::options::{Permissions, Quota, Scope};
use super::quota::{Account, Exceeded, Reservation, UnderWay};

/// Someone who may be here: by a key, by a token, or anyone where no keys are configured.
#[derive(Clone, Debug)]
pub struct Who {
    /// Name of the key, or the token's subject; empty for anyone. Requests with one idempotency key, and answers that
    /// are shared, are of one name.
    pub name: Arc<str>,
    permissions: Arc<Permissions>,
    account: Arc<Account>,
}

impl Who {
    pub(super) fn new(name: &str, permissions: Arc<Permissions>, account: Arc<Account>) -> Who {
        Who {
            name: Arc::from(name),
            permissions,
            account,
        }
    }

    /// Anyone, who may do everything without limits.
    pub fn anyone() -> Who {
        let account = Account::new(Quota::default(), Arc::new(SystemClock::default()));
        Who::new("", Arc::default(), Arc::new(account))
    }

    /// Whether this kind of request is allowed.
    pub fn may_use(&self, scope: Scope) -> bool {
        self.permissions.allow(scope)
    }

    /// Whether this model may be asked, or seen at all.
    pub fn may_ask(&self, model: &str) -> bool {
        let models = self.permissions.models.as_ref();
        models.is_none_or(|models| models.iter().any(|allowed| allowed == model))
    }

    /// Takes a request, before anything is done for it; where it lasts, until it waits for a model no more or follows no
    /// output any more, one of those at once as well. Requests that `repeats` is the same for are one at once: the later
    /// ones read the answer of the first.
    pub fn begin(&self, lasts: bool, repeats: Option<&str>) -> Result<UnderWay, Exceeded> {
        self.account.begin(lasts, repeats)
    }

    /// Takes so many tokens, of a prompt and its answer at most.
    pub fn reserve(&self, tokens: u64) -> Result<Reservation, Exceeded> {
        self.account.reserve(tokens)
    }

    /// What is left of a quota, for the headers of an answer; nothing without one.
    pub fn left(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.account.headers()
    }
}
