//! What is counted, and what the engine and its callers share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::decoder::DecoderShape;

/// A snapshot of an engine's counters; those of totals only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Answer tokens generated, in total.
    pub tokens: u64,
    /// Prompt and forced-prefix tokens taken in, in total.
    pub prompt_tokens: u64,
    /// Steps of the decoder, failed ones included, in total.
    pub steps: u64,
    /// Steps that failed, in total.
    pub failed_steps: u64,
    /// Time spent in steps, in total.
    pub step_time: Duration,
    /// Rows of all steps, in total.
    pub rows: u64,
    /// Requests that have a slot.
    pub running: usize,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Most sequences in one step so far.
    pub largest_batch: usize,
    /// Requests that ended with an answer, in total.
    pub answered: u64,
    /// Requests that ended with an error, in total.
    pub failed: u64,
    /// Whether the engine takes no more requests.
    pub closed: bool,
}

/// The engine's thread writes the counters, everyone reads them; callers count up `waiting`.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: usize,
    pub(super) context: usize,
    pub(super) vocabulary: usize,
    pub(super) closed: AtomicBool,
    pub(super) waiting: AtomicUsize,
    pub(super) running: AtomicUsize,
    pub(super) largest_batch: AtomicUsize,
    pub(super) tokens: AtomicU64,
    pub(super) prompt_tokens: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) failed_steps: AtomicU64,
    pub(super) step_nanoseconds: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Shared {
    pub(super) fn new(queue: usize, shape: &DecoderShape) -> Shared {
        Shared {
            queue,
            context: shape.context,
            vocabulary: shape.vocabulary,
            closed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            largest_batch: AtomicUsize::new(0),
            tokens: AtomicU64::new(0),
            prompt_tokens: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            failed_steps: AtomicU64::new(0),
            step_nanoseconds: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    pub(super) fn snapshot(&self) -> EngineStats {
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            tokens: total(&self.tokens),
            prompt_tokens: total(&self.prompt_tokens),
            steps: total(&self.steps),
            failed_steps: total(&self.failed_steps),
            step_time: Duration::from_nanos(total(&self.step_nanoseconds)),
            rows: total(&self.rows),
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            largest_batch: self.largest_batch.load(Ordering::Relaxed),
            answered: total(&self.answered),
            failed: total(&self.failed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add(counter: &AtomicU64, amount: usize) {
        counter.fetch_add(amount as u64, Ordering::Relaxed);
    }
}
