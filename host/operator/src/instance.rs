//! A task's instance of an operator: the call for a batch, and what happens when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tidegate_contract::{
    DeadLetterCause, Loss, Operator, OperatorError, OperatorVersion, Processed,
};
use tidegate_record::{Batch, BatchBuilder, BatchView, RecordId};

use crate::call_size::CallSize;
use crate::failure::{Class, Failure};
use crate::guest::Answered;
use crate::revision::Revision;
use crate::spares::{Spares, Started};

/// After so long no further call is made for a batch: its task's worker looks after everything else first.
const TURN: Duration = Duration::from_millis(100);

pub(crate) struct Instance {
    revision: Arc<Revision>,
    /// None after a failure, until the next call takes another one.
    started: Option<Started>,
    /// Why the last start failed, if nobody has been told.
    no_start: Option<OperatorError>,
    /// Time in the guest of the last call.
    time: Duration,
    /// Whether the guest has answered nothing yet.
    is_fresh: bool,
    answered: u64,
    call_size: CallSize,
    /// What is left of the last batch.
    unfinished: Option<Unfinished>,
    /// Since they were last taken.
    losses: Vec<Loss>,
    /// Held while a task has it.
    pub(crate) live: Option<Live>,
}

/// How far a batch is, of which the rest comes again.
struct Unfinished {
    /// Its first record and how many there are, by which it is known when it comes.
    next: Option<RecordId>,
    records: usize,
    /// Records of the whole batch that are done.
    before: usize,
    /// Pieces to be tried, the first at the end: places in the rest and numbers of records.
    open: Vec<(usize, usize)>,
    /// How long it has taken since a call failed; none while all were answered.
    failing: Option<Duration>,
    /// Whether the breaker has counted the search that is under way, which has found nothing so far.
    counted: bool,
}

impl Unfinished {
    fn new(batch: &Batch) -> Unfinished {
        Unfinished {
            next: first_of(batch, 0),
            records: batch.len(),
            before: 0,
            open: vec![(0, batch.len())],
            failing: None,
            counted: false,
        }
    }

    /// An instance was lost to a call: a search begins, goes on or, with a verdict, has found its record. Returns
    /// whether that is one more for the breaker, which counts a search once however many instances it takes.
    fn count_search(&mut self, is_verdict: bool) -> bool {
        !std::mem::replace(&mut self.counted, !is_verdict)
    }

    fn is(&self, batch: &Batch) -> bool {
        self.records == batch.len() && self.next == first_of(batch, 0)
    }

    /// What is left when so many more records are done.
    fn rest(mut self, batch: &Batch, done: usize) -> Unfinished {
        self.next = first_of(batch, done);
        self.records -= done;
        self.before += done;
        for (first, _) in &mut self.open {
            *first -= done;
        }
        self
    }
}

fn first_of(batch: &Batch, at: usize) -> Option<RecordId> {
    batch.view().get(at).map(|record| record.id())
}

/// Counts an instance that a task has, until it is dropped.
pub(crate) struct Live(Arc<AtomicUsize>);

impl Live {
    pub(crate) fn count(live: &Arc<AtomicUsize>) -> Live {
        live.fetch_add(1, Ordering::Relaxed);
        Live(Arc::clone(live))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The records of the stream.
    Stream,
    /// Recorded ones, before a version is switched to.
    Trial,
}

impl Instance {
    pub(crate) fn new(revision: Arc<Revision>) -> Result<Instance, OperatorError> {
        let started = Started::new(&revision)?;
        Ok(Instance {
            revision,
            started: Some(started),
            no_start: None,
            time: Duration::ZERO,
            is_fresh: true,
            answered: 0,
            call_size: CallSize::new(),
            unfinished: None,
            losses: Vec::new(),
            live: None,
        })
    }

    pub(crate) fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    /// What there is to call: the guest, or another where it was lost.
    fn started(&mut self) -> Result<&mut Started, OperatorError> {
        if let Some(why) = self.revision.tally.tripped() {
            return Err(OperatorError::Tripped {
                component: self.revision.component.label().to_owned(),
                why: why.to_owned(),
            });
        }
        match &mut self.started {
            Some(started) => Ok(started),
            none => {
                self.is_fresh = true;
                Ok(none.insert(Spares::restart(&self.revision)?))
            }
        }
    }

    /// One call. The inner error has cost the instance, unless the guest said it in words.
    fn call(&mut self, batch: &Batch) -> Result<Result<Answered, Failure>, OperatorError> {
        self.started()?;
        let (revision, Some(started)) = (&self.revision, &mut self.started) else {
            return Err(OperatorError::Engine("no instance after its start".into()));
        };
        let Started { guest, held } = started;
        let began = Instant::now();
        let view = batch.view();
        let called = guest.process(revision, view, mark(&view));
        self.time = began.elapsed();
        held.set(guest.memory());
        match &called {
            Ok(_) => self.is_fresh = false,
            Err(failure) if failure.class.is_some() => self.is_fresh = false,
            Err(_) => self.started = None,
        }
        Ok(called)
    }

    /// One call for the stream: what it counts, counts. One for a trial leaves no trace but the size of calls.
    fn answer(
        &mut self,
        batch: &Batch,
        purpose: Purpose,
    ) -> Result<Result<Answered, Failure>, OperatorError> {
        let answer = self.call(batch)?;
        if purpose == Purpose::Trial {
            if answer.is_ok() {
                self.call_size.on_answer(batch.len());
            }
            return Ok(answer);
        }
        let meters = &self.revision.meters;
        meters.on_call(self.time);
        match (&mut self.started, &answer) {
            (Some(started), Ok(_)) => {
                started.guest.settle(&self.revision);
                meters.on_answer(started.guest.kinds());
                self.revision.context.samples.offer(self.answered, batch);
                self.answered += 1;
                self.call_size.on_answer(batch.len());
            }
            // Said in words, which costs no instance.
            (Some(_), Err(_)) => {}
            (None, Err(failure)) => {
                meters.on_lost();
                self.losses.push(Loss {
                    records: batch.len(),
                    reason: failure.reason.clone(),
                });
            }
            (None, Ok(_)) => {}
        }
        Ok(answer)
    }

    /// Whether the operator answers this batch, in as many calls as it takes in the stream, beside the stream and
    /// without a trace of it in the counters. The inner error is why a record that was tried alone failed.
    pub(crate) fn try_out(&mut self, batch: &Batch) -> Result<Result<(), String>, OperatorError> {
        let mut done = Vec::new();
        let mut left = Unfinished::new(batch);
        self.answer_all(batch, &mut left, &mut done, Purpose::Trial)?;
        self.call_size.settle();
        let failed = done.into_iter().find_map(|done| match done {
            Processed::Poison(cause) => Some(cause),
            _ => None,
        });
        Ok(match failed {
            None => Ok(()),
            Some(cause) => Err(match cause.backtrace {
                None => cause.reason,
                Some(backtrace) => format!("{}\n{backtrace}", cause.reason),
            }),
        })
    }

    /// Answers for the records in as many calls as it takes: what takes too long is given in smaller pieces, what fails
    /// otherwise is halved, until it is answered or a single record. A single record that fails otherwise than by being
    /// late is poison only if an instance fails of it that has answered nothing before: what an instance remembers is
    /// no record's fault. Each call has the whole deadline. Appends to `done`, also before an error. What is not done
    /// when the turn is over stays open.
    fn answer_all(
        &mut self,
        batch: &Batch,
        left: &mut Unfinished,
        done: &mut Vec<Processed>,
        purpose: Purpose,
    ) -> Result<(), OperatorError> {
        let total = batch.len();
        let turn = Instant::now();
        let spent = left.failing;
        let mut failing = spent.map(|_| turn);
        let mut called = false;
        while let Some((first, mut count)) = left.open.pop() {
            // A trial holds nobody up: its few records are tried until one of them fails.
            if called && purpose == Purpose::Stream && turn.elapsed() >= TURN {
                left.open.push((first, count));
                break;
            }
            called = true;
            let searched = failing.map(|since| since.elapsed() + spent.unwrap_or_default());
            let size = match searched {
                Some(searched) if searched >= self.revision.context.limits.bisect => 1,
                _ => self.call_size.size(),
            };
            if count > size {
                left.open.push((first + size, count - size));
                count = size;
            }
            let is_fresh = self.started.is_none() || self.is_fresh;
            let answer = if count == total {
                self.answer(batch, purpose)
            } else {
                part(batch, first, count).and_then(|part| self.answer(&part, purpose))
            };
            let failure = match answer {
                Ok(Ok(Answered { outcomes, effects })) => {
                    done.push(Processed::Answer {
                        first,
                        count,
                        outcomes,
                        effects,
                    });
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(error) => {
                    left.open.push((first, count));
                    return Err(error);
                }
            };
            let waits = matches!(
                failure.class,
                Some(Class::Transient | Class::BadConfiguration)
            );
            if waits || failure.is_crowded {
                // Not these records' fault: all that is left waits.
                left.open.push((first, count));
                return Err(OperatorError::Failed {
                    component: self.revision.component.label().to_owned(),
                    why: failure.reason,
                });
            }
            // Several records that are late together only show how large a call may be.
            let is_loss = failure.class.is_none() && (count == 1 || !failure.is_late);
            let is_verdict = count == 1 && (failure.is_late || is_fresh);
            if is_loss && purpose == Purpose::Stream && left.count_search(is_verdict) {
                self.revision.tally.on_lost();
            }
            if self.revision.tally.tripped().is_some() {
                // Whatever it was in: the slot does not ask this revision any more, so the records wait for another.
                left.open.push((first, count));
                self.started()?;
            }
            failing.get_or_insert_with(Instant::now);
            // Its index in the batch as it came first.
            let index = left.before + first;
            match (count, failure.is_late) {
                // What it says in words it says of its records, and means it.
                (1, false) if !is_fresh && failure.class.is_none() => {
                    left.open.push((first, 1));
                    // In the same turn: a record alone is never left untried.
                    called = false;
                }
                (1, is_late) => {
                    if is_late {
                        self.call_size.on_late_alone(index);
                    }
                    done.push(poison(first, failure));
                    if purpose == Purpose::Trial {
                        return Ok(());
                    }
                    self.revision.meters.on_failed();
                    self.revision.tally.on_failed();
                }
                (_, true) => {
                    self.call_size.on_late(index..index + count);
                    left.open.push((first, count));
                }
                (_, false) => {
                    let half = count / 2;
                    left.open.push((first + half, count - half));
                    left.open.push((first, half));
                }
            }
        }
        left.failing = failing.map(|since| since.elapsed() + spent.unwrap_or_default());
        Ok(())
    }
}

impl Operator for Instance {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let total = batch.len();
        let mut done = Vec::new();
        if total == 0 {
            return Ok(done);
        }
        self.no_start = None;
        let own = self.unfinished.take_if(|left| left.is(batch));
        // A record that comes again between two turns of a batch: what is known of that batch, and of how large its
        // calls may be, stays as it is.
        let beside = (total == 1 && self.unfinished.is_some()).then(|| self.call_size.clone());
        let mut left = own.unwrap_or_else(|| {
            // Another batch in its place: the rest of the one before comes no more.
            if beside.is_none() && self.unfinished.take().is_some() {
                self.call_size.settle();
            }
            Unfinished::new(batch)
        });
        let result = self.answer_all(batch, &mut left, &mut done, Purpose::Stream);
        if let Some(call_size) = beside {
            self.call_size = call_size;
            // A batch of one is answered, or could not be.
            return result.map(|()| done);
        }
        let first = done.last().map_or(0, |done| match done {
            Processed::Answer { first, count, .. } | Processed::Untried { first, count } => {
                first + count
            }
            Processed::Poison(cause) => cause.record + 1,
        });
        if first == total {
            self.call_size.settle();
            return Ok(done);
        }
        self.unfinished = Some(left.rest(batch, first));
        // What has been answered before an instance could not be made again stays answered; the others come again, and
        // whoever gives them is told first.
        match result {
            Err(error) if first == 0 => return Err(error),
            Err(error) => self.no_start = Some(error),
            Ok(()) => {}
        }
        done.push(Processed::Untried {
            first,
            count: total - first,
        });
        Ok(done)
    }

    fn is_started(&self) -> bool {
        self.started.is_some() && self.no_start.is_none() && self.revision.tally.tripped().is_none()
    }

    fn start(&mut self) -> Result<(), OperatorError> {
        match self.no_start.take() {
            Some(error) => Err(error),
            None => self.started().map(drop),
        }
    }

    fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.revision.description.version
    }
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

/// A number that belongs to a batch, by all of the identity of its first record: the same when it comes again.
fn mark(view: &BatchView<'_>) -> u64 {
    view.get(0).map_or(0, |record| mark_of(record.id()))
}

fn mark_of(id: RecordId) -> u64 {
    let hash = Sha256::new()
        .chain_update([id.origin as u8])
        .chain_update(id.source.to_le_bytes())
        .chain_update(id.partition.to_le_bytes())
        .chain_update(id.offset.to_le_bytes())
        .chain_update(id.emit.to_le_bytes())
        .finalize();
    hash.first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
pub(crate) mod tests;
