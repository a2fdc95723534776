//! Quotas: requests and tokens are taken before the work, and tokens settled after it.
//!
//! A bucket holds what may still be used and refills all the time, so that no minute begins with a rush.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use super::clock::Clock;
use super::options::Quota;

/// More was asked for than there is at the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The limit of {limit} {what} is reached")]
pub struct Exceeded {
    /// Which limit.
    pub what: Limit,
    /// What it is.
    pub limit: u64,
    /// When asking again can help, at least a second; none if it never can.
    pub after: Option<Duration>,
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
    /// Requests at once.
    Concurrent,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Requests => "requests a minute",
            Limit::Tokens => "tokens a minute",
            Limit::Concurrent => "requests at once",
        })
    }
}

/// What may still be used of a limit a minute.
#[derive(Debug)]
struct Bucket {
    limit: u64,
    left: f64,
    at: Duration,
}

impl Bucket {
    fn new(limit: u64, now: Duration) -> Bucket {
        Bucket {
            limit,
            left: limit as f64,
            at: now,
        }
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.give(passed * self.limit as f64 / 60.0);
    }

    fn give(&mut self, amount: f64) {
        self.left = (self.left + amount).min(self.limit as f64);
    }

    /// Seconds until so much is there.
    fn until(&self, amount: f64) -> Duration {
        Duration::from_secs_f64(
            ((amount - self.left).max(0.0) * 60.0 / self.limit as f64).min(86_400.0),
        )
    }

    fn lacks(&self, amount: u64, what: Limit) -> Option<Exceeded> {
        // A thousandth less than whole is what rounding leaves of a full bucket.
        if self.left + 1e-3 >= amount as f64 {
            return None;
        }
        let after =
            (amount <= self.limit).then(|| self.until(amount as f64).max(Duration::from_secs(1)));
        Some(Exceeded {
            what,
            limit: self.limit,
            after,
        })
    }
}

/// What one client uses.
pub(super) struct Account {
    clock: Arc<dyn Clock>,
    used: Mutex<Used>,
}

struct Used {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    concurrent: u64,
    most_concurrent: Option<u64>,
    /// Those under way that may be repeated, by what repeats have in common.
    repeated: HashMap<Box<str>, Weak<Taken>>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

impl Account {
    pub(super) fn new(quota: Quota, clock: Arc<dyn Clock>) -> Account {
        let now = clock.now();
        let used = Used {
            requests: quota.requests.map(|limit| Bucket::new(limit, now)),
            tokens: quota.tokens.map(|limit| Bucket::new(limit, now)),
            concurrent: 0,
            most_concurrent: quota.concurrent,
            repeated: HashMap::new(),
        };
        Account {
            clock,
            used: Mutex::new(used),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let Used {
            requests, tokens, ..
        } = &mut *used;
        for bucket in requests.iter_mut().chain(tokens.iter_mut()) {
            bucket.refill(now);
        }
        used
    }

    /// Whether nothing of it is in use: forgetting it gives nobody more than he has.
    pub(super) fn is_full(&self) -> bool {
        let used = self.used();
        used.concurrent == 0
            && [&used.requests, &used.tokens]
                .into_iter()
                .flatten()
                .all(|bucket| bucket.left >= bucket.limit as f64)
    }

    /// Takes a request, and where it lasts, a place among those at once; both or nothing. A repeat of one that is under
    /// way has the place of that one.
    pub(super) fn begin(
        self: &Arc<Account>,
        lasts: bool,
        repeats: Option<&str>,
    ) -> Result<UnderWay, Exceeded> {
        let mut used = self.used();
        let lacking = used.requests.as_ref();
        if let Some(exceeded) = lacking.and_then(|bucket| bucket.lacks(1, Limit::Requests)) {
            return Err(exceeded);
        }
        let first = repeats.and_then(|repeats| used.repeated.get(repeats));
        if let Some(taken) = first.and_then(Weak::upgrade) {
            if let Some(bucket) = &mut used.requests {
                bucket.left -= 1.0;
            }
            // Before what was upgraded can be the last of them, and asks for the account.
            drop(used);
            return Ok(UnderWay { _taken: taken });
        }
        let full = |limit: &u64| lasts && used.concurrent >= *limit;
        if let Some(limit) = used.most_concurrent.filter(full) {
            return Err(Exceeded {
                what: Limit::Concurrent,
                limit,
                after: Some(Duration::from_secs(1)),
            });
        }
        if let Some(bucket) = &mut used.requests {
            bucket.left -= 1.0;
        }
        used.concurrent += u64::from(lasts);
        let taken = Arc::new(Taken {
            account: self.clone(),
            lasts,
            repeats: repeats.map(Box::from),
        });
        if let Some(repeats) = repeats {
            let first = Arc::downgrade(&taken);
            used.repeated.insert(repeats.into(), first);
        }
        drop(used);
        Ok(UnderWay { _taken: taken })
    }

    /// Takes so many tokens.
    pub(super) fn reserve(self: &Arc<Account>, tokens: u64) -> Result<Reservation, Exceeded> {
        if let Some(bucket) = &mut self.used().tokens {
            if let Some(exceeded) = bucket.lacks(tokens, Limit::Tokens) {
                return Err(exceeded);
            }
            bucket.left -= tokens as f64;
        }
        Ok(Reservation {
            account: self.clone(),
            tokens,
        })
    }

    /// What is left, as OpenAI says it in headers. Limits that there are not are not named.
    pub(super) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let used = self.used();
        let mut headers = Vec::new();
        if let Some(bucket) = &used.requests {
            let [limit, remaining, reset] = [
                "x-ratelimit-limit-requests",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ];
            headers.extend(told(bucket, limit, remaining, reset));
        }
        if let Some(bucket) = &used.tokens {
            let [limit, remaining, reset] = [
                "x-ratelimit-limit-tokens",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
            ];
            headers.extend(told(bucket, limit, remaining, reset));
        }
        headers
    }
}

/// A request that is under way. A copy is the same request. With the last of them its place is free again; the request
/// stays counted.
#[derive(Clone, Debug)]
pub struct UnderWay {
    _taken: Arc<Taken>,
}

#[derive(Debug)]
struct Taken {
    account: Arc<Account>,
    lasts: bool,
    repeats: Option<Box<str>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut used = self.account.used();
        used.concurrent -= u64::from(self.lasts);
        // The next may have come between the last copy of this one and here.
        if let Some(repeats) = &self.repeats
            && used
                .repeated
                .get(repeats)
                .is_some_and(|first| first.strong_count() == 0)
        {
            used.repeated.remove(repeats);
        }
    }
}

/// Tokens that are reserved for a request. Dropped without being settled, they are given back.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    tokens: u64,
}

impl Reservation {
    /// The work is done: what it used more or less than was reserved is taken or given back.
    pub fn settle(self, used: u64) {
        // Dropping gives back what was reserved. Taking first would not do: a bucket that is full takes nothing back.
        if let Some(bucket) = &mut self.account.used().tokens {
            bucket.left -= used as f64;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(bucket) = &mut self.account.used().tokens {
            bucket.give(self.tokens as f64);
        }
    }
}

fn told(
    bucket: &Bucket,
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut told = vec![
        (
            HeaderName::from_static(limit),
            HeaderValue::from(bucket.limit),
        ),
        (
            HeaderName::from_static(remaining),
            HeaderValue::from((bucket.left + 1e-3).max(0.0) as u64),
        ),
    ];
    // Digits and letters are always a header's value.
    if let Ok(text) = HeaderValue::from_str(&clock_text(bucket.until(bucket.limit as f64))) {
        told.push((HeaderName::from_static(reset), text));
    }
    told
}

/// `1s`, `6m0s`, `1h0m0s`: whole seconds, rounded up.
fn clock_text(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}
