//! An operator stage: a batch in, its outcomes out to where they go.

use std::collections::HashSet;
use std::time::Instant;

use tidegate_contract::Processed;
use tidegate_record::{
    ArenaFull, Batch, BatchBuilder, Emission, Outcome, OutcomesView, RecordView, child_emit,
};
use tidegate_telemetry::events::BatchProcessed;

use super::{Task, Work, send};
use crate::error::FlowError;
use crate::output::{Death, Output};
use crate::plan::{Order, StageKind};
use crate::waiting::lane;

impl Task {
    /// Runs an operator over a batch and sends on what it answers. Returns the records that must come again, by index:
    /// with the delay they asked for, or none for those held behind one of their lane.
    pub(super) fn operate(
        &mut self,
        stage: usize,
        batch: &Batch,
        attempt: u32,
        work: &mut Work,
        output: &mut Output,
    ) -> Result<Vec<(usize, Option<u32>)>, FlowError> {
        let plan = self.plan.clone();
        let name = plan.stages[stage].name.as_str();
        let StageKind::Operator(kind) = &plan.stages[stage].kind else {
            return Ok(Vec::new());
        };
        self.switch(stage)?;
        let Some(instance) = &mut self.operators[stage] else {
            return Ok(Vec::new());
        };
        let began = Instant::now();
        let processed = instance
            .operator
            .process(batch)
            .map_err(|error| FlowError::Operator {
                name: name.to_owned(),
                error,
            })?;
        let outputs = instance.routes.len() as u16 - 1;
        let bad_answer = |error: &dyn std::fmt::Display| FlowError::Batch {
            name: name.to_owned(),
            why: error.to_string(),
        };
        if let [
            Processed::Answer {
                first: 0,
                count,
                outcomes,
            },
        ] = processed.as_slice()
            && *count == batch.len()
            && OutcomesView::parse(outcomes, *count, outputs)
                .map_err(|error| bad_answer(&error))?
                .all_pass()
        {
            let records = batch.len() as u64;
            BatchProcessed {
                stage,
                records,
                output: records,
                time: began.elapsed(),
                ..BatchProcessed::default()
            }
            .emit(&output.meters);
            send(work, &instance.routes[0], batch.clone(), output);
            return Ok(Vec::new());
        }
        let version = instance.operator.version().clone();
        let view = batch.view();
        let mut collected = Collected::new(instance.routes.len(), batch.as_bytes().len());
        let mut again: Vec<(usize, Option<u32>)> = Vec::new();
        let mut blocked = HashSet::new();
        let bury = |record: &RecordView<'_>, reason: &str, backtrace, output: &mut Output| {
            output.bury(
                record,
                &Death {
                    stage: name,
                    reason,
                    component: Some(&version.digest),
                    backtrace,
                    attempts: attempt,
                },
            )
        };
        for part in &processed {
            let (first, count, outcomes) = match part {
                Processed::Answer {
                    first,
                    count,
                    outcomes,
                } => (*first, *count, outcomes),
                Processed::Poison(cause) => {
                    if let Some(record) = view.get(cause.record) {
                        bury(&record, &cause.reason, cause.backtrace.as_deref(), output)?;
                    }
                    continue;
                }
            };
            let outcomes = OutcomesView::parse(outcomes, count, outputs)
                .map_err(|error| bad_answer(&error))?;
            for (index, outcome) in (first..).zip(outcomes.iter()) {
                let Some(record) = view.get(index) else {
                    continue;
                };
                if !blocked.is_empty() && blocked.contains(&lane(Order::Key, &record, 0)) {
                    again.push((index, None));
                    continue;
                }
                match collected
                    .take(&record, &outcome)
                    .map_err(|full| bad_answer(&full))?
                {
                    Fate::Gone => {}
                    Fate::Dead(reason) => bury(&record, &reason, None, output)?,
                    Fate::Retry { reason, .. } if attempt > kind.retries => {
                        let reason = format!(
                            "operator asked to retry {attempt} times, the limit is {}: {reason}",
                            kind.retries
                        );
                        bury(&record, &reason, None, output)?;
                    }
                    Fate::Retry { delay_ms, .. } => {
                        again.push((index, Some(delay_ms)));
                        if record.key().is_some() {
                            blocked.insert(lane(Order::Key, &record, 0));
                        }
                        output.counts.retried += 1;
                    }
                }
            }
        }
        output.counts.dropped += collected.dropped;
        output.counts.split += collected.split;
        BatchProcessed {
            stage,
            records: batch.len() as u64,
            output: collected
                .outputs
                .iter()
                .flatten()
                .map(|builder| builder.len() as u64)
                .sum(),
            dropped: collected.dropped,
            retried: again.iter().filter(|(_, delay)| delay.is_some()).count() as u64,
            split: collected.split,
            time: began.elapsed(),
        }
        .emit(&output.meters);
        for (builder, targets) in collected.outputs.into_iter().zip(&instance.routes) {
            if let Some(builder) = builder {
                send(work, targets, builder.finish(view.clock()), output);
            }
        }
        Ok(again)
    }
}

/// What becomes of a record beside its emissions.
enum Fate<'a> {
    /// It went on, or was dropped.
    Gone,
    /// It must come again.
    Retry { delay_ms: u32, reason: &'a str },
    /// It is a dead letter, for this reason.
    Dead(String),
}

/// Records on their way out of an operator, by output.
struct Collected {
    outputs: Vec<Option<BatchBuilder>>,
    dropped: u64,
    split: u64,
    /// Bytes that may still be collected.
    room: usize,
}

/// Bytes an operator's answer to one batch may grow to in the host, beside twice the batch: pieces of a split repeat
/// what their patches do not mention, so a small answer can ask for much.
const MAX_EXPANSION: usize = 64 << 20;

impl Collected {
    fn new(outputs: usize, batch: usize) -> Collected {
        Collected {
            outputs: (0..outputs).map(|_| None).collect(),
            dropped: 0,
            split: 0,
            room: MAX_EXPANSION + 2 * batch,
        }
    }

    fn output(&mut self, output: u16) -> &mut BatchBuilder {
        self.outputs[usize::from(output)].get_or_insert_default()
    }

    fn take<'a>(
        &mut self,
        record: &RecordView<'_>,
        outcome: &Outcome<'a>,
    ) -> Result<Fate<'a>, ArenaFull> {
        let emit = record.id().emit;
        let copies = match outcome {
            Outcome::Pass | Outcome::Replace(_) | Outcome::Route(_) => 1,
            Outcome::Split(pieces) => pieces.len(),
            Outcome::Drop | Outcome::Retry { .. } | Outcome::DeadLetter { .. } => 0,
        };
        let needed = copies.saturating_mul(record.size());
        if needed > self.room {
            let reason = format!(
                "operator's answer: {copies} copies of a record of {} bytes exceed what a batch may grow to ({MAX_EXPANSION} bytes and twice the batch)",
                record.size()
            );
            return Ok(Fate::Dead(reason));
        }
        self.room -= needed;
        match outcome {
            Outcome::Pass => self.output(0).push_record(record)?,
            Outcome::Drop => self.dropped += 1,
            Outcome::Replace(patch) => self.output(0).push_patched(record, patch, emit)?,
            Outcome::Route(Emission { output, patch }) => {
                self.output(*output).push_patched(record, patch, emit)?;
            }
            Outcome::Split(pieces) if pieces.is_empty() => self.dropped += 1,
            Outcome::Split(pieces) => {
                let children: Result<Vec<u32>, _> = (0..pieces.len() as u32)
                    .map(|piece| child_emit(emit, piece))
                    .collect();
                let children = match children {
                    Ok(children) => children,
                    Err(too_deep) => return Ok(Fate::Dead(too_deep.to_string())),
                };
                for (emission, child) in pieces.iter().zip(children) {
                    self.output(emission.output)
                        .push_patched(record, &emission.patch, child)?;
                }
                self.split += pieces.len() as u64 - 1;
            }
            Outcome::Retry { delay_ms, reason } => {
                return Ok(Fate::Retry {
                    delay_ms: *delay_ms,
                    reason,
                });
            }
            Outcome::DeadLetter { reason } => return Ok(Fate::Dead((*reason).to_owned())),
        }
        Ok(Fate::Gone)
    }
}
