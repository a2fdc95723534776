//! What a step costs, learnt from the steps there were.

use std::time::Duration;

use crate::order::Moment;
use crate::step_rate::StepRate;

/// Steps after which the measurement is believed.
const ENOUGH: u32 = 8;
/// Steps with prompt tokens after which the least time of others is believed: the first of a shape compiles kernels.
const ENOUGH_PREFILL: u32 = 4;
/// How long after a step its time says anything about the next.
const FRESH: Duration = Duration::from_secs(1);
/// Share of the newest step in how far steps stayed below what was expected, where they come nearer to it again.
const NEARER: f64 = 0.125;
/// Share of the newest step in the averages.
const NEWEST: f64 = 1.0 / 32.0;
/// A step that took this many times what was expected counts as this many times: the first use of a kernel, or a
/// machine that slept, is no measure; a lasting change is learnt all the same.
const OUTLIER: f64 = 4.0;
/// Prompt tokens of a unit, so that the numbers of the equations are alike in size.
const UNIT: f64 = 16.0;
/// Added to the equations' diagonal: what was never varied is shared out, never blown up.
const RIDGE: f64 = 1e-6;

/// `fixed + prefill tokens * per_prefill + decode rows * per_decode`: least squares over exponentially averaged moments.
#[derive(Debug, Default)]
pub(crate) struct StepCosts {
    steps: u32,
    steps_with_prefill: u32,
    /// When the last of them ended.
    measured: Moment,
    /// By what share steps have lately stayed below what was expected at most: without prompt tokens, and with.
    below: [f64; 2],
    /// Averages of the products of (1, prefill units, decode rows) with each other.
    moments: [[f64; 3]; 3],
    /// And with the seconds of the step.
    products: [f64; 3],
    /// Seconds for each of the three; none is negative.
    seconds: [f64; 3],
}

impl StepCosts {
    /// Learns from a step that ended now.
    pub(crate) fn observe(&mut self, prefill: usize, decode: usize, took: Duration, now: Moment) {
        let mut seconds = took.as_secs_f64();
        let expected = self.seconds_for(prefill, decode);
        if self.steps > 0 && expected > 0.0 {
            let now_below = (1.0 - seconds / expected).max(0.0);
            let below = &mut self.below[usize::from(prefill > 0)];
            *below = now_below.max(*below + NEARER * (now_below - *below));
            if self.steps >= ENOUGH {
                seconds = seconds.min(expected * OUTLIER);
            }
        }
        self.measured = now;
        self.steps = self.steps.saturating_add(1);
        self.steps_with_prefill = self
            .steps_with_prefill
            .saturating_add(u32::from(prefill > 0));
        // The first steps are averaged evenly.
        let share = NEWEST.max(1.0 / f64::from(self.steps));
        let counts = [1.0, prefill as f64 / UNIT, decode as f64];
        for (row, count) in counts.iter().enumerate() {
            for (column, other) in counts.iter().enumerate() {
                self.moments[row][column] += share * (count * other - self.moments[row][column]);
            }
            self.products[row] += share * (count * seconds - self.products[row]);
        }
        self.solve();
    }

    /// What a step would take; `None` until enough were measured. Where the steps so far cannot tell the parts apart
    /// it is too low rather than too high.
    pub(crate) fn predict(&self, prefill: usize, decode: usize) -> Option<Duration> {
        if self.steps < ENOUGH {
            return None;
        }
        Duration::try_from_secs_f64(self.seconds_for(prefill, decode)).ok()
    }

    /// What a step would take at the least, for decisions that nothing corrects later: as much below what is expected
    /// as steps of its kind have been. `None` until enough were measured, and again when the last is a while ago: who
    /// is then let through measures anew, so that a time when all was slow is not held against anybody for ever.
    pub(crate) fn least(&self, prefill: usize, decode: usize, now: Moment) -> Option<Duration> {
        let unknown = prefill > 0 && self.steps_with_prefill < ENOUGH_PREFILL;
        if unknown || now.saturating_sub(self.measured) > FRESH {
            return None;
        }
        let below = self.below[usize::from(prefill > 0)];
        Some(self.predict(prefill, decode)?.mul_f64(1.0 - below))
    }

    /// Prompt tokens that a step with `decode` rows can have within `limit`; `None` if it is not known.
    pub(crate) fn prefill_within(&self, decode: usize, limit: Duration) -> Option<usize> {
        if self.steps < ENOUGH || self.seconds[1] <= 0.0 {
            return None;
        }
        let left = limit.as_secs_f64() - self.seconds_for(0, decode);
        Some((left.max(0.0) / self.seconds[1] * UNIT) as usize)
    }

    /// How fast work goes beside `decode` answers in the making, `rows_per_step` rows of prompts at a time; the default
    /// rate, in which nothing takes any time, until enough steps were measured.
    pub(crate) fn step_rate(&self, decode: usize, rows_per_step: usize) -> StepRate {
        if self.steps < ENOUGH {
            return StepRate::default();
        }
        StepRate {
            step_seconds: self.seconds_for(0, decode),
            row_seconds: self.seconds[1] / UNIT,
            rows_per_step,
        }
    }

    /// The three parts: of a step, of a prompt token, of a decode row.
    pub(crate) fn parts(&self) -> [Duration; 3] {
        let part = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        [
            part(self.seconds[0]),
            part(self.seconds[1] / UNIT),
            part(self.seconds[2]),
        ]
    }

    fn seconds_for(&self, prefill: usize, decode: usize) -> f64 {
        self.seconds[0] + self.seconds[1] * prefill as f64 / UNIT + self.seconds[2] * decode as f64
    }

    /// Solves for the parts; one that would be negative is none, and the others are solved without it.
    fn solve(&mut self) {
        let mut used = [true; 3];
        for _ in 0..3 {
            let solution = self.least_squares(used);
            match (0..3).find(|part| solution[*part] < 0.0) {
                Some(part) => used[part] = false,
                None => {
                    self.seconds = solution;
                    return;
                }
            }
        }
    }

    /// Gauss-Jordan on the used rows and columns; the ridge keeps the matrix positive definite.
    fn least_squares(&self, used: [bool; 3]) -> [f64; 3] {
        let mut rows = [[0.0; 4]; 3];
        for (row, moments) in self.moments.iter().enumerate() {
            if !used[row] {
                rows[row][row] = 1.0;
                continue;
            }
            for column in 0..3 {
                if used[column] {
                    rows[row][column] = moments[column];
                }
            }
            rows[row][row] += RIDGE * (1.0 + moments[row]);
            rows[row][3] = self.products[row];
        }
        for pivot in 0..3 {
            let scale = rows[pivot][pivot];
            for value in &mut rows[pivot] {
                *value /= scale;
            }
            let pivot_row = rows[pivot];
            for (row, values) in rows.iter_mut().enumerate() {
                if row != pivot {
                    let factor = values[pivot];
                    for (value, other) in values.iter_mut().zip(pivot_row) {
                        *value -= factor * other;
                    }
                }
            }
        }
        [rows[0][3], rows[1][3], rows[2][3]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step_rate::Remaining;

    const NOW: Moment = Duration::ZERO;

    fn micros(fixed: u64, prefill: usize, decode: usize) -> Duration {
        Duration::from_micros(fixed + 40 * prefill as u64 + 300 * decode as u64)
    }

    fn close(found: Duration, wanted: Duration) {
        let (found, wanted) = (found.as_secs_f64(), wanted.as_secs_f64());
        assert!((found - wanted).abs() < 0.03 * wanted, "{found} {wanted}");
    }

    #[test]
    fn mixed_steps_tell_the_three_parts_apart() {
        let mut costs = StepCosts::default();
        for step in 0..60 {
            let (prefill, decode) = ((step * 37) % 256, 1 + step % 7);
            assert_eq!(costs.predict(1, 1).is_some(), step >= 8);
            assert_eq!(costs.step_rate(1, 64) != StepRate::default(), step >= 8);
            costs.observe(prefill, decode, micros(2000, prefill, decode), NOW);
        }
        close(costs.predict(512, 8).unwrap(), micros(2000, 512, 8));
        close(costs.predict(0, 1).unwrap(), micros(2000, 0, 1));
        // Two steps for the prompt, and nine more for the tokens after the first.
        let remaining = Remaining {
            rows: 100,
            tokens: 10,
        };
        let wanted = 11 * micros(2000, 0, 3) + Duration::from_micros(100 * 40);
        close(costs.step_rate(3, 64).time_for(remaining), wanted);
        let within = costs.prefill_within(4, micros(2000, 100, 4)).unwrap();
        assert!((97..=103).contains(&within), "{within}");
        assert_eq!(costs.prefill_within(4, Duration::ZERO), Some(0));
    }

    #[test]
    fn what_was_never_seen_costs_nothing_yet() {
        let mut costs = StepCosts::default();
        for _ in 0..20 {
            costs.observe(0, 1, micros(2000, 0, 1), NOW);
        }
        close(costs.predict(0, 1).unwrap(), micros(2000, 0, 1));
        assert!(costs.predict(1000, 1).unwrap() < micros(2100, 0, 1));
        assert_eq!(costs.prefill_within(1, Duration::from_secs(1)), None);
    }

    #[test]
    fn one_slow_step_is_no_measure_and_a_lasting_change_is() {
        let mut costs = StepCosts::default();
        for step in 0..60 {
            costs.observe(0, 1 + step % 4, micros(2000, 0, 1 + step % 4), NOW);
        }
        costs.observe(0, 2, Duration::from_secs(5), NOW);
        assert!(costs.predict(0, 2).unwrap() < Duration::from_millis(4));
        for step in 0..200 {
            costs.observe(0, 1 + step % 4, 10 * micros(2000, 0, 1 + step % 4), NOW);
        }
        close(costs.predict(0, 2).unwrap(), 10 * micros(2000, 0, 2));
    }

    #[test]
    fn no_part_is_negative() {
        let mut costs = StepCosts::default();
        for step in 0..50u64 {
            // The larger the batch the shorter the step: nonsense, but nothing may come out below zero.
            costs.observe(
                step as usize * 16,
                3,
                Duration::from_micros(5000 - step * 50),
                NOW,
            );
        }
        assert!(costs.predict(1 << 20, 0).unwrap() > Duration::ZERO);
        assert!(costs.parts().iter().all(|part| *part >= Duration::ZERO));
    }

    #[test]
    fn a_slow_first_step_and_a_slow_time_raise_no_least() {
        let mut costs = StepCosts::default();
        let quick = micros(2000, 64, 1);
        for step in 0..12 {
            let took = if step == 0 { 1000 * quick } else { quick };
            costs.observe(64, 1, took, NOW);
            let least = costs.least(64, 1, NOW);
            assert!(least.is_none_or(|least| least <= quick), "{step} {least:?}");
            assert_eq!(least.is_some(), step >= 7);
        }
        for _ in 0..300 {
            costs.observe(64, 1, quick, NOW);
        }
        close(costs.least(64, 1, NOW).unwrap(), quick);
        for _ in 0..300 {
            costs.observe(64, 1, 20 * quick, NOW);
        }
        close(costs.least(64, 1, FRESH).unwrap(), 20 * quick);
        // Long after nothing is known; after one quick step all is known that matters.
        let later = FRESH + Duration::from_millis(1);
        assert_eq!(costs.least(64, 1, later), None);
        costs.observe(64, 1, quick, later);
        assert!(costs.least(64, 1, later).unwrap() <= quick.mul_f64(1.2));
    }
}
