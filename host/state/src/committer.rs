//! Cuts whose commit point is the log: sinks write and sync what they have, then the log says that it holds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::{
    Assignment, CommitError, CommitLog, Committer, Cut, Keeper, Mark, Participants, Settled, Store,
    TaskCut, TaskId, TaskImage,
};

/// What the committers of all workers of a process share.
pub struct Cuts {
    log: Arc<dyn CommitLog>,
    /// The state directory, by its name.
    instance: String,
    /// A cut failed, or is under way. The lock spans the sinks and the log: the length of a file that two workers write
    /// must not count bytes whose cut does not hold.
    failed: Mutex<bool>,
}

impl Cuts {
    /// Cuts go into this log.
    pub fn new(log: Arc<dyn CommitLog>) -> Arc<Cuts> {
        Cuts::of(log, "")
    }

    /// The same, of the state directory with this name: it stands beside the positions that sources keep.
    pub fn of(log: Arc<dyn CommitLog>, instance: impl Into<String>) -> Arc<Cuts> {
        Arc::new(Cuts {
            log,
            instance: instance.into(),
            failed: Mutex::new(false),
        })
    }
}

impl fmt::Debug for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuts").finish_non_exhaustive()
    }
}

/// The committer of one worker. A cut is settled when it was begun; one that fails ends the run, since only a restart
/// tells what of it is on the disk.
#[derive(Debug)]
pub struct LogCommitter {
    cuts: Arc<Cuts>,
    settled: Option<Settled>,
    /// Number of the last cut.
    number: u64,
    /// What the log has of each task beside entries: one that stands still is not written again.
    written: BTreeMap<TaskId, TaskCut>,
}

impl LogCommitter {
    /// The only one of its process.
    pub fn alone(log: Arc<dyn CommitLog>) -> LogCommitter {
        LogCommitter::new(Cuts::new(log))
    }

    /// One that takes its turn with the others of these cuts.
    pub fn new(cuts: Arc<Cuts>) -> LogCommitter {
        LogCommitter {
            cuts,
            settled: None,
            number: 0,
            written: BTreeMap::new(),
        }
    }
}

impl Committer for LogCommitter {
    fn keeper(&self, _source: &str) -> Keeper {
        Keeper {
            store: Store::Log,
            instance: self.cuts.instance.clone(),
        }
    }

    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        for assignment in tasks {
            self.written.remove(&assignment.task);
        }
        let image = |assignment: &Assignment| self.cuts.log.task(&assignment.task);
        let images = tasks.iter().map(image);
        Ok(images.map(Option::unwrap_or_default).collect())
    }

    fn begin(&mut self, mut cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        let failed = &self.cuts.failed;
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        // Also set when a sink panicked: its bytes may be in a file that another worker's cut would count.
        if *failed {
            return Err(CommitError::AfterFailure);
        }
        *failed = true;
        sinks.flush(&mut cut)?;
        cut.tasks.retain(|id, task| {
            let moved = self.written.get(id) != Some(&standing(task));
            moved || !task.put.is_empty() || !task.done.is_empty()
        });
        let number = self.cuts.log.commit(&cut)?;
        *failed = false;
        let written = cut.tasks.iter();
        self.written
            .extend(written.map(|(id, task)| (id.clone(), standing(task))));
        self.number = number;
        self.settled = Some(Settled::Committed { number });
        Ok(())
    }

    fn settled(&mut self, _wait: Duration) -> Result<Option<Settled>, CommitError> {
        Ok(self.settled.take())
    }

    fn mark(&self, task: &TaskId) -> Mark {
        let written = self.written.get(task).cloned().unwrap_or_default();
        Mark {
            keeper: Some(self.keeper(&task.source)),
            source: task.source.clone(),
            identity: written.identity,
            cut: self.number,
            waits: written.waits,
            counters: written.counters,
            ..Mark::default()
        }
    }

    fn release(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            self.written.remove(task);
        }
    }
}

/// What a task brings to a cut beside entries.
fn standing(task: &TaskCut) -> TaskCut {
    TaskCut {
        identity: task.identity.clone(),
        counters: task.counters.clone(),
        moved: task.moved.clone(),
        put: Vec::new(),
        done: Vec::new(),
        ..*task
    }
}
