//! What waits in the stages of all tasks of a worker, as the meters show it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_telemetry::Meters;

use crate::task::StageLoad;

/// See the module.
pub(super) struct Loads {
    meters: Arc<Meters>,
    /// By stage, tasks in which it is full.
    full: Vec<usize>,
    /// When time was counted last.
    looked: Duration,
}

impl Loads {
    pub(super) fn new(meters: Arc<Meters>) -> Loads {
        Loads {
            full: vec![0; meters.stages().len()],
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
        if let Some(full) = self.full.get_mut(stage) {
            *full = *full + usize::from(is.full) - usize::from(was.full);
        }
    }

    /// Those that are full now were so since the last look: a look comes with each round of the worker.
    pub(super) fn count_full(&mut self) {
        let now = self.meters.clock();
        for (stage, full) in self.meters.stages().iter().zip(&self.full) {
            if *full > 0 {
                stage.full.was(self.looked, now);
            }
        }
        self.looked = now;
    }
}
