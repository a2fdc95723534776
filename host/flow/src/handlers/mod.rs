//! Handlers of tokens: one for each stage that has them, shared by the answers of a worker.
//!
//! An answer keeps the handlers that it began with, for as long as they can go on: its lanes are values
//! ([`HandledLane`]), so what a handler has lost is given to it again. One that cannot go on now is tried again after a
//! pause, and its answers wait; where its slot runs another version by then, they go on with that.

mod lane;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{
    AnswerLane, Handling, OperatorError, OperatorVersion, Slot, Through, TokenHandler,
};
use tidegate_telemetry::Meters;
use tidegate_telemetry::events::{StageAvailable, StageUnavailable};

pub(crate) use self::lane::HandledLane;
use crate::task::Pause;

/// Why an answer goes no further through its handlers now.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Others have their turn.
    Turn,
    /// A handler cannot go on before then.
    Later(Instant),
    /// A handler fails on it.
    Failed(String),
    /// What comes now does not go on what came before.
    Differs(String),
}

/// A handler that answers of one worker go through.
pub(crate) struct Handler {
    /// The stage whose slot it is of, and the generation of that.
    pub stage: usize,
    pub generation: u64,
    pub version: Arc<OperatorVersion>,
    inner: Mutex<Inner>,
}

struct Inner {
    handler: Box<dyn TokenHandler>,
    /// Number of the lane that is opened next.
    next: u64,
    /// How long the last call took.
    cost: Duration,
    /// Until it is tried again, and why it could not go on.
    pause: Option<(Pause, String)>,
}

impl Inner {
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn TokenHandler) -> Result<T, OperatorError>,
    ) -> Result<T, OperatorError> {
        let began = Instant::now();
        let called = call(self.handler.as_mut());
        self.cost = began.elapsed();
        if called.is_ok() {
            self.pause = None;
        }
        called
    }
}

impl Handler {
    fn new(stage: usize, handling: Handling) -> Handler {
        let Handling {
            generation,
            version,
            handler,
        } = handling;
        Handler {
            stage,
            generation,
            version,
            inner: Mutex::new(Inner {
                handler,
                next: 1,
                cost: Duration::ZERO,
                pause: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a lane. Returns its number.
    fn open(&self, lane: &AnswerLane<'_>) -> Result<u64, OperatorError> {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        inner.call(|handler| handler.open(number, lane))?;
        Ok(number)
    }

    /// The next text of a lane.
    fn step(&self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        self.lock().call(|handler| handler.step(number, text, last))
    }

    /// A lane is done.
    fn close(&self, number: u64) {
        self.lock().handler.close(number);
    }

    /// It could not go on. Returns when it is tried again: the longer its last call took, the later.
    fn put_off(&self, error: &OperatorError) -> Instant {
        let mut inner = self.lock();
        let before = inner.pause.take().map(|(pause, _)| pause);
        let pause = Pause::after(before, inner.cost);
        inner.pause = Some((pause, error.to_string()));
        pause.until
    }

    /// When it is tried again, if that is not now.
    fn is_put_off(&self) -> Option<Instant> {
        let until = self.lock().pause.as_ref().map(|(pause, _)| pause.until)?;
        (until > Instant::now()).then_some(until)
    }

    /// Why it cannot go on, if it could not when it was last asked.
    fn trouble(&self) -> Option<String> {
        let inner = self.lock();
        inner.pause.as_ref().map(|(_, why)| why.clone())
    }

    /// Whether it could not go on when it was last asked.
    pub(crate) fn is_stuck(&self) -> bool {
        self.lock().pause.is_some()
    }
}

/// The handlers of a worker, by stage.
#[derive(Default)]
pub(crate) struct Handlers {
    stages: Vec<OfStage>,
}

#[derive(Default)]
struct OfStage {
    handler: Option<Arc<Handler>>,
    /// Until the next try after one that failed, of this generation, and why it did.
    again: Option<(Pause, u64, String)>,
    /// Whether it is known of the stage that it cannot answer.
    is_told: bool,
}

impl Handlers {
    /// The handler of the slot's current version; none where there is none to be had now.
    pub(crate) fn of(&mut self, stage: usize, slot: &dyn Slot) -> Option<Arc<Handler>> {
        if self.stages.len() <= stage {
            self.stages.resize_with(stage + 1, OfStage::default);
        }
        let of = &mut self.stages[stage];
        let generation = slot.generation();
        if let Some(handler) = &of.handler
            && handler.generation == generation
        {
            return match handler.is_put_off() {
                Some(_) => None,
                None => Some(handler.clone()),
            };
        }
        let before = of.again.take_if(|(_, failed, _)| *failed == generation);
        if let Some(before) = &before
            && before.0.until > Instant::now()
        {
            of.again = Some(before.clone());
            return None;
        }
        let began = Instant::now();
        match slot.tokens() {
            Ok(handling) => {
                let handler = Arc::new(Handler::new(stage, handling));
                (of.again, of.handler) = (None, Some(handler.clone()));
                Some(handler)
            }
            Err(error) => {
                let before = before.map(|(pause, ..)| pause);
                let pause = Pause::after(before, began.elapsed());
                (of.again, of.handler) = (Some((pause, generation, error.to_string())), None);
                None
            }
        }
    }

    /// Tells which stages have handlers that cannot go on, as of stages whose operators cannot.
    pub(crate) fn tell(&mut self, meters: &Meters) {
        for (stage, of) in self.stages.iter_mut().enumerate() {
            let trouble = match (&of.again, &of.handler) {
                (Some((.., why)), _) => Some(why.clone()),
                (None, Some(handler)) => handler.trouble(),
                (None, None) => None,
            };
            match (trouble, of.is_told) {
                (Some(reason), false) => StageUnavailable {
                    stage,
                    first: true,
                    reason: &reason,
                }
                .emit(meters),
                (None, true) => StageAvailable { stage }.emit(meters),
                (Some(_), true) | (None, false) => continue,
            }
            of.is_told = !of.is_told;
        }
    }

    /// Nothing is told of them any more.
    pub(crate) fn forget(&mut self, meters: &Meters) {
        for (stage, _) in (self.stages.drain(..).enumerate()).filter(|(_, of)| of.is_told) {
            StageAvailable { stage }.emit(meters);
        }
    }
}
