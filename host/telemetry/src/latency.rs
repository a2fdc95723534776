//! Latencies: a histogram for each worker, merged when someone asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::summary::LatencyMs;

/// Longest time that is told apart, microseconds: one hour. A longer one counts as this.
const LONGEST: u64 = 3_600_000_000;

/// One worker's latencies. Only that worker records; others look at it now and then, so its lock is free.
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    histogram: Arc<Mutex<Histogram<u64>>>,
}

impl LatencyRecorder {
    pub(crate) fn new() -> Self {
        Self {
            histogram: Arc::new(Mutex::new(empty())),
        }
    }

    /// Records the same time for a number of records.
    pub fn record(&self, time: Duration, records: u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(LONGEST);
        self.lock()
            .saturating_record_n(micros.clamp(1, LONGEST), records);
    }

    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        // A histogram is whole after any panic: an addition is its only change.
        self.histogram
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A histogram from 1 microsecond to one hour with three significant digits.
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| {
        unreachable!("1 to {LONGEST} with 3 digits are bounds that a histogram takes")
    })
}

/// The percentiles of all workers together.
pub(crate) fn merged(recorders: &[LatencyRecorder]) -> LatencyMs {
    let mut all = empty();
    for recorder in recorders {
        // The bounds are the same, so there is nothing that could not be added.
        let _ = all.add(&*recorder.lock());
    }
    if all.is_empty() {
        return LatencyMs::default();
    }
    let at = |quantile| all.value_at_quantile(quantile) as f64 / 1000.0;
    LatencyMs {
        p50: at(0.50),
        p95: at(0.95),
        p99: at(0.99),
        max: all.max() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_over_all_workers() {
        let (one, two) = (LatencyRecorder::new(), LatencyRecorder::new());
        for milliseconds in 1..=50 {
            one.record(Duration::from_millis(milliseconds), 1);
            two.record(Duration::from_millis(50 + milliseconds), 1);
        }
        let found = merged(&[one, two]);
        for (found, wanted) in [
            (found.p50, 50.0),
            (found.p95, 95.0),
            (found.p99, 99.0),
            (found.max, 100.0),
        ] {
            assert!((found / wanted - 1.0f64).abs() < 0.002, "{found} {wanted}");
        }
    }

    #[test]
    fn nothing_recorded_is_zero_and_any_time_is_taken() {
        assert_eq!(merged(&[]), LatencyMs::default());
        let recorder = LatencyRecorder::new();
        assert_eq!(
            merged(std::slice::from_ref(&recorder)),
            LatencyMs::default()
        );
        recorder.record(Duration::ZERO, 1);
        recorder.record(Duration::MAX, 1);
        let found = merged(&[recorder]);
        assert_eq!(found.p50, 0.001);
        assert!((found.max / 3_600_000.0 - 1.0).abs() < 0.001, "{found:?}");
    }
}
