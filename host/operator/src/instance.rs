//! A task's instance of an operator: the call for a batch, and what happens when it fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_contract::{DeadLetterCause, Operator, OperatorError, OperatorVersion, Processed};
use tidegate_record::layout::{BATCH_HEADER, ENTRY};
use tidegate_record::{Batch, BatchBuilder, BatchView, Fields, OutcomesView};

use crate::failure::Failure;
use crate::guest::Guest;
use crate::limits::BISECT_FLOOR;
use crate::plan::Plan;

/// Records looked at to see whether leaving fields out is worth a copy.
const LOOK_AT: usize = 8;

pub(crate) struct Instance {
    plan: Arc<Plan>,
    /// None after a failure, until the next call makes another one.
    guest: Option<Guest>,
    /// Memory for batches of which fields are left out.
    spare: Vec<u8>,
    answered: u64,
}

impl Instance {
    pub(crate) fn start(plan: Arc<Plan>) -> Result<Instance, OperatorError> {
        let guest = plan.start()?;
        Ok(Instance {
            plan,
            guest: Some(guest),
            spare: Vec::new(),
            answered: 0,
        })
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// One call. The inner error has cost the instance.
    fn call(
        &mut self,
        batch: &Batch,
        allowed: Duration,
    ) -> Result<Result<Vec<u8>, Failure>, OperatorError> {
        let plan = &self.plan;
        let guest = match &mut self.guest {
            Some(guest) => guest,
            none => none.insert(plan.start()?),
        };
        let view = batch.view();
        let mark = (view.clock(), mark(&view));
        let ticker = &plan.component.engine.inner.ticker;
        let reads = plan.description.version.reads;
        let called = if is_worth_leaving_out(&view, reads) {
            let mut builder = BatchBuilder::new(std::mem::take(&mut self.spare));
            for record in view.records() {
                builder.push_fields(&record, reads).map_err(impossible)?;
            }
            let lean = builder.finish(view.clock());
            let called = guest.process(ticker, lean.as_bytes(), mark, allowed);
            self.spare = lean.into_bytes();
            called
        } else {
            guest.process(ticker, view.as_bytes(), mark, allowed)
        };
        let checked = called.and_then(|outcomes| {
            match OutcomesView::parse(&outcomes, view.len(), plan.outputs) {
                Ok(_) => Ok(outcomes),
                Err(error) => Err(Failure::answer(format!("bad answer: {error}"))),
            }
        });
        if checked.is_err() {
            self.guest = None;
        }
        Ok(checked)
    }

    /// One call for the stream: what it counts, counts.
    fn answer(
        &mut self,
        batch: &Batch,
        allowed: Duration,
    ) -> Result<Result<Vec<u8>, Failure>, OperatorError> {
        let answer = self.call(batch, allowed)?;
        match &mut self.guest {
            Some(guest) => guest.settle(),
            None => {
                self.plan.place.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(answer)
    }

    /// Whether the operator answers this batch, beside the stream and without a trace of it in the counters.
    pub(crate) fn try_out(&mut self, batch: &Batch) -> Result<Result<(), String>, OperatorError> {
        let allowed = self.plan.place.limits.deadline;
        let called = self.call(batch, allowed)?;
        Ok(called.map(|_| ()).map_err(|failure| failure.text()))
    }

    /// Answers in halves, until what cannot be answered is single records or the time is over. The whole has failed
    /// once already.
    fn bisect(
        &mut self,
        batch: &Batch,
        mut last: Failure,
    ) -> Result<Vec<Processed>, OperatorError> {
        let limits = &self.plan.place.limits;
        let cap = limits.bisect;
        // Halves of halves add up to the whole, so a record that never returns is found within half the cap.
        let deadline = limits.deadline.min(cap / 2);
        let floor = BISECT_FLOOR.min(limits.deadline);
        let (began, total) = (Instant::now(), batch.len());
        let mut done = Vec::new();
        let mut open = Vec::new();
        split(&mut open, 0, total);
        while let Some((first, count)) = open.pop() {
            let left = cap.saturating_sub(began.elapsed());
            if left < floor {
                let reason = format!("not isolated within {cap:?}: {}", last.reason);
                done.extend((first..total).map(|record| {
                    Processed::Poison(DeadLetterCause {
                        record,
                        reason: reason.clone(),
                        backtrace: last.backtrace.clone(),
                    })
                }));
                break;
            }
            let share = deadline.mul_f64(count as f64 / total as f64);
            match self.answer(&part(batch, first, count)?, share.max(floor).min(left))? {
                Ok(outcomes) => done.push(Processed::Answer {
                    first,
                    count,
                    outcomes,
                }),
                Err(failure) if count == 1 => done.push(poison(first, failure)),
                Err(failure) => {
                    last = failure;
                    split(&mut open, first, count);
                }
            }
        }
        Ok(done)
    }
}

impl Operator for Instance {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let count = batch.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let failure = match self.answer(batch, self.plan.place.limits.deadline)? {
            Ok(outcomes) => {
                self.plan.place.samples.offer(self.answered, batch);
                self.answered += 1;
                return Ok(vec![Processed::Answer {
                    first: 0,
                    count,
                    outcomes,
                }]);
            }
            Err(failure) => failure,
        };
        tracing::warn!(
            target: "tidegate::operator",
            slot = self.plan.place.shared.name,
            digest = self.plan.component.digest(),
            records = count,
            "an operator instance was lost: {}",
            failure.reason
        );
        let done = if count == 1 {
            vec![poison(0, failure)]
        } else {
            self.bisect(batch, failure)?
        };
        let poisoned = done
            .iter()
            .filter(|done| matches!(done, Processed::Poison(_)))
            .count();
        let shared = &self.plan.place.shared;
        shared
            .poisoned
            .fetch_add(poisoned as u64, Ordering::Relaxed);
        Ok(done)
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.plan.description.version
    }
}

/// Puts the halves on the stack, the first one on top.
fn split(open: &mut Vec<(usize, usize)>, first: usize, count: usize) {
    let half = count / 2;
    open.push((first + half, count - half));
    open.push((first, half));
}

fn poison(record: usize, failure: Failure) -> Processed {
    Processed::Poison(DeadLetterCause {
        record,
        reason: failure.reason,
        backtrace: failure.backtrace,
    })
}

fn part(batch: &Batch, first: usize, count: usize) -> Result<Batch, OperatorError> {
    let view = batch.view();
    let mut builder = BatchBuilder::default();
    for record in view.records().skip(first).take(count) {
        builder.push_record(&record).map_err(impossible)?;
    }
    Ok(builder.finish(view.clock()))
}

/// A part of a batch that is larger than the batch.
fn impossible(full: tidegate_record::ArenaFull) -> OperatorError {
    OperatorError::Engine(full.to_string())
}

fn mark(view: &BatchView<'_>) -> u64 {
    view.get(0).map_or(0, |record| {
        let id = record.id();
        id.offset ^ (u64::from(id.partition) << 40) ^ (u64::from(id.emit) << 20)
    })
}

/// Leaving fields out costs a copy of the others on the host, and saves copying what is left out into the guest. A few
/// records tell whether that is the larger part.
fn is_worth_leaving_out(view: &BatchView<'_>, reads: Fields) -> bool {
    if reads == Fields::ALL || view.is_empty() {
        return false;
    }
    let heap = view.as_bytes().len() - BATCH_HEADER - view.len() * ENTRY;
    let step = (view.len() / LOOK_AT).max(1);
    let (mut looked, mut kept) = (0, 0);
    for index in (0..view.len()).step_by(step) {
        let Some(record) = view.get(index) else { break };
        let size = |field: Fields, bytes: Option<&[u8]>| match bytes {
            Some(bytes) if reads.contains(field) => bytes.len(),
            _ => 0,
        };
        looked += 1;
        kept += ENTRY
            + size(Fields::KEY, record.key())
            + size(Fields::VALUE, record.value())
            + size(Fields::HEADERS, Some(record.headers().as_bytes()))
            + size(Fields::ATTRIBUTES, Some(record.attributes().as_bytes()));
    }
    heap > 2 * (kept / looked) * view.len()
}
