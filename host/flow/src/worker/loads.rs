//! What waits in the stages of all tasks of a worker, as the meters show it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_telemetry::Meters;
use tidegate_telemetry::metrics::StretchPart;

use crate::task::StageLoad;

/// See the module.
pub(super) struct Loads {
    meters: Arc<Meters>,
    /// By stage, tasks in which it is full, and where the time of that is counted.
    full: Vec<(usize, StretchPart)>,
    /// When time was counted last.
    looked: Duration,
}

impl Loads {
    pub(super) fn new(meters: Arc<Meters>) -> Loads {
        Loads {
            full: (meters.stages().iter())
                .map(|stage| (0, stage.full.part()))
                .collect(),
            looked: Duration::ZERO,
            meters,
        }
    }

    /// What waits in a stage of one task has changed.
    pub(super) fn change(&mut self, stage: usize, was: StageLoad, is: StageLoad) {
        if let Some(meters) = self.meters.stages().get(stage) {
            meters.inbox.change(was.inbox, is.inbox);
            meters.waiting.change(was.waiting, is.waiting);
            meters.limit.change(was.limit, is.limit);
        }
        if let Some((full, _)) = self.full.get_mut(stage) {
            *full = *full + usize::from(is.full) - usize::from(was.full);
        }
    }

    /// Those that are full now were so since the last look: a look comes with each round of the worker.
    pub(super) fn count_full(&mut self) {
        let now = self.meters.clock();
        for (full, time) in &self.full {
            if *full > 0 {
                time.was(now.saturating_sub(self.looked));
            }
        }
        self.looked = now;
    }
}
