//! Letting in.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};

use super::clock::{Clock, SystemClock};
use super::guesses::Guesses;
use super::jwt::{Bad, FetchKeys, Trusted};
use super::keys::Keys;
use super::options::{AccessError, AccessOptions, Permissions, Quota};
use super::quota::Account;
use super::who::Who;

/// Headers that the SDKs of others send a key in.
const OTHERS: [HeaderName; 2] = [
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-api-key"),
];

/// Why someone is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// There is no key, or it is not known, or the token says what it may not.
    Unknown(&'static str),
    /// The address has tried too many.
    Guessing {
        /// When it may try again.
        after: Duration,
    },
}

/// Who may come.
pub struct Access {
    keys: Keys,
    issuers: Vec<Arc<Trusted>>,
    guesses: Guesses,
    clock: Arc<dyn Clock>,
    anyone: Who,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Anyone may come, which the front allows on loopback addresses only.
    pub fn anyone() -> Access {
        Access {
            keys: Keys::default(),
            issuers: Vec::new(),
            guesses: Guesses::new(0),
            clock: Arc::new(SystemClock::default()),
            anyone: Who::anyone(),
        }
    }

    /// By these keys and issuers. Blocks while keys are fetched from URLs; those that do not come are asked for later.
    pub fn new(
        options: AccessOptions,
        fetch: Option<Arc<dyn FetchKeys>>,
    ) -> Result<Access, AccessError> {
        Access::with_clock(options, fetch, Arc::new(SystemClock::default()))
    }

    /// The same, by another clock.
    pub fn with_clock(
        options: AccessOptions,
        fetch: Option<Arc<dyn FetchKeys>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Access, AccessError> {
        let names = options
            .keys
            .iter()
            .map(|key| &key.name)
            .chain(options.issuers.iter().map(|issuer| &issuer.name));
        let mut seen = BTreeSet::new();
        for name in names {
            // A subject of an issuer is `issuer:subject`, and nobody else may be called so.
            let prefix = name.split(':').next().unwrap_or_default();
            let shadows =
                prefix != name && options.issuers.iter().any(|issuer| issuer.name == prefix);
            if !seen.insert(name) || shadows || name.is_empty() {
                return Err(AccessError::Twice(name.clone()));
            }
        }
        for (name, quota) in &options.quotas {
            if [quota.requests, quota.tokens, quota.concurrent].contains(&Some(0)) {
                return Err(AccessError::Zero(name.clone()));
            }
        }
        let quota_of = |name: &str, permissions: &Permissions| match &permissions.quota {
            None => Ok(Quota::default()),
            Some(quota) => {
                let found = options.quotas.get(quota).copied();
                found.ok_or_else(|| AccessError::Quota {
                    name: name.to_owned(),
                    quota: quota.clone(),
                })
            }
        };
        let keys = Keys::new(&options.keys, |key| {
            let account = Account::new(quota_of(&key.name, &key.permissions)?, clock.clone());
            Ok(Who::new(
                &key.name,
                Arc::new(key.permissions.clone()),
                Arc::new(account),
            ))
        })?;
        let issuers = options.issuers.iter().map(|issuer| {
            let quota = quota_of(&issuer.name, &issuer.permissions)?;
            Trusted::new(issuer.clone(), quota, fetch.clone(), clock.clone()).map(Arc::new)
        });
        let issuers = issuers.collect::<Result<_, _>>()?;
        Ok(Access {
            keys,
            issuers,
            guesses: Guesses::new(options.failures),
            clock,
            anyone: Who::anyone(),
        })
    }

    /// Whether nobody needs a key.
    pub fn lets_anyone_in(&self) -> bool {
        self.keys.is_empty() && self.issuers.is_empty()
    }

    /// Lets someone in by the headers of a request.
    pub async fn admit(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Who, Denied> {
        if self.lets_anyone_in() {
            return Ok(self.anyone.clone());
        }
        // Who sends no key does not guess.
        let presented = presented(headers)?;
        // A key that is known opens, whoever else guesses at the same address: behind a proxy all have one.
        let bad = match self.known(presented).await {
            Ok(who) => return Ok(who),
            Err(bad) => bad,
        };
        if let Some(after) = self.guesses.banned(peer, self.clock.now()) {
            return Err(Denied::Guessing { after });
        }
        // A token that was signed, or whose key is not here, is no guess.
        if bad == Bad::Unsigned {
            self.guesses.failed(peer, self.clock.now());
        }
        Err(Denied::Unknown(match bad {
            Bad::Claims(why) => why,
            Bad::Unsigned | Bad::UnknownKey => "the key is not known, or the token is not valid",
        }))
    }

    /// Looks after files and URLs with keys. Called every second or so, on a tokio runtime.
    pub fn look(&self) {
        self.issuers.iter().for_each(Trusted::look);
    }

    async fn known(&self, presented: &str) -> Result<Who, Bad> {
        if let Some(who) = self.keys.who(presented.as_bytes()) {
            return Ok(who);
        }
        let mut worst = Bad::Unsigned;
        for issuer in &self.issuers {
            let mut known = issuer.who(presented);
            if known.as_ref().is_err_and(|bad| *bad == Bad::UnknownKey) && issuer.ask_again().await
            {
                known = issuer.who(presented);
            }
            match known {
                Ok(who) => return Ok(who),
                Err(bad @ Bad::Claims(_)) => worst = bad,
                Err(Bad::UnknownKey) if worst == Bad::Unsigned => worst = Bad::UnknownKey,
                Err(_) => {}
            }
        }
        Err(worst)
    }
}

/// The key of a request.
fn presented(headers: &HeaderMap) -> Result<&str, Denied> {
    let none = "there is no key: send `Authorization: Bearer KEY`";
    let all = headers.get_all(AUTHORIZATION).iter();
    let all = all.map(|value| {
        value.to_str().ok().and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        })
    });
    let others = OTHERS
        .into_iter()
        .flat_map(|name| headers.get_all(name))
        .map(|value| value.to_str().ok());
    let mut found = None;
    for key in all.chain(others) {
        let key = key
            .filter(|key| !key.is_empty())
            .ok_or(Denied::Unknown(none))?;
        if found.replace(key).is_some_and(|before| before != key) {
            return Err(Denied::Unknown("there are two keys, and they differ"));
        }
    }
    found.ok_or(Denied::Unknown(none))
}
