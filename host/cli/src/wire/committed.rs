//! A commit log that shows how far the file of dead letters is committed, for those who read it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_contract::{CommitLog, CommitLogError, Cut, TaskId, TaskImage};

/// What the sink of dead letters is called in cuts.
pub(crate) const DEAD_LETTERS: &str = "dead-letters";

/// See the module.
pub(crate) struct Shown {
    log: Arc<dyn CommitLog>,
    committed: Arc<AtomicU64>,
}

impl Shown {
    /// This log; where the file ends by each cut is kept there too.
    pub(crate) fn new(log: Arc<dyn CommitLog>, committed: Arc<AtomicU64>) -> Shown {
        Shown { log, committed }
    }
}

impl CommitLog for Shown {
    fn commit(&self, cut: &Cut) -> Result<u64, CommitLogError> {
        let number = self.log.commit(cut)?;
        let mut sinks = cut.sinks.iter().rev();
        if let Some(position) = sinks.find(|position| position.sink == DEAD_LETTERS) {
            self.committed.store(position.length, Ordering::Release);
        }
        Ok(number)
    }

    fn task(&self, task: &TaskId) -> Option<TaskImage> {
        self.log.task(task)
    }
}
