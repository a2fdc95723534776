//! What a step costs, learnt from the steps there were.

use std::time::Duration;

/// Steps after which the measurement is believed.
const ENOUGH: u32 = 8;
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
    /// Averages of the products of (1, prefill units, decode rows) with each other.
    moments: [[f64; 3]; 3],
    /// And with the seconds of the step.
    products: [f64; 3],
    /// Seconds for each of the three; none is negative.
    seconds: [f64; 3],
}

impl StepCosts {
    /// Learns from a step.
    pub(crate) fn observe(&mut self, prefill: usize, decode: usize, took: Duration) {
        let mut seconds = took.as_secs_f64();
        if self.steps >= ENOUGH {
            let expected = self.seconds_for(prefill, decode);
            if expected > 0.0 {
                seconds = seconds.min(expected * OUTLIER);
            }
        }
        self.steps = self.steps.saturating_add(1);
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

    /// Prompt tokens that a step with `decode` rows can have within `limit`; `None` if it is not known.
    pub(crate) fn prefill_within(&self, decode: usize, limit: Duration) -> Option<usize> {
        if self.steps < ENOUGH || self.seconds[1] <= 0.0 {
            return None;
        }
        let left = limit.as_secs_f64() - self.seconds_for(0, decode);
        Some((left.max(0.0) / self.seconds[1] * UNIT) as usize)
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
            costs.observe(prefill, decode, micros(2000, prefill, decode));
        }
        close(costs.predict(512, 8).unwrap(), micros(2000, 512, 8));
        close(costs.predict(0, 1).unwrap(), micros(2000, 0, 1));
        let within = costs.prefill_within(4, micros(2000, 100, 4)).unwrap();
        assert!((97..=103).contains(&within), "{within}");
        assert_eq!(costs.prefill_within(4, Duration::ZERO), Some(0));
    }

    #[test]
    fn what_was_never_seen_costs_nothing_yet() {
        let mut costs = StepCosts::default();
        for _ in 0..20 {
            costs.observe(0, 1, micros(2000, 0, 1));
        }
        close(costs.predict(0, 1).unwrap(), micros(2000, 0, 1));
        assert!(costs.predict(1000, 1).unwrap() < micros(2100, 0, 1));
        assert_eq!(costs.prefill_within(1, Duration::from_secs(1)), None);
    }

    #[test]
    fn one_slow_step_is_no_measure_and_a_lasting_change_is() {
        let mut costs = StepCosts::default();
        for step in 0..60 {
            costs.observe(0, 1 + step % 4, micros(2000, 0, 1 + step % 4));
        }
        costs.observe(0, 2, Duration::from_secs(5));
        assert!(costs.predict(0, 2).unwrap() < Duration::from_millis(4));
        for step in 0..200 {
            costs.observe(0, 1 + step % 4, 10 * micros(2000, 0, 1 + step % 4));
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
            );
        }
        assert!(costs.predict(1 << 20, 0).unwrap() > Duration::ZERO);
        assert!(costs.parts().iter().all(|part| *part >= Duration::ZERO));
    }
}
