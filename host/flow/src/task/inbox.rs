//! What has come to a stage and is not taken yet: the rest of a batch's output where the stage is full.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use tidegate_contract::{Entry, EntryKey, EntryPart};
use tidegate_record::{Batch, BatchBuilder, RecordId, RecordView};

use super::operate::Answered;
use crate::entry::EntryId;
use crate::kept::{self, Callers, after};
use crate::versions::Versions;

/// Batches before a stage, in the order in which they came. They are as large as the pipeline's batches, and their
/// number is bounded: nothing is added by a stage or a source while something is here, beyond what one go of it makes.
pub(crate) struct Inbox {
    /// Name of the stage.
    stage: String,
    batches: VecDeque<Untaken>,
    /// What the batches are kept under: that of their first record when they came.
    ids: BTreeSet<EntryId>,
    /// Parts of those taken that the last cut still has.
    done: Vec<EntryKey>,
}

/// A batch of which some records are not taken.
pub(super) struct Untaken {
    /// Its place among what waits in the task.
    order: u64,
    id: EntryId,
    pub batch: Batch,
    /// The operators that its records went through on their way here.
    pub versions: Versions,
    /// Records taken, from the first.
    pub taken: usize,
    /// When its records were read.
    pub since: Instant,
    /// Whether its operator has answered for some of it.
    pub begun: bool,
    /// What the operator answered to the whole batch, once it did.
    pub answered: Option<Answered>,
    /// Whether the cuts have it at all.
    kept: bool,
    /// Whether they have how much of it is taken.
    taken_kept: bool,
    /// Whether they have other records of it than those that are left, but for how many of the first are taken.
    changed: bool,
    /// Whether records were taken since the last cut.
    moved: bool,
    /// Records cut off its beginning since it was written.
    gone: usize,
    /// Records of its beginning that were taken when it was written.
    not_written: usize,
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

    /// What the next cut must say of it. What that replaces goes to `done`.
    fn take_change(
        &mut self,
        stage: &str,
        done: &mut Vec<EntryKey>,
        callers: &Callers,
    ) -> Option<Entry> {
        if std::mem::take(&mut self.changed) {
            if std::mem::take(&mut self.taken_kept) {
                done.push(kept::key(stage, self.id, EntryPart::Taken));
            }
            // What is kept begins with the first that is not taken.
            (self.kept, self.moved, self.gone) = (true, false, 0);
            self.not_written = self.taken;
            let rest = self.rest();
            let came = (&rest, &self.versions);
            return Some(kept::put_batch(stage, self.order, self.id, came, callers));
        }
        if std::mem::take(&mut self.moved) {
            self.taken_kept = true;
            let records = (self.gone + self.taken).saturating_sub(self.not_written) as u64;
            return Some(kept::put_taken(stage, self.id, records));
        }
        None
    }
}

impl Inbox {
    /// That of the stage of this name.
    pub(crate) fn new(stage: &str) -> Inbox {
        Inbox {
            stage: stage.to_owned(),
            batches: VecDeque::new(),
            ids: BTreeSet::new(),
            done: Vec::new(),
        }
    }

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

    /// A batch came; `order` is its place among what waits in the task.
    pub(super) fn add(&mut self, order: u64, came: (Batch, Versions), since: Instant) {
        let first = came.0.view().get(0);
        let id = first.map_or(EntryId::default(), |first| EntryId::of(first.id()));
        self.push(order, id, came, since);
    }

    fn push(
        &mut self,
        order: u64,
        mut id: EntryId,
        (batch, versions): (Batch, Versions),
        since: Instant,
    ) {
        while !self.ids.insert(id) {
            id.copy += 1;
        }
        self.batches.push_back(Untaken {
            order,
            id,
            batch,
            versions,
            taken: 0,
            since,
            begun: false,
            answered: None,
            kept: false,
            taken_kept: false,
            changed: true,
            moved: false,
            gone: 0,
            not_written: 0,
        });
    }

    /// A batch comes back from a cut; `taken` says whether others of it were taken since it was written.
    pub(super) fn restore(
        &mut self,
        order: u64,
        id: EntryId,
        came: (Batch, Versions),
        taken: bool,
    ) {
        self.push(order, id, came, Instant::now());
        if let Some(last) = self.batches.back_mut() {
            // Where part of it was taken, the next cut has the rest alone.
            (last.kept, last.taken_kept, last.changed) = (true, taken, taken);
        }
    }

    /// The first batch, to be taken. What is left of it must be given back.
    pub(super) fn take(&mut self) -> Option<Untaken> {
        self.batches.pop_front()
    }

    /// Gives back what is left of the first batch.
    pub(super) fn give_back(&mut self, first: Untaken) {
        if first.left() == 0 {
            self.is_done(&first);
            return;
        }
        self.batches.push_front(first);
    }

    /// Nothing is left of a batch.
    fn is_done(&mut self, batch: &Untaken) {
        self.ids.remove(&batch.id);
        let parts = [
            (batch.kept, EntryPart::Batch),
            (batch.taken_kept, EntryPart::Taken),
        ];
        let there = parts.into_iter().filter(|(there, _)| *there);
        let keys = there.map(|(_, part)| kept::key(&self.stage, batch.id, part));
        self.done.extend(keys);
    }

    /// Takes out records that are not taken, and whose operator has not answered for them. Returns which.
    pub(super) fn take_out(&mut self, goes: impl Fn(&RecordView<'_>) -> bool) -> Vec<RecordId> {
        let mut out = Vec::new();
        for _ in 0..self.batches.len() {
            let Some(mut untaken) = self.batches.pop_front() else {
                break;
            };
            let there = out.len();
            if untaken.answered.is_none() {
                let records = untaken.batch.view().records().skip(untaken.taken);
                out.extend(
                    records
                        .filter(|record| goes(record))
                        .map(|record| record.id()),
                );
            }
            if out.len() > there {
                let view = untaken.batch.view();
                let mut rest = BatchBuilder::default();
                for record in view.records().skip(untaken.taken) {
                    if !goes(&record) {
                        // A part of a batch is no larger than the batch.
                        let _ = rest.push_record(&record);
                    }
                }
                untaken.keep_only(rest.finish(view.clock()));
                if untaken.left() == 0 {
                    self.is_done(&untaken);
                    continue;
                }
            }
            self.batches.push_back(untaken);
        }
        out
    }

    /// The offset of each record that is not taken.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.batches.iter().flat_map(|untaken| {
            let rest = untaken.batch.view().records().skip(untaken.taken);
            rest.map(|record| record.id().offset)
        })
    }

    /// The last cut that holds has these entries, and the next one says everything else anew. What it replaces is taken
    /// out of them.
    pub(super) fn stay(&mut self, kept: &mut BTreeSet<EntryKey>) {
        self.done.clear();
        for untaken in &mut self.batches {
            let mut has = |part| kept.remove(&kept::key(&self.stage, untaken.id, part));
            untaken.kept = has(EntryPart::Batch);
            untaken.taken_kept = has(EntryPart::Taken);
            untaken.changed = true;
        }
    }

    /// The lowest offset of what is not taken, or one before it.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.ids.first().map(|id| id.offset)
    }

    /// What the next cut must say, and what is done. Afterwards it is taken to have it.
    pub(super) fn take_changes(&mut self, callers: &Callers) -> (Vec<Entry>, Vec<EntryKey>) {
        let mut done = std::mem::take(&mut self.done);
        let batches = self.batches.iter_mut();
        let changes =
            batches.filter_map(|untaken| untaken.take_change(&self.stage, &mut done, callers));
        (changes.collect(), done)
    }

    /// Whether the next cut has something to say of it.
    pub(crate) fn has_changes(&self) -> bool {
        !self.done.is_empty() || self.batches.iter().any(|one| one.changed || one.moved)
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
        let mut inbox = Inbox::new("ask");
        inbox.add(1, (builder.finish(0), Versions::default()), Instant::now());
        let names = |put: &[Entry]| -> Vec<String> {
            let keys = put.iter().map(|entry| entry.key.to_string());
            keys.collect()
        };
        let mut step = |records, cut_off: bool| {
            let mut first = inbox.take().unwrap();
            first.take(records);
            if cut_off {
                first.cut_off_taken();
            }
            inbox.give_back(first);
            inbox.take_changes(&Callers::new())
        };
        // Two are taken before the first cut, which has the other six.
        let (put, _) = step(2, false);
        assert_eq!(names(&put), ["ask/0/0/0/batch"]);
        let put = put.into_iter().map(|entry| (entry.key, entry.payload));
        let restored = kept::restore(put).unwrap();
        assert_eq!(restored[0].waits.len(), 6);
        for (records, cut_off, taken) in [(1, false, 1), (2, true, 3), (1, false, 4)] {
            let (put, done) = step(records, cut_off);
            assert_eq!(names(&put), ["ask/0/0/0/taken"]);
            let said = format!("{{\"records\":{taken}}}");
            assert_eq!(put[0].payload, said.as_bytes());
            assert!(done.is_empty());
        }
        assert!(step(0, true).0.is_empty(), "nothing new");
        let (put, done) = step(2, false);
        assert!(put.is_empty());
        let done: Vec<String> = done.iter().map(EntryKey::to_string).collect();
        assert_eq!(done, ["ask/0/0/0/batch", "ask/0/0/0/taken"]);
    }
}
