//! Callers that have gone: what is left of their records ends here, wherever it waits.

use std::collections::BTreeSet;

use tidegate_contract::Became;
use tidegate_record::{Batch, BatchBuilder, RecordId, RecordView};

use super::Task;
use super::inbox::Inbox;
use crate::audit::Outcome;
use crate::entry::State;
use crate::error::FlowError;
use crate::output::Output;

impl Task {
    /// Ends the records with these offsets; they count as dropped. Returns the requests that models have for them, by
    /// stage: they are to be cancelled.
    ///
    /// What an operator has answered for, and the stages after it have no room for, keeps its place until it goes on, and
    /// ends there.
    pub(crate) fn end_gone(
        &mut self,
        offsets: &BTreeSet<u64>,
        output: &mut Output,
    ) -> Result<Vec<(usize, u64)>, FlowError> {
        let mut requests = Vec::new();
        // All of them first: what is sent on moves what waits in later stages.
        for stage in 0..self.waiting.len() {
            let numbers = offsets.iter();
            let numbers: Vec<u64> = numbers
                .flat_map(|offset| self.waiting[stage].of_offset(*offset))
                .collect();
            for number in &numbers {
                let Some(mut entry) = self.waiting[stage].remove(*number) else {
                    continue;
                };
                if let Some(showing) = &mut entry.showing {
                    showing.lost();
                }
                if let State::Submitted(request) = entry.state {
                    requests.push((stage, request));
                }
                output.audit_of(stage, &entry, Outcome::Left)?;
                output.finished.push((entry.arrived, 1));
                if let Some(record) = entry.view() {
                    self.drop_gone(Some(stage), record.id(), output);
                }
            }
            let since = self.inboxes[stage].since();
            let taken =
                self.inboxes[stage].take_out(|record| offsets.contains(&record.id().offset));
            for id in &taken {
                self.drop_gone(Some(stage), *id, output);
            }
            if let (Some(since), 1..) = (since, taken.len()) {
                output.finished.push((since, taken.len() as u64));
            }
            if self.inboxes[stage].is_answered() {
                let left = self.inboxes[stage].offsets();
                let left: Vec<u64> = left.filter(|offset| offsets.contains(offset)).collect();
                self.gone.extend(left);
            }
        }
        // Those behind them in their lanes may go.
        for stage in 0..self.waiting.len() {
            self.send_answers(stage, output)?;
        }
        Ok(requests)
    }

    /// One piece of a record that nobody waits for any more ends in this stage.
    pub(super) fn drop_gone(&self, stage: Option<usize>, id: RecordId, output: &mut Output) {
        output.counts.dropped += 1;
        output.meters.records_dropped.add(1);
        let name = self.name(stage);
        output.tell(id, stage.into(), &Became::Dropped { stage: name });
    }

    /// Whether nobody waits for a record any more that is on its way out of a stage.
    pub(super) fn is_gone(&self, record: &RecordView<'_>) -> bool {
        !self.gone.is_empty() && self.gone.contains(&record.id().offset)
    }

    /// The batch without records that nobody waits for any more; none if nothing is left of it.
    pub(super) fn without_gone(
        &mut self,
        from: Option<usize>,
        batch: Batch,
        output: &mut Output,
    ) -> Option<Batch> {
        if self.gone.is_empty() || from.is_none() {
            return Some(batch);
        }
        let view = batch.view();
        if !view.records().any(|record| self.is_gone(&record)) {
            return Some(batch);
        }
        let mut rest = BatchBuilder::default();
        for record in view.records() {
            if self.is_gone(&record) {
                self.drop_gone(from, record.id(), output);
            } else {
                // A part of a batch is no larger than the batch.
                let _ = rest.push_record(&record);
            }
        }
        (!rest.is_empty()).then(|| rest.finish(view.clock()))
    }

    /// Forgets callers that have gone, once nothing is held of which they may be left.
    pub(super) fn forget_gone(&mut self) {
        if !self.gone.is_empty() && !self.inboxes.iter().any(Inbox::is_answered) {
            self.gone.clear();
        }
    }
}
