//! How fast a device gets on, learnt from its steps, and how much it is therefore given at once.
//!
//! Two speeds, because two kinds of work are unlike: products wait for weights, which many rows share; attention waits for
//! keys and values, which are a row's own. With one mean, a step whose contexts are far longer than those of the steps
//! before it would be taken to be much faster than it is.
//!
//! What a whole step costs, and so how many rows it is to have, is another question, which the scheduler learns from measured
//! steps (`serving::costs`). Here parts of a step are cut before any was measured, on the slow side, by multiply-adds that
//! only this room knows of; the shape is the same, rows by their class and attention by positions.

use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

/// Rows up to which a speed holds: a product with one row waits for memory, one with many for arithmetic.
const ROWS: [u32; 5] = [1, 4, 8, 32, u32::MAX];

/// How many times longer a multiply-add of attention takes than one of a product, until use has shown it: the middle of what is
/// likely. Software adapters show 2.4 with one row and 8.6 with 32.
const RATIO: f64 = 4.0;

/// Variance of its logarithm: a factor of 4 either way.
const RATIO_VARIANCE: f64 = 1.9;

/// Variance of the logarithm of a measured time: a fifth.
const NOISE: f64 = 0.04;

/// How much the variances grow from step to step, since other programs come and go: a new measurement then counts for about a
/// quarter. What the hardware makes of attention beside products changes hardly at all.
const DRIFT: [f64; 2] = [3.3e-3, 1e-4];

/// What is to be computed: multiply-adds, or what takes as long, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComputeCost {
    /// Of rows: products with weights, norms and the like.
    pub(crate) rows: u64,
    /// Of rows and the positions that each sees.
    pub(crate) attention: u64,
}

impl Add for ComputeCost {
    type Output = ComputeCost;

    fn add(self, other: ComputeCost) -> ComputeCost {
        ComputeCost {
            rows: self.rows.saturating_add(other.rows),
            attention: self.attention.saturating_add(other.attention),
        }
    }
}

impl Sum for ComputeCost {
    fn sum<I: Iterator<Item = ComputeCost>>(loads: I) -> ComputeCost {
        loads.fold(ComputeCost::default(), Add::add)
    }
}

/// What is known of steps of so many rows: a Kalman filter over two logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    /// Seconds for a multiply-add of rows.
    rows: f64,
    /// How many times longer one of attention takes.
    ratio: f64,
    /// Variances of both logarithms.
    variances: [f64; 2],
    covariance: f64,
}

impl Known {
    /// Multiply-adds of rows that would take as long, and the share of attention in them.
    fn weighed(&self, load: ComputeCost) -> (f64, f64) {
        let attention = self.ratio * load.attention as f64;
        let sum = load.rows as f64 + attention;
        (sum, if sum > 0.0 { attention / sum } else { 0.0 })
    }

    /// Variance of the logarithm of a time with so much of attention.
    fn variance(&self, share: f64) -> f64 {
        let [rows, ratio] = self.variances;
        (rows + 2.0 * share * self.covariance + share * share * ratio).max(0.0)
    }

    /// Seconds, on the slow side by as much as is not known: by one standard deviation. That is little for loads like those that
    /// were seen, and much for those of another mixture.
    fn seconds(&self, load: ComputeCost) -> f64 {
        let (sum, share) = self.weighed(load);
        self.rows * sum * self.variance(share).sqrt().exp()
    }

    /// From one measurement, whose sum alone is known.
    fn first(load: ComputeCost, took: f64) -> Known {
        let mut known = Known {
            rows: 1.0,
            ratio: RATIO,
            variances: [0.0, RATIO_VARIANCE],
            covariance: 0.0,
        };
        let (sum, share) = known.weighed(load);
        known.rows = took / sum;
        known.variances[0] = NOISE + share * share * RATIO_VARIANCE;
        known.covariance = -share * RATIO_VARIANCE;
        known
    }

    fn learn(&mut self, load: ComputeCost, took: f64) {
        let (sum, share) = self.weighed(load);
        for (variance, drift) in self.variances.iter_mut().zip(DRIFT) {
            *variance = (*variance + drift).min(RATIO_VARIANCE.max(*variance));
        }
        let [rows, ratio] = self.variances;
        let gains = [
            rows + share * self.covariance,
            self.covariance + share * ratio,
        ];
        let uncertain = self.variance(share) + NOISE;
        let mistake = (took / (self.rows * sum)).ln() / uncertain;
        self.rows *= (gains[0] * mistake).exp();
        self.ratio *= (gains[1] * mistake).exp();
        self.variances = [
            rows - gains[0] * gains[0] / uncertain,
            ratio - gains[1] * gains[1] / uncertain,
        ];
        self.covariance -= gains[0] * gains[1] / uncertain;
    }
}

/// Seconds per multiply-add, for steps of so many rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeedEstimate {
    /// Where nothing was measured.
    guess: Known,
    measured: [Option<Known>; ROWS.len()],
    cap: Duration,
}

impl SpeedEstimate {
    /// A guess on the slow side, until something was measured: 5 ns on a software adapter, where kernels for GPUs take that; on a
    /// GPU 0.2 ns, what weights in f32 take of 20 GB/s. Submissions are capped at 250 ms on the one, which nothing but its own
    /// thread waits for, and at 50 ms on the other, where a display and a watchdog do.
    pub(crate) fn new(software: bool) -> SpeedEstimate {
        let (rows, cap) = if software {
            (5e-9, Duration::from_millis(250))
        } else {
            (2e-10, Duration::from_millis(50))
        };
        // Of attention the guess is four times on the slow side of the ratio, too.
        let guess = Known {
            rows,
            ratio: RATIO * RATIO,
            variances: [0.0; 2],
            covariance: 0.0,
        };
        SpeedEstimate {
            guess,
            measured: [None; ROWS.len()],
            cap,
        }
    }

    /// A device that needs so long for a multiply-add of either kind, of which nothing is unknown.
    pub(crate) fn fixed(seconds: f64, cap: Duration) -> SpeedEstimate {
        let guess = Known {
            rows: seconds,
            ratio: 1.0,
            variances: [0.0; 2],
            covariance: 0.0,
        };
        SpeedEstimate {
            guess,
            measured: [Some(guess); ROWS.len()],
            cap,
        }
    }

    fn class(rows: u32) -> usize {
        ROWS.iter().position(|most| rows <= *most).unwrap_or(0)
    }

    /// Seconds that so much of a step of `rows` rows is thought to take at most. A class of rows that was not measured is taken to
    /// be as fast as the next below it that was: with more rows at once each is no slower.
    pub(crate) fn seconds(&self, rows: u32, load: ComputeCost) -> f64 {
        let known = self
            .measured
            .iter()
            .take(SpeedEstimate::class(rows) + 1)
            .rev();
        let known = known.flatten().next().unwrap_or(&self.guess);
        known.seconds(load)
    }

    /// Whether so much of a step of `rows` rows fits into one submission.
    pub(crate) fn fits(&self, rows: u32, load: ComputeCost) -> bool {
        self.seconds(rows, load) <= self.cap.as_secs_f64()
    }

    /// Learns from a step: the first measurement is believed, later ones by and by.
    pub(crate) fn learn(&mut self, rows: u32, load: ComputeCost, took: Duration) {
        if load == ComputeCost::default() {
            return;
        }
        let took = took.as_secs_f64().max(1e-9);
        match &mut self.measured[SpeedEstimate::class(rows)] {
            Some(known) => known.learn(load, took),
            unknown => *unknown = Some(Known::first(load, took)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTS: ComputeCost = ComputeCost {
        rows: 1_000_000,
        attention: 0,
    };

    /// Whether products are thought to take this long, on the slow side by as much as one measurement may be wrong.
    #[track_caller]
    fn assert_milliseconds(speed: &SpeedEstimate, rows: u32, expected: f64) {
        let found = speed.seconds(rows, PRODUCTS) * 1e3;
        assert!((0.99..1.23).contains(&(found / expected)), "{found}");
    }

    #[test]
    fn a_pace_is_learnt_for_its_class_of_rows() {
        let mut speed = SpeedEstimate::new(false);
        assert_milliseconds(&speed, 1, 0.2);
        speed.learn(4, PRODUCTS, Duration::from_millis(1));
        assert_milliseconds(&speed, 1, 0.2);
        assert_milliseconds(&speed, 64, 1.0);
        speed.learn(64, PRODUCTS, Duration::from_micros(100));
        assert_milliseconds(&speed, 64, 0.1);
        assert_milliseconds(&speed, 4, 1.0);
        for _ in 0..40 {
            speed.learn(4, PRODUCTS, Duration::from_millis(1));
        }
        let before = speed.seconds(4, PRODUCTS);
        speed.learn(4, PRODUCTS, Duration::from_millis(16));
        let after = speed.seconds(4, PRODUCTS) / before;
        assert!(
            (1.7..2.3).contains(&after),
            "a quarter of four doublings: {after}"
        );
        let before = speed.clone();
        speed.learn(4, ComputeCost::default(), Duration::from_secs(1));
        assert_eq!(speed, before);
    }

    /// Steps of a device whose speeds are known: both are found, whatever was guessed.
    #[test]
    fn both_paces_are_learnt_from_steps_of_several_contexts() {
        for ratio in [0.5, 3.0, 30.0] {
            let exact =
                |load: ComputeCost| 1e-9 * load.rows as f64 + ratio * 1e-9 * load.attention as f64;
            let at = |context: u64| ComputeCost {
                rows: 100_000_000,
                attention: 20_000 * context,
            };
            let mut speed = SpeedEstimate::new(true);
            for round in 0..200 {
                let load = at([100, 3000, 700, 8000][round % 4]);
                speed.learn(1, load, Duration::from_secs_f64(exact(load)));
            }
            for load in [at(0), at(50), at(5000), ComputeCost { rows: 0, ..at(100) }] {
                let slow = speed.seconds(1, load) / exact(load);
                assert!((0.95..1.3).contains(&slow), "{ratio}: {slow}");
            }
        }
    }

    /// Neither kind of work is taken to be faster than it is, as long as their ratio is a likely one.
    #[test]
    fn what_was_not_seen_by_itself_is_taken_to_be_slow() {
        for ratio in [1.0, 4.0, 16.0] {
            let seen = ComputeCost {
                rows: 1_000_000,
                attention: 100_000,
            };
            let exact =
                |load: ComputeCost| 1e-9 * load.rows as f64 + ratio * 1e-9 * load.attention as f64;
            let mut speed = SpeedEstimate::new(true);
            for _ in 0..100 {
                speed.learn(8, seen, Duration::from_secs_f64(exact(seen)));
            }
            let [products, attention] = [
                ComputeCost {
                    attention: 0,
                    ..seen
                },
                ComputeCost { rows: 0, ..seen },
            ];
            for load in [seen, products, attention] {
                let slow = speed.seconds(8, load) / exact(load);
                assert!((0.9..20.0).contains(&slow), "{ratio}: {slow}");
            }
        }
    }

    #[test]
    fn what_slows_a_device_slows_attention_that_was_not_seen_for_long() {
        let long = ComputeCost {
            rows: 0,
            attention: 1_000_000,
        };
        let mut speed = SpeedEstimate::new(true);
        speed.learn(1, PRODUCTS, Duration::from_millis(1));
        let before = speed.seconds(1, long);
        for _ in 0..50 {
            speed.learn(1, PRODUCTS, Duration::from_millis(4));
        }
        assert!(speed.seconds(1, PRODUCTS) > 3.9e-3);
        assert!(speed.seconds(1, long) > 3.0 * before);
    }
}
