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
use super::keys::{Keys, digest_of};
use super::options::{AccessError, AccessOptions};
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
        if let Some(wrong) = names(&options).chain(quotas(&options)).next() {
            return Err(wrong);
        }
        let quota_of = |quota: &Option<String>| {
            let quota = quota.as_ref().and_then(|quota| options.quotas.get(quota));
            quota.copied().unwrap_or_default()
        };
        let keys = Keys::new(&options.keys, |key| {
            let account = Account::new(quota_of(&key.permissions.quota), clock.clone());
            Ok(Who::new(
                &key.name,
                Arc::new(key.permissions.clone()),
                Arc::new(account),
            ))
        })?;
        let issuers = options.issuers.iter().map(|issuer| {
            let quota = quota_of(&issuer.permissions.quota);
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

/// Everything that keeps [`Access`] from being made of these options, as far as this machine can say: keys at URLs are
/// not fetched.
pub fn faults(options: &AccessOptions) -> Vec<AccessError> {
    let keys = options.keys.iter().filter_map(|key| digest_of(key).err());
    let issuers = options.issuers.iter();
    let issuers = issuers.filter_map(|issuer| Trusted::check(issuer).err());
    let found = names(options).chain(quotas(options));
    found.chain(keys).chain(issuers).collect()
}

/// Names that two would have.
fn names(options: &AccessOptions) -> impl Iterator<Item = AccessError> {
    let names = options
        .keys
        .iter()
        .map(|key| &key.name)
        .chain(options.issuers.iter().map(|issuer| &issuer.name));
    let mut seen = BTreeSet::new();
    names.filter_map(move |name| {
        // A subject of an issuer is `issuer:subject`, and nobody else may be called so.
        let prefix = name.split(':').next().unwrap_or_default();
        let shadows = prefix != name && options.issuers.iter().any(|issuer| issuer.name == prefix);
        let wrong = !seen.insert(name) || shadows || name.is_empty();
        wrong.then(|| AccessError::Twice(name.clone()))
    })
}

/// Quotas that let nothing through, and those that are not there.
fn quotas(options: &AccessOptions) -> impl Iterator<Item = AccessError> {
    let zero = options.quotas.iter().filter_map(|(name, quota)| {
        let none = [quota.requests, quota.tokens, quota.concurrent].contains(&Some(0));
        none.then(|| AccessError::Zero(name.clone()))
    });
    let keys = options.keys.iter().map(|key| (&key.name, &key.permissions));
    let issuers = options.issuers.iter();
    let named = keys.chain(issuers.map(|issuer| (&issuer.name, &issuer.permissions)));
    let missing = named.filter_map(|(name, permissions)| {
        let quota = permissions.quota.as_ref()?;
        (!options.quotas.contains_key(quota)).then(|| AccessError::Quota {
            name: name.clone(),
            quota: quota.clone(),
        })
    });
    zero.chain(missing)
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
