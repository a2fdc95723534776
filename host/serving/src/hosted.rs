//! A model on the engine's thread: its scheduler together with what it schedules for, a decoder or an encoder.
//!
//! Schedulers are behind locks that are not held while a decoder or an encoder is called, but by a draft model and by replies:
//! where a device hangs, others can take from there what the model was asked ([`Asked`]). They only try, and wait for nobody.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use tidegate_contract::{
    DecodeError, Decoder, Encoder, EncoderText, ModelError, Ran, RequestId, Sampled,
};

use crate::budget::Reservation;
use crate::device_model::{DeviceModel, Loaders};
use crate::encoding::{Encoding, MovedTexts};
use crate::generator::{
    Abandoned, DraftModel, Generation, Generator, MovedGeneration, StepPlan, Took, Verdict,
};
use crate::guard::{
    guarded_collect, guarded_draw, guarded_encode, guarded_submit, guarded_submit_after,
};
use crate::model::Loaded;
use crate::order::Moment;
use crate::replicas::{Burden, Wanted};
use crate::request::Submission;
use crate::slot::Slot;
use crate::stats::Counters;

/// A model's scheduler, and what it schedules for; that is gone while it is being loaded again.
pub(crate) enum Core {
    Generating {
        generator: Arc<Mutex<Generator>>,
        decoder: Option<Box<dyn Decoder>>,
        sampled: Vec<Sampled>,
        /// The step after the one that was begun last, begun as well.
        after: Option<BegunStep>,
    },
    Encoding {
        encoding: Arc<Mutex<Encoding>>,
        encoder: Option<Box<dyn Encoder>>,
        vectors: Vec<f32>,
    },
}

/// A model on the engine's thread. Fields are dropped in this order: the bytes are free when the decoder is gone.
pub(crate) struct Hosted {
    pub(crate) core: Core,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) slot: Arc<Slot>,
    /// `None` while the loader has them.
    pub(crate) loaders: Option<Box<Loaders>>,
    /// The loader is yet to be asked.
    pub(crate) needs_reload: bool,
    /// Since when it has nothing to run with.
    pub(crate) away_since: Option<Moment>,
    pub(crate) failed_loads: u32,
    pub(crate) fatal_steps: u32,
    /// It is one of several replicas, was left out, and is tried again.
    pub(crate) out: Option<LeftOutUntil>,
    /// Times in a row that it was left out, or could not be loaded since; a step that goes well is the end of them.
    pub(crate) tries: u32,
    /// It cannot be tried again.
    pub(crate) for_good: bool,
    reservation: Reservation,
}

/// When a replica that is left out is tried again; nothing while it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOutUntil(pub(crate) Option<Moment>);

/// What a model was asked, for others to take from where its own thread does not go on.
pub(crate) enum Asked {
    Generating(Weak<Mutex<Generator>>),
    Encoding(Weak<Mutex<Encoding>>),
}

/// What was taken from a model whose thread does not go on, or has panicked.
#[derive(Default)]
pub(crate) struct Taken {
    /// What may go on elsewhere, from the tokens that were made.
    pub(crate) moved: Vec<Moved>,
    /// What has been in too many steps that ended like this, or, after a panic, has lost an answer or cannot be taken back to where it
    /// was.
    pub(crate) failed: Vec<Moved>,
    /// What is complete, and whoever asked is yet to be told.
    ended: Vec<Generation>,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.failed.is_empty() && self.ended.is_empty()
    }

    /// The requests that may go on.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        self.moved.iter().map(Moved::id).collect()
    }

    /// Ends what can be ended; what may go on.
    pub(crate) fn settle(self, counters: &Counters, reason: &str) -> Vec<Moved> {
        for generation in self.ended {
            generation.end(counters);
        }
        for moved in self.failed {
            moved.fail(counters, ModelError::Device(reason.to_owned()));
        }
        self.moved
    }
}

impl Asked {
    /// Takes all of it, if nobody is at it.
    pub(crate) fn take(&self) -> Taken {
        match self {
            Asked::Generating(generator) => {
                let generator = generator.upgrade();
                let mut held = generator.as_deref().and_then(try_held);
                (held.as_mut()).map_or_else(Taken::default, |generator| {
                    let abandoned = generator.abandon();
                    taken(generator, abandoned)
                })
            }
            Asked::Encoding(encoding) => {
                let encoding = encoding.upgrade();
                let mut held = encoding.as_deref().and_then(try_held);
                (held.as_mut()).map_or_else(Taken::default, |encoding| taken_texts(encoding))
            }
        }
    }
}

fn taken(generator: &Generator, abandoned: Abandoned) -> Taken {
    generator.report();
    Taken {
        moved: abandoned.moved.into_iter().map(Moved::from).collect(),
        failed: abandoned.failed.into_iter().map(Moved::from).collect(),
        ended: abandoned.ended,
    }
}

fn taken_texts(encoding: &mut Encoding) -> Taken {
    let (moved, failed) = encoding.abandon();
    Taken {
        moved: moved.into_iter().map(Moved::from).collect(),
        failed: failed.into_iter().map(Moved::from).collect(),
        ended: Vec::new(),
    }
}

/// A scheduler. One that a panic was in is begun anew before it is used again.
fn held<T>(scheduler: &Mutex<T>) -> MutexGuard<'_, T> {
    scheduler.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_held<T>(scheduler: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match scheduler.try_lock() {
        Ok(scheduler) => Some(scheduler),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A request on its way to another replica.
pub(crate) enum Moved {
    Generation(Box<MovedGeneration>),
    Texts(Box<MovedTexts>),
}

impl From<MovedGeneration> for Moved {
    fn from(moved: MovedGeneration) -> Moved {
        Moved::Generation(Box::new(moved))
    }
}

impl From<MovedTexts> for Moved {
    fn from(moved: MovedTexts) -> Moved {
        Moved::Texts(Box::new(moved))
    }
}

impl Moved {
    pub(crate) fn id(&self) -> RequestId {
        match self {
            Moved::Generation(moved) => moved.id(),
            Moved::Texts(moved) => moved.id(),
        }
    }

    /// What it asks for.
    pub(crate) fn wanted(&self) -> Wanted {
        match self {
            Moved::Generation(moved) => moved.wanted(),
            Moved::Texts(moved) => moved.wanted(),
        }
    }

    /// It is of another replica from now on.
    pub(crate) fn burdens(&mut self, burden: Burden) {
        match self {
            Moved::Generation(moved) => moved.burdens(burden),
            Moved::Texts(moved) => moved.burdens(burden),
        }
    }

    /// Ends it without an answer; whose counters say so.
    pub(crate) fn fail(self, counters: &Counters, error: ModelError) {
        match self {
            Moved::Generation(moved) => moved.fail(counters, error),
            Moved::Texts(moved) => moved.fail(counters, error),
        }
    }
}

impl Core {
    /// Gives away all its requests; nothing of it runs.
    pub(crate) fn give_away(&mut self) -> Vec<Moved> {
        match self {
            Core::Generating {
                generator, after, ..
            } => {
                *after = None;
                let moved = held(generator).give_away().into_iter();
                moved.map(Moved::from).collect()
            }
            Core::Encoding { encoding, .. } => {
                let moved = held(encoding).give_away().into_iter();
                moved.map(Moved::from).collect()
            }
        }
    }

    /// Gives away those of its requests that no step has had a part of, in the order of arrival.
    pub(crate) fn give_away_unbegun(&mut self) -> Vec<Moved> {
        match self {
            Core::Generating { generator, .. } => {
                let moved = held(generator).give_away_unbegun().into_iter();
                moved.map(Moved::from).collect()
            }
            Core::Encoding { encoding, .. } => {
                let moved = held(encoding).give_away_unbegun().into_iter();
                moved.map(Moved::from).collect()
            }
        }
    }

    /// Takes requests of another replica. Those of another kind of model are given back: there are none.
    pub(crate) fn take_over(&mut self, moved: Vec<Moved>, counters: &Counters) -> Vec<Moved> {
        let came = moved.len();
        let others = self.put_back(moved);
        Counters::add(&counters.moved, came - others.len());
        others
    }

    /// Takes back what it has given away, and nobody took; as [`Core::take_over`].
    pub(crate) fn put_back(&mut self, moved: Vec<Moved>) -> Vec<Moved> {
        let (mut generations, mut texts, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for moved in moved {
            match (moved, &*self) {
                (Moved::Generation(moved), Core::Generating { .. }) => generations.push(*moved),
                (Moved::Texts(moved), Core::Encoding { .. }) => texts.push(*moved),
                (moved, _) => others.push(moved),
            }
        }
        match self {
            Core::Generating { generator, .. } => held(generator).take_over(generations),
            Core::Encoding { encoding, .. } => held(encoding).take_over(texts),
        }
        others
    }

    pub(crate) fn generating(decoder: Box<dyn Decoder>, generator: Generator) -> Core {
        Core::Generating {
            generator: Arc::new(Mutex::new(generator)),
            decoder: Some(decoder),
            sampled: Vec::new(),
            after: None,
        }
    }

    pub(crate) fn encoding(encoder: Box<dyn Encoder>, encoding: Encoding) -> Core {
        Core::Encoding {
            encoding: Arc::new(Mutex::new(encoding)),
            encoder: Some(encoder),
            vectors: Vec::new(),
        }
    }

    /// What it was asked, for others.
    fn asked(&self) -> Asked {
        match self {
            Core::Generating { generator, .. } => Asked::Generating(Arc::downgrade(generator)),
            Core::Encoding { encoding, .. } => Asked::Encoding(Arc::downgrade(encoding)),
        }
    }

    /// After a panic nothing of it is relied on but what it was asked, which is given away: it has nothing to run with, and is to
    /// be loaded again.
    pub(crate) fn begin_anew(&mut self) -> Taken {
        match self {
            Core::Generating {
                generator,
                decoder,
                after,
                ..
            } => {
                *after = None;
                *decoder = None;
                let mut generator = held(generator);
                let abandoned = generator.begin_anew();
                taken(&generator, abandoned)
            }
            Core::Encoding {
                encoding, encoder, ..
            } => {
                *encoder = None;
                taken_texts(&mut held(encoding))
            }
        }
    }

    pub(crate) fn submit(&mut self, submission: Submission) {
        match self {
            Core::Generating { generator, .. } => held(generator).submit(submission),
            Core::Encoding { encoding, .. } => held(encoding).submit(submission),
        }
    }

    pub(crate) fn cancel(&mut self, id: RequestId) {
        match self {
            Core::Generating { generator, .. } => held(generator).cancel(id),
            Core::Encoding { encoding, .. } => held(encoding).cancel(id),
        }
    }

    /// Encoders have nothing to end with: a text is one step.
    pub(crate) fn end(&mut self, id: RequestId) {
        if let Core::Generating { generator, .. } = self {
            held(generator).end(id);
        }
    }

    pub(crate) fn expire(&mut self, now: Moment) {
        match self {
            Core::Generating { generator, .. } => held(generator).expire(now),
            Core::Encoding { encoding, .. } => held(encoding).expire(now),
        }
    }

    pub(crate) fn fail_all(&mut self, error: &ModelError) {
        match self {
            Core::Generating { generator, .. } => held(generator).fail_all(error),
            Core::Encoding { encoding, .. } => held(encoding).fail_all(error),
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => held(generator).has_work(),
            Core::Encoding { encoding, .. } => held(encoding).has_work(),
        }
    }

    pub(crate) fn has_work_of_the_stream(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => held(generator).has_work_of_the_stream(),
            Core::Encoding { encoding, .. } => held(encoding).has_work_of_the_stream(),
        }
    }

    pub(crate) fn can_step(&self) -> bool {
        match self {
            Core::Generating { decoder, .. } => decoder.is_some(),
            Core::Encoding { encoder, .. } => encoder.is_some(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self {
            Core::Generating { generator, .. } => held(generator).deadline(),
            Core::Encoding { encoding, .. } => held(encoding).deadline(),
        }
    }

    pub(crate) fn report(&self) {
        match self {
            Core::Generating { generator, .. } => held(generator).report(),
            Core::Encoding { encoding, .. } => held(encoding).report(),
        }
    }

    /// Whether a step was begun ahead that is of use.
    pub(crate) fn has_begun(&self) -> bool {
        match self {
            Core::Generating {
                generator, after, ..
            } => (after.as_ref()).is_some_and(|after| held(generator).is_of_use(&after.plan)),
            Core::Encoding { .. } => false,
        }
    }

    /// Begins a step, if there is anything to do and it was not begun already: it runs from now on, as far as the decoder lets
    /// it. If nobody else needs the device (`alone`), the step after it is begun as well, where the decoder can do that.
    pub(crate) fn begin(&mut self, alone: bool, clock: &dyn Fn() -> Moment) -> Option<Begun> {
        match self {
            Core::Generating {
                generator,
                decoder,
                after,
                ..
            } => {
                let decoder = decoder.as_mut()?.as_mut();
                // One that is of no use any more is given up by the next one's submission.
                let begun = after.take();
                let begun = begun.filter(|begun| held(generator).is_of_use(&begun.plan));
                let mut step = match begun {
                    Some(mut step) => {
                        held(generator).fill_in(&mut step.plan);
                        step
                    }
                    None => {
                        let plan = held(generator).plan(clock());
                        let plan = plan?;
                        BegunStep {
                            began: clock(),
                            so_far: guarded_submit(decoder, &plan.step),
                            plan,
                        }
                    }
                };
                if step.so_far.is_ok() {
                    held(generator).mask(&mut step.plan);
                    step.so_far = guarded_draw(decoder, &step.plan.step);
                }
                if step.so_far.is_ok() && alone && decoder.runs_ahead() {
                    let plan = held(generator).plan_after(&step.plan, clock());
                    *after = plan.map(|plan| BegunStep {
                        began: clock(),
                        so_far: guarded_submit_after(decoder, &plan.step, &plan.fed),
                        plan,
                    });
                }
                Some(Begun::Generating(step))
            }
            // It has no phases: all of it happens when it is finished, with whoever is there then.
            Core::Encoding { encoder, .. } => encoder.as_ref().map(|_| Begun::Encoding),
        }
    }

    /// Tells those who asked what the steps up to now have made for them.
    pub(crate) fn hand_on(&mut self) {
        if let Core::Generating { generator, .. } = self {
            held(generator).hand_on();
        }
    }

    /// Waits for the step that was begun. The error is why the model must be loaded again; what it ran with is dropped
    /// then.
    pub(crate) fn finish(
        &mut self,
        begun: Begun,
        clock: &dyn Fn() -> Moment,
    ) -> Result<Stepped, String> {
        match (self, begun) {
            (
                Core::Generating {
                    generator,
                    decoder: place,
                    sampled,
                    after,
                },
                Begun::Generating(BegunStep {
                    plan,
                    began,
                    so_far,
                }),
            ) => {
                let Some(decoder) = place else {
                    return Ok(Stepped::Nothing);
                };
                let waiting = clock();
                let collected =
                    so_far.and_then(|()| guarded_collect(decoder.as_mut(), &plan.step, sampled));
                let now = clock();
                let took = Took {
                    whole: now.saturating_sub(began),
                    // The host's own work while a step runs is none of the device's.
                    ran: match decoder.ran() {
                        Ran::WhileCollected => Some(now.saturating_sub(waiting)),
                        Ran::SinceSubmitted => Some(now.saturating_sub(began)),
                        Ran::Unknown => None,
                    },
                };
                let mut generator = held(generator);
                let result = collected.and_then(|()| generator.deliver(&plan, sampled, now, took));
                let Err(error) = result else {
                    if let Some(after) = after {
                        // It runs from now on: its time begins where that of this one ends.
                        after.began = now;
                    }
                    return Ok(Stepped::Well);
                };
                tracing::error!(%error, "a step of the model failed");
                // What comes after a step that never was is nothing either.
                let after = after.take();
                if generator.failed(&plan, &error) == Verdict::GoesOn {
                    return Ok(Stepped::Badly);
                }
                let after = after.as_ref().map(|after| &after.plan);
                generator.lost(&plan, after, &error.to_string());
                drop(generator);
                *place = None;
                Err(error.to_string())
            }
            (
                Core::Encoding {
                    encoding,
                    encoder: place,
                    vectors,
                },
                Begun::Encoding,
            ) => {
                let Some(encoder) = place else {
                    return Ok(Stepped::Nothing);
                };
                let planned = held(encoding).plan_with_texts(clock());
                let Some((plan, texts)) = planned else {
                    return Ok(Stepped::Nothing);
                };
                let began = clock();
                let texts: Vec<EncoderText<'_>> = (texts.iter())
                    .map(|text| EncoderText {
                        tokens: &text.tokens,
                        types: &text.types,
                    })
                    .collect();
                let result = guarded_encode(encoder.as_mut(), &texts, vectors);
                let now = clock();
                let mut encoding = held(encoding);
                let result = result.and_then(|()| {
                    encoding.deliver(&plan, vectors, now, now.saturating_sub(began))
                });
                let Err(error) = result else {
                    return Ok(Stepped::Well);
                };
                tracing::error!(%error, "a step of the encoder failed");
                if encoding.failed(&plan, &error) == Verdict::GoesOn {
                    return Ok(Stepped::Badly);
                }
                encoding.lost(&plan, &error.to_string());
                drop(encoding);
                *place = None;
                Err(error.to_string())
            }
            _ => Ok(Stepped::Nothing),
        }
    }

    /// Takes what was loaded again; false if it is not what it was.
    pub(crate) fn restore(&mut self, parts: DeviceModel) -> bool {
        match (self, parts) {
            (
                Core::Generating {
                    generator,
                    decoder: place,
                    ..
                },
                DeviceModel::Decoder(decoder, draft),
            ) => {
                let same = held(generator).restored(decoder.as_ref(), draft);
                *place = Some(decoder);
                same
            }
            (
                Core::Encoding {
                    encoding,
                    encoder: place,
                    ..
                },
                DeviceModel::Encoder(encoder),
            ) => {
                let same = held(encoding).restored(encoder.as_ref());
                *place = Some(encoder);
                same
            }
            _ => false,
        }
    }

    /// Whether it is to be loaded with its draft model: not with one that is left out for good.
    pub(crate) fn wants_draft(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => held(generator).wants_draft(),
            Core::Encoding { .. } => false,
        }
    }

    /// Whether its draft model is to be loaded again while it goes on, and which vocabulary that must have.
    pub(crate) fn misses_draft(&self) -> Option<usize> {
        match self {
            Core::Generating {
                generator,
                decoder: Some(_),
                ..
            } => held(generator).misses_draft(),
            _ => None,
        }
    }

    /// The loader has been asked for the draft.
    pub(crate) fn draft_is_asked_for(&mut self) {
        if let Core::Generating { generator, .. } = self {
            held(generator).draft_is_asked_for();
        }
    }

    /// What the loader has to say of the draft. If the model was lost meanwhile that is dropped: the model comes with
    /// another, and there is no room for two.
    pub(crate) fn draft_loaded(&mut self, draft: Result<Box<DraftModel>, String>) {
        if let Core::Generating {
            generator, decoder, ..
        } = self
        {
            let draft = decoder.as_ref().map(|_| draft);
            held(generator).draft_loaded(draft);
        }
    }
}

/// A step of a decoder that was begun.
pub(crate) struct BegunStep {
    plan: StepPlan,
    began: Moment,
    /// Whether the decoder has taken it.
    so_far: Result<(), DecodeError>,
}

/// A step that was begun.
pub(crate) enum Begun {
    Generating(BegunStep),
    Encoding,
}

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    Nothing,
    Well,
    Badly,
}

impl Hosted {
    pub(crate) fn new(
        loaded: Arc<Loaded>,
        slot: Arc<Slot>,
        core: Core,
        loaders: Loaders,
        reservation: Reservation,
    ) -> Hosted {
        let _ = loaded.asked.set(core.asked());
        Hosted {
            core,
            loaded,
            slot,
            loaders: Some(Box::new(loaders)),
            needs_reload: false,
            away_since: None,
            failed_loads: 0,
            fatal_steps: 0,
            out: None,
            tries: 0,
            for_good: false,
            reservation,
        }
    }

    /// Its device was lost in a step of its own: as [`Hosted::is_away`], and too many of these in a row are its end.
    pub(crate) fn is_lost(&mut self, now: Moment) {
        self.fatal_steps += 1;
        self.is_away(now);
    }

    /// It has nothing to run with from now on, and is to be loaded again.
    pub(crate) fn is_away(&mut self, now: Moment) {
        if self.away_since.is_none() {
            self.needs_reload = true;
            self.away_since = Some(now);
            self.loaded.away.store(true, Ordering::Release);
        }
    }

    /// It is left out until `at`: meanwhile others may have its memory.
    pub(crate) fn leave_out_until(&mut self, at: Moment) {
        let _ = self.reservation.resize(0);
        self.needs_reload = false;
        self.failed_loads = 0;
        self.out = Some(LeftOutUntil(Some(at)));
        self.tries += 1;
        let milliseconds = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        (self.loaded.again_at).store(milliseconds, Ordering::Relaxed);
    }

    /// When it is tried again, if it is left out, and what that needs is there.
    pub(crate) fn tried_again_at(&self) -> Option<Moment> {
        let at = self.out.and_then(|LeftOutUntil(at)| at);
        at.filter(|_| self.loaders.is_some())
    }

    /// Whether that is now.
    pub(crate) fn is_to_be_tried(&self, now: Moment) -> bool {
        self.tried_again_at().is_some_and(|at| at <= now)
    }

    /// Takes its memory again and has it loaded.
    ///
    /// # Errors
    /// Others have its memory: how much it needs, and what is free.
    pub(crate) fn try_again(&mut self) -> Result<(), String> {
        let needed = self.loaded.counters.memory.load(Ordering::Relaxed);
        self.reservation
            .resize(needed)
            .map_err(|free| format!("it needs {needed} bytes, {free} of the budget are free"))?;
        self.out = Some(LeftOutUntil(None));
        self.needs_reload = true;
        Ok(())
    }

    /// It serves again.
    pub(crate) fn is_back(&mut self) {
        self.failed_loads = 0;
        self.away_since = None;
        self.out = None;
        self.loaded.away.store(false, Ordering::Release);
    }

    /// Whether new requests come to it.
    pub(crate) fn is_current(&self) -> bool {
        let current = self.slot.replicas();
        current.is_some_and(|current| current.has(self.loaded.number))
    }
}
