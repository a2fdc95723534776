//! The engine as its owner sees it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use tidegate_contract::{ModelError, RequestId};

use crate::budget::Budget;
use crate::error::LoadError;
use crate::handle::ModelHandle;
use crate::loader::{self, Job, Reply};
use crate::options::{EngineOptions, ModelSource};
use crate::order::Moment;
use crate::request::Places;
use crate::slot::{NameState, Slot};
use crate::stats::EngineStats;
use crate::worker::{Command, Worker};

/// How long a dropped engine waits for its thread; a step of a decoder has a shorter limit of its own.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Most cancellations and early ends that wait for the engine's thread; its other commands are as many as queues have places.
const CANCELLATIONS: usize = 1 << 16;
/// Models that wait to be loaded.
const JOBS: usize = 64;

/// What the engine, its handles and its threads share.
pub(crate) struct Shared {
    /// Unbounded, as only such a channel drops what is in it when its receiver goes: a submission is answered by that.
    /// What may wait in it is bounded by the models' queues, by [`JOBS`] and by [`CANCELLATIONS`].
    pub(crate) commands: Sender<Command>,
    cancellations: Arc<Places>,
    pub(crate) closed: AtomicBool,
    pub(crate) budget: Arc<Budget>,
    /// How long a model may take to be loaded, or to be loaded again.
    pub(crate) load_limit: Duration,
    /// When its thread began its last round, milliseconds since time began.
    pub(crate) round: AtomicU64,
    /// When time began.
    epoch: Instant,
}

impl Shared {
    /// For how long its thread has been in one round; zero once it has ended.
    pub(crate) fn silent(&self) -> Duration {
        if self.closed.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let round = Duration::from_millis(self.round.load(Ordering::Relaxed));
        self.now().saturating_sub(round)
    }

    pub(crate) fn now(&self) -> Moment {
        self.epoch.elapsed()
    }

    /// A point in time as the schedulers count it; before the engine's start is its start.
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        instant.saturating_duration_since(self.epoch)
    }

    /// Sends a cancellation; false if too many wait already.
    pub(crate) fn cancel(&self, id: RequestId) -> bool {
        let Some(permit) = self.cancellations.take(0) else {
            return false;
        };
        let _ = self.commands.send(Command::Cancel(id, permit));
        true
    }

    /// Sends an early end; false if too many commands of the kind wait already.
    pub(crate) fn end(&self, id: RequestId) -> bool {
        let Some(permit) = self.cancellations.take(0) else {
            return false;
        };
        let _ = self.commands.send(Command::End(id, permit));
        true
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = self.commands.send(Command::Wake);
    }
}

/// Says so if the engine's thread ends, however it does.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

/// The models of one adapter, served by one thread.
///
/// Steps of different models take turns, with equal shares of the adapter's time. Within a model requests go by class,
/// least slack (the time to the deadline beyond the work left) and arrival, and rise by a class for each
/// [`crate::ModelOptions::aging`] that they wait: a request of class c that arrives at t is overtaken by nothing that
/// arrives after t + (c + 1) * aging, however much comes.
///
/// Dropping the engine ends its threads, and every request with [`ModelError::Closed`].
pub struct Engine {
    shared: Arc<Shared>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    jobs: Sender<Job>,
    next: AtomicU64,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the threads. If the system has none to give, the engine is closed.
    #[must_use]
    pub fn start(options: EngineOptions) -> Engine {
        let (commands, receiver) = unbounded();
        let (jobs, job_receiver) = bounded(JOBS);
        let (alive, ended) = bounded::<()>(0);
        let shared = Arc::new(Shared {
            commands,
            cancellations: Places::new(CANCELLATIONS),
            closed: AtomicBool::new(false),
            budget: Budget::new(options.memory_budget),
            load_limit: options.load_limit,
            round: AtomicU64::new(0),
            epoch: Instant::now(),
        });
        let worker = Worker::new(Arc::clone(&shared), receiver, jobs.clone());
        let ending = Ending(Arc::clone(&shared));
        let thread = thread::Builder::new()
            .name("tidegate-engine".into())
            .spawn(move || {
                let (_alive, _ending) = (alive, ending);
                worker.run();
            });
        let for_loader = Arc::clone(&shared);
        let loader = thread::Builder::new()
            .name("tidegate-loader".into())
            .spawn(move || loader::run(&job_receiver, &for_loader));
        let failed = thread.as_ref().err().or(loader.as_ref().err());
        if let Some(error) = failed {
            tracing::error!(%error, "a thread of the engine could not be started");
            shared.close();
        }
        Engine {
            shared,
            slots: Mutex::new(BTreeMap::new()),
            jobs,
            next: AtomicU64::new(1),
            thread: thread.ok(),
            ended,
        }
    }

    /// Loads a model under a name and waits for it, while others serve. A model that stands there already is replaced:
    /// new requests go to the new one, the old ones finish on the old one, which is then dropped. Until then both are in
    /// the budget.
    ///
    /// # Errors
    /// The model does not fit the budget, cannot be loaded, or fails its first step; what stood under the name stays.
    pub fn load(&self, name: &str, source: ModelSource) -> Result<ModelHandle, LoadError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(LoadError::Closed);
        }
        let draft = source.options.draft.as_ref();
        let bytes = source
            .bytes
            .saturating_add(draft.map_or(0, |draft| draft.bytes));
        let budget = &self.shared.budget;
        let reservation = budget.take(bytes).map_err(|free| LoadError::Budget {
            name: name.into(),
            needed: bytes,
            free,
            budget: budget.limit(),
        })?;
        let slot = self.slot(name);
        let (result, outcome) = bounded(1);
        let abandoned = Arc::new(AtomicBool::new(false));
        let job = Job::Load {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            slot: Arc::clone(&slot),
            source: Box::new(source),
            reservation,
            reply: Reply {
                result,
                abandoned: Arc::clone(&abandoned),
            },
        };
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(LoadError::Busy { limit: JOBS }),
            Err(TrySendError::Disconnected(_)) => return Err(LoadError::Closed),
        }
        match outcome.recv_timeout(self.shared.load_limit) {
            Ok(Ok(())) => Ok(ModelHandle::new(Arc::clone(&self.shared), slot)),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Disconnected) => Err(LoadError::Closed),
            Err(RecvTimeoutError::Timeout) => {
                abandoned.store(true, Ordering::Release);
                Err(LoadError::TookTooLong {
                    name: name.into(),
                    limit: self.shared.load_limit,
                })
            }
        }
    }

    /// Takes a model from its name: it gets no more requests, finishes those it has, and is dropped.
    ///
    /// # Errors
    /// [`ModelError::Unknown`] if nothing stands there.
    pub fn unload(&self, name: &str) -> Result<(), ModelError> {
        let unknown = || ModelError::Unknown(name.into());
        let slot = self.known(name).ok_or_else(unknown)?;
        match slot.put(NameState::Empty) {
            NameState::Empty => Err(unknown()),
            NameState::Loaded(_) | NameState::Ended => {
                let _ = self.shared.commands.send(Command::Wake);
                Ok(())
            }
        }
    }

    /// The model under a name, if there is one.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<ModelHandle> {
        let slot = self.known(name)?;
        slot.loaded()?;
        Some(ModelHandle::new(Arc::clone(&self.shared), slot))
    }

    /// A name, whether a model stands there or is yet to come: until then a request is given back with
    /// [`ModelError::Unknown`].
    #[must_use]
    pub fn handle(&self, name: &str) -> ModelHandle {
        ModelHandle::new(Arc::clone(&self.shared), self.slot(name))
    }

    /// What the engine has done and is doing.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        let slots: Vec<Arc<Slot>> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.values().cloned().collect()
        };
        let stands = |slot: &Arc<Slot>| !matches!(slot.state(), NameState::Empty);
        EngineStats {
            budget: self.shared.budget.limit(),
            used: self.shared.budget.used(),
            closed: self.shared.closed.load(Ordering::Acquire),
            models: slots
                .into_iter()
                .filter(stands)
                .map(|slot| ModelHandle::new(Arc::clone(&self.shared), slot).stats())
                .collect(),
        }
    }

    /// Ends the engine without waiting for it: every request ends with [`ModelError::Closed`].
    pub fn close(&self) {
        self.shared.close();
    }

    /// Names that are known.
    #[cfg(test)]
    pub(crate) fn names(&self) -> usize {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.len()
    }

    fn known(&self, name: &str) -> Option<Arc<Slot>> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(name).cloned()
    }

    /// The place of a name. Names that nothing stands under and nobody holds any more go meanwhile, so that there are
    /// never more than are in use.
    fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|known, slot| {
            known == name
                || Arc::strong_count(slot) > 1
                || !matches!(slot.state(), NameState::Empty)
        });
        let slot = slots
            .entry(name.into())
            .or_insert_with(|| Arc::new(Slot::new(name)));
        Arc::clone(slot)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A reply may hold the last reference to the engine: its thread cannot wait for itself.
        if thread.thread().id() == thread::current().id() {
            return;
        }
        match self.ended.recv_timeout(END_LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::error!(limit = ?END_LIMIT, "the engine's thread did not end in time and is left alone");
            }
            _ => {
                let _ = thread.join();
            }
        }
    }
}
