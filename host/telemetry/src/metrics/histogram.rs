//! How measured times are spread, counted without a lock.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds for a stage: a call of an operator takes microseconds, a request to a model on a slow CPU minutes.
pub const STAGE_SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 40.0, 160.0, 640.0, 2560.0,
];

/// Bounds for a cut.
pub const CUT_SECONDS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    180.0,
];

/// Bounds for a request to a model or over HTTP, and for its first token: a GPU answers in milliseconds, a slow CPU in
/// minutes.
pub const REQUEST_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];

/// Bounds for the time between two tokens, and for a step.
pub const TOKEN_SECONDS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
    1.0, 2.5, 5.0, 10.0, 40.0,
];

/// Times, spread over fixed buckets. Measuring takes no lock and waits for nobody.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// One that has measured nothing; `bounds` ascend, in seconds.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        self.observe_times(time, 1);
    }

    /// Counts the same time so often.
    pub fn observe_times(&self, time: Duration, times: u64) {
        let seconds = time.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds
            .fetch_add(nanoseconds.saturating_mul(times), Ordering::Relaxed);
    }

    /// How what was measured is spread now.
    pub fn spread(&self) -> Spread {
        Spread {
            bounds: Cow::Borrowed(self.bounds),
            counts: (self.counts.iter())
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            sum: self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }
}

/// How measured values are spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    /// Upper bounds of the buckets but the last, ascending; a bound belongs to its bucket.
    pub bounds: Cow<'static, [f64]>,
    /// Values in each bucket, one more than bounds: the last is above all of them.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: f64,
}

impl Spread {
    /// Values in all buckets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another has measured between the same bounds.
    pub fn add(&mut self, other: &Spread) {
        if self.bounds.is_empty() {
            self.bounds = other.bounds.clone();
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// The value below which this share of them is, as far as the buckets tell; none if there is none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let rank = (share.clamp(0.0, 1.0) * count as f64).ceil() as u64;
        let mut below = 0;
        for (bucket, number) in self.counts.iter().enumerate() {
            if *number > 0 && below + number >= rank {
                let from = bucket.checked_sub(1).map_or(0.0, |at| self.bounds[at]);
                let to = self.bounds.get(bucket).copied().unwrap_or(from);
                let within = rank.saturating_sub(below) as f64 / *number as f64;
                return Some(from + (to - from) * within);
            }
            below += number;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_its_bucket_and_a_bound_is_within() {
        let histogram = Histogram::new(&[0.001, 0.01]);
        for micros in [1, 1_000, 1_001, 10_000, 10_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        histogram.observe_times(Duration::from_millis(2), 3);
        let spread = histogram.spread();
        assert_eq!(spread.counts, [2, 5, 1]);
        assert_eq!(spread.count(), 8);
        assert!((spread.sum - 0.028_003).abs() < 1e-9, "{}", spread.sum);
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.spread().counts, [2, 5, 2]);
    }

    #[test]
    fn a_quantile_lies_in_its_bucket() {
        let histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        assert_eq!(histogram.spread().quantile(0.5), None);
        for seconds in [1, 2, 2, 4] {
            histogram.observe(Duration::from_secs(seconds));
        }
        let spread = histogram.spread();
        assert_eq!(spread.quantile(0.25), Some(1.0));
        assert_eq!(spread.quantile(0.5), Some(1.5));
        assert_eq!(spread.quantile(1.0), Some(4.0));
        // What is above all bounds is told as the last of them.
        histogram.observe_times(Duration::from_secs(9), 100);
        assert_eq!(histogram.spread().quantile(0.99), Some(4.0));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [STAGE_SECONDS, CUT_SECONDS, REQUEST_SECONDS, TOKEN_SECONDS] {
            assert!(bounds.is_sorted_by(|one, next| one < next), "{bounds:?}");
        }
    }
}
