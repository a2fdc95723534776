//! A model on the engine's thread: its scheduler together with what it schedules for, a decoder or an encoder.

use std::sync::Arc;

use tidegate_contract::{DecodeError, Decoder, Encoder, ModelError, Ran, RequestId, Sampled};

use crate::budget::Reservation;
use crate::device_model::{DeviceModel, Loaders};
use crate::encoding::Encoding;
use crate::generator::{DraftModel, Generator, StepPlan, Took, Verdict};
use crate::guard::{guarded_collect, guarded_draw, guarded_encode, guarded_submit};
use crate::model::Loaded;
use crate::order::Moment;
use crate::request::Submission;
use crate::slot::Slot;

/// A model's scheduler, and what it schedules for; that is gone while it is being loaded again.
pub(crate) enum Core {
    Generating {
        generator: Box<Generator>,
        decoder: Option<Box<dyn Decoder>>,
        sampled: Vec<Sampled>,
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

impl Core {
    pub(crate) fn generating(decoder: Box<dyn Decoder>, generator: Generator) -> Core {
        Core::Generating {
            generator: Box::new(generator),
            decoder: Some(decoder),
            sampled: Vec::new(),
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

    /// Begins a step, if there is anything to do: it runs from now on, as far as the decoder lets it.
    pub(crate) fn begin(&mut self, clock: &dyn Fn() -> Moment) -> Option<Begun> {
        match self {
            Core::Generating {
                generator, decoder, ..
            } => {
                let decoder = decoder.as_mut()?;
                let mut plan = generator.plan(clock())?;
                let began = clock();
                let mut so_far = guarded_submit(decoder.as_mut(), &plan.step);
                if so_far.is_ok() {
                    generator.mask(&mut plan);
                    so_far = guarded_draw(decoder.as_mut(), &plan.step);
                }
                Some(Begun::Generating {
                    plan,
                    began,
                    so_far,
                })
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
                },
                Begun::Generating {
                    plan,
                    began,
                    so_far,
                },
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
                    return Ok(Stepped::Well);
                };
                tracing::error!(%error, "a step of the model failed");
                if generator.failed(&plan, &error) == Verdict::GoesOn {
                    return Ok(Stepped::Badly);
                }
                *place = None;
                generator.lost(&plan, &error.to_string());
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

/// A step that was begun.
pub(crate) enum Begun {
    Generating {
        plan: StepPlan,
        began: Moment,
        /// Whether the decoder has taken it.
        so_far: Result<(), DecodeError>,
    },
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
        let current = self.slot.loaded();
        current.is_some_and(|current| current.number == self.loaded.number)
    }
}
