//! A task's part of a cut.

use std::collections::BTreeSet;

use tidegate_contract::{Moved, TaskCut, TaskId};

use super::Task;
use crate::topology::Positions;
use crate::waiting::Waiting;

impl Task {
    /// What it is called in cuts.
    pub(crate) fn id(&self) -> TaskId {
        self.topology.task_id(self.partition)
    }

    /// This task's part of a cut, which is taken to hold: if it comes to nothing, the task is read again.
    pub(crate) fn cut(&mut self) -> TaskCut {
        let topology = self.topology.clone();
        let source = &topology.sources[usize::from(self.partition.source)];
        let can_be_read_again = source.positions != Positions::Nobody;
        let mut cut = TaskCut {
            identity: self.identity.clone(),
            position: self.next.filter(|_| can_be_read_again),
            unfinished: self.unfinished().filter(|_| can_be_read_again),
            counters: self.counts.to_log(),
            waits: self.in_flight() as u64,
            done: self.stale.iter().cloned().collect(),
            ..TaskCut::default()
        };
        self.forget_callers();
        for inbox in &mut self.inboxes {
            let (put, done) = inbox.take_changes(&self.callers);
            cut.put.extend(put);
            cut.done.extend(done);
        }
        for waiting in &mut self.waiting {
            let (put, done) = waiting.take_changes();
            cut.put.extend(put);
            cut.done.extend(done);
        }
        self.left_in_cut = std::mem::take(&mut self.left);
        (self.cut_position, self.cut_counts) = (self.next, self.counts);
        cut
    }

    /// Forgets who asked with records of which nothing waits here.
    fn forget_callers(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let waiting = self.waiting.iter().flat_map(Waiting::iter);
        let offsets = waiting.map(|(_, entry)| entry.id.offset);
        let untaken = self.inboxes.iter().flat_map(|inbox| inbox.offsets());
        let there: BTreeSet<u64> = offsets.chain(untaken).collect();
        self.callers.retain(|offset, _| there.contains(offset));
    }

    /// What the commit log is told of it where its state is in a changelog: as of its last cut.
    pub(crate) fn as_moved(&self, moved: Moved) -> TaskCut {
        TaskCut {
            identity: self.identity.clone(),
            position: self.cut_position,
            unfinished: self.cut_position,
            counters: self.cut_counts.to_log(),
            moved: Some(moved),
            ..TaskCut::default()
        }
    }

    /// Whether a cut would have something to say of this task.
    pub(crate) fn has_changes(&self) -> bool {
        self.next != self.cut_position
            || self.counts != self.cut_counts
            || !self.stale.is_empty()
            || self.waiting.iter().any(Waiting::has_changes)
            || self.inboxes.iter().any(|inbox| inbox.has_changes())
    }

    /// The lowest offset that is not done yet.
    fn unfinished(&self) -> Option<u64> {
        let waiting = self.waiting.iter().filter_map(Waiting::lowest);
        let untaken = self.inboxes.iter().filter_map(|inbox| inbox.lowest());
        waiting.chain(untaken).chain(self.next).min()
    }
}
