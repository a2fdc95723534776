//! A model on the engine's thread: its scheduler together with what it schedules for, a decoder or an encoder.

use std::sync::Arc;

use tidegate_contract::{DecodeError, Decoder, Encoder, ModelError, Ran, RequestId, Sampled};

use crate::budget::Reservation;
use crate::device_model::{DeviceModel, Loaders};
use crate::encoding::{Encoding, MovedTexts};
use crate::generator::{DraftModel, Generator, MovedGeneration, StepPlan, Took, Verdict};
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
        generator: Box<Generator>,
        decoder: Option<Box<dyn Decoder>>,
        sampled: Vec<Sampled>,
        /// The step after the one that was begun last, begun as well.
        after: Option<BegunStep>,
    },
    Encoding {
        encoding: Box<Encoding>,
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
    _reservation: Reservation,
}

/// A request on its way to another replica.
pub(crate) enum Moved {
    Generation(Box<MovedGeneration>),
    Texts(Box<MovedTexts>),
}

impl Moved {
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
                let moved = generator.give_away().into_iter();
                moved
                    .map(|moved| Moved::Generation(Box::new(moved)))
                    .collect()
            }
            Core::Encoding { encoding, .. } => {
                let moved = encoding.give_away().into_iter();
                moved.map(|moved| Moved::Texts(Box::new(moved))).collect()
            }
        }
    }

    /// Takes requests of another replica. Those of another kind of model are given back: there are none.
    pub(crate) fn take_over(&mut self, moved: Vec<Moved>) -> Vec<Moved> {
        let (mut generations, mut texts, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for moved in moved {
            match (moved, &*self) {
                (Moved::Generation(moved), Core::Generating { .. }) => generations.push(*moved),
                (Moved::Texts(moved), Core::Encoding { .. }) => texts.push(*moved),
                (moved, _) => others.push(moved),
            }
        }
        match self {
            Core::Generating { generator, .. } => generator.take_over(generations),
            Core::Encoding { encoding, .. } => encoding.take_over(texts),
        }
        others
    }

    pub(crate) fn generating(decoder: Box<dyn Decoder>, generator: Generator) -> Core {
        Core::Generating {
            generator: Box::new(generator),
            decoder: Some(decoder),
            sampled: Vec::new(),
            after: None,
        }
    }

    pub(crate) fn encoding(encoder: Box<dyn Encoder>, encoding: Encoding) -> Core {
        Core::Encoding {
            encoding: Box::new(encoding),
            encoder: Some(encoder),
            vectors: Vec::new(),
        }
    }

    pub(crate) fn submit(&mut self, submission: Submission) {
        match self {
            Core::Generating { generator, .. } => generator.submit(submission),
            Core::Encoding { encoding, .. } => encoding.submit(submission),
        }
    }

    pub(crate) fn cancel(&mut self, id: RequestId) {
        match self {
            Core::Generating { generator, .. } => generator.cancel(id),
            Core::Encoding { encoding, .. } => encoding.cancel(id),
        }
    }

    /// Encoders have nothing to end with: a text is one step.
    pub(crate) fn end(&mut self, id: RequestId) {
        if let Core::Generating { generator, .. } = self {
            generator.end(id);
        }
    }

    pub(crate) fn expire(&mut self, now: Moment) {
        match self {
            Core::Generating { generator, .. } => generator.expire(now),
            Core::Encoding { encoding, .. } => encoding.expire(now),
        }
    }

    pub(crate) fn fail_all(&mut self, error: &ModelError) {
        match self {
            Core::Generating { generator, .. } => generator.fail_all(error),
            Core::Encoding { encoding, .. } => encoding.fail_all(error),
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => generator.has_work(),
            Core::Encoding { encoding, .. } => encoding.has_work(),
        }
    }

    pub(crate) fn has_work_of_the_stream(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => generator.has_work_of_the_stream(),
            Core::Encoding { encoding, .. } => encoding.has_work_of_the_stream(),
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
            Core::Generating { generator, .. } => generator.deadline(),
            Core::Encoding { encoding, .. } => encoding.deadline(),
        }
    }

    pub(crate) fn report(&self) {
        match self {
            Core::Generating { generator, .. } => generator.report(),
            Core::Encoding { encoding, .. } => encoding.report(),
        }
    }

    /// Whether a step was begun ahead that is of use.
    pub(crate) fn has_begun(&self) -> bool {
        match self {
            Core::Generating {
                generator, after, ..
            } => (after.as_ref()).is_some_and(|after| generator.is_of_use(&after.plan)),
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
                let begun = begun.filter(|begun| generator.is_of_use(&begun.plan));
                let mut step = match begun {
                    Some(mut step) => {
                        generator.fill_in(&mut step.plan);
                        step
                    }
                    None => {
                        let plan = generator.plan(clock())?;
                        BegunStep {
                            began: clock(),
                            so_far: guarded_submit(decoder, &plan.step),
                            plan,
                        }
                    }
                };
                if step.so_far.is_ok() {
                    generator.mask(&mut step.plan);
                    step.so_far = guarded_draw(decoder, &step.plan.step);
                }
                if step.so_far.is_ok() && alone && decoder.runs_ahead() {
                    let plan = generator.plan_after(&step.plan, clock());
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
            generator.hand_on();
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
                *place = None;
                let after = after.as_ref().map(|after| &after.plan);
                generator.lost(&plan, after, &error.to_string());
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
                let Some(plan) = encoding.plan(clock()) else {
                    return Ok(Stepped::Nothing);
                };
                let began = clock();
                let texts = encoding.texts(&plan);
                let result = guarded_encode(encoder.as_mut(), &texts, vectors);
                let now = clock();
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
                *place = None;
                encoding.lost(&plan, &error.to_string());
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
                let same = generator.restored(decoder.as_ref(), draft);
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
                let same = encoding.restored(encoder.as_ref());
                *place = Some(encoder);
                same
            }
            _ => false,
        }
    }

    /// Whether it is to be loaded with its draft model: not with one that is left out for good.
    pub(crate) fn wants_draft(&self) -> bool {
        match self {
            Core::Generating { generator, .. } => generator.wants_draft(),
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
            } => generator.misses_draft(),
            _ => None,
        }
    }

    /// The loader has been asked for the draft.
    pub(crate) fn draft_is_asked_for(&mut self) {
        if let Core::Generating { generator, .. } = self {
            generator.draft_is_asked_for();
        }
    }

    /// What the loader has to say of the draft. If the model was lost meanwhile that is dropped: the model comes with
    /// another, and there is no room for two.
    pub(crate) fn draft_loaded(&mut self, draft: Result<Box<DraftModel>, String>) {
        if let Core::Generating {
            generator, decoder, ..
        } = self
        {
            generator.draft_loaded(decoder.as_ref().map(|_| draft));
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
        Hosted {
            core,
            loaded,
            slot,
            loaders: Some(Box::new(loaders)),
            needs_reload: false,
            away_since: None,
            failed_loads: 0,
            fatal_steps: 0,
            _reservation: reservation,
        }
    }

    /// Whether new requests come to it.
    pub(crate) fn is_current(&self) -> bool {
        let current = self.slot.replicas();
        current.is_some_and(|current| current.has(self.loaded.number))
    }
}
