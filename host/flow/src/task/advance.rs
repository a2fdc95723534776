//! The way of batches through the stages: from where they came to sinks, waiting stages, or a stage that is full.

use std::time::{Duration, Instant};

use tidegate_contract::Became;
use tidegate_record::{Batch, RecordView};
use tidegate_telemetry::events::{ModelAsked, RecordsFannedOut};
use tidegate_telemetry::{Sender, Taker};

use super::{Task, room_of};
use crate::error::FlowError;
use crate::hearing::At;
use crate::output::{Death, Output};
use crate::topology::{Stage, StageKind, Target, Topology};
use crate::versions::Versions;
use crate::waiting::lane;

/// How long a task goes on before its worker looks at answers, controls and cuts again.
const SLICE: Duration = Duration::from_millis(100);

/// The stages that take each stage's outputs, whichever.
pub(super) fn readers(topology: &Topology) -> Vec<Vec<usize>> {
    let of = |stage: &Stage| {
        let outputs = stage.outputs().filter_map(|target| match target {
            Target::Stage(stage) => Some(stage),
            Target::Sink(_) => None,
        });
        let mut stages: Vec<usize> = outputs.collect();
        stages.sort_unstable();
        stages.dedup();
        stages
    };
    topology.stages.iter().map(of).collect()
}

impl Task {
    /// Sends a batch on from a stage, or from its source, to all who take it; to nobody means its records are dropped.
    pub(super) fn send(
        &mut self,
        from: Option<usize>,
        targets: &[Target],
        (batch, versions): (Batch, Versions),
        since: Instant,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let batch = match self.without_gone(from, batch, output) {
            Some(batch) => batch,
            None => return Ok(()),
        };
        let records = batch.len() as u64;
        let Some((last, others)) = targets.split_last() else {
            output.counts.dropped += records;
            output.meters.records_dropped.add(records);
            let stage = self.name(from);
            output.tell_all(batch.view(), from.into(), &Became::Untaken { stage });
            return Ok(());
        };
        output.sent(batch.view(), from.into(), targets);
        output.counts.split += records * others.len() as u64;
        RecordsFannedOut {
            records,
            readers: targets.len() as u64,
        }
        .emit(&output.meters);
        self.count(from, targets, records, output);
        for target in others {
            match target {
                Target::Sink(sink) => output.write(*sink, batch.view())?,
                Target::Stage(stage) => {
                    self.hand_over(*stage, (batch.clone(), versions.clone()), since)
                }
            }
        }
        match last {
            Target::Sink(sink) => output.write(*sink, batch.view())?,
            Target::Stage(stage) => self.hand_over(*stage, (batch, versions), since),
        }
        Ok(())
    }

    /// Counts what goes from whom to whom.
    fn count(&self, from: Option<usize>, targets: &[Target], records: u64, output: &Output) {
        let sender = match from {
            Some(stage) => Sender::Stage(stage),
            None => Sender::Source(usize::from(self.partition.source)),
        };
        for target in targets {
            let taker = match target {
                Target::Stage(stage) => Taker::Stage(*stage),
                Target::Sink(sink) => Taker::Sink(*sink),
            };
            output.meters.edges().add(sender, taker, records);
        }
    }

    /// What a stage is called, or the source.
    pub(super) fn name(&self, stage: Option<usize>) -> &str {
        match stage {
            Some(stage) => &self.topology.stages[stage].name,
            None => &self.topology.sources[usize::from(self.partition.source)].name,
        }
    }

    fn hand_over(&mut self, stage: usize, came: (Batch, Versions), since: Instant) {
        let order = self.number();
        self.inboxes[stage].add(order, came, since);
    }

    /// Whether a stage must not make output now: one that takes it has not taken what is there, or a cut comes first.
    pub(super) fn is_held(&self, stage: usize, output: &Output) -> bool {
        output.is_full() || self.is_held_here(stage)
    }

    /// Whether one that takes a stage's output has not taken what is there.
    pub(super) fn is_held_here(&self, stage: usize) -> bool {
        let mut readers = self.readers[stage].iter();
        readers.any(|reader| !self.inboxes[*reader].is_empty())
    }

    /// Whether a waiting stage takes no more records.
    fn is_full(&self, stage: usize) -> bool {
        room_of(&self.topology.stages[stage], &self.waiting[stage]) == 0
    }

    fn can_step(&self, stage: usize, output: &Output) -> bool {
        let inbox = &self.inboxes[stage];
        if inbox.is_empty() {
            return false;
        }
        match &self.topology.stages[stage].kind {
            StageKind::Model(_) => !self.is_full(stage),
            // May go past its limit by what one batch sends to retry.
            StageKind::Operator(_) => {
                // While it has no instance, those whose turn has come go first.
                let now = Instant::now();
                let waits = self.unavailable[stage]
                    && (self.must_wait(stage, now) || self.waiting[stage].is_due(now));
                let fresh = !waits && !self.is_full(stage) && self.retrying != Some(stage);
                !self.is_held(stage, output) && (inbox.is_answered() || fresh)
            }
        }
    }

    /// Takes what has come to the stages as far as it goes now. The last stage that can go on goes first: so what one
    /// batch becomes is never there all at once, however often it is split.
    pub(super) fn advance(&mut self, output: &mut Output) -> Result<bool, FlowError> {
        let began = Instant::now();
        let mut any = false;
        while !any || began.elapsed() < SLICE {
            let stages = 0..self.inboxes.len();
            let Some(stage) = stages.rev().find(|stage| self.can_step(*stage, output)) else {
                return Ok(any);
            };
            let Some(mut untaken) = self.inboxes[stage].take() else {
                return Ok(any);
            };
            any = true;
            let topology = self.topology.clone();
            match &topology.stages[stage].kind {
                StageKind::Operator(_) => self.operate(stage, &mut untaken, output)?,
                StageKind::Model(kind) => {
                    let mut records = 0;
                    for record in untaken.batch.view().records().skip(untaken.taken) {
                        if self.is_full(stage) {
                            break;
                        }
                        let number = self.number();
                        let lane = lane(kind.order, &record, number);
                        records += 1;
                        let came = (&record, &untaken.versions);
                        match self.entry(stage, came, untaken.since, lane) {
                            Ok(entry) => self.waiting[stage].add(number, entry),
                            Err(full) => self.bury(stage, &record, &full.to_string(), 1, output)?,
                        }
                    }
                    untaken.take(records as usize);
                    ModelAsked { stage, records }.emit(&output.meters);
                }
            }
            self.inboxes[stage].give_back(untaken);
            self.forget_gone();
        }
        Ok(any)
    }

    /// Goes on with what stopped before a full stage, or before a cut. Returns whether anything moved.
    pub(crate) fn go_on(&mut self, output: &mut Output) -> Result<bool, FlowError> {
        let since = self.inboxes.iter().filter_map(|inbox| inbox.since()).min();
        let before = self.in_flight();
        let mut any = self.advance(output)?;
        for stage in (0..self.answers_held.len()).rev() {
            if self.answers_held[stage] && !self.is_held(stage, output) {
                any = true;
                self.send_answers(stage, output)?;
            }
        }
        let ended = before.saturating_sub(self.in_flight()) as u64;
        if let (Some(since), 1..) = (since, ended) {
            output.finished.push((since, ended));
        }
        Ok(any)
    }

    /// A record ends here as a dead letter, for a reason that is not its operator's.
    pub(super) fn bury(
        &self,
        stage: usize,
        record: &RecordView<'_>,
        reason: &str,
        attempts: u32,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        output.bury(
            record,
            &Death {
                at: At::Stage(stage),
                reason,
                component: None,
                backtrace: None,
                attempts,
                error: None,
            },
        )
    }
}
