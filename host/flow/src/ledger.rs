//! What the cuts of all workers of a process add up to: what became of records, and what each slot runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{
    CommitError, CommitLog, CommitLogError, Cut, OperatorVersion, Recovered, SinkPosition,
    SlotVersion, TaskCut, TaskId, TaskImage,
};

use crate::counts::Counts;
use crate::error::FlowError;
use crate::running::{Running, Runs};
use crate::topology::Topology;

/// Shared by the workers.
pub(crate) struct Ledger {
    topology: Arc<Topology>,
    log: Arc<dyn CommitLog>,
    inner: Mutex<Inner>,
    /// Held from writing files to saying where they end: of two workers that write one, the later says more.
    files: Mutex<()>,
}

struct Inner {
    /// Of logs from before tasks had counts of their own.
    before: Counts,
    /// At the last cut of each task that is known here.
    tasks: BTreeMap<TaskId, Counts>,
    /// What tasks began with: the meters of this run do not count it.
    restored: Counts,
    /// What the meters of this run count, and no cut has: it was done, and done again.
    taken_back: Counts,
    /// Components of the slots, as the log names them.
    slots: Vec<SlotVersion>,
    running: Running,
    /// The log says that the run is over.
    ended: bool,
}

impl Ledger {
    /// Goes on from what the log has.
    pub(crate) fn new(
        topology: Arc<Topology>,
        log: Arc<dyn CommitLog>,
        recovered: &Recovered,
    ) -> Ledger {
        let mut restored = Counts::from_log(&recovered.counters);
        let before = restored;
        let mut tasks = BTreeMap::new();
        for (task, known) in &recovered.tasks {
            let counts = Counts::from_log(&known.counters);
            let source = topology.source(&task.source);
            let here = source.is_some_and(|index| topology.sources[index].fixed);
            // What waited in a partition that comes and goes is in flight here once it has come.
            let counts = match here {
                true => counts,
                false => counts.without_in_flight(),
            };
            restored.add(counts);
            tasks.insert(task.clone(), counts);
        }
        let inner = Inner {
            before,
            tasks,
            restored,
            taken_back: Counts::default(),
            slots: recovered.slots.clone(),
            running: Running::new(&topology),
            ended: false,
        };
        Ledger {
            topology,
            log,
            inner: Mutex::new(inner),
            files: Mutex::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's tasks run these versions, by stage.
    pub(crate) fn set_running(&self, worker: usize, runs: Vec<Runs>) {
        self.lock().running.set(worker, runs);
    }

    /// The components that the log names, by slot.
    pub(crate) fn slots(&self) -> Vec<SlotVersion> {
        self.lock().slots.clone()
    }

    /// Writes into the log what the slots run, if it is not what the log says.
    pub(crate) fn write_slots(&self) -> Result<(), FlowError> {
        Ok(self.say(&mut self.lock())?)
    }

    /// A deployment to a stage is done: the log says so before whoever asked for it is told.
    pub(crate) fn deployed(&self, stage: usize, version: &OperatorVersion) -> Result<(), String> {
        let mut inner = self.lock();
        if inner.ended {
            return Err("the run has ended".to_owned());
        }
        inner.running.deployed(&self.topology, stage, version);
        self.say(&mut inner).map_err(|error| error.to_string())
    }

    /// The lock is held until the log has it: of two who say what slots run, the later one knew what the earlier said.
    fn say(&self, inner: &mut Inner) -> Result<(), CommitLogError> {
        let slots = inner.running.name(&self.topology);
        if slots != inner.slots {
            self.log.commit(&Cut {
                slots: slots.clone(),
                ..Cut::default()
            })?;
            inner.slots = slots;
        }
        Ok(())
    }

    /// Files are written, and the log told where they end now.
    pub(crate) fn write_files(
        &self,
        write: impl FnOnce() -> Result<Vec<SinkPosition>, CommitError>,
    ) -> Result<(), CommitError> {
        let _alone = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let sinks = write()?;
        if !sinks.is_empty() {
            self.log.commit(&Cut {
                sinks,
                ..Cut::default()
            })?;
        }
        Ok(())
    }

    /// A task begins with what its last cut has.
    pub(crate) fn loaded(&self, task: TaskId, counts: Counts) {
        let mut inner = self.lock();
        let known = inner.tasks.insert(task, counts).unwrap_or_default();
        inner.restored.add(counts.less(known));
        inner.taken_back.add(known.less(counts));
    }

    /// A task goes back to its last cut, or runs here no more: what was counted since then was not.
    pub(crate) fn taken_back(&self, task: &TaskId, counted: Counts) {
        let mut inner = self.lock();
        let known = inner.tasks.get(task).copied().unwrap_or_default();
        inner.taken_back.add(counted.less(known));
        inner.restored.add(known.less(counted));
    }

    /// What waits in a task that runs here no more is somebody else's, as far as a cut has it: at the last one, or now if
    /// that is the same. Returns that.
    pub(crate) fn left_behind(&self, task: &TaskId, counted: Counts, left: Counts) -> Counts {
        let mut inner = self.lock();
        let Some(counts) = inner.tasks.get_mut(task) else {
            return Counts::default();
        };
        let left = counts.left(counted, left);
        *counts = counts.less(left);
        left
    }

    /// What the log has of a task now.
    pub(crate) fn task(&self, task: &TaskId) -> Option<TaskImage> {
        self.log.task(task)
    }

    /// Tells the log of tasks whose state is in a changelog.
    pub(crate) fn moved(&self, tasks: Vec<(TaskId, TaskCut)>) -> Result<(), FlowError> {
        if !tasks.is_empty() {
            self.log.commit(&Cut {
                tasks: tasks.into_iter().collect(),
                ..Cut::default()
            })?;
        }
        Ok(())
    }

    /// Takes what waits of a task out of the log: others have gone on from there, and cuts are no longer taken here.
    pub(crate) fn forget(&self, task: &TaskId, image: &TaskImage) -> Result<(), FlowError> {
        let counts = Counts::from_log(&image.counters).without_in_flight();
        let cut = TaskCut {
            identity: image.identity.clone(),
            position: image.position,
            unfinished: image.position,
            counters: counts.to_log(),
            done: image.entries.keys().cloned().collect(),
            moved: image.moved.clone(),
            ..TaskCut::default()
        };
        self.moved(vec![(task.clone(), cut)])
    }

    /// A cut holds that has these counts.
    pub(crate) fn committed(&self, tasks: impl IntoIterator<Item = (TaskId, Counts)>) {
        self.lock().tasks.extend(tasks);
    }

    /// Says that the run is over, and that all it wrote to its files, which end here, is in a cut.
    pub(crate) fn end(&self, files: Vec<SinkPosition>) -> Result<(), FlowError> {
        self.lock().ended = true;
        let ended = |file| SinkPosition {
            ended: true,
            ..file
        };
        let sinks: Vec<SinkPosition> = files.into_iter().map(ended).collect();
        if !sinks.is_empty() {
            self.log.commit(&Cut {
                sinks,
                ..Cut::default()
            })?;
        }
        Ok(())
    }

    /// What the cuts so far add up to.
    pub(crate) fn total(&self) -> Counts {
        self.lock().total()
    }

    /// What the meters of this run do not count of that, and what they count beyond it.
    pub(crate) fn beside_meters(&self) -> (Counts, Counts) {
        let inner = self.lock();
        (inner.restored, inner.taken_back)
    }
}

impl Inner {
    fn total(&self) -> Counts {
        let mut total = self.before;
        for counts in self.tasks.values() {
            total.add(*counts);
        }
        total
    }
}
