//! Records that come again to their operator, and those held behind them.

use std::time::{Duration, Instant};

use tidegate_record::{Batch, BatchBuilder};
use tidegate_telemetry::events::RecordTakenAgain;

use super::operate::{Again, Go};
use super::{Task, clock};
use crate::entry::{Entry, Lane, State};
use crate::error::FlowError;
use crate::output::Output;
use crate::topology::{Order, StageKind};
use crate::versions::Versions;
use crate::waiting::lane;

/// The longest an operator may put a record off: its key, and in the end its partition, waits for it.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(600);

/// After so long no further record is tried again before the worker has looked at everything else.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// The record of an entry in a batch of now: an operator that waits for a time sees it come.
fn at_now(entry: &Entry) -> Batch {
    let mut builder = BatchBuilder::default();
    for record in entry.record.view().records() {
        if builder.push_record(&record).is_err() {
            return entry.record.clone();
        }
    }
    builder.finish(clock())
}

/// How long a record waits that its operator wants to see again after so many milliseconds.
fn retry_delay(milliseconds: u32) -> Duration {
    Duration::from_millis(u64::from(milliseconds)).min(MAX_RETRY_DELAY)
}

impl Task {
    /// Takes out records whose lane waits for a retry: they must not overtake it. Returns the others, or none if there
    /// is nothing to take out.
    pub(super) fn hold_back(
        &mut self,
        stage: usize,
        (batch, versions): (&Batch, &Versions),
        arrived: Instant,
        output: &mut Output,
    ) -> Result<Option<Batch>, FlowError> {
        if self.waiting[stage].is_empty() {
            return Ok(None);
        }
        let mut free = BatchBuilder::default();
        for record in batch.view().records() {
            let number = self.number();
            let lane = lane(Order::Key, &record, number);
            let kept = if self.waiting[stage].blocks(lane) {
                self.entry(stage, (&record, versions), arrived, lane)
                    .map(|entry| self.waiting[stage].add(number, entry))
            } else {
                free.push_record(&record)
            };
            if let Err(full) = kept {
                self.bury(stage, &record, &full.to_string(), 1, output)?;
            }
        }
        Ok(Some(free.finish(batch.view().clock())))
    }

    /// Keeps records that must come again.
    pub(super) fn keep(
        &mut self,
        stage: usize,
        (batch, versions): (&Batch, &Versions),
        again: Vec<(usize, Again)>,
        arrived: Instant,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        for (index, again) in again {
            let Some(record) = batch.view().get(index) else {
                continue;
            };
            if self.is_gone(&record) {
                self.drop_gone(Some(stage), record.id(), output);
                continue;
            }
            let number = self.number();
            let lane = lane(Order::Key, &record, number);
            match self.entry(stage, (&record, versions), arrived, lane) {
                Ok(mut entry) => {
                    if let Again::After(delay) = again {
                        entry.attempt = 1;
                        entry.state = State::Delayed(Instant::now() + retry_delay(delay));
                    }
                    self.waiting[stage].add(number, entry);
                }
                Err(full) => self.bury(stage, &record, &full.to_string(), 1, output)?,
            }
        }
        Ok(())
    }

    /// When the next retry is due that can go unless a cut comes first, of a record or of a stage.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let stages = 0..self.waiting.len();
        let now = Instant::now();
        let of_stage = |stage: usize| {
            if matches!(self.topology.stages[stage].kind, StageKind::Model(_)) {
                return self.waiting[stage].next_delayed();
            }
            if self.is_held_here(stage) {
                return None;
            }
            if self.unavailable[stage] {
                return Some(self.starts.until(stage).unwrap_or(now));
            }
            self.waiting[stage].next_due()
        };
        stages.filter_map(of_stage).min()
    }

    /// Sends records to their operator again whose time has come, with those that were held behind them. Each may take
    /// its operator's whole deadline, so that after a while those that are left wait until cuts and controls were
    /// looked at.
    pub(crate) fn on_time(&mut self, now: Instant, output: &mut Output) -> Result<bool, FlowError> {
        let mut any = false;
        let topology = self.topology.clone();
        for (stage, described) in topology.stages.iter().enumerate() {
            if matches!(described.kind, StageKind::Model(_)) {
                any |= self.waiting[stage].queue_delayed(now);
                continue;
            }
            if self.must_wait(stage, now) {
                continue;
            }
            if self.to_start[stage] || self.unavailable[stage] {
                if any && now.elapsed() >= LONGEST_TURN {
                    return Ok(true);
                }
                any |= !self.is_started(stage);
                if !self.retry_start(stage, &output.meters) {
                    continue;
                }
            }
            let due = self.waiting[stage].due(now);
            for lane in due {
                if self.is_held(stage, output) {
                    break;
                }
                if any && now.elapsed() >= LONGEST_TURN {
                    return Ok(true);
                }
                any = true;
                self.retrying = Some(stage);
                let retried = self.retry(stage, lane, output);
                self.retrying = None;
                retried?;
                if self.must_wait(stage, Instant::now()) {
                    break;
                }
            }
        }
        Ok(any)
    }

    /// Runs the front of a lane again, then those held behind it until one must come again itself or the turn is over.
    fn retry(&mut self, stage: usize, lane: Lane, output: &mut Output) -> Result<(), FlowError> {
        let turn = Instant::now();
        while let Some((number, entry)) = self.waiting[stage].front(lane) {
            let waits = matches!(entry.state, State::Delayed(at) if at > Instant::now());
            if waits || self.is_held(stage, output) {
                return Ok(());
            }
            let (record, since, attempt) = (at_now(entry), entry.arrived, entry.attempt + 1);
            let came = entry.versions.clone();
            let began = Instant::now();
            let Some(mut answered) = self.ask_operator(stage, (&record, &came), attempt, output)
            else {
                self.wait_for_instance(stage, number);
                return Ok(());
            };
            let go = Go {
                stage,
                batch: &record,
                from: 0,
                attempt,
                again: true,
                rest: false,
                since,
                began,
            };
            if attempt > 1 {
                RecordTakenAgain { stage }.emit(&output.meters);
            }
            let (_, again) = self.take_answer(&go, &mut answered, output)?;
            match again.first() {
                Some((_, again)) => {
                    let delay = match again {
                        Again::After(delay) => retry_delay(*delay),
                        _ => Duration::ZERO,
                    };
                    self.waiting[stage].change(number, |entry| {
                        entry.attempt = attempt;
                        entry.state = State::Delayed(Instant::now() + delay);
                    });
                }
                None => {
                    self.waiting[stage].remove(number);
                    output.finished.push((since, 1));
                }
            }
            self.advance(output)?;
            if turn.elapsed() >= LONGEST_TURN {
                // The lane goes on with its next turn.
                if let Some((next, entry)) = self.waiting[stage].front(lane)
                    && matches!(entry.state, State::Queued)
                {
                    self.delay_until_now(stage, next);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// A record was not seen by its operator, which was no attempt. One that was behind another comes by itself when the
    /// stage answers again.
    fn wait_for_instance(&mut self, stage: usize, number: u64) {
        let waits = |entry: &Entry| matches!(entry.state, State::Delayed(_));
        if !self.waiting[stage].get(number).is_some_and(waits) {
            self.delay_until_now(stage, number);
        }
    }

    fn delay_until_now(&mut self, stage: usize, number: u64) {
        self.waiting[stage].change(number, |entry| {
            entry.state = State::Delayed(Instant::now());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_of_a_retry_is_bounded() {
        assert_eq!(retry_delay(250), Duration::from_millis(250));
        assert_eq!(retry_delay(u32::MAX), MAX_RETRY_DELAY);
    }
}
