//! What a store holds for its guest, and the time that its calls have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_telemetry::plain;
use wasmtime::UpdateDeadline;
use wasmtime::component::Linker;

use crate::last_words::{LastWords, joined};
use crate::limits::{Limiter, Limits};
use crate::listener::Level;
use crate::shared::{COUNTER_NAME, COUNTERS, Shared, is_counter};
use crate::ticker::ticks;
use crate::wasi::Inert;

/// The longest a call can be allowed to take; more is taken as this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a guest is looked at whose slot may end at any time.
const LOOK: Duration = Duration::from_millis(20);

/// What a call is for, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allowed {
    /// Instantiation, `describe` or `init`.
    Start(Duration),
    /// `process`.
    Batch(Duration),
    /// Anything, of a slot that has ended.
    Nothing,
}

impl Allowed {
    /// The time of the call.
    pub(crate) fn time(self) -> Duration {
        match self {
            Allowed::Start(time) | Allowed::Batch(time) => time.min(LONGEST),
            Allowed::Nothing => Duration::ZERO,
        }
    }
}

/// The guest did not return in time, or what it returned was not read in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlinePassed(pub(crate) Allowed);

impl std::fmt::Display for DeadlinePassed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Allowed::Start(time) => write!(f, "no answer within {time:?}"),
            Allowed::Batch(time) => write!(f, "no answer within limits.deadline = \"{time:?}\""),
            Allowed::Nothing => f.write_str("what it was run for has ended"),
        }
    }
}

impl std::error::Error for DeadlinePassed {}

/// What a store holds for its guest.
pub(crate) struct Host {
    pub(crate) shared: Arc<Shared>,
    pub(crate) limiter: Limiter,
    pub(crate) config: Arc<str>,
    deadline: (Instant, Allowed),
    /// What the running call has counted: it counts only once the call is answered.
    pub(crate) pending: BTreeMap<String, u64>,
    seed: [u8; 32],
    clock: i64,
    /// What the running call has logged, the end of it.
    pub(crate) logged: LastWords,
    inert: Option<Box<Inert>>,
}

impl Host {
    pub(crate) fn new(
        shared: Arc<Shared>,
        config: Arc<str>,
        limits: &Limits,
        seed: [u8; 32],
    ) -> Host {
        Host {
            limiter: Limiter::new(limits, Arc::clone(&shared)),
            shared,
            config,
            deadline: (Instant::now(), Allowed::Start(Duration::ZERO)),
            pending: BTreeMap::new(),
            seed,
            clock: 0,
            logged: LastWords::default(),
            inert: None,
        }
    }

    /// Sets what a WASI guest sees of the world during the next call: one time, and randomness that is the same
    /// whenever the same call comes again.
    pub(crate) fn begin(&mut self, clock: i64, mark: u64) {
        self.limiter.refused = None;
        self.pending.clear();
        self.logged.clear();
        self.clock = clock;
        if let Some(inert) = &mut self.inert {
            inert.begin(clock, mark);
        }
    }

    /// The inert world, made when it is first used: most operators do not import it.
    pub(crate) fn inert(&mut self) -> &mut Inert {
        let (shared, seed, clock) = (&self.shared, self.seed, self.clock);
        self.inert
            .get_or_insert_with(|| Box::new(Inert::new(Arc::clone(shared), seed, clock)))
    }

    /// What the last call has logged and written to stderr, the end of it; none if that is nothing.
    pub(crate) fn last_words(&self) -> Option<String> {
        let stderr = self.inert.as_ref().map(|inert| inert.last_words());
        joined(&self.logged, stderr)
    }

    /// How long of this time a guest may run until it is looked at again.
    fn unseen(&self, left: Duration) -> Duration {
        match self.shared.ending {
            Some(_) => left.min(LOOK),
            None => left,
        }
    }

    /// Whether the running call is still in time.
    pub(crate) fn in_time(&self) -> Result<(), DeadlinePassed> {
        if (self.shared.ending.as_ref()).is_some_and(|ending| ending.left().is_none()) {
            return Err(DeadlinePassed(Allowed::Nothing));
        }
        let (until, allowed) = self.deadline;
        if Instant::now() >= until {
            return Err(DeadlinePassed(allowed));
        }
        Ok(())
    }

    /// Whether this may be the name of a counter; if not, the log says so.
    pub(crate) fn is_counter(&self, name: &str) -> bool {
        if is_counter(name) {
            return true;
        }
        self.shared.log_with(Level::Warn, || {
            let name = plain(name, COUNTER_NAME);
            let rule = "names are [a-z][a-z0-9_]*, at most";
            format!("counter \"{name}\" is not counted: {rule} {COUNTER_NAME} bytes").into()
        });
        false
    }

    /// Counts for the running call.
    pub(crate) fn add(&mut self, name: String, amount: u64) {
        if let Some(sum) = self.pending.get_mut(&name) {
            *sum = sum.saturating_add(amount);
        } else if self.pending.len() < COUNTERS {
            self.pending.insert(name, amount);
        }
    }
}

/// A store for one instance, with its limits in force and its deadline passed until [`arm`] is called.
pub(crate) fn store(
    engine: &wasmtime::Engine,
    host: Host,
    limits: &Limits,
) -> wasmtime::Store<Host> {
    let mut store = wasmtime::Store::new(engine, host);
    store.limiter(|host| &mut host.limiter);
    // What crosses in one call, answers included, is measured before it is copied.
    store.set_hostcall_fuel(limits.output);
    store.epoch_deadline_callback(|store| {
        store.data().in_time()?;
        let left = (store.data().deadline.0).saturating_duration_since(Instant::now());
        Ok(UpdateDeadline::Continue(ticks(store.data().unseen(left))))
    });
    store
}

/// Gives the next call of this store so much time.
pub(crate) fn arm(store: &mut wasmtime::Store<Host>, allowed: Allowed) {
    store.data_mut().deadline = (Instant::now() + allowed.time(), allowed);
    let unseen = store.data().unseen(allowed.time());
    store.set_epoch_deadline(ticks(unseen));
}

/// Everything an operator could import; what it may is decided by its grants before it is linked.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::<Host>::new(engine);
    crate::world::version0_1::link(&mut linker)?;
    crate::world::version1::link(&mut linker)?;
    crate::wasi::link(&mut linker)?;
    Ok(linker)
}
