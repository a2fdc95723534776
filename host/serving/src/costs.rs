//! What a step costs, learnt from the steps there were: the one description that everything here asks.
//!
//! `seconds = rows(rows) + drawn * (rows of answers) + seen * positions`. Rows cost in steps ([`curve`]); that tokens are
//! drawn, and what rows see, costs by their number ([`trend`]). The scheduler asks how many rows of prompts have room
//! beside answers, how long a request still takes, whether it can be in time at all, and how many guesses are worth it.
//!
//! How much of a step may be one submission on a device is another question, which the device's own room answers: of parts
//! of a step, before any was measured, in multiply-adds that are not known here. Its answer has the same shape, rows by
//! their class and attention by positions.

mod curve;
mod size;
mod trend;

use std::time::Duration;

use tidegate_contract::BLOCK;

use crate::order::Moment;
use crate::remaining::Remaining;
use curve::Curve;
pub(crate) use size::StepSize;
use trend::Trend;

/// Steps after which the measurement is believed.
const ENOUGH: u32 = 8;
/// Steps with prompt tokens after which the least time of others is believed: the first of a shape compiles kernels.
const ENOUGH_PREFILL: u32 = 4;
/// How long after a step its time says anything about the next.
const FRESH: Duration = Duration::from_secs(1);
/// Share of the newest step in how far steps stayed below what was expected, where they come nearer to it again.
const NEARER: f64 = 0.125;
/// A step that took this many times what was expected counts as this many times: the first use of a kernel, or a
/// machine that slept, is no measure; a lasting change is learnt all the same.
const OUTLIER: f64 = 4.0;
/// By what share a step may be longer that has to be longer than was wanted anyway.
const NO_LONGER: f64 = 1.0 / 256.0;

/// What runs while a request is worked on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// The answers in the making.
    pub(crate) answers: StepSize,
    /// Rows of prompts that a step takes.
    pub(crate) rows_per_step: usize,
}

/// What steps cost.
#[derive(Debug, Default)]
pub(crate) struct StepCosts {
    steps: u32,
    steps_with_prefill: u32,
    /// The last of the steps with the most rows so far.
    largest: StepSize,
    /// When the last of them ended: without prompt tokens, and with.
    measured: [Moment; 2],
    /// By what share steps have lately stayed below what was expected at most: without prompt tokens, and with.
    below: [f64; 2],
    trend: Trend,
    curve: Curve,
}

impl StepCosts {
    /// Learns from a step that ended now.
    pub(crate) fn observe(&mut self, size: StepSize, took: Duration, now: Moment) {
        let mut seconds = took.as_secs_f64();
        let expected = self.seconds(size);
        let has_prefill = size.prefill > 0;
        if self.steps > 0 && expected > 0.0 {
            let now_below = (1.0 - seconds / expected).max(0.0);
            let below = &mut self.below[usize::from(has_prefill)];
            *below = now_below.max(*below + NEARER * (now_below - *below));
            if self.steps >= ENOUGH {
                seconds = seconds.min(self.at_most(size, expected) * OUTLIER);
            }
        }
        self.measured[usize::from(has_prefill)] = now;
        if size.rows() >= self.largest.rows() {
            self.largest = size;
        }
        self.steps = self.steps.saturating_add(1);
        let with_prefill = self.steps_with_prefill;
        self.steps_with_prefill = with_prefill.saturating_add(u32::from(has_prefill));
        self.trend.learn(size, seconds);
        // The first steps, which may compile kernels, say something on the whole, and nothing of their size.
        match self.steps > ENOUGH {
            true => self.curve.learn(size, seconds, &self.trend),
            false => self.curve.follow(&self.trend),
        }
    }

    /// Learns from a step that took no longer than this: what nobody knows better, and what is less than was expected.
    pub(crate) fn observe_at_most(&mut self, size: StepSize, took: Duration, now: Moment) {
        if self.steps < ENOUGH || took.as_secs_f64() < self.seconds(size) {
            self.observe(size, took, now);
        }
    }

    /// What a step would take; `None` until enough were measured. Where the steps so far cannot tell the parts apart
    /// it is too low rather than too high.
    pub(crate) fn predict(&self, size: StepSize) -> Option<Duration> {
        if self.steps < ENOUGH {
            return None;
        }
        Duration::try_from_secs_f64(self.seconds(size)).ok()
    }

    /// As [`StepCosts::predict`], but from the first step that was measured on: for what is as well decided otherwise if it is wrong.
    pub(crate) fn guess(&self, size: StepSize) -> Option<Duration> {
        if self.steps == 0 {
            return None;
        }
        Duration::try_from_secs_f64(self.seconds(size)).ok()
    }

    /// As [`StepCosts::predict`], but hopeful of row counts that were not measured: up to twice as many rows as were may
    /// take no longer. So they are tried, and known from then on.
    pub(crate) fn hope(&self, size: StepSize) -> Option<Duration> {
        let predicted = self.predict(size)?;
        let Some((fewer, seconds)) = self.curve.next_fewer(size.rows()) else {
            return Some(predicted);
        };
        let of_fewer = StepSize {
            decode: size.decode.min(fewer),
            ..size
        };
        let seconds = (seconds + self.beside_rows(of_fewer)).max(0.0);
        let hoped = Duration::try_from_secs_f64(seconds).ok()?;
        Some(hoped.min(predicted))
    }

    /// What a step would take at the least, for decisions that nothing corrects later: as much below what is expected
    /// as steps of its kind have been. `None` until enough were measured, and again when the last is a while ago: who
    /// is then let through measures anew, so that a time when all was slow is not held against anybody for ever.
    pub(crate) fn least(&self, size: StepSize, now: Moment) -> Option<Duration> {
        let has_prefill = size.prefill > 0;
        let unknown = has_prefill && self.steps_with_prefill < ENOUGH_PREFILL;
        // Of its own kind: answers that go on measure nothing of prompts.
        let measured = self.measured[usize::from(has_prefill)];
        if unknown || now.saturating_sub(measured) > FRESH {
            return None;
        }
        let below = self.below[usize::from(size.prefill > 0)];
        Some(self.predict(size)?.mul_f64(1.0 - below))
    }

    /// Rows of prompts, of `most`, that a step with these answers can have within `limit`; the first prompt goes on at
    /// `position`. `None` if it is not known.
    ///
    /// A block's worth of rows goes in any case, and with it all that take no longer than that: where a tile is paid for
    /// it is filled. What was never measured is tried where the steps next to it say that it may cost nothing more, and
    /// for no more than twice the rows that were measured. Such a step can be run as two of those, so it takes at most twice
    /// the time of a step that kept to the limit, and is known from then on.
    pub(crate) fn prefill_within(
        &self,
        answers: StepSize,
        position: usize,
        limit: Duration,
        most: usize,
    ) -> Option<usize> {
        if self.steps < ENOUGH || self.steps_with_prefill == 0 {
            return None;
        }
        let with = |rows: usize| answers.with_prompt(rows, position);
        let block = self.seconds(with(BLOCK));
        let limit = limit.as_secs_f64().max(block * (1.0 + NO_LONGER));
        let measured = (2 * self.largest.rows()).saturating_sub(answers.rows());
        let most = most.min(measured.max(BLOCK));
        let (mut fits, mut too_many) = (BLOCK.min(most), most + 1);
        while too_many - fits > 1 {
            let rows = fits.midpoint(too_many);
            match self.seconds(with(rows)) <= limit {
                true => fits = rows,
                false => too_many = rows,
            }
        }
        let Some((rows, flat)) = self.curve.flat_beyond(answers.rows() + fits) else {
            return Some(fits);
        };
        let rows = rows.saturating_sub(answers.rows()).min(most);
        let size = with(rows);
        let seconds = flat + self.beside_rows(size);
        Some(match seconds <= limit {
            true => fits.max(rows),
            false => fits,
        })
    }

    /// How long a request takes: the steps of its prompt, the last of which draws the first token, and a step for each
    /// further one. Zero before enough was measured.
    pub(crate) fn time_for(&self, remaining: Remaining, beside: Beside) -> Duration {
        if self.steps < ENOUGH {
            return Duration::ZERO;
        }
        let per_step = beside.rows_per_step.max(1);
        let (whole, rest) = (remaining.rows / per_step, remaining.rows % per_step);
        let with = |prefill| StepSize {
            prefill,
            ..beside.answers
        };
        let mut seconds = whole as f64 * self.seconds(with(per_step));
        if rest > 0 {
            seconds += self.seconds(with(rest));
        }
        let own = StepSize::prompt(remaining.rows, 0).positions as f64;
        seconds += self.trend.beside_rows(0.0, own);
        seconds += remaining.tokens.saturating_sub(1) as f64 * self.seconds(beside.answers);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// What steps, prompt tokens and decode rows cost on the whole; all zero until enough were measured.
    pub(crate) fn parts(&self) -> [Duration; 3] {
        // The first of them compile kernels: whom requests go to is not decided by that.
        if self.steps < ENOUGH {
            return [Duration::ZERO; 3];
        }
        let part = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        [
            part(self.trend.of_step()),
            part(self.trend.of_row()),
            part(self.trend.of_answer()),
        ]
    }

    /// What is expected of a step at most. Nothing near it was measured where it is more than twice the rows that were: then it may
    /// be anything up to what as many such steps take as have its rows.
    fn at_most(&self, size: StepSize, expected: f64) -> f64 {
        let most = self.largest.rows();
        if size.rows() <= 2 * most {
            return expected;
        }
        let times = size.rows() as f64 / most.max(1) as f64;
        let seen = StepSize { decode: 0, ..size };
        expected.max(self.seconds(self.largest) * times + self.beside_rows(seen))
    }

    fn beside_rows(&self, size: StepSize) -> f64 {
        let (decode, positions) = (size.decode as f64, size.positions as f64);
        self.trend.beside_rows(decode, positions)
    }

    fn seconds(&self, size: StepSize) -> f64 {
        (self.curve.seconds(size.rows()) + self.beside_rows(size)).max(0.0)
    }
}

#[cfg(test)]
mod tests;
