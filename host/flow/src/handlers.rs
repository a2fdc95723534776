//! Handlers of tokens: one for each stage that has them, shared by the answers of a worker.
//!
//! An answer keeps the handler that it began with. A handler that fails is not asked again: its answers end, and the next
//! answer gets another one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{AnswerLane, OperatorError, Slot, Through, TokenHandler};

/// From a handler that could not be made to the next try; doubled after each that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// What doubling ends at.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A handler that answers of one worker go through.
pub(crate) struct Handler {
    generation: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    handler: Box<dyn TokenHandler>,
    /// Number of the lane that is opened next.
    next: u64,
    /// Why it has failed.
    failed: Option<String>,
}

impl Handler {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Begins a lane. Returns its number.
    pub(crate) fn open(&self, lane: &AnswerLane<'_>) -> Result<u64, String> {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        if let Some(why) = &inner.failed {
            return Err(why.clone());
        }
        match inner.handler.open(number, lane) {
            Ok(()) => Ok(number),
            // With its instance every open lane is over.
            Err(error @ OperatorError::Lost { .. }) => {
                let why = error.to_string();
                inner.failed = Some(why.clone());
                Err(why)
            }
            // It will not have this lane, and the others go on.
            Err(error) => Err(error.to_string()),
        }
    }

    /// The next text of a lane.
    pub(crate) fn step(&self, number: u64, text: &str, last: bool) -> Result<Through, String> {
        self.lock().run(|handler| handler.step(number, text, last))
    }

    /// A lane is done.
    pub(crate) fn close(&self, number: u64) {
        let mut inner = self.lock();
        if inner.failed.is_none() {
            inner.handler.close(number);
        }
    }
}

impl Inner {
    fn run<T>(
        &mut self,
        act: impl FnOnce(&mut dyn TokenHandler) -> Result<T, OperatorError>,
    ) -> Result<T, String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        act(self.handler.as_mut()).map_err(|error| {
            let why = error.to_string();
            self.failed = Some(why.clone());
            why
        })
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
    /// When the next try is, after one that failed, and how long the pause before it was; of this generation.
    again: Option<(Instant, Duration, u64)>,
}

impl Handlers {
    /// The handler of the slot's current version; none where none can be made now.
    pub(crate) fn of(&mut self, stage: usize, name: &str, slot: &dyn Slot) -> Option<Arc<Handler>> {
        if self.stages.len() <= stage {
            self.stages.resize_with(stage + 1, OfStage::default);
        }
        let of = &mut self.stages[stage];
        let generation = slot.generation();
        if let Some(handler) = &of.handler
            && handler.generation == generation
            && !handler.has_failed()
        {
            return Some(handler.clone());
        }
        let before = of.again.filter(|(_, _, failed)| *failed == generation);
        if before.is_some_and(|(at, ..)| Instant::now() < at) {
            return None;
        }
        match slot.tokens() {
            Ok((generation, handler)) => {
                of.again = None;
                let inner = Inner {
                    handler,
                    next: 1,
                    failed: None,
                };
                let handler = Arc::new(Handler {
                    generation,
                    inner: Mutex::new(inner),
                });
                of.handler = Some(handler.clone());
                Some(handler)
            }
            Err(error) => {
                let pause =
                    before.map_or(FIRST_PAUSE, |(_, pause, _)| (pause * 2).min(LONGEST_PAUSE));
                of.again = Some((Instant::now() + pause, pause, generation));
                tracing::warn!(
                    stage = name,
                    %error,
                    "answers wait: no handler of their tokens can be made; the next try is in {pause:?}"
                );
                None
            }
        }
    }
}
