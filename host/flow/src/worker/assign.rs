//! Partitions that come and go, and tasks that go back to their last cut.

use std::sync::PoisonError;
use std::time::Instant;

use tidegate_contract::{Assigned, Assignment, Partition, RefusedRecord, RequestId, TaskImage};

use super::Worker;
use super::cut::End;
use crate::counts::Counts;
use crate::error::FlowError;
use crate::kept;
use crate::task::Task;
use crate::topology::StageKind;

impl Worker {
    fn assignment(&self, assigned: Assigned) -> Assignment {
        let Assigned { partition, kept } = assigned;
        let topology = &self.shared.topology;
        let source = &topology.sources[usize::from(partition.source)];
        Assignment {
            task: topology.task_id(partition),
            identity: source
                .identity(partition.number)
                .unwrap_or_default()
                .to_owned(),
            kept,
        }
    }

    /// Makes the tasks of partitions, from where their last cuts left them.
    pub(super) fn open(&mut self, source: usize, assigned: Vec<Assigned>) -> Result<(), FlowError> {
        let topology = self.shared.topology.clone();
        let partitions: Vec<Partition> = assigned.iter().map(|one| one.partition).collect();
        let assignments = assigned.into_iter().map(|one| self.assignment(one));
        let assignments: Vec<Assignment> = assignments.collect();
        let images = self.committer.load(&assignments)?;
        for ((partition, assignment), image) in partitions.into_iter().zip(assignments).zip(images)
        {
            let mut image = self.same_input(source, &assignment, image)?;
            let kept = assignment.kept.as_ref().map(|kept| kept.position);
            if let Some(position) = image.position
                && kept != Some(position)
            {
                let sought = self.sources[source].seek(partition, position);
                sought.map_err(|error| self.source_error(source, error))?;
            }
            let mut counts = Counts::from_log(&image.counters);
            if image.entries.is_empty() {
                // What waited when the partition was last read here, another member has done.
                counts = counts.without_in_flight();
                image.counters = counts.to_log();
            }
            self.shared.ledger.loaded(assignment.task.clone(), counts);
            let waited = &self.shared.waited;
            let mut waited = waited.lock().unwrap_or_else(PoisonError::into_inner);
            // In flight since the run began, whoever takes it.
            self.shown += waited.remove(&assignment.task).unwrap_or_default();
            drop(waited);
            let task = Task::new(partition, topology.clone(), &image, self.starts.clone());
            self.tasks.insert(task);
            self.restore(partition, image)?;
        }
        Ok(())
    }

    /// The image of a task, if it is of what is read now. Of a partition that comes and goes the source knows by itself
    /// where to begin.
    fn same_input(
        &self,
        source: usize,
        assignment: &Assignment,
        image: TaskImage,
    ) -> Result<TaskImage, FlowError> {
        let described = &self.shared.topology.sources[source];
        let (was, now) = (&image.identity, &assignment.identity);
        if was.is_empty() || was == now {
            return Ok(image);
        }
        if described.fixed || !image.entries.is_empty() {
            return Err(FlowError::State(format!(
                "{} was {was} at the last cut and is now {now}; give the source its old input, or begin with a new \
                 state directory",
                assignment.task,
            )));
        }
        Ok(TaskImage {
            position: assignment.kept.as_ref().map(|kept| kept.position),
            counters: image.counters,
            ..TaskImage::default()
        })
    }

    /// Gives a task what waited at its last cut.
    fn restore(&mut self, partition: Partition, image: TaskImage) -> Result<(), FlowError> {
        let stages = self.shared.topology.stages.len();
        self.with_task(partition, |task, output| {
            for mut restored in kept::restore(image.entries).map_err(FlowError::State)? {
                let came = restored.waits.come_from(partition.source);
                came.map_err(|why| FlowError::State(format!("an in-flight entry: {why}")))?;
                task.restore(restored)?;
            }
            for stage in 0..stages {
                task.send_answers(stage, output)?;
            }
            Ok(())
        })
        .map(drop)
    }

    /// These partitions are read here no more after the next poll of their source.
    pub(super) fn revoked(
        &mut self,
        source: usize,
        partitions: &[Partition],
    ) -> Result<(), FlowError> {
        // Until then the source still takes positions of theirs: what is done need not be done again. One that has taken
        // them away for good may refuse: whoever has them now reads from the last position that was committed, and those
        // of partitions that stay are committed with the next cut.
        let end = self.whole_cut()?;
        match &end {
            End::Held(Some((of, error))) if *of == source => {
                let name = &self.shared.topology.sources[source].name;
                tracing::warn!(source = name, %error, "positions of revoked partitions were not committed");
            }
            End::Held(Some(_)) | End::Held(None) | End::Aborted(_) | End::Fenced => {}
        }
        for partition in partitions {
            self.give_up(*partition);
        }
        let tasks = partitions.iter();
        let tasks: Vec<_> = tasks
            .map(|partition| self.shared.topology.task_id(*partition))
            .collect();
        self.committer.release(&tasks);
        self.tell_running();
        // Without a partition this worker is not done: it may be given others.
        let reads = |partition: &Partition| usize::from(partition.source) == source;
        self.assigned[source] = self.tasks.partitions().iter().any(reads);
        match end {
            End::Held(Some((of, error))) if of != source => Err(self.source_error(of, error)),
            End::Held(_) => Ok(()),
            End::Aborted(refused) => self.go_back(refused),
            End::Fenced => self.go_back_where_possible(),
        }
    }

    /// A task runs here no more.
    fn give_up(&mut self, partition: Partition) {
        self.requests.retain(|_, (of, ..)| *of != partition);
        for (stage, request) in self.kept.gone(partition) {
            self.cancel(stage, request);
        }
        self.output.refused.gone(partition);
        let Some(task) = self.tasks.remove(partition) else {
            return;
        };
        let (id, left) = (task.id(), task.left_behind());
        self.shared.ledger.taken_back(&id, task.counts);
        self.shared.ledger.left_behind(&id, left);
        let meters = &self.output.meters;
        meters.add_abandoned(left.input, left.split);
        task.abandon(meters);
    }

    pub(super) fn cancel(&self, stage: usize, request: u64) {
        if let Some(StageKind::Model(kind)) =
            (self.shared.topology.stages.get(stage)).map(|stage| &stage.kind)
        {
            kind.model.cancel(RequestId(request));
        }
    }

    /// A cut came to nothing: every task goes back to the last one that holds, and reads on from there. Requests that
    /// models have are kept for the records they were made for.
    pub(super) fn go_back(
        &mut self,
        refused: Vec<(String, RefusedRecord)>,
    ) -> Result<(), FlowError> {
        self.back(refused, false)
    }

    /// The same after a cut that was fenced. Which partitions are others' the sources will tell; one that cannot be read
    /// from its last cut any more ends here at once, so that nothing after it is taken for what follows it.
    pub(super) fn go_back_where_possible(&mut self) -> Result<(), FlowError> {
        self.back(Vec::new(), true)
    }

    fn back(
        &mut self,
        refused: Vec<(String, RefusedRecord)>,
        fenced: bool,
    ) -> Result<(), FlowError> {
        self.output.discard(refused);
        self.requests.clear();
        let partitions = self.tasks.partitions();
        let assigned = partitions.iter().map(|partition| Assigned {
            partition: *partition,
            kept: None,
        });
        let assignments: Vec<Assignment> = assigned.map(|one| self.assignment(one)).collect();
        let images = self.committer.load(&assignments)?;
        for (partition, image) in partitions.into_iter().zip(images) {
            let Some(mut task) = self.tasks.get_mut(partition) else {
                continue;
            };
            self.shared.ledger.taken_back(&task.id(), task.counts);
            for (stage, entry) in task.take_waiting() {
                self.kept.keep(partition, stage, entry);
            }
            let paused = task.paused;
            let position = task.go_back(&image);
            drop(task);
            let source = usize::from(partition.source);
            let port = &mut self.sources[source];
            let mut moved = Ok(());
            if let Some(position) = position {
                moved = port.seek(partition, position);
            }
            if paused {
                moved = moved.and_then(|()| port.resume(partition));
            }
            match moved {
                Err(_) if fenced && !self.shared.topology.sources[source].fixed => {
                    self.give_up(partition);
                    let task = self.shared.topology.task_id(partition);
                    self.committer.release(&[task]);
                    continue;
                }
                moved => moved.map_err(|error| self.source_error(source, error))?,
            }
            self.restore(partition, image)?;
        }
        self.last_cut = Instant::now();
        Ok(())
    }
}
