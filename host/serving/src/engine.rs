//! The engine as its owner sees it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use tidegate_contract::{ModelError, RequestId};

use crate::budget::{Budget, Reservation};
use crate::documents::{self, Asked, Ranking};
use crate::error::LoadError;
use crate::handle::ModelHandle;
use crate::loader::{self, Job, Reply};
use crate::model::Loaded;
use crate::moves::Moves;
use crate::options::{EngineOptions, ModelSource};
use crate::order::Moment;
use crate::replicas::{LeftOut, Replica, Replicas};
use crate::request::{Permit, Places};
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
    /// What may wait in it is bounded by the models' queues, by [`JOBS`] and by [`CANCELLATIONS`], of which those that follow a
    /// request that has moved take their places too.
    pub(crate) commands: Sender<Command>,
    /// Documents to be encoded; bounded by the models' queues, and by [`CANCELLATIONS`].
    documents: Sender<Asked>,
    /// Requests whose documents are being encoded.
    rankings: AtomicUsize,
    /// Since when a piece of documents is being encoded, milliseconds since time began; 0 where none is.
    piece_since: AtomicU64,
    /// How many more pieces of documents a test lets be encoded.
    #[cfg(test)]
    pub(crate) pieces: AtomicUsize,
    cancellations: Arc<Places>,
    pub(crate) closed: AtomicBool,
    pub(crate) budget: Arc<Budget>,
    /// What it was started with.
    pub(crate) options: EngineOptions,
    /// Its commands, for others to take from it what it does not come to; none once its thread has ended, so that what is
    /// left of them is dropped then.
    receiver: Mutex<Option<Receiver<Command>>>,
    /// Where requests have gone from here.
    moves: Mutex<Moves>,
    /// When its thread began its last round, milliseconds since time began.
    pub(crate) round: AtomicU64,
}

/// When time began, for all engines: requests move among them.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The number of the next model.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Shared {
    /// For how long its thread has been in one round; zero once it has ended.
    pub(crate) fn silent(&self) -> Duration {
        if self.is_closed() {
            return Duration::ZERO;
        }
        let round = Duration::from_millis(self.round.load(Ordering::Relaxed));
        self.now().saturating_sub(round)
    }

    /// Whether its thread does not go on.
    pub(crate) fn is_stalled(&self) -> bool {
        self.silent() >= self.options.stalled_after
    }

    /// The commands that its thread has not taken yet, as many as there are now.
    pub(crate) fn untaken(&self) -> Vec<Command> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = &*receiver else {
            return Vec::new();
        };
        receiver.try_iter().take(receiver.len()).collect()
    }

    pub(crate) fn now(&self) -> Moment {
        EPOCH.elapsed()
    }

    /// Whether its thread has ended, or is about to.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A point in time as the schedulers count it; before the first engine's start is its start.
    pub(crate) fn moment(&self, instant: Instant) -> Moment {
        instant.saturating_duration_since(*EPOCH)
    }

    /// A place for a cancellation or an early end; `None` if too many wait already.
    pub(crate) fn cancellation(&self) -> Option<Permit> {
        self.cancellations.take(0)
    }

    /// Takes what this engine was asked and does not come to, for another to hand over (`by`). What follows one of these requests is
    /// sent to that one, which knows where it went, from the moment on in which it cannot be found here any more. What that one knew of
    /// them before leads back here, and nowhere should it panic with them in its hands.
    pub(crate) fn taken_by<T>(
        &self,
        by: &Arc<Shared>,
        take: impl FnOnce() -> T,
        ids: impl Fn(&T) -> Vec<RequestId>,
    ) -> T {
        let mut moves = self.moves();
        let taken = take();
        let ids = ids(&taken);
        for id in &ids {
            moves.went(*id, Arc::downgrade(by));
        }
        // Of two engines' at a time none is held: each may relieve the other.
        drop(moves);
        for id in ids {
            by.keeps(id);
        }
        taken
    }

    /// Has a request go on in another engine, which hears of it before whatever follows it there.
    pub(crate) fn send_on(&self, id: RequestId, to: &Arc<Shared>, command: Command) {
        let mut moves = self.moves();
        moves.went(id, Arc::downgrade(to));
        let unsent = to.commands.send(command);
        drop(moves);
        // Where that engine has just ended it is dropped here, and its reply answers `Closed`.
        drop(unsent);
    }

    /// A request that this engine has had in its hands is in another.
    pub(crate) fn went(&self, id: RequestId, to: &Arc<Shared>) {
        self.moves().went(id, Arc::downgrade(to));
    }

    /// A command comes back that another took from it, with these requests: what follows them is for this engine again.
    pub(crate) fn takes_back(&self, ids: &[RequestId], command: Command) {
        let mut moves = self.moves();
        for id in ids {
            moves.came(*id);
        }
        let unsent = self.commands.send(command);
        drop(moves);
        drop(unsent);
    }

    /// A request is here: what comes for it is for this engine.
    pub(crate) fn keeps(&self, id: RequestId) {
        self.moves().came(id);
    }

    /// Sends a cancellation or an early end after a request that has gone; false if it has not. With very many before it there it
    /// is dropped, and the request goes on to its end, as where a caller sends it.
    pub(crate) fn send_after(
        &self,
        id: RequestId,
        command: impl FnOnce(Permit) -> Command,
    ) -> bool {
        let moves = self.moves();
        let Some(engine) = moves.engine_of(id) else {
            return false;
        };
        let permit = engine.cancellation();
        let has_place = permit.is_some();
        let unsent = permit.map(|permit| engine.commands.send(command(permit)));
        drop(moves);
        drop(unsent);
        if !has_place {
            tracing::warn!(
                request = id.0,
                "a cancellation or an early end of a request that has moved is dropped: too many are waiting"
            );
        }
        true
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Has the documents of a request encoded, which is then submitted. If the thread has just ended, it is dropped here and
    /// its reply answers `Closed`.
    pub(crate) fn rank(&self, ranking: Ranking) {
        self.rankings.fetch_add(1, Ordering::AcqRel);
        let _ = self.documents.send(Asked::Rank(Box::new(ranking)));
    }

    /// The documents of a request are encoded no more.
    pub(crate) fn encoded_one(&self) {
        self.rankings.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests whose documents are being encoded here.
    pub(crate) fn rankings(&self) -> usize {
        self.rankings.load(Ordering::Acquire)
    }

    /// A piece of documents is being encoded since then, or none.
    pub(crate) fn encodes_since(&self, since: Option<Moment>) {
        let since = since.map_or(0, |since| (since.as_millis() as u64).max(1));
        self.piece_since.store(since, Ordering::Relaxed);
    }

    /// For how long one piece of documents is being encoded.
    pub(crate) fn silent_encoding(&self) -> Duration {
        match self.piece_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.now().saturating_sub(Duration::from_millis(since)),
        }
    }

    /// Sends the cancellation of a request whose documents may still be encoded, and which then is in one of these engines;
    /// false if too many wait already.
    pub(crate) fn cancel_ranking(&self, id: RequestId, engines: &[Arc<Shared>]) -> bool {
        if self.rankings() == 0 {
            return true;
        }
        let Some(permit) = self.cancellations.take(0) else {
            return false;
        };
        let _ = self
            .documents
            .send(Asked::Cancel(id, permit, engines.to_vec()));
        true
    }

    /// Whether a piece of documents may be encoded: always, but where a test says when.
    #[cfg(not(test))]
    pub(crate) fn may_encode(&self) -> bool {
        true
    }

    #[cfg(test)]
    pub(crate) fn may_encode(&self) -> bool {
        self.pieces.load(Ordering::Acquire) > 0
    }

    /// A piece is encoded.
    pub(crate) fn encodes_piece(&self) {
        #[cfg(test)]
        let _ = (self.pieces).fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            (left < usize::MAX).then(|| left.saturating_sub(1))
        });
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = self.documents.send(Asked::Wake);
        let _ = self.commands.send(Command::Wake);
    }
}

/// Says so if the engine's thread ends, however it does.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        let receiver = self.0.receiver.lock();
        // What is in it is dropped here, and replies may do anything: after the lock is free.
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner).take();
        drop(receiver);
    }
}

/// Closes the engine if a thread that it cannot be without ends, however it does.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The models of one adapter, served by one thread.
///
/// Steps of different models take turns, with equal shares of the adapter's time. Within a model requests go by class,
/// least slack (the time to the deadline beyond the work left) and arrival, and rise by a class for each
/// [`crate::ModelOptions::aging`] that they wait: a request of class c that arrives at t is overtaken by nothing that
/// arrives after t + (c + 1) * aging, however much comes. Documents to be ranked are encoded before that, by another thread, in an
/// order that keeps this too.
///
/// Dropping the engine ends its threads, and every request with [`ModelError::Closed`].
pub struct Engine {
    shared: Arc<Shared>,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    jobs: Sender<Job>,
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
        Engine::with(Budget::new(options.memory_budget), options)
    }

    /// Starts another on the same adapter: what its models hold is of the same budget.
    #[must_use]
    pub fn start_beside(&self) -> Engine {
        Engine::with(Arc::clone(&self.shared.budget), self.shared.options)
    }

    fn with(budget: Arc<Budget>, options: EngineOptions) -> Engine {
        let began = EPOCH.elapsed();
        let (commands, receiver) = unbounded();
        let (jobs, job_receiver) = bounded(JOBS);
        let (documents, to_encode) = unbounded();
        let (alive, ended) = bounded::<()>(0);
        let shared = Arc::new(Shared {
            commands,
            documents,
            rankings: AtomicUsize::new(0),
            piece_since: AtomicU64::new(0),
            #[cfg(test)]
            pieces: AtomicUsize::new(usize::MAX),
            cancellations: Places::new(CANCELLATIONS),
            closed: AtomicBool::new(false),
            budget,
            options,
            receiver: Mutex::new(Some(receiver.clone())),
            moves: Mutex::default(),
            round: AtomicU64::new(began.as_millis() as u64),
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
        let for_documents = Arc::clone(&shared);
        let encoder = thread::Builder::new()
            .name("tidegate-documents".into())
            .spawn(move || {
                // Without it there is no ranking, and nobody would hear of it.
                let closing = Closing(for_documents);
                documents::run(&closing.0, &to_encode);
            });
        let failed = thread.as_ref().err().or(loader.as_ref().err());
        let failed = failed.or(encoder.as_ref().err());
        if let Some(error) = failed {
            tracing::error!(%error, "a thread of the engine could not be started");
            shared.close();
        }
        Engine {
            shared,
            slots: Mutex::new(BTreeMap::new()),
            jobs,
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
        load_replicas(name, vec![(self, source)], &[])
    }

    /// Has a model loaded.
    fn ask_for(
        &self,
        slot: &Arc<Slot>,
        source: ModelSource,
        reservation: Reservation,
        (places, place, several): (&Arc<Places>, usize, bool),
    ) -> Result<Loading, LoadError> {
        let (result, outcome) = bounded(1);
        let abandoned = Arc::new(AtomicBool::new(false));
        let adapter = source.facts.adapter.clone();
        let job = Job::Load {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            slot: Arc::clone(slot),
            source: Box::new(source),
            reservation,
            places: Arc::clone(places),
            place,
            several,
            reply: Reply {
                result,
                abandoned: Arc::clone(&abandoned),
            },
        };
        match self.jobs.try_send(job) {
            Ok(()) => Ok(Loading {
                engine: Arc::clone(&self.shared),
                adapter,
                outcome,
                abandoned,
            }),
            Err(TrySendError::Full(_)) => Err(LoadError::Busy { limit: JOBS }),
            Err(TrySendError::Disconnected(_)) => Err(LoadError::Closed),
        }
    }

    fn reserve(&self, name: &str, source: &ModelSource) -> Result<Reservation, LoadError> {
        if self.shared.is_closed() {
            return Err(LoadError::Closed);
        }
        let draft = source.options.draft.as_ref();
        let bytes = source
            .bytes
            .saturating_add(draft.map_or(0, |draft| draft.bytes));
        let budget = &self.shared.budget;
        budget.take(bytes).map_err(|free| LoadError::Budget {
            name: name.into(),
            needed: bytes,
            free,
            budget: budget.limit(),
        })
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
                slot.wake();
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

    /// What waits for its thread.
    #[cfg(test)]
    pub(crate) fn commands(&self) -> usize {
        self.shared.commands.len()
    }

    /// Lets so many more pieces of documents be encoded; all of `usize::MAX`.
    #[cfg(test)]
    pub(crate) fn encodes(&self, pieces: usize) {
        self.shared.pieces.store(pieces, Ordering::Release);
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

/// A model that is being loaded.
struct Loading {
    engine: Arc<Shared>,
    /// What it is to run on.
    adapter: String,
    outcome: Receiver<Result<Arc<Loaded>, LoadError>>,
    /// Nobody waits for it.
    abandoned: Arc<AtomicBool>,
}

/// A replica that cannot be loaded, since what it is to run on is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingReplica {
    /// Its place among all of the model.
    pub place: usize,
    /// What it was to run on.
    pub adapter: String,
    /// Why it is not there.
    pub reason: String,
}

impl Loading {
    fn wait(&self, name: &str, until: Instant, limit: Duration) -> Result<Replica, LoadError> {
        match self.outcome.recv_deadline(until) {
            Ok(loaded) => loaded.map(|loaded| Replica {
                loaded,
                engine: Arc::clone(&self.engine),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(LoadError::Closed),
            Err(RecvTimeoutError::Timeout) => Err(LoadError::TookTooLong {
                name: name.into(),
                limit,
            }),
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Release);
        // What was loaded for nobody is let go of at once.
        let _ = self.engine.commands.send(Command::Wake);
    }
}

/// Loads a model under a name, a replica on each of these engines, and waits for them, while others serve: as
/// [`Engine::load`], which is this with one. The name is the first engine's. All of them are put under the name together.
///
/// A request goes to the replica that is expected to have it done first, by what each still has to do, what its steps were
/// measured to take, and what it has of the prompt in kept blocks. One whose device fails is loaded again; meanwhile what it
/// had goes on in the others, from the tokens that were made. One that is given up is left out, and tried again after growing
/// pauses ([`EngineOptions::pauses`]). The last one is what a model is that has no other. What one was asked whose engine's thread
/// does not go on ([`EngineOptions::stalled_after`]) goes on in the others too. The queue's places are those of the first source, for all replicas together. Those that are `missing`
/// are left out from the beginning, and not tried again; the others have the places that these leave, in their order.
///
/// # Errors
/// None can be loaded, or one for another reason than a device that fails: a source that fits no budget, its tokenizer or
/// its sizes. What stood under the name stays. One whose device fails is left out where another can be loaded.
pub fn load_replicas(
    name: &str,
    replicas: Vec<(&Engine, ModelSource)>,
    missing: &[MissingReplica],
) -> Result<ModelHandle, LoadError> {
    let several = replicas.len() > 1;
    let Some((first, source)) = replicas.first() else {
        return Err(LoadError::NoReplica { name: name.into() });
    };
    let first = *first;
    let places = Places::new(source.options.queue);
    let mut reserved = Vec::with_capacity(replicas.len());
    for (engine, source) in replicas {
        let reservation = engine.reserve(name, &source)?;
        reserved.push((engine, source, reservation));
    }
    let slot = first.slot(name);
    let limit = first.shared.options.load_limit;
    let until = Instant::now() + limit;
    // Those that are missing have places of their own.
    let numbers = (0..).filter(|place| missing.iter().all(|gone| gone.place != *place));
    let mut loading = Vec::with_capacity(reserved.len());
    for (place, (engine, source, reservation)) in numbers.zip(reserved) {
        let of_all = (&places, place, several);
        loading.push((place, engine.ask_for(&slot, source, reservation, of_all)?));
    }
    let (mut serving, mut left_out, mut error) = (Vec::<Replica>::new(), Vec::new(), None);
    left_out.extend(missing.iter().map(|gone| LeftOut {
        place: gone.place,
        adapter: gone.adapter.clone(),
        reason: gone.reason.clone(),
        counters: None,
        tried_again: None,
    }));
    for (place, loading) in &loading {
        match loading.wait(name, until, limit) {
            Ok(replica) => serving.push(replica),
            Err(failed) if !failed.is_of_the_device() => return Err(failed),
            Err(failed) => {
                let adapter = loading.adapter.clone();
                if several {
                    tracing::error!(model = name, replica = place, %adapter, error = %failed, "a replica is left out");
                }
                left_out.push(LeftOut {
                    place: *place,
                    adapter,
                    reason: failed.to_string(),
                    counters: None,
                    tried_again: None,
                });
                error.get_or_insert(failed);
            }
        }
    }
    if let (true, Some(error)) = (serving.is_empty(), error) {
        return Err(error);
    }
    if let Some(other) = serving
        .iter()
        .find(|one| !one.loaded.is_like(&serving[0].loaded))
    {
        return Err(LoadError::Unlike {
            name: name.into(),
            first: serving[0].loaded.facts.adapter.clone(),
            other: other.loaded.facts.adapter.clone(),
        });
    }
    let replicas = Replicas::new(serving, left_out);
    slot.put(NameState::Loaded(Arc::new(replicas)));
    slot.wake();
    Ok(ModelHandle::new(Arc::clone(&first.shared), slot))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_request_that_was_lost_between_two_engines_does_not_go_round() {
        let [stalled, by] = [(); 2].map(|()| Engine::start(EngineOptions::default()));
        let id = RequestId(7);
        let follows = |engine: &Engine| {
            let cancel = |permit| Command::Cancel(id, permit);
            engine.shared.send_after(id, cancel)
        };
        // It waited there again after an earlier relief.
        by.shared.went(id, &stalled.shared);
        let taken = (stalled.shared).taken_by(&by.shared, || 5, |_| vec![id]);
        assert_eq!(taken, 5);
        assert!(follows(&stalled), "it is in the other's hands");
        assert!(!follows(&by), "where it is nobody knows");
    }
}
