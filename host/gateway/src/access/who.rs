//! Someone who asks.

use std::sync::Arc;

use super::clock::SystemClock;
use super::options::{Permissions, Quota, Scope};
use super::quota::{Account, Exceeded, Reservation};

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

    /// Whether this kind of request is allowed, of this model where one is named.
    pub fn may(&self, scope: Scope, model: Option<&str>) -> bool {
        let scopes = self.permissions.scopes.as_ref();
        let models = self.permissions.models.as_ref();
        scopes.is_none_or(|scopes| scopes.contains(&scope))
            && model.is_none_or(|model| {
                models.is_none_or(|models| models.iter().any(|allowed| allowed == model))
            })
    }

    /// Reserves a request and so many tokens, of its prompt and its answer at most, and a stream.
    pub fn reserve(&self, tokens: u64, stream: bool) -> Result<Reservation, Exceeded> {
        self.account.reserve(tokens, stream)
    }
}
