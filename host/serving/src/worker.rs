//! The engine's thread: commands in, steps out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError};
use tidegate_contract::{ModelError, RequestId};

use crate::device_model::{DeviceModel, Loaders};
use crate::engine::Shared;
use crate::error::LoadError;
use crate::generator::DraftModel;
use crate::hosted::{Hosted, Moved, Stepped};
use crate::loader::{Job, Reply};
use crate::model::Loaded;
use crate::replicas::{Wanted, has_others, other, wake_others};
use crate::request::{Permit, Submission};
use crate::shares::Shares;
use crate::stats::Counters;

/// Failed loads in a row after which a model is given up.
const FAILED_LOADS: u32 = 3;
/// Fatal steps in a row after which a model is given up, though it could be loaded again each time.
const FATAL_STEPS: u32 = 8;
/// Commands taken between two steps, so that a flood of them does not hold up the steps.
const COMMANDS_PER_STEP: usize = 1024;
/// Moves of a request, one soon after the other, through which what is asked of it follows.
const MOVES: u32 = 3;
/// How long an idle thread sleeps at most.
const IDLE: Duration = Duration::from_secs(1);

/// What callers and the loader ask of the thread.
pub(crate) enum Command {
    Submit(Arc<Loaded>, Box<Submission>),
    Cancel(RequestId, Permit),
    /// The request's answers have said enough.
    End(RequestId, Permit),
    /// Requests that another replica could do no more for.
    TakeOver(Arc<Loaded>, Vec<Moved>),
    /// As [`Command::Cancel`], of a request that may have come from the engine that says so.
    CancelMoved(RequestId, u32),
    /// As [`Command::End`], of the same.
    EndMoved(RequestId, u32),
    /// A model has been loaded.
    Loaded(Box<Hosted>, Reply),
    /// A model has been loaded again.
    Reloaded {
        number: u64,
        loaders: Box<Loaders>,
        parts: Result<DeviceModel, String>,
    },
    /// A model's draft has been loaded again.
    DraftLoaded {
        number: u64,
        loaders: Box<Loaders>,
        draft: Result<Box<DraftModel>, String>,
    },
    /// Something has changed that the thread looks at by itself.
    Wake,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    jobs: Sender<Job>,
    models: Vec<Hosted>,
    shares: Shares,
    /// Where requests of models here have gone on: what is said of one later may be of one of those.
    moved_to: Vec<Arc<Shared>>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: Receiver<Command>,
        jobs: Sender<Job>,
    ) -> Worker {
        Worker {
            shared,
            commands,
            jobs,
            models: Vec::new(),
            shares: Shares::default(),
            moved_to: Vec::new(),
        }
    }

    /// Runs until the engine is closed; every request that is left then ends with [`ModelError::Closed`].
    pub(crate) fn run(mut self) {
        while !self.shared.closed.load(Ordering::Acquire) {
            self.take_commands();
            let now = self.shared.now();
            let round = now.as_millis() as u64;
            self.shared.round.store(round, Ordering::Relaxed);
            for model in &mut self.models {
                model.core.expire(now);
            }
            self.move_on();
            self.retire();
            self.ask_for_reloads();
            self.ask_for_drafts();
            self.give_up_late();
            self.step();
        }
        for model in &mut self.models {
            model.core.fail_all(&ModelError::Closed);
            model.core.report();
            model.loaded.counters.closed.store(true, Ordering::Relaxed);
        }
    }

    /// The models that can make a step now: where one has work of the stream none that has but work beside it, which
    /// has a deadline that ends it.
    fn ready(&self) -> Vec<u64> {
        let able = |model: &&Hosted| model.core.can_step() && model.core.has_work();
        let mut able: Vec<&Hosted> = self.models.iter().filter(able).collect();
        let is_of_the_stream = |model: &&Hosted| model.core.has_work_of_the_stream();
        if able.len() > 1 && able.iter().any(is_of_the_stream) {
            able.retain(is_of_the_stream);
        }
        able.iter().map(|model| model.loaded.number).collect()
    }

    /// Takes what callers asked for; waits if there is nothing to do.
    fn take_commands(&mut self) {
        if self.ready().is_empty() {
            self.hand_on();
            let deadlines = self.models.iter().filter_map(|model| model.core.deadline());
            let wait = deadlines
                .min()
                .map_or(IDLE, |deadline| deadline.saturating_sub(self.shared.now()));
            match self.commands.recv_timeout(wait.min(IDLE)) {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
        self.take_waiting_commands();
    }

    /// Takes what callers have asked for.
    fn take_waiting_commands(&mut self) {
        for _ in 0..COMMANDS_PER_STEP {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(loaded, submission) => {
                let same = |model: &&mut Hosted| model.loaded.number == loaded.number;
                match self.models.iter_mut().find(same) {
                    Some(model) => model.core.submit(*submission),
                    // It was given up meanwhile.
                    None => submit_elsewhere(&loaded, submission, &mut self.moved_to),
                }
            }
            Command::TakeOver(loaded, moved) => self.take_over(&loaded, moved),
            Command::Cancel(id, permit) => {
                drop(permit);
                self.cancel(id);
                self.send_after(|| Command::CancelMoved(id, MOVES));
            }
            Command::CancelMoved(id, moves) => {
                self.cancel(id);
                if moves > 1 {
                    self.send_after(|| Command::CancelMoved(id, moves - 1));
                }
            }
            Command::End(id, permit) => {
                drop(permit);
                self.end(id);
                self.send_after(|| Command::EndMoved(id, MOVES));
            }
            Command::EndMoved(id, moves) => {
                self.end(id);
                if moves > 1 {
                    self.send_after(|| Command::EndMoved(id, moves - 1));
                }
            }
            Command::Loaded(hosted, reply) => self.install(*hosted, &reply),
            Command::Reloaded {
                number,
                loaders,
                parts,
            } => self.reloaded(number, loaders, parts),
            Command::DraftLoaded {
                number,
                loaders,
                draft,
            } => {
                let same = |model: &&mut Hosted| model.loaded.number == number;
                if let Some(model) = self.models.iter_mut().find(same) {
                    model.loaders = Some(loaders);
                    model.core.draft_loaded(draft);
                }
            }
            Command::Wake => {}
        }
    }

    /// Sends what is asked of a request after it, if it may have gone on in another engine.
    fn send_after(&self, command: impl Fn() -> Command) {
        for engine in &self.moved_to {
            let _ = engine.commands.send(command());
        }
    }

    fn cancel(&mut self, id: RequestId) {
        for model in &mut self.models {
            model.core.cancel(id);
            model.core.report();
        }
    }

    fn end(&mut self, id: RequestId) {
        for model in &mut self.models {
            model.core.end(id);
            model.core.report();
        }
    }

    /// Takes requests that another replica could do no more for.
    fn take_over(&mut self, loaded: &Arc<Loaded>, moved: Vec<Moved>) {
        let same = |model: &&mut Hosted| model.loaded.number == loaded.number;
        let left = match self.models.iter_mut().find(same) {
            Some(model) => model.core.take_over(moved),
            // It was given up meanwhile: on to the next, if there is one.
            None => hand_over(loaded, moved, true, &mut self.moved_to),
        };
        let error = ModelError::Device("no replica of the model is left".to_owned());
        for moved in left {
            moved.fail(&loaded.counters, error.clone());
        }
    }

    /// Has what models were asked that are being loaded again go on in other replicas that serve.
    fn move_on(&mut self) {
        for model in &mut self.models {
            if model.away_since.is_none() || !has_others(&model.loaded) || !model.core.has_work() {
                continue;
            }
            if other(&model.loaded, &Wanted::default(), false).is_none() {
                continue;
            }
            let moved = model.core.give_away();
            let left = hand_over(&model.loaded, moved, false, &mut self.moved_to);
            // Nobody serves any more since a moment ago: they wait here.
            let _ = model.core.take_over(left);
            model.core.report();
        }
    }

    /// Takes a model in that has been loaded. Who waits for it puts it under its name, and until then has it.
    fn install(&mut self, hosted: Hosted, reply: &Reply) {
        if reply.is_abandoned() {
            tracing::warn!(model = %hosted.slot.name, "a model is dropped: nobody waits for it any more");
            return;
        }
        if self.shared.closed.load(Ordering::Acquire) {
            reply.tell(Err(LoadError::Closed));
            return;
        }
        hosted.core.report();
        let loaded = Arc::clone(&hosted.loaded);
        self.models.push(hosted);
        reply.tell(Ok(loaded));
    }

    /// Drops models that get no more requests and have none left. A submission on its way holds the model as well.
    fn retire(&mut self) {
        let shares = &mut self.shares;
        self.models.retain_mut(|model| {
            let keeps = model.core.has_work()
                || model.is_current()
                || Arc::strong_count(&model.loaded) > 1
                || model.loaders.is_none();
            if !keeps {
                model.core.hand_on();
                shares.forget(model.loaded.number);
            }
            keeps
        });
    }

    fn ask_for_reloads(&mut self) {
        for model in &mut self.models {
            if !model.needs_reload {
                continue;
            }
            let Some(mut loaders) = model.loaders.take() else {
                continue;
            };
            if !model.core.wants_draft() {
                // Left out for good, it is not to take the next device down either.
                loaders.draft = None;
            }
            let number = model.loaded.number;
            let name = model.slot.name.clone();
            let job = Job::Reload {
                number,
                name,
                loaders,
            };
            match self.jobs.try_send(job) {
                Ok(()) => model.needs_reload = false,
                Err(TrySendError::Full(Job::Reload { loaders, .. })) => {
                    model.loaders = Some(loaders);
                }
                // The loader is gone, and with it the way to load anything.
                Err(_) => model.failed_loads = FAILED_LOADS,
            }
        }
        self.give_up("the engine's loader has ended");
    }

    fn ask_for_drafts(&mut self) {
        for model in &mut self.models {
            let Some(vocabulary) = model.core.misses_draft() else {
                continue;
            };
            let Some(loaders) = model.loaders.take() else {
                continue;
            };
            let job = Job::Draft {
                number: model.loaded.number,
                name: model.slot.name.clone(),
                vocabulary,
                loaders,
            };
            match self.jobs.try_send(job) {
                Ok(()) => model.core.draft_is_asked_for(),
                // Too many models are being loaded: later.
                Err(error) => {
                    if let Job::Draft { loaders, .. } = error.into_inner() {
                        model.loaders = Some(loaders);
                    }
                }
            }
        }
    }

    fn reloaded(&mut self, number: u64, loaders: Box<Loaders>, parts: Result<DeviceModel, String>) {
        let same = |model: &&mut Hosted| model.loaded.number == number;
        let Some(model) = self.models.iter_mut().find(same) else {
            return;
        };
        model.loaders = Some(loaders);
        let reason = match parts {
            Ok(parts) => {
                if model.core.restore(parts) {
                    model.failed_loads = 0;
                    model.away_since = None;
                    model.loaded.away.store(false, Ordering::Release);
                    tracing::warn!(model = %model.slot.name, "the model was loaded again");
                    Counters::add(&model.loaded.counters.reloads, 1);
                    // What waits in others that are away may go on here.
                    wake_others(&model.loaded);
                    return;
                }
                model.failed_loads = FAILED_LOADS;
                "the model that was loaded again has another shape".to_owned()
            }
            Err(reason) => {
                model.failed_loads += 1;
                model.needs_reload = true;
                reason
            }
        };
        tracing::error!(model = %model.slot.name, %reason, failed_loads = model.failed_loads, "the model could not be loaded again");
        self.give_up(&reason);
    }

    /// Ends the models that have been away for too long, so that nobody waits for ever where a driver hangs; what comes
    /// of them later is dropped.
    fn give_up_late(&mut self) {
        let limit = self.shared.load_limit;
        let now = self.shared.now();
        let mut late = false;
        for model in &mut self.models {
            if model
                .away_since
                .is_some_and(|since| now.saturating_sub(since) > limit)
            {
                model.failed_loads = FAILED_LOADS;
                late = true;
            }
        }
        if late {
            self.give_up(&format!("the model was not loaded again within {limit:?}"));
        }
    }

    /// Ends the models that have failed too often.
    fn give_up(&mut self, reason: &str) {
        let (shares, moved_to) = (&mut self.shares, &mut self.moved_to);
        self.models.retain_mut(|model| {
            if model.failed_loads < FAILED_LOADS && model.fatal_steps < FATAL_STEPS {
                return true;
            }
            tracing::error!(model = %model.slot.name, %reason, "the model is given up");
            model.loaded.counters.closed.store(true, Ordering::Release);
            model.slot.leave_out(model.loaded.number, reason);
            if has_others(&model.loaded) {
                let left = hand_over(&model.loaded, model.core.give_away(), true, moved_to);
                let _ = model.core.take_over(left);
            }
            model.core.fail_all(&ModelError::Device(reason.to_owned()));
            model.core.report();
            shares.forget(model.loaded.number);
            false
        });
    }

    /// Tells those who asked what was made for them.
    fn hand_on(&mut self) {
        for model in &mut self.models {
            model.core.hand_on();
        }
    }

    /// Runs a step of the model whose turn it is. What does not depend on it is done while it runs: what other steps made is
    /// handed on, and requests come and go. A step that was begun ahead goes first, whoever came meanwhile: the device has it
    /// already. Only a model that is alone begins one.
    fn step(&mut self) {
        let ready = self.ready();
        let ahead = self.models.iter().find(|model| model.core.has_begun());
        let number = match ahead {
            Some(model) => model.loaded.number,
            None => match self.shares.choose(&ready) {
                Some(number) => number,
                None => return,
            },
        };
        let alone = ready == [number];
        let same = |model: &&mut Hosted| model.loaded.number == number;
        let Some(model) = self.models.iter_mut().find(same) else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let clock = || shared.now();
        let began = clock();
        let begun = model.core.begin(alone, &clock);
        let mut took = clock().saturating_sub(began);
        self.hand_on();
        if begun.is_some() {
            self.take_waiting_commands();
        }
        let Some(model) = self.models.iter_mut().find(same) else {
            return;
        };
        // What was handed on and taken in between is not this model's.
        let goes_on = clock();
        let stepped = match begun {
            Some(begun) => model.core.finish(begun, &clock),
            None => Ok(Stepped::Nothing),
        };
        took += clock().saturating_sub(goes_on);
        self.shares.charge(number, took);
        model.core.report();
        match stepped {
            Ok(Stepped::Well) => model.fatal_steps = 0,
            Ok(Stepped::Nothing | Stepped::Badly) => {}
            Err(reason) => {
                model.fatal_steps += 1;
                model.needs_reload = true;
                model.away_since = Some(self.shared.now());
                model.loaded.away.store(true, Ordering::Release);
                if has_others(&model.loaded) {
                    let (model, adapter) = (&model.slot.name, &model.loaded.facts.adapter);
                    tracing::warn!(%model, %adapter, %reason, "a replica is away: what it was asked goes to the others");
                }
                self.give_up(&reason);
                self.move_on();
            }
        }
    }
}

/// Has requests go on in other replicas of a model, each in the one that is expected to have it done first: in those that
/// serve, or, where the model is given up, in any that may serve again. Those for which there is none are given back.
fn hand_over(
    loaded: &Loaded,
    moved: Vec<Moved>,
    is_given_up: bool,
    moved_to: &mut Vec<Arc<Shared>>,
) -> Vec<Moved> {
    let mut left = Vec::new();
    for mut moved in moved {
        let wanted = moved.wanted();
        let Some((replica, burden)) = other(loaded, &wanted, is_given_up) else {
            left.push(moved);
            continue;
        };
        moved.burdens(burden);
        note(moved_to, &replica.engine);
        let take_over = Command::TakeOver(replica.loaded, vec![moved]);
        // Where that engine has just ended, its reply answers `Closed`.
        let _ = replica.engine.commands.send(take_over);
    }
    left
}

/// Has a request that came to a model that was given up go to another replica; where there is none it is dropped, and its
/// reply answers `Closed`.
fn submit_elsewhere(
    loaded: &Loaded,
    mut submission: Box<Submission>,
    moved_to: &mut Vec<Arc<Shared>>,
) {
    let wanted = submission
        .work
        .as_ref()
        .map(|work| Wanted::of(work, submission.lora, true));
    let wanted = wanted.unwrap_or_default();
    if let Some((replica, burden)) = other(loaded, &wanted, true) {
        submission.burden = burden;
        note(moved_to, &replica.engine);
        let _ = replica
            .engine
            .commands
            .send(Command::Submit(replica.loaded, submission));
    }
}

fn note(moved_to: &mut Vec<Arc<Shared>>, engine: &Arc<Shared>) {
    if !moved_to.iter().any(|known| Arc::ptr_eq(known, engine)) {
        moved_to.push(Arc::clone(engine));
    }
}
