//! Records that come again to their operator, and those held behind them.

use std::time::{Duration, Instant};

use tidegate_record::{Batch, BatchBuilder};

use super::{Task, Work};
use crate::entry::{Lane, State};
use crate::error::FlowError;
use crate::output::Output;
use crate::plan::Order;
use crate::waiting::{Waiting, lane};

/// The longest an operator may put a record off: its key, and in the end its partition, waits for it.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(600);

/// How long a record waits that its operator wants to see again after so many milliseconds.
fn retry_delay(milliseconds: u32) -> Duration {
    Duration::from_millis(u64::from(milliseconds)).min(MAX_RETRY_DELAY)
}

impl Task {
    /// Takes out records whose lane waits for a retry: they must not overtake it.
    pub(super) fn hold_back(
        &mut self,
        stage: usize,
        batch: Batch,
        arrived: Instant,
        numbers: &mut impl FnMut() -> u64,
    ) -> Result<Batch, FlowError> {
        if self.waiting[stage].is_empty() {
            return Ok(batch);
        }
        let mut free = BatchBuilder::default();
        for record in batch.view().records() {
            let number = numbers();
            let lane = lane(Order::Key, &record, number);
            if self.waiting[stage].blocks(lane) {
                let entry = self.entry(stage, &record, arrived, lane)?;
                self.waiting[stage].add(number, entry);
            } else {
                free.push_record(&record)
                    .map_err(|full| self.too_large(stage, &full))?;
            }
        }
        Ok(free.finish(batch.view().clock()))
    }

    /// Keeps records that must come again.
    pub(super) fn keep(
        &mut self,
        stage: usize,
        batch: &Batch,
        again: Vec<(usize, Option<u32>)>,
        arrived: Instant,
        numbers: &mut impl FnMut() -> u64,
    ) -> Result<(), FlowError> {
        for (index, delay) in again {
            let Some(record) = batch.view().get(index) else {
                continue;
            };
            let number = numbers();
            let mut entry =
                self.entry(stage, &record, arrived, lane(Order::Key, &record, number))?;
            if let Some(delay) = delay {
                entry.attempt = 1;
                entry.state = State::Delayed(Instant::now() + retry_delay(delay));
            }
            self.waiting[stage].add(number, entry);
        }
        Ok(())
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let entries = self.waiting.iter().flat_map(Waiting::iter);
        entries
            .filter_map(|(_, entry)| match entry.state {
                State::Delayed(due) => Some(due),
                _ => None,
            })
            .min()
    }

    /// Sends records to their operator again whose time has come, with those that were held behind them.
    pub(crate) fn on_time(
        &mut self,
        now: Instant,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<bool, FlowError> {
        let mut any = false;
        for stage in 0..self.waiting.len() {
            let due: Vec<Lane> = self.waiting[stage]
                .iter()
                .filter(|(_, entry)| matches!(entry.state, State::Delayed(at) if at <= now))
                .map(|(_, entry)| entry.lane)
                .collect();
            for lane in due {
                any = true;
                self.retry(stage, lane, numbers, output)?;
            }
        }
        Ok(any)
    }

    /// Runs the front of a lane again, then those held behind it until one must come again itself.
    fn retry(
        &mut self,
        stage: usize,
        lane: Lane,
        numbers: &mut impl FnMut() -> u64,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        while let Some((number, entry)) = self.waiting[stage].front(lane) {
            if matches!(entry.state, State::Delayed(at) if at > Instant::now()) {
                return Ok(());
            }
            let (record, arrived, attempt) =
                (entry.record.clone(), entry.arrived, entry.attempt + 1);
            let mut work = Work::new();
            let again = self.operate(stage, &record, attempt, &mut work, output)?;
            self.run(work, arrived, numbers, output)?;
            if let Some((_, delay)) = again.first() {
                if let Some(entry) = self.waiting[stage].change(number) {
                    let delay = retry_delay(delay.unwrap_or(0));
                    entry.attempt = attempt;
                    entry.state = State::Delayed(Instant::now() + delay);
                }
                return Ok(());
            }
            self.waiting[stage].remove(number);
            output.finished.push((arrived, 1));
        }
        Ok(())
    }
}
