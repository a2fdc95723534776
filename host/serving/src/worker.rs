//! The engine's thread: commands in, steps out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError};
use tidegate_contract::{ModelError, RequestId};

use crate::device_model::{DeviceModel, Loaders};
use crate::engine::Shared;
use crate::error::LoadError;
use crate::generator::DraftModel;
use crate::hosted::{Hosted, LeftOutUntil, Moved, Stepped, Taken};
use crate::loader::{Job, Reply};
use crate::model::Loaded;
use crate::order::Moment;
use crate::replicas::{
    Burden, Replica, Wanted, has_others, have_others_share, it_or_other, other, stalled_others,
};
use crate::request::{Permit, Submission};
use crate::shares::Shares;
use crate::stats::Counters;

/// Failed loads in a row after which a model is given up.
const FAILED_LOADS: u32 = 3;
/// Fatal steps in a row after which a model is given up, though it could be loaded again each time.
const FATAL_STEPS: u32 = 8;
/// Commands taken between two steps, so that a flood of them does not hold up the steps.
const COMMANDS_PER_STEP: usize = 1024;
/// Between two looks at whether the engines of other replicas go on.
const LOOK: Duration = Duration::from_millis(250);
/// Why a model is lost with its scheduler.
const PANICKED: &str = "the engine's thread panicked";
/// Why a request is moved too often.
const STALLED: &str = "the engine's thread does not go on";
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
    /// Another replica of the model of this number is back: what was not begun here is shared out anew.
    ShareOut(u64),
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

impl Command {
    /// The requests that it brings to the model of this number.
    fn brings(&self, number: u64) -> Vec<RequestId> {
        match self {
            Command::Submit(of, submission) if of.number == number => vec![submission.id],
            Command::TakeOver(of, moved) if of.number == number => {
                moved.iter().map(Moved::id).collect()
            }
            _ => Vec::new(),
        }
    }
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    jobs: Sender<Job>,
    models: Vec<Hosted>,
    shares: Shares,
    looks: Looks,
    /// The model whose step is at work.
    stepping: Option<u64>,
}

/// Looks at whether the engines of other replicas go on.
struct Looks {
    every: Duration,
    /// After which an engine is taken not to go on.
    stalled_after: Duration,
    last: Moment,
}

impl Looks {
    /// Whether it is time for one. Not where this thread has not gone on itself: the others may have stood still with it, as a
    /// process does that is stopped, and have until the next look to go on.
    fn are_due(&mut self, now: Moment) -> bool {
        let since = now.saturating_sub(self.last);
        if since < self.every {
            return false;
        }
        self.last = now;
        since < self.stalled_after
    }
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: Receiver<Command>,
        jobs: Sender<Job>,
    ) -> Worker {
        Worker {
            looks: Looks {
                every: LOOK.min(shared.options.stalled_after / 2),
                stalled_after: shared.options.stalled_after,
                last: Moment::ZERO,
            },
            shared,
            commands,
            jobs,
            models: Vec::new(),
            shares: Shares::default(),
            stepping: None,
        }
    }

    /// Runs until the engine is closed; every request that is left then ends with [`ModelError::Closed`].
    pub(crate) fn run(mut self) {
        while !self.shared.closed.load(Ordering::Acquire) {
            // Whatever panics here, and is not caught where it is called, is nothing that a model is relied on after.
            if catch_unwind(AssertUnwindSafe(|| self.round())).is_err() {
                self.begin_anew();
            }
        }
        for model in &mut self.models {
            model.core.fail_all(&ModelError::Closed);
            model.core.report();
            model.loaded.counters.closed.store(true, Ordering::Relaxed);
        }
    }

    fn round(&mut self) {
        self.take_commands();
        let now = self.shared.now();
        let round = now.as_millis() as u64;
        self.shared.round.store(round, Ordering::Relaxed);
        for model in &mut self.models {
            model.core.expire(now);
        }
        self.goes_on();
        self.relieve(now);
        self.move_on();
        self.retire();
        self.try_again(now);
        self.ask_for_reloads();
        self.ask_for_drafts();
        self.give_up_late();
        self.step();
    }

    /// Has every model loaded again after a panic; what they were asked goes on, as after the loss of a device. It counts against
    /// the model whose step was at work. Where none was, it counts against those that had something to do, and against all only
    /// where none had: those that had no part in it are not given up for another's panics.
    fn begin_anew(&mut self) {
        tracing::error!(
            "{PANICKED}: its models are loaded again, and what they were asked goes on"
        );
        let now = self.shared.now();
        let stepping = self.stepping.take();
        let mut had_work = Vec::new();
        for model in &mut self.models {
            let number = model.loaded.number;
            let taken = model.core.begin_anew();
            if !taken.is_empty() {
                had_work.push(number);
            }
            let moved = taken.settle(&model.loaded.counters, PANICKED);
            let _ = model.core.put_back(moved);
            model.is_away(now);
        }
        let suspects = stepping.map_or(had_work, |number| vec![number]);
        for model in &mut self.models {
            let is_suspect = suspects.is_empty() || suspects.contains(&model.loaded.number);
            model.fatal_steps += u32::from(is_suspect);
        }
        self.give_up(PANICKED);
        self.move_on();
    }

    /// Where others took what replicas here were asked, as this thread did not go on: it does.
    fn goes_on(&mut self) {
        for model in &self.models {
            if model.loaded.relieved.swap(false, Ordering::AcqRel) {
                let (model, loaded) = (&model.slot.name, &model.loaded);
                tracing::warn!(%model, adapter = %loaded.facts.adapter, "a replica goes on again");
                have_others_share(loaded);
            }
        }
    }

    /// Has what replicas were asked whose engines do not go on go on in those that do.
    fn relieve(&mut self, now: Moment) {
        if !self.looks.are_due(now) {
            return;
        }
        let stalled = self.models.iter().flat_map(|model| {
            let name = &model.slot.name;
            let stalled = stalled_others(&model.loaded).into_iter();
            stalled.map(move |replica| (name.clone(), replica))
        });
        let stalled: Vec<(String, Replica)> = stalled.collect();
        for (name, replica) in stalled {
            if other(&replica.loaded, &Wanted::default(), false).is_some() {
                self.relieve_of(&name, &replica);
            }
        }
    }

    fn relieve_of(&mut self, name: &str, stalled: &Replica) {
        let (loaded, engine) = (&stalled.loaded, &stalled.engine);
        if !loaded.relieved.swap(true, Ordering::AcqRel) {
            let silent = engine.silent();
            tracing::error!(model = name, adapter = %loaded.facts.adapter, ?silent, "a replica does not go on: what it was asked goes to the others");
        }
        // What nobody is left to take waits for it after all.
        let mut waits = Vec::new();
        let by = Arc::clone(&self.shared);
        let from = Origin {
            engine,
            by: Some(&by),
        };
        if let Some(asked) = loaded.asked.get() {
            let taken = engine.taken_by(&by, || asked.take(), Taken::ids);
            let moved = taken.settle(&loaded.counters, STALLED);
            waits.extend(hand_over_or_wait(loaded, moved, from));
        }
        let of_it = |untaken: &Vec<Command>| {
            let ids = untaken.iter().map(|command| command.brings(loaded.number));
            ids.flatten().collect()
        };
        for command in engine.taken_by(&by, || engine.untaken(), of_it) {
            match command {
                Command::Submit(of, submission) if of.number == loaded.number => {
                    let left = submit_elsewhere(&of, submission, false, from);
                    waits.extend(left.map(|submission| Command::Submit(of, submission)));
                }
                Command::TakeOver(of, moved) if of.number == loaded.number => {
                    waits.extend(hand_over_or_wait(&of, moved, from));
                }
                // They may be of one that has just been taken, or is of another model of that engine.
                Command::Cancel(id, permit) => {
                    if !engine.send_after(id, |permit| Command::Cancel(id, permit)) {
                        waits.push(Command::Cancel(id, permit));
                    }
                }
                Command::End(id, permit) => {
                    if !engine.send_after(id, |permit| Command::End(id, permit)) {
                        waits.push(Command::End(id, permit));
                    }
                }
                other => waits.push(other),
            }
        }
        for command in waits {
            let ids = command.brings(loaded.number);
            for id in &ids {
                by.went(*id, engine);
            }
            engine.takes_back(&ids, command);
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
            let tries = self.models.iter().filter_map(Hosted::tried_again_at);
            let wait = deadlines
                .chain(tries)
                .min()
                .map_or(IDLE, |deadline| deadline.saturating_sub(self.shared.now()));
            // One that sleeps is not stalled.
            let most = IDLE.min(self.shared.options.stalled_after / 2);
            match self.commands.recv_timeout(wait.min(most)) {
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
                self.shared.keeps(submission.id);
                match self.serving(loaded.number) {
                    Some(model) => model.core.submit(*submission),
                    // It was given up meanwhile. Where there is no other it is dropped, and its reply answers `Closed`.
                    None => drop(submit_elsewhere(
                        &loaded,
                        submission,
                        true,
                        Origin::own(&self.shared),
                    )),
                }
            }
            Command::TakeOver(loaded, moved) => self.take_over(&loaded, moved),
            Command::Cancel(id, permit) => {
                drop(permit);
                self.cancel(id);
                self.shared
                    .send_after(id, |permit| Command::Cancel(id, permit));
            }
            Command::End(id, permit) => {
                drop(permit);
                self.end(id);
                self.shared
                    .send_after(id, |permit| Command::End(id, permit));
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
            Command::ShareOut(number) => self.share_out(number),
            Command::Wake => {}
        }
    }

    /// A model that was not given up, nor left out.
    fn serving(&mut self, number: u64) -> Option<&mut Hosted> {
        let same = |model: &&mut Hosted| model.loaded.number == number && model.out.is_none();
        self.models.iter_mut().find(same)
    }

    /// Shares out anew what of a model's requests no step has had a part of: each goes to the replica that is expected to have it
    /// done first, which may be this one, in the order in which they came.
    fn share_out(&mut self, number: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(model) = self.serving(number) else {
            return;
        };
        // One that is away has the others take what it was asked, begun or not.
        if model.away_since.is_some() {
            return;
        }
        let mut unbegun = model.core.give_away_unbegun();
        // None of them is anybody's until it is shared out.
        for moved in &mut unbegun {
            moved.burdens(Burden::default());
        }
        let it = Replica {
            loaded: Arc::clone(&model.loaded),
            engine: shared,
        };
        let (mut stays, mut goes) = (Vec::new(), Vec::new());
        for mut moved in unbegun {
            match it_or_other(&it, &moved.wanted()) {
                Some((replica, burden)) => {
                    moved.burdens(burden);
                    match replica.loaded.number == number {
                        true => stays.push(moved),
                        false => goes.push((replica, moved)),
                    }
                }
                None => stays.push(moved),
            }
        }
        let _ = model.core.put_back(stays);
        model.core.report();
        for (replica, moved) in goes {
            send_on(Origin::own(&self.shared), replica, moved);
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
        for moved in &moved {
            self.shared.keeps(moved.id());
        }
        let engine = Arc::clone(&self.shared);
        let left = match self.serving(loaded.number) {
            Some(model) => model.core.take_over(moved, &loaded.counters),
            // It was given up meanwhile: on to the next, if there is one.
            None => hand_over(loaded, moved, true, Origin::own(&engine)),
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
            let left = hand_over(&model.loaded, moved, false, Origin::own(&self.shared));
            // Nobody serves any more since a moment ago: they wait here.
            let _ = model.core.put_back(left);
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

    /// Has replicas loaded again whose pause is over.
    fn try_again(&mut self, now: Moment) {
        let pauses = self.shared.options.pauses;
        for model in &mut self.models {
            if model.is_to_be_tried(now)
                && let Err(reason) = model.try_again()
            {
                leave_out(model, &reason, pauses.after(model.tries), now);
            }
        }
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
                Err(_) => model.for_good = true,
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
        if let Some(LeftOutUntil(Some(_))) = model.out {
            // It came too late: others may have its memory by now. It is tried at its time.
            tracing::warn!(model = %model.slot.name, adapter = %model.loaded.facts.adapter, "what was loaded of a replica that is left out is dropped: it came too late");
            return;
        }
        let reason = match parts {
            Ok(parts) => {
                if model.core.restore(parts) {
                    let was_out = model.out.is_some();
                    model.is_back();
                    if was_out {
                        // One more step that is fatal, and it is left out again.
                        model.fatal_steps = model.fatal_steps.min(FATAL_STEPS - 1);
                        model.loaded.counters.closed.store(false, Ordering::Release);
                        if !model.slot.bring_back(number) {
                            // The model has gone meanwhile, and with it whoever would ask this one.
                            model.loaded.counters.closed.store(true, Ordering::Release);
                        }
                    }
                    tracing::warn!(model = %model.slot.name, adapter = %model.loaded.facts.adapter, "the model was loaded again");
                    // What waits in others, away or not, may go on here.
                    have_others_share(&model.loaded);
                    // Last: whoever sees it counted sees all of that.
                    Counters::add(&model.loaded.counters.reloads, 1);
                    return;
                }
                model.for_good = true;
                "the model that was loaded again has another shape".to_owned()
            }
            Err(reason) if model.out.is_some() => {
                let now = self.shared.now();
                let pause = self.shared.options.pauses.after(model.tries);
                return leave_out(model, &reason, pause, now);
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
        let limit = self.shared.options.load_limit;
        let now = self.shared.now();
        let mut late = false;
        for model in &mut self.models {
            let is_late = |since| now.saturating_sub(since) > limit;
            if model.out.is_none() && model.away_since.is_some_and(is_late) {
                model.failed_loads = FAILED_LOADS;
                late = true;
            }
        }
        if late {
            self.give_up(&format!("the model was not loaded again within {limit:?}"));
        }
    }

    /// Ends the models that have failed too often. One of several replicas is left out, and tried again after a pause.
    fn give_up(&mut self, reason: &str) {
        let (now, pauses) = (self.shared.now(), self.shared.options.pauses);
        let (shares, engine) = (&mut self.shares, &self.shared);
        self.models.retain_mut(|model| {
            let has_failed = model.failed_loads >= FAILED_LOADS || model.fatal_steps >= FATAL_STEPS;
            if !model.for_good && (!has_failed || model.out.is_some()) {
                return true;
            }
            model.loaded.counters.closed.store(true, Ordering::Release);
            let has_others = has_others(&model.loaded);
            let for_good = model.for_good || !has_others;
            let may_return = model.slot.leave_out(model.loaded.number, reason, for_good);
            if has_others {
                let left = hand_over(&model.loaded, model.core.give_away(), true, Origin::own(engine));
                let _ = model.core.put_back(left);
            }
            model.core.fail_all(&ModelError::Device(reason.to_owned()));
            model.core.report();
            shares.forget(model.loaded.number);
            match may_return {
                true => is_left_out(model, reason, pauses.after(model.tries), now),
                false => tracing::error!(model = %model.slot.name, adapter = %model.loaded.facts.adapter, %reason, "the model is given up"),
            }
            may_return
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
        self.stepping = Some(number);
        let begun = model.core.begin(alone, &clock);
        self.stepping = None;
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
        self.stepping = Some(number);
        let stepped = match begun {
            Some(begun) => model.core.finish(begun, &clock),
            None => Ok(Stepped::Nothing),
        };
        self.stepping = None;
        took += clock().saturating_sub(goes_on);
        self.shares.charge(number, took);
        model.core.report();
        match stepped {
            Ok(Stepped::Well) => (model.fatal_steps, model.tries) = (0, 0),
            Ok(Stepped::Nothing | Stepped::Badly) => {}
            Err(reason) => {
                model.is_lost(self.shared.now());
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

/// The engine that requests go from, and who hands them over, where that is another as the first does not go on.
#[derive(Clone, Copy)]
struct Origin<'a> {
    engine: &'a Arc<Shared>,
    by: Option<&'a Arc<Shared>>,
}

impl Origin<'_> {
    fn own(engine: &Arc<Shared>) -> Origin<'_> {
        Origin { engine, by: None }
    }

    fn send_on(self, id: RequestId, to: &Arc<Shared>, command: Command) {
        if let Some(by) = self.by {
            by.went(id, to);
        }
        self.engine.send_on(id, to, command);
    }
}

/// Has requests go on in other replicas of a model, each in the one that is expected to have it done first: in those that
/// serve, or, where the model is given up, in any that may serve again. Those for which there is none are given back.
fn hand_over(
    loaded: &Loaded,
    moved: Vec<Moved>,
    is_given_up: bool,
    from: Origin<'_>,
) -> Vec<Moved> {
    let mut left = Vec::new();
    for mut moved in moved {
        let wanted = moved.wanted();
        let Some((replica, burden)) = other(loaded, &wanted, is_given_up) else {
            left.push(moved);
            continue;
        };
        moved.burdens(burden);
        send_on(from, replica, moved);
    }
    left
}

/// As [`hand_over`], of what an engine was asked that does not go on: what is left waits for it.
fn hand_over_or_wait(loaded: &Arc<Loaded>, moved: Vec<Moved>, from: Origin<'_>) -> Option<Command> {
    let left = hand_over(loaded, moved, false, from);
    (!left.is_empty()).then(|| Command::TakeOver(Arc::clone(loaded), left))
}

/// Has a request go on in a replica.
fn send_on(from: Origin<'_>, replica: Replica, moved: Moved) {
    let id = moved.id();
    let take_over = Command::TakeOver(replica.loaded, vec![moved]);
    from.send_on(id, &replica.engine, take_over);
}

/// Leaves a replica out, or still, for this reason, until a pause is over.
fn leave_out(model: &mut Hosted, reason: &str, pause: Duration, now: Moment) {
    (model.slot).leave_out(model.loaded.number, reason, false);
    is_left_out(model, reason, pause, now);
}

/// A replica was left out: it is tried again when this pause is over.
fn is_left_out(model: &mut Hosted, reason: &str, pause: Duration, now: Moment) {
    let (name, adapter) = (&model.slot.name, &model.loaded.facts.adapter);
    tracing::error!(model = %name, %adapter, %reason, ?pause, "a replica is left out; it is tried again after the pause");
    model.leave_out_until(now + pause);
}

/// Has a request that came to a model that was given up, or does not go on, go to another replica; where there is none it is
/// given back.
fn submit_elsewhere(
    loaded: &Loaded,
    mut submission: Box<Submission>,
    is_given_up: bool,
    from: Origin<'_>,
) -> Option<Box<Submission>> {
    let wanted = submission
        .work
        .as_ref()
        .map(|work| Wanted::of(work, submission.lora, true));
    let wanted = wanted.unwrap_or_default();
    let Some((replica, burden)) = other(loaded, &wanted, is_given_up) else {
        return Some(submission);
    };
    submission.burden = burden;
    let id = submission.id;
    let submit = Command::Submit(replica.loaded, submission);
    from.send_on(id, &replica.engine, submit);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_stood_still_itself_lets_the_others_go_on_before_it_looks() {
        let at = Duration::from_millis;
        let mut looks = Looks {
            every: at(250),
            stalled_after: at(60_000),
            last: Moment::ZERO,
        };
        let due: Vec<u64> = [100, 250, 300, 500, 60_499, 120_499, 120_600, 120_749]
            .into_iter()
            .filter(|now| looks.are_due(at(*now)))
            .collect();
        assert_eq!(due, [250, 500, 60_499, 120_749]);
    }
}
