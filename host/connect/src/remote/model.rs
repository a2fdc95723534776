//! The model port, over a server.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use sha2::{Digest, Sha256};
use tidegate_contract::{Makes, Model, ModelError, ModelFacts, Request, RequestId};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use super::batch::Batches;
use super::breaker::Breaker;
use super::budget::Budget;
use super::estimate;
use super::gate::Gate;
use super::http::Http;
use super::lateness::Lateness;
use super::options::{RemoteError, RemoteOptions};
use super::protocol::Protocol;
use super::reply::GuardedReply;
use super::rest::Rest;
use super::server::{Server, locked};
use super::side::Side;
use super::stats::{Counters, RemoteStats, Standing, add};
use super::task::{Listed, Signal, Task};

/// Threads that look up names.
const LOOKUPS: usize = 2;

/// A model on a server.
///
/// - **Tokens** have no numbers here: [`Reply::token`](tidegate_contract::Reply::token) is never called, a choice has as
///   many zeros as it has tokens by the server's count, and log-probabilities are refused. Tokens of a text are
///   estimated: a third of its bytes.
/// - **Going on**: no server goes on after tokens. What was made before is forgotten, and the answer begins anew.
/// - **Trying again**: what failed is tried again within attempts, budget and deadline, as long as no piece was shown.
///   Afterwards the request ends with [`ModelError::Remote`].
/// - **Leaving alone**: while the breaker is open, or for as long as the server asked for, requests are given back with
///   [`ModelError::Full`]. Only a server that is well may ask for it, with 429 or 503. How long it asked for is told with
///   the request that it said it to: whoever asks waits, and no place is taken meanwhile. It is no less than the backoff,
///   doubled with each time that the server asks for it without an answer between.
/// - **Beside the stream** a request has places of its own, goes only to a server that is well, and once; whatever comes of
///   it, the stream's breaker, rest and retries do not know of it.
/// - **Cancelling** closes the connection, so that the server stops too.
pub struct RemoteModel {
    shared: Arc<Shared>,
    handle: Handle,
    /// None if it runs elsewhere.
    runtime: Option<Runtime>,
    closed: AtomicBool,
}

/// What the requests of a model share.
pub(crate) struct Shared {
    pub facts: ModelFacts,
    pub makes: Makes,
    pub server: Server,
    pub protocol: Protocol,
    pub batches: Batches,
    requests: Mutex<HashMap<RequestId, watch::Sender<Signal>>>,
}

impl Shared {
    /// A request has its end: there is nothing to cancel.
    pub(crate) fn forget(&self, id: RequestId) {
        locked(&self.requests).remove(&id);
    }
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteModel")
            .field("name", &self.shared.facts.name)
            .field("server", &self.shared.server.address)
            .finish_non_exhaustive()
    }
}

impl RemoteModel {
    /// Whether such a model can be opened: certificates are read, and nothing is made or asked.
    pub fn check(options: &RemoteOptions) -> Result<(), RemoteError> {
        prepared(options).map(drop)
    }

    /// A model as it is described. Nothing is asked yet: a server that is away is found out by the first request.
    pub fn open(options: RemoteOptions) -> Result<RemoteModel, RemoteError> {
        let (protocol, http) = prepared(&options)?;
        let address = protocol.address();
        let key = protocol.key();
        if key.is_some() && !address.is_https() {
            tracing::warn!(
                model = options.name,
                server = address.as_str(),
                "the key of a remote model goes over the network unencrypted"
            );
        }
        let digest = Sha256::new()
            .chain_update(address.as_str())
            .chain_update([0])
            .chain_update(protocol.model())
            .finalize();
        let facts = ModelFacts {
            name: options.name.clone(),
            digest: format!("remote:{digest:x}"),
            adapter: address.as_str().to_owned(),
            context: options.context,
            sequences: u32::try_from(options.concurrency).unwrap_or(u32::MAX),
        };
        let runtime = match &options.runtime {
            Some(_) => None,
            None => Some(
                Builder::new_multi_thread()
                    .worker_threads(1)
                    .max_blocking_threads(LOOKUPS)
                    .thread_name(format!("remote-{}", options.name))
                    .enable_io()
                    .enable_time()
                    .build()
                    .map_err(|error| RemoteError::Thread(error.to_string()))?,
            ),
        };
        let handle = match (&runtime, options.runtime) {
            (Some(runtime), _) => runtime.handle().clone(),
            (None, Some(handle)) => handle,
            (None, None) => return Err(RemoteError::Thread("there is none".into())),
        };
        let secrets = key.into_iter().cloned();
        let secrets = secrets.chain(options.headers.into_iter().map(|(_, value)| value));
        let server = Server {
            address: address.as_str().to_owned(),
            secrets: secrets.collect(),
            http,
            timeouts: options.timeouts,
            attempts: options.attempts,
            backoff: options.backoff,
            hedge: options.hedge,
            context: options.context,
            gate: Gate::new(options.concurrency, options.queue),
            breaker: Mutex::new(Breaker::new(options.breaker, Rest::new(options.backoff))),
            budget: Mutex::new(Budget::new(options.budget, options.clock.now())),
            clock: options.clock,
            lateness: Mutex::new(Lateness::default()),
            counters: Counters::default(),
            jitter: AtomicU64::new(RandomState::new().hash_one(&options.name)),
        };
        Ok(RemoteModel {
            shared: Arc::new(Shared {
                facts,
                makes: protocol.makes(),
                server,
                protocol,
                batches: Batches::default(),
                requests: Mutex::default(),
            }),
            handle,
            runtime,
            closed: AtomicBool::new(false),
        })
    }

    /// Whether its server has failed and is not known to be well since.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let server = &self.shared.server;
        let standing = locked(&server.breaker).standing(server.clock.now());
        matches!(standing, Standing::Open { .. } | Standing::HalfOpen { .. })
    }

    /// Most tokens of an answer.
    #[must_use]
    pub fn most_tokens(&self) -> u32 {
        self.shared.protocol.most_tokens
    }

    /// What it has done and is doing.
    #[must_use]
    pub fn stats(&self) -> RemoteStats {
        let server = &self.shared.server;
        let (breaker, now) = (locked(&server.breaker), server.clock.now());
        RemoteStats {
            name: self.shared.facts.name.clone(),
            breaker_opened: breaker.opened,
            breaker_open: breaker.is_open(now),
            standing: breaker.standing(now),
            running: server.gate.taken(),
            waiting: server.gate.waiting(),
            ..server.counters.snapshot()
        }
    }

    /// Ends every request with [`ModelError::Closed`], and takes no more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        locked(&self.shared.requests).clear();
    }

    fn signal(&self, id: RequestId, signal: Signal) {
        if let Some(sender) = locked(&self.shared.requests).get(&id) {
            // Cancelled stays cancelled.
            sender.send_if_modified(|now| {
                let more = signal > *now;
                *now = signal.max(*now);
                more
            });
        }
    }
}

impl Drop for RemoteModel {
    fn drop(&mut self) {
        self.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Model for RemoteModel {
    /// What is wrong with the request itself, and a server that is left alone, are told to its reply;
    /// [`ModelError::Full`] and [`ModelError::Closed`] give it back.
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let server = &self.shared.server;
        if self.closed.load(Ordering::Acquire) {
            return Err((request, ModelError::Closed));
        }
        // While the server is left alone a request is given back: whoever asks waits, and it was no attempt.
        let side = Side::of(request.class);
        let left_alone = server.is_left_alone(side);
        let Some(place) = (!left_alone).then(|| server.gate.enter(side)).flatten() else {
            add(&server.counters.refused, 1);
            return Err((request, server.full(side)));
        };
        add(&server.counters.asked, 1);
        if side == Side::Stream {
            locked(&server.budget).asked();
        }
        let (sender, signals) = watch::channel(Signal::Go);
        locked(&self.shared.requests).insert(request.id, sender);
        if self.closed.load(Ordering::Acquire) {
            self.shared.forget(request.id);
        }
        let task = Task {
            shared: self.shared.clone(),
            id: request.id,
            seed: request.seed,
            class: request.class,
            deadline: request.deadline,
            submitted: Instant::now(),
            place,
            signals,
            listed: Listed(self.shared.clone(), request.id),
            reply: GuardedReply::new(request.reply),
        };
        // Where the runtime has ended, the task is dropped here and its reply answers `Closed`.
        drop(self.handle.spawn(task.run(request.task)));
        Ok(())
    }

    fn cancel(&self, id: RequestId) {
        self.signal(id, Signal::Cancel);
    }

    fn end(&self, id: RequestId) {
        self.signal(id, Signal::End);
    }

    /// An estimate: a third of the bytes, rounded up.
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        Ok(estimate::tokens(text))
    }

    fn makes(&self) -> Makes {
        self.shared.makes
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        Ok(estimate::truncate(text, tokens))
    }

    fn facts(&self) -> ModelFacts {
        self.shared.facts.clone()
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// How the server of a model is spoken to, and by what.
fn prepared(options: &RemoteOptions) -> Result<(Protocol, Http), RemoteError> {
    check(options)?;
    let protocol = Protocol::new(&options.kind)?.with_most_tokens(options.max_tokens);
    let http = Http::new(
        protocol.address().is_https(),
        &options.roots,
        options.timeouts.connect,
        options.concurrency,
    )?
    .with_headers(protocol.key(), &options.headers)?;
    Ok((protocol, http))
}

fn check(options: &RemoteOptions) -> Result<(), RemoteError> {
    let wrong = |name, value: String, limit| Err(RemoteError::Option { name, value, limit });
    if options.context == 0 {
        return wrong("context", "0".into(), "at least 1");
    }
    if options.max_tokens == 0 || options.max_tokens > options.context {
        let value = options.max_tokens.to_string();
        return wrong("max_tokens", value, "between 1 and the context");
    }
    if options.concurrency == 0 || options.concurrency > 10_000 {
        let value = options.concurrency.to_string();
        return wrong("concurrency", value, "between 1 and 10000");
    }
    if options.attempts == 0 {
        return wrong("attempts", "0".into(), "at least 1");
    }
    let budget = options.budget;
    if !(0.0..=1.0).contains(&budget.share) {
        return wrong("budget.share", budget.share.to_string(), "between 0 and 1");
    }
    if !(0.0..=1e6).contains(&budget.least) {
        return wrong(
            "budget.least",
            budget.least.to_string(),
            "between 0 and 1000000",
        );
    }
    let breaker = options.breaker;
    if breaker.share.is_nan() || breaker.share <= 0.0 {
        return wrong("breaker.share", breaker.share.to_string(), "above 0");
    }
    if breaker.window.is_zero() {
        return wrong("breaker.window", "0 s".into(), "above 0");
    }
    for (name, timeout) in [
        ("timeouts.connect", options.timeouts.connect),
        ("timeouts.first", options.timeouts.first),
        ("timeouts.between", options.timeouts.between),
        ("timeouts.whole", options.timeouts.whole),
    ] {
        if timeout.is_zero() {
            return wrong(name, "0 s".into(), "above 0");
        }
    }
    Ok(())
}
