//! A server, and how often, how soon and whether at all it is asked.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Response, Uri};
use tidegate_contract::ModelError;
use tokio::time::{sleep, timeout};

use super::breaker::{Admitted, Breaker, Outcome};
use super::budget::Budget;
use super::clock::Clock;
use super::gate::Gate;
use super::http::Http;
use super::lateness::Lateness;
use super::options::{Hedge, RemoteTimeouts};
use super::secret::Secret;
use super::side::Side;
use super::stats::{Counters, add};
use super::trouble::{self, Trouble};

/// Most bytes of an error that are read.
const MOST_ERROR: usize = 16 << 10;
/// The golden section of 64 bits: its multiples are spread evenly, however many there are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Longest wait between tries that no server asked for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);

/// A server.
pub(crate) struct Server {
    /// Its address, for messages.
    pub address: String,
    pub http: Http,
    pub timeouts: RemoteTimeouts,
    pub attempts: u32,
    pub backoff: Duration,
    pub hedge: Hedge,
    pub context: u32,
    pub secrets: Vec<Secret>,
    pub clock: Clock,
    pub gate: Arc<Gate>,
    pub breaker: Mutex<Breaker>,
    pub budget: Mutex<Budget>,
    pub lateness: Mutex<Lateness>,
    pub counters: Counters,
    /// Differs for each request that is put off.
    pub jitter: AtomicU64,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wait after so many tries.
pub(crate) fn backed_off(backoff: Duration, tried: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(tried.saturating_sub(1));
    backoff.saturating_mul(doubled).min(LONGEST_BACKOFF)
}

/// Up to a quarter longer.
pub(crate) fn spread(wait: Duration, jitter: u64) -> Duration {
    wait.mul_f64(1.0 + quarter(jitter))
}

/// From 0 to a quarter; neighbours lie far apart.
fn quarter(jitter: u64) -> f64 {
    (jitter.wrapping_mul(GOLDEN) >> 32) as f64 / (1_u64 << 34) as f64
}

/// A try that the breaker let through, until it is told what came of it.
pub(crate) struct Admission<'a> {
    server: &'a Server,
    side: Side,
    probe: bool,
    told: bool,
}

impl Admission<'_> {
    /// The server has begun to answer: it is well, however long the rest takes.
    fn began(&mut self) {
        self.tell(Outcome::Alive);
        if self.side == Side::Stream {
            locked(&self.server.breaker).rest.answered();
        }
    }

    /// It came to nothing. A request that the server puts off is told for how long.
    pub(crate) fn failed(&mut self, trouble: &mut Trouble) {
        if self.side == Side::Beside {
            return;
        }
        let now = self.server.clock.now();
        match self.told {
            true if trouble.outcome == Outcome::Failed => {
                locked(&self.server.breaker).broke_off(now);
            }
            true => {}
            false => self.tell(trouble.outcome),
        }
        if let Some(wait) = &mut trouble.rest {
            let jitter = self.server.jitter.fetch_add(1, Ordering::Relaxed);
            *wait = locked(&self.server.breaker).rest.asked(*wait, jitter, now);
        }
    }

    fn tell(&mut self, outcome: Outcome) {
        self.told = true;
        if self.side == Side::Stream {
            let now = self.server.clock.now();
            locked(&self.server.breaker).told(self.probe, outcome, now);
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.tell(Outcome::Unknown);
        }
    }
}

impl Server {
    /// Whether it is asked at all now.
    pub(crate) fn admit(&self, side: Side) -> Result<Admission<'_>, Trouble> {
        let now = self.clock.now();
        let mut breaker = locked(&self.breaker);
        let admitted = match side {
            Side::Stream => breaker.admit(now),
            Side::Beside if breaker.is_closed(now) => Admitted::Yes,
            Side::Beside => Admitted::No,
        };
        drop(breaker);
        let probe = match admitted {
            Admitted::Yes => false,
            Admitted::Probe => true,
            Admitted::No => return Err(Trouble::not_asked("it is left alone for now")),
        };
        Ok(Admission {
            server: self,
            side,
            probe,
            told: false,
        })
    }

    /// Whether it is left alone, or one request is trying it.
    pub(crate) fn is_left_alone(&self, side: Side) -> bool {
        let (breaker, now) = (locked(&self.breaker), self.clock.now());
        match side {
            Side::Stream => breaker.refuses(now),
            Side::Beside => !breaker.is_closed(now),
        }
    }

    /// A trouble as the model's answer. A request that was not sent is given back.
    pub(crate) fn error(&self, side: Side, trouble: Trouble) -> ModelError {
        match trouble.was_asked() {
            true => trouble.into_error(&self.address, &self.secrets),
            false => self.full(side),
        }
    }

    /// There is no room for a request now.
    pub(crate) fn full(&self, side: Side) -> ModelError {
        ModelError::Full {
            limit: self.gate.places(side),
        }
    }

    /// Sends a request, with the trace that it is part of; the head of an answer that is one.
    pub(crate) async fn ask(
        &self,
        uri: &Uri,
        body: Bytes,
        prompt_tokens: usize,
        traceparent: Option<&str>,
    ) -> Result<Response<Incoming>, Trouble> {
        let response = self.http.post(uri, body, traceparent).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = self.http.beginning(body, MOST_ERROR).await;
        let head = Response::from_parts(head, ());
        Err(trouble::of_status(
            &head,
            &body,
            prompt_tokens,
            self.context,
        ))
    }

    /// A try, up to the first of its answer, with its bound of time and its word to the breaker. What it gives keeps the
    /// admission, if there is more to come.
    pub(crate) async fn tried<'a, T>(
        &'a self,
        side: Side,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<(T, Admission<'a>), Trouble> {
        let mut admission = self.admit(side)?;
        let began = Instant::now();
        let limit = self.timeouts.first;
        let result = match timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => Err(Trouble::late(format!("no answer began in {limit:?}"))),
        };
        match result {
            Ok(given) => {
                if side == Side::Stream {
                    locked(&self.lateness).began(began.elapsed());
                }
                admission.began();
                Ok((given, admission))
            }
            Err(mut trouble) => {
                admission.failed(&mut trouble);
                Err(trouble)
            }
        }
    }

    /// A try, and for the stream another with it when it is late. The first that gives something goes on; the other is
    /// dropped, and its connection with it.
    pub(crate) async fn hedged<T, F>(&self, side: Side, once: impl Fn() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut first = pin!(once());
        let late = match self.hedge {
            _ if side == Side::Beside => None,
            Hedge::Off => None,
            Hedge::After(late) => Some(late),
            Hedge::Late => locked(&self.lateness).late(),
        };
        let Some(late) = late else {
            return first.await;
        };
        tokio::select! {
            biased;
            result = &mut first => return result,
            () = sleep(late) => {}
        }
        // Beside it only as far as there is room and budget.
        let Some(_permit) = self.gate.try_permit() else {
            return first.await;
        };
        if !locked(&self.budget).take(self.clock.now()) {
            return first.await;
        }
        add(&self.counters.hedged, 1);
        let mut second = pin!(once());
        let (mut first_failed, mut second_failed) = (None, false);
        loop {
            tokio::select! {
                biased;
                result = &mut first, if first_failed.is_none() => match result {
                    Err(trouble) if !second_failed => first_failed = Some(trouble),
                    result => return result,
                },
                result = &mut second, if !second_failed => match result {
                    Ok(given) => {
                        add(&self.counters.hedge_wins, 1);
                        return Ok(given);
                    }
                    // What is wrong with the first is told, unless only the second was refused for good: it may not even
                    // have been let through.
                    Err(trouble) => match first_failed.take() {
                        Some(first) => return Err(if trouble.again { first } else { trouble }),
                        None => second_failed = true,
                    },
                },
            }
        }
    }

    /// How long to wait before the next try, which is no less than the server says; none if there is none. Until a server
    /// that is well has time is waited elsewhere: whoever asked is told, and no place is taken meanwhile.
    pub(crate) fn again(
        &self,
        side: Side,
        trouble: &Trouble,
        tried: u32,
        deadline: Option<Instant>,
        jitter: u64,
    ) -> Option<Duration> {
        let now = trouble.again && trouble.was_asked() && trouble.rest.is_none();
        if !now || side == Side::Beside || tried >= self.attempts {
            return None;
        }
        let backoff = backed_off(self.backoff, tried);
        // Those who failed together are not to come back together, nor before the server says.
        let wait = match trouble.wait {
            Some(asked) => spread(asked.max(backoff), jitter),
            None => backoff.mul_f64(1.0 - quarter(jitter)),
        };
        let in_time = deadline.is_none_or(|deadline| Instant::now() + wait < deadline);
        if !in_time || !locked(&self.budget).take(self.clock.now()) {
            return None;
        }
        add(&self.counters.retried, 1);
        Some(wait)
    }
}
