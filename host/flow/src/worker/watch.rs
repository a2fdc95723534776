//! What a worker looks at now and then, as no record tells it: what its sources have unread, and whether its cuts are
//! behind.

use std::time::{Duration, Instant};

use tidegate_contract::Lag;
use tidegate_telemetry::{CutClock, Meters};

use super::Worker;

/// How often.
const INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Watch {
    looked: Option<Instant>,
    /// By source, what was told of it last.
    lags: Vec<Lag>,
    clock: CutClock,
}

impl Watch {
    pub(super) fn new(sources: usize, meters: &Meters) -> Watch {
        Watch {
            looked: None,
            lags: vec![Lag::default(); sources],
            clock: meters.cut_clock(),
        }
    }

    /// A cut holds that began so long ago: everything before that is in it.
    pub(super) fn cut_held(&self, meters: &Meters, ago: Duration) {
        self.clock.settled(meters.clock().saturating_sub(ago));
    }
}

impl Worker {
    /// Looks, if it is time.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if (self.watch.looked).is_some_and(|looked| now.duration_since(looked) < INTERVAL) {
            return;
        }
        self.watch.looked = Some(now);
        let meters = &self.output.meters;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let (Some(told), Some(of)) =
                (self.watch.lags.get_mut(index), meters.sources().get(index))
            else {
                continue;
            };
            let lag = source.lag().unwrap_or_default();
            of.unread_records.change(told.records, lag.records);
            of.unread_bytes.change(told.bytes, lag.bytes);
            *told = lag;
        }
        if self.committing.is_none() && !self.has_changes() {
            self.watch.clock.settled(self.output.meters.clock());
        }
    }
}
