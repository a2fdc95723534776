//! What has come to a stage and is not taken yet: the rest of a batch's output where the stage is full.

use std::collections::VecDeque;
use std::time::Instant;

use tidegate_record::Batch;

use super::operate::Answered;
use crate::entry::after;

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
    /// Number of the entry that says how much of it is taken: it is not written again whenever some are.
    progress: u64,
    progress_in_log: bool,
    pub batch: Batch,
    /// Records taken, from the first.
    pub taken: usize,
    /// When its records were read.
    pub since: Instant,
    /// Whether its operator has answered for some of it.
    pub begun: bool,
    /// What the operator answered to the whole batch, once it did.
    pub answered: Option<Answered>,
    /// Whether the log has it at all.
    in_log: bool,
    /// Whether the log has other records of it than those that are left, but for how many of the first are taken.
    changed: bool,
    /// Whether records were taken since the last cut.
    moved: bool,
    /// Records cut off its beginning since it was written to the log.
    gone: usize,
    /// Records of its beginning that were taken when it was written.
    not_logged: usize,
}

impl Untaken {
    /// So many more records are taken.
    pub(super) fn take(&mut self, records: usize) {
        self.taken += records;
        self.moved |= records > 0;
    }

    /// Leaves out what is taken.
    pub(super) fn cut_off_taken(&mut self) {
        if self.taken > 0 {
            self.batch = self.rest();
            self.gone += std::mem::take(&mut self.taken);
        }
    }

    /// These are the records left: the others wait elsewhere.
    pub(super) fn keep_only(&mut self, batch: Batch) {
        if batch.len() < self.left() {
            self.changed = true;
            (self.batch, self.taken) = (batch, 0);
        }
    }

    fn left(&self) -> usize {
        self.batch.len().saturating_sub(self.taken)
    }

    /// The records not taken, in a batch of their own.
    fn rest(&self) -> Batch {
        after(&self.batch, self.taken)
    }

    /// What the log has to be told of it, by the number of the entry that does. What that replaces goes to `done`.
    fn take_change(&mut self, done: &mut Vec<u64>) -> Option<(u64, Change)> {
        if std::mem::take(&mut self.changed) {
            if std::mem::take(&mut self.progress_in_log) {
                done.push(self.progress);
            }
            // What the log has begins with the first that is not taken.
            (self.in_log, self.moved, self.gone) = (true, false, 0);
            self.not_logged = self.taken;
            return Some((self.number, Change::Whole(self.rest())));
        }
        if std::mem::take(&mut self.moved) {
            self.progress_in_log = true;
            let records = (self.gone + self.taken).saturating_sub(self.not_logged) as u64;
            return Some((self.progress, Change::Taken(self.number, records)));
        }
        None
    }
}

/// What a cut says of a batch.
pub(super) enum Change {
    /// These are its records.
    Whole(Batch),
    /// Of those of the entry of this number so many are taken.
    Taken(u64, u64),
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
    pub(super) fn add(&mut self, numbers: &mut impl FnMut() -> u64, batch: Batch, since: Instant) {
        self.batches.push_back(Untaken {
            number: numbers(),
            progress: numbers(),
            progress_in_log: false,
            batch,
            taken: 0,
            since,
            begun: false,
            answered: None,
            in_log: false,
            changed: true,
            moved: false,
            gone: 0,
            not_logged: 0,
        });
    }

    /// A batch comes back from the log; `progress` is the number of the entry that said how much of it is taken.
    pub(super) fn restore(
        &mut self,
        number: u64,
        progress: Option<u64>,
        numbers: &mut impl FnMut() -> u64,
        batch: Batch,
    ) {
        self.add(numbers, batch, Instant::now());
        if let Some(last) = self.batches.back_mut() {
            (last.number, last.in_log) = (number, true);
            // Where part of it was taken, the next cut has the rest alone.
            last.changed = progress.is_some();
            if let Some(progress) = progress {
                (last.progress, last.progress_in_log) = (progress, true);
            }
        }
    }

    /// The first batch, to be taken. What is left of it must be given back.
    pub(super) fn take(&mut self) -> Option<Untaken> {
        self.batches.pop_front()
    }

    /// Gives back what is left of the first batch.
    pub(super) fn give_back(&mut self, first: Untaken) {
        if first.left() == 0 {
            if first.in_log {
                self.done.push(first.number);
            }
            if first.progress_in_log {
                self.done.push(first.progress);
            }
            return;
        }
        self.batches.push_front(first);
    }

    /// The offset of each record that is not taken.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.batches.iter().flat_map(|untaken| {
            let rest = untaken.batch.view().records().skip(untaken.taken);
            rest.map(|record| record.id().offset)
        })
    }

    /// What the next cut must say, by number of the entry, and numbers of those done. Afterwards the log is taken to have
    /// it.
    pub(super) fn take_changes(&mut self) -> (Vec<(u64, Change)>, Vec<u64>) {
        let mut done = std::mem::take(&mut self.done);
        let batches = self.batches.iter_mut();
        let changes = batches.filter_map(|untaken| untaken.take_change(&mut done));
        (changes.collect(), done)
    }

    /// Whether the next cut has something to say of it; `durable` if it takes entries at all.
    pub(crate) fn has_changes(&self, durable: bool) -> bool {
        !self.done.is_empty()
            || (durable && self.batches.iter().any(|one| one.changed || one.moved))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_record::{BatchBuilder, NewRecord};

    use super::*;

    #[test]
    fn a_batch_is_written_once_and_then_how_much_of_it_is_taken() {
        let mut builder = BatchBuilder::default();
        for _ in 0..8 {
            builder.push(&NewRecord::default()).unwrap();
        }
        let mut next = 0;
        let mut numbers = || {
            next += 1;
            next
        };
        let mut inbox = Inbox::default();
        inbox.add(&mut numbers, builder.finish(0), Instant::now());
        let mut step = |records, cut_off: bool| {
            let mut first = inbox.take().unwrap();
            first.take(records);
            if cut_off {
                first.cut_off_taken();
            }
            inbox.give_back(first);
            inbox.take_changes()
        };
        // Two are taken before the first cut, which has the other six.
        let (changes, _) = step(2, false);
        assert!(matches!(&changes[..], [(1, Change::Whole(rest))] if rest.len() == 6));
        for (records, cut_off, taken) in [(1, false, 1), (2, true, 3), (1, false, 4)] {
            let (changes, done) = step(records, cut_off);
            assert!(matches!(changes[..], [(2, Change::Taken(1, now))] if now == taken));
            assert!(done.is_empty());
        }
        assert!(step(0, true).0.is_empty(), "nothing new");
        let (changes, done) = step(2, false);
        assert!(changes.is_empty());
        assert_eq!(done, [1, 2]);
    }
}
