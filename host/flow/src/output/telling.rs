//! Those who wait for records are told what becomes of them.

use std::sync::Arc;

use tidegate_contract::{Answer, Became};
use tidegate_record::{BatchView, Origin, RecordId};

use super::Output;
use crate::audit::Outcome;
use crate::entry::Entry;
use crate::error::FlowError;
use crate::hearing::At;
use crate::kept::{Restored, Waits};
use crate::topology::Target;
use crate::traced::Traces;

impl Output {
    /// Tells whoever waits for a record how it ended there, or this piece of it.
    pub(crate) fn tell(&mut self, id: RecordId, at: At, end: &Became<'_>) {
        if let Some(callers) = self.topology.callers_of(id.source)
            && id.origin == Origin::Source
        {
            self.hearing.ended(id.into(), at);
            callers.tell(id.into(), end);
        }
    }

    /// Tells whoever waits for records of a batch, which are of one source, how each ended there.
    pub(crate) fn tell_all(&mut self, batch: BatchView<'_>, at: At, end: &Became<'_>) {
        if self.is_called(batch) {
            for record in batch.records() {
                self.tell(record.id(), at, end);
            }
        }
    }

    /// A record became so many where it is.
    pub(crate) fn multiplied(&mut self, id: RecordId, at: At, pieces: usize) {
        if let Some(callers) = self.topology.callers_of(id.source)
            && id.origin == Origin::Source
        {
            self.hearing.multiplied(id.into(), at, pieces);
            callers.tell(id.into(), &Became::Several(pieces));
        }
    }

    /// Records, which are of one source, go to all of these, at least one.
    pub(crate) fn sent(&mut self, batch: BatchView<'_>, from: At, targets: &[Target]) {
        if !self.is_called(batch) {
            return;
        }
        for record in batch.records() {
            let id = record.id();
            if let Some(callers) = self.topology.callers_of(id.source)
                && id.origin == Origin::Source
            {
                self.hearing.sent(id.into(), from, targets);
                if targets.len() > 1 {
                    callers.tell(id.into(), &Became::Several(targets.len()));
                }
            }
        }
    }

    /// Records wait in a stage since an earlier life.
    pub(crate) fn restored(&mut self, restored: &Restored) {
        let Some(stage) = self.topology.stage(&restored.stage) else {
            return;
        };
        let batch = match &restored.waits {
            Waits::Entry { entry, .. } => &entry.record,
            Waits::Untaken { batch, .. } => batch,
        };
        if self.is_called(batch.view()) {
            for record in batch.view().records() {
                self.hearing.restored(record.id().into(), stage);
            }
        }
    }

    /// A question of a stage has ended: the audit has it, if there is one.
    pub(crate) fn audit_of(
        &mut self,
        stage: usize,
        entry: &Entry,
        outcome: Outcome<'_>,
    ) -> Result<(), FlowError> {
        if !self.audit.is_there() {
            return Ok(());
        }
        let topology = self.topology.clone();
        let trace = entry.view().and_then(|record| Traces::named(&record));
        let trace = trace.map(|trace| trace.to_string());
        Ok(self
            .audit
            .ended(&topology, stage, (entry, trace), outcome)?)
    }

    /// A model has answered a record. Returns the number by which it brings the answer to a caller.
    pub(crate) fn answered(
        &mut self,
        id: RecordId,
        stage: usize,
        answer: &Arc<Answer>,
    ) -> Option<u64> {
        self.topology.callers_of(id.source)?;
        if id.origin != Origin::Source {
            return None;
        }
        self.hearing.answered(id.into(), stage, answer.clone())
    }

    fn is_called(&self, batch: BatchView<'_>) -> bool {
        let first = batch.get(0).map(|first| first.id().source);
        first.is_some_and(|source| self.topology.callers_of(source).is_some())
    }
}
