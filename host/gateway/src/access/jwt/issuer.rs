//! An issuer whose tokens are believed, with its keys as they are now.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;

use super::key::{self, VerifyingKey};
use super::token::{Bad, signed};
use super::{FetchKeys, claims};
use crate::access::clock::Clock;
use crate::access::keys::environment;
use crate::access::options::{AccessError, Issuer, KeySource, Permissions, Quota};
use crate::access::quota::Account;
use crate::access::who::Who;

/// Keys are fetched for a token at most so often.
const OFTEN: Duration = Duration::from_secs(60);

/// A fetch that hangs is waited for so long.
const FETCH: Duration = Duration::from_secs(10);

/// Largest file or answer with keys.
const BYTES: u64 = 1 << 20;

/// So many subjects have quotas of their own at once.
const SUBJECTS: usize = 10_000;

type Stamp = Option<(SystemTime, u64)>;

/// An issuer.
pub(in crate::access) struct Trusted {
    options: Issuer,
    quota: Quota,
    permissions: Arc<Permissions>,
    clock: Arc<dyn Clock>,
    keys: ArcSwap<Vec<VerifyingKey>>,
    fetch: Option<Arc<dyn FetchKeys>>,
    /// How the file was.
    stamp: Mutex<Stamp>,
    /// When keys were last asked for. Held while they are.
    fetched: tokio::sync::Mutex<Option<Duration>>,
    subjects: Mutex<HashMap<String, Arc<Account>>>,
}

impl Trusted {
    pub(in crate::access) fn new(
        options: Issuer,
        quota: Quota,
        fetch: Option<Arc<dyn FetchKeys>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Trusted, AccessError> {
        let (mut seen, mut asked) = (None, None);
        if let KeySource::File(path) = &options.keys {
            // Taken before the file is read: what changes meanwhile is read the next time.
            seen = stamp(path);
        }
        let keys = match (here(&options)?, &options.keys) {
            (keys, KeySource::Environment(_) | KeySource::File(_)) => keys,
            (_, KeySource::Url { url, .. }) => {
                let fetch = fetch.as_ref().ok_or_else(|| AccessError::Issuer {
                    name: options.name.clone(),
                    why: "there is nothing to fetch keys with".to_owned(),
                })?;
                asked = Some(clock.now());
                // The issuer may be up later than we are: its keys are asked for again.
                fetched(&**fetch, url, &options).unwrap_or_else(|error| {
                    tracing::warn!(
                        issuer = options.name,
                        url,
                        error,
                        "its keys could not be fetched"
                    );
                    Vec::new()
                })
            }
        };
        Ok(Trusted {
            permissions: Arc::new(options.permissions.clone()),
            options,
            quota,
            clock,
            keys: ArcSwap::from_pointee(keys),
            fetch,
            stamp: Mutex::new(seen),
            fetched: tokio::sync::Mutex::new(asked),
            subjects: Mutex::default(),
        })
    }

    /// What keeps an issuer's keys from being of use, as far as they are on this machine.
    pub(in crate::access) fn check(options: &Issuer) -> Result<(), AccessError> {
        here(options).map(drop)
    }

    /// Whose token it is.
    pub(in crate::access) fn who(&self, token: &str) -> Result<Who, Bad> {
        let payload = signed(token, self.options.algorithm, &self.keys.load())?;
        let subject = claims::check(&payload, &self.options, self.clock.unix())?;
        let permissions = match subject.scopes {
            None => self.permissions.clone(),
            Some(scopes) => Arc::new(Permissions {
                scopes: Some(scopes),
                ..(*self.permissions).clone()
            }),
        };
        let name = subject.name.unwrap_or_default();
        let whole = format!("{}:{name}", self.options.name);
        Ok(Who::new(&whole, permissions, self.account(name)))
    }

    /// What a subject uses. Those who use nothing are forgotten when there are many.
    fn account(&self, subject: String) -> Arc<Account> {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        if subjects.len() >= SUBJECTS && !subjects.contains_key(&subject) {
            subjects.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_full());
        }
        // Should all of them be at work, the rest shares what the nameless have.
        let subject = if subjects.len() >= SUBJECTS && !subjects.contains_key(&subject) {
            String::new()
        } else {
            subject
        };
        let made = || Arc::new(Account::new(self.quota, self.clock.clone()));
        subjects.entry(subject).or_insert_with(made).clone()
    }

    /// Asks for the keys again because a token names one that is not there. False if that was done less than a minute ago.
    pub(in crate::access) async fn ask_again(self: &Arc<Trusted>) -> bool {
        if !matches!(self.options.keys, KeySource::Url { .. }) {
            return false;
        }
        let before = self.clock.now();
        let Ok(mut asked) = tokio::time::timeout(FETCH, self.fetched.lock()).await else {
            return false;
        };
        if let Some(last) = *asked
            && last + OFTEN > before
        {
            // Someone else may have asked while we waited: then there is something new to look at.
            return last >= before;
        }
        *asked = Some(self.clock.now());
        let this = self.clone();
        let fetching = tokio::task::spawn_blocking(move || this.take_fetched());
        tokio::time::timeout(FETCH, fetching).await.is_ok()
    }

    /// Looks after the keys: a file that has changed, a URL whose time has come.
    pub(in crate::access) fn look(self: &Arc<Trusted>) {
        match &self.options.keys {
            KeySource::Environment(_) => {}
            KeySource::File(path) => {
                let now = stamp(path);
                let mut seen = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
                if now == *seen {
                    return;
                }
                *seen = now;
                match read(path, &self.options) {
                    Ok(keys) => self.keys.store(Arc::new(keys)),
                    Err(error) => tracing::error!(
                        issuer = self.options.name,
                        error,
                        "its keys stay as they were"
                    ),
                }
            }
            KeySource::Url { every, .. } => {
                let now = self.clock.now();
                // Whoever holds the lock is asking.
                let Ok(mut asked) = self.fetched.try_lock() else {
                    return;
                };
                if asked.is_none_or(|last| last + *every <= now) {
                    *asked = Some(now);
                    let this = self.clone();
                    tokio::task::spawn_blocking(move || this.take_fetched());
                }
            }
        }
    }

    fn take_fetched(&self) {
        let (KeySource::Url { url, .. }, Some(fetch)) = (&self.options.keys, &self.fetch) else {
            return;
        };
        match fetched(&**fetch, url, &self.options) {
            Ok(keys) => self.keys.store(Arc::new(keys)),
            Err(error) => tracing::warn!(
                issuer = self.options.name,
                url,
                error,
                "its keys stay as they were"
            ),
        }
    }
}

/// The keys that are on this machine; none of those at a URL.
fn here(options: &Issuer) -> Result<Vec<VerifyingKey>, AccessError> {
    let wrong = |why: String| AccessError::Issuer {
        name: options.name.clone(),
        why,
    };
    match &options.keys {
        KeySource::Environment(_) if options.algorithm.name() != "HS256" => Err(wrong(
            "an environment variable holds a secret, which only HS256 has".to_owned(),
        )),
        KeySource::Environment(variable) => {
            let secret = environment(&options.name, variable)?;
            let key = VerifyingKey::secret(secret.as_bytes()).map_err(wrong)?;
            Ok(vec![key])
        }
        KeySource::File(path) => read(path, options).map_err(wrong),
        KeySource::Url { .. } => Ok(Vec::new()),
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn read(path: &Path, options: &Issuer) -> Result<Vec<VerifyingKey>, String> {
    let of_file = |why: String| format!("{}: {why}", path.display());
    let length = std::fs::metadata(path)
        .map_err(|error| of_file(error.to_string()))?
        .len();
    if length > BYTES {
        return Err(of_file(format!("{length} bytes exceed {BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| of_file(error.to_string()))?;
    key::of_file(&bytes, options.algorithm).map_err(of_file)
}

fn fetched(
    fetch: &dyn FetchKeys,
    url: &str,
    options: &Issuer,
) -> Result<Vec<VerifyingKey>, String> {
    let bytes = fetch.fetch(url)?;
    if bytes.len() as u64 > BYTES {
        return Err(format!("{} bytes exceed {BYTES} bytes", bytes.len()));
    }
    key::of_set(&bytes, options.algorithm, false)
}
