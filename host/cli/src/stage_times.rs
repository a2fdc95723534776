//! How long stages took of late: the difference between two looks at their histograms.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_control::Percentiles;
use tidegate_telemetry::StageMeters;
use tidegate_telemetry::metrics::Spread;

/// How far back is looked.
const LATELY: Duration = Duration::from_secs(10);
/// Looks that are nearer to each other are one.
const APART: Duration = Duration::from_millis(500);

/// Looks at all stages: those of the last [`LATELY`], and the one before them.
#[derive(Default)]
pub(crate) struct StageTimes {
    looks: Mutex<VecDeque<(Duration, Vec<Spread>)>>,
}

impl StageTimes {
    /// Percentiles of each stage, since the oldest look that is kept.
    pub(crate) fn look(&self, now: Duration, stages: &[StageMeters]) -> Vec<Percentiles> {
        let spreads: Vec<Spread> = stages.iter().map(|stage| stage.time.spread()).collect();
        let since = |look: &(Duration, Vec<Spread>)| now.saturating_sub(look.0);
        // Each change is whole before anything can panic.
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        while looks.get(1).is_some_and(|look| since(look) >= LATELY) {
            looks.pop_front();
        }
        // What nobody has followed says nothing of late.
        if looks.back().is_some_and(|look| since(look) >= LATELY * 2) {
            looks.clear();
        }
        let before = looks.front().map(|look| &look.1);
        let none = Spread::default();
        let percentiles = spreads.iter().enumerate().map(|(stage, spread)| {
            let before = before.and_then(|before| before.get(stage));
            percentiles(before.unwrap_or(&none), spread)
        });
        let percentiles = percentiles.collect();
        if looks.back().is_none_or(|look| since(look) >= APART) {
            looks.push_back((now, spreads));
        }
        percentiles
    }
}

fn percentiles(before: &Spread, now: &Spread) -> Percentiles {
    let mut since = now.clone();
    for (count, before) in since.counts.iter_mut().zip(&before.counts) {
        *count = count.saturating_sub(*before);
    }
    in_milliseconds(&since)
}

/// Percentiles of times in seconds; zero where there are none.
pub(crate) fn in_milliseconds(since: &Spread) -> Percentiles {
    let of = |share| since.quantile(share).map_or(0.0, |seconds| seconds * 1e3);
    Percentiles {
        p50: of(0.5),
        p95: of(0.95),
        p99: of(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_telemetry::Meters;

    #[test]
    fn what_was_slow_long_ago_is_forgotten() {
        let meters = Meters::new("a", ["stage"]);
        let times = StageTimes::default();
        let second = Duration::from_secs;
        let stage = &meters.stages()[0];
        stage.time.observe_times(second(2), 100);
        let first = times.look(second(1), meters.stages());
        assert!(first[0].p50 > 1000.0, "{first:?}");
        stage.time.observe_times(Duration::from_millis(2), 100);
        let next = times.look(second(2), meters.stages());
        assert!(next[0].p99 < 3.0, "{next:?}");
        for at in 3..20 {
            times.look(second(at), meters.stages());
        }
        let last = times.look(second(20), meters.stages());
        assert_eq!(last[0], Percentiles::default());
        // Nobody looked for long: all that was measured counts.
        let late = times.look(second(100), meters.stages());
        assert!(late[0].p99 > 1000.0, "{late:?}");
    }
}
