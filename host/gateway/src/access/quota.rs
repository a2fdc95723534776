//! Quotas: taken before the work, settled after it.
//!
//! A bucket holds what may still be used and refills all the time, so that no minute begins with a rush.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use super::clock::Clock;
use super::options::Quota;

/// More was asked for than there is at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which limit: `requests`, `tokens` or `streams`.
    pub what: &'static str,
    /// The limit, a minute or at once.
    pub limit: u64,
    /// When asking again can help, at least a second; none if it never can.
    pub after: Option<Duration>,
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

    fn lacks(&self, amount: u64, what: &'static str) -> Option<Exceeded> {
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
    streams: u64,
    most_streams: Option<u64>,
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
            streams: 0,
            most_streams: quota.streams,
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
        used.streams == 0
            && [&used.requests, &used.tokens]
                .into_iter()
                .flatten()
                .all(|bucket| bucket.left >= bucket.limit as f64)
    }

    /// Takes a request, so many tokens, and a stream; all or nothing.
    pub(super) fn reserve(
        self: &Arc<Account>,
        tokens: u64,
        stream: bool,
    ) -> Result<Reservation, Exceeded> {
        let mut used = self.used();
        let lacking = used
            .requests
            .as_ref()
            .and_then(|bucket| bucket.lacks(1, "requests"));
        let lacking = lacking.or_else(|| {
            used.tokens
                .as_ref()
                .and_then(|bucket| bucket.lacks(tokens, "tokens"))
        });
        if let Some(exceeded) = lacking {
            return Err(exceeded);
        }
        if let Some(limit) = used
            .most_streams
            .filter(|limit| stream && used.streams >= *limit)
        {
            return Err(Exceeded {
                what: "streams",
                limit,
                after: Some(Duration::from_secs(1)),
            });
        }
        if let Some(bucket) = &mut used.requests {
            bucket.left -= 1.0;
        }
        if let Some(bucket) = &mut used.tokens {
            bucket.left -= tokens as f64;
        }
        used.streams += u64::from(stream);
        drop(used);
        Ok(Reservation {
            account: self.clone(),
            tokens,
            stream,
        })
    }
}

/// Tokens, and perhaps a stream, that are reserved for a request. Dropped without being settled, the tokens are given
/// back; the request stays counted.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    tokens: u64,
    stream: bool,
}

impl Reservation {
    /// The work is done: what it used more or less than was reserved is taken or given back. The stream is free again.
    pub fn settle(self, used: u64) {
        // Dropping gives back what was reserved. Taking first would not do: a bucket that is full takes nothing back.
        if let Some(bucket) = &mut self.account.used().tokens {
            bucket.left -= used as f64;
        }
    }

    /// What is left, as OpenAI says it in headers. Limits that there are not are not named.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let used = self.account.used();
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

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.account.used();
        if let Some(bucket) = &mut used.tokens {
            bucket.give(self.tokens as f64);
        }
        used.streams -= u64::from(self.stream);
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
