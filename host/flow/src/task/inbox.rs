//! What has come to a stage and is not taken yet: the rest of a batch's output where the stage is full.

use std::collections::VecDeque;
use std::time::Instant;

use tidegate_record::{Batch, BatchBuilder};

use super::operate::Answered;

/// Batches before a stage, in the order in which they came. They are as large as the pipeline's batches, and their
/// number is bounded: nothing is added by a stage or a source while something is here, beyond what one go of it makes.
#[derive(Default)]
pub(crate) struct Inbox {
    batches: VecDeque<Untaken>,
    /// Numbers of those taken that the log still has.
    done: Vec<u64>,
}

/// A batch of which some records are not taken.
pub(super) struct Untaken {
    /// Its number among the in-flight entries.
    number: u64,
    pub batch: Batch,
    /// Records taken, from the first.
    pub taken: usize,
    /// When its records were read.
    pub since: Instant,
    /// What the operator answered to the whole batch, once it did.
    pub answered: Option<Answered>,
    /// Whether the log has it at all.
    in_log: bool,
    /// Whether the log has it as it is.
    changed: bool,
}

impl Untaken {
    fn left(&self) -> usize {
        self.batch.len().saturating_sub(self.taken)
    }

    /// The records not taken, in a batch of their own.
    fn rest(&self) -> Batch {
        if self.taken == 0 {
            return self.batch.clone();
        }
        let view = self.batch.view();
        let mut rest = BatchBuilder::default();
        for record in view.records().skip(self.taken) {
            // A part of a batch is no larger than the batch.
            let _ = rest.push_record(&record);
        }
        rest.finish(view.clock())
    }
}

impl Inbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Records that are not taken.
    pub(crate) fn len(&self) -> usize {
        self.batches.iter().map(Untaken::left).sum()
    }

    /// When the first of its records were read.
    pub(super) fn since(&self) -> Option<Instant> {
        self.batches.front().map(|first| first.since)
    }

    /// Whether the first batch is answered and the answer not taken to its end.
    pub(super) fn is_answered(&self) -> bool {
        self.batches
            .front()
            .is_some_and(|first| first.answered.is_some())
    }

    /// A batch came.
    pub(super) fn add(&mut self, number: u64, batch: Batch, since: Instant) {
        self.batches.push_back(Untaken {
            number,
            batch,
            taken: 0,
            since,
            answered: None,
            in_log: false,
            changed: true,
        });
    }

    /// A batch comes back from the log.
    pub(super) fn restore(&mut self, number: u64, batch: Batch) {
        self.add(number, batch, Instant::now());
        if let Some(last) = self.batches.back_mut() {
            (last.in_log, last.changed) = (true, false);
        }
    }

    /// The first batch, to be taken. What is left of it must be given back.
    pub(super) fn take(&mut self) -> Option<Untaken> {
        self.batches.pop_front()
    }

    /// Gives back what is left of the first batch.
    pub(super) fn give_back(&mut self, mut first: Untaken) {
        if first.left() == 0 {
            if first.in_log {
                self.done.push(first.number);
            }
            return;
        }
        first.changed = true;
        self.batches.push_front(first);
    }

    /// The lowest offset that is not taken.
    pub(crate) fn lowest_offset(&self) -> Option<u64> {
        let offsets = |untaken: &Untaken| {
            let view = untaken.batch.view();
            let rest = view.records().skip(untaken.taken);
            rest.map(|record| record.id().offset).min()
        };
        self.batches.iter().filter_map(offsets).min()
    }

    /// What the next cut must say: batches new or changed by number, and numbers of those done. Afterwards the log is
    /// taken to have it.
    pub(crate) fn take_changes(&mut self) -> (Vec<(u64, Batch)>, Vec<u64>) {
        let changed = self.batches.iter_mut().filter(|untaken| untaken.changed);
        let changed = changed.map(|untaken| {
            (untaken.in_log, untaken.changed) = (true, false);
            (untaken.number, untaken.rest())
        });
        (changed.collect(), std::mem::take(&mut self.done))
    }

    /// Those done that the log still has.
    pub(crate) fn take_done(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.done)
    }

    /// Whether the next cut has something to say of it; `durable` if it takes entries at all.
    pub(crate) fn has_changes(&self, durable: bool) -> bool {
        !self.done.is_empty() || (durable && self.batches.iter().any(|untaken| untaken.changed))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}
