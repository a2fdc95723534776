//! Partitions that come and go, and tasks that go back to their last cut.
//!
//! What a store has of a partition that comes may take long to read. Until it is there the partition is paused, and
//! everything else goes on: its source is polled, so that the group keeps this member and can take the partition away
//! again.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Instant;

use tidegate_contract::{
    Assigned, Assignment, EntryKey, Keeper, Partition, RefusedRecord, RequestId, SourceError,
    Store, TaskId, TaskImage,
};

use super::Worker;
use super::cut::End;
use crate::asked;
use crate::begin::{self, Begin, Keeps, Known, Stored};
use crate::entry::Entry;
use crate::error::FlowError;
use crate::kept::{self, Restored};
use crate::task::Task;
use crate::topology::StageKind;

/// Partitions of one source that are read here as soon as it is known where they begin.
pub(super) struct Arriving {
    source: usize,
    partitions: Vec<Arrived>,
}

struct Arrived {
    partition: Partition,
    assignment: Assignment,
    /// Its source has told that it is at its end.
    ended: bool,
}

impl Arriving {
    fn assignments(&self) -> Vec<Assignment> {
        let partitions = self.partitions.iter();
        partitions.map(|one| one.assignment.clone()).collect()
    }

    /// The partition is at its end already.
    pub(super) fn ends(&mut self, partition: Partition) {
        let mut partitions = self.partitions.iter_mut();
        if let Some(arrived) = partitions.find(|one| one.partition == partition) {
            arrived.ended = true;
        }
    }
}

impl Worker {
    fn assignment(&self, assigned: Assigned) -> Assignment {
        let Assigned { partition, kept } = assigned;
        let topology = &self.shared.topology;
        let source = &topology.sources[usize::from(partition.source)];
        let name = source.identity(partition.number).unwrap_or_default();
        let id = kept.as_ref().map_or("", |kept| kept.id.as_str());
        Assignment {
            task: topology.task_id(partition),
            identity: begin::identity(name, id),
            kept,
        }
    }

    /// These partitions are read here from now on. Their tasks are made at once if what their store has of them is there.
    pub(super) fn come(&mut self, source: usize, assigned: Vec<Assigned>) -> Result<(), FlowError> {
        let partitions = assigned.into_iter().map(|one| Arrived {
            partition: one.partition,
            assignment: self.assignment(one),
            ended: false,
        });
        let arriving = Arriving {
            source,
            partitions: partitions.collect(),
        };
        if self.committer.fetch(&arriving.assignments())? {
            return self.open(arriving, false);
        }
        for Arrived { partition, .. } in &arriving.partitions {
            let paused = self.sources[source].pause(*partition);
            paused.map_err(|error| self.source_error(source, error))?;
        }
        self.arriving.push(arriving);
        Ok(())
    }

    /// Makes the tasks of partitions of which it is known by now where they begin. Returns whether there were any.
    pub(super) fn take_arrived(&mut self) -> Result<bool, FlowError> {
        let mut any = false;
        for arriving in std::mem::take(&mut self.arriving) {
            if self.committer.fetch(&arriving.assignments())? {
                self.open(arriving, true)?;
                any = true;
            } else {
                self.arriving.push(arriving);
            }
        }
        Ok(any)
    }

    /// Makes the tasks of partitions, from where their last cuts left them.
    fn open(&mut self, arriving: Arriving, paused: bool) -> Result<(), FlowError> {
        let topology = self.shared.topology.clone();
        let images = self.committer.load(&arriving.assignments())?;
        let Arriving { source, partitions } = arriving;
        let keeper = self.committer.keeper(&topology.sources[source].name);
        let mut moved = Vec::new();
        for (arrived, image) in partitions.into_iter().zip(images) {
            let Arrived {
                partition,
                assignment,
                mut ended,
            } = arrived;
            let mark = assignment.mark(image.mark.as_ref());
            let (begin, stale, restored) = self.decide(source, &assignment, &keeper, image)?;
            if let Some(mark) = mark {
                self.audit_begun(&assignment.task, mark.as_ref())?;
            }
            let kept = assignment.kept.as_ref().map(|kept| kept.position);
            let port = &mut self.sources[source];
            let mut ready = Ok(());
            if let Some(position) = begin.position
                && kept != Some(position)
            {
                ready = port.seek(partition, position);
                // It is told again where that is so.
                ended = false;
            }
            if paused {
                ready = ready.and_then(|()| port.resume(partition));
            }
            ready.map_err(|error| self.source_error(source, error))?;
            if topology.sources[source].fixed {
                moved.extend(begin::moved(&assignment, &begin, &keeper));
            }
            self.shared
                .ledger
                .loaded(assignment.task.clone(), begin.counts);
            let waited = &self.shared.waited;
            let mut waited = waited.lock().unwrap_or_else(PoisonError::into_inner);
            // In flight since the run began, whoever takes it.
            self.shown += waited.remove(&assignment.task).unwrap_or_default();
            drop(waited);
            let mut task = Task::new(partition, topology.clone(), &begin, self.starts.clone());
            self.output
                .inputs
                .reads(partition, &topology.sources[source], &begin.identity);
            task.takes_away(stale);
            task.ended = ended;
            self.tasks.insert(task);
            self.restore(partition, restored)?;
        }
        self.shared.ledger.moved(moved)
    }

    /// How a task begins; what of its store is to be taken away, and what goes on.
    fn decide(
        &self,
        source: usize,
        assignment: &Assignment,
        keeper: &Keeper,
        mut image: TaskImage,
    ) -> Result<(Begin, BTreeSet<EntryKey>, Vec<Restored>), FlowError> {
        let topology = &self.shared.topology;
        let task = &assignment.task;
        let entries = std::mem::take(&mut image.entries);
        let keys: Vec<EntryKey> = entries.keys().cloned().collect();
        let mut restored = kept::restore(entries).map_err(FlowError::State)?;
        let own = Stored {
            image: &image,
            records: kept::records(&restored),
        };
        let former = begin::former_source(task, assignment.kept.as_ref());
        let former = former.map(|source| TaskId {
            source,
            ..task.clone()
        });
        let former = former.and_then(|former| self.shared.ledger.task(&former));
        let former = former.map(count).transpose()?;
        let in_log = match keeper.store {
            Store::Log => None,
            Store::Changelog(_) => self.shared.ledger.task(task).map(count).transpose()?,
        };
        let known = Known {
            task,
            identity: &assignment.identity,
            fixed: topology.sources[source].fixed,
            keeper,
            kept: assignment.kept.as_ref(),
            log: match keeper.store {
                Store::Log => (image != TaskImage::default() || !keys.is_empty()).then_some(own),
                Store::Changelog(_) => stored(&in_log),
            },
            changelog: matches!(keeper.store, Store::Changelog(_)).then_some(own),
            former: stored(&former),
        };
        let mut begin = begin::begin(&known).map_err(FlowError::State)?;
        begin::beside(topology, &keeper.store, &image).map_err(FlowError::State)?;
        if let Some((image, records)) = &in_log
            && *records > 0
        {
            // Others have gone on from there: nobody would take them away any more.
            self.shared.ledger.forget(task, image)?;
        }
        let stays = |offset: u64| match begin.keeps {
            Keeps::All => true,
            Keeps::Nothing => false,
            Keeps::Before(position) => offset < position,
        };
        let stale: BTreeSet<EntryKey> = (keys.into_iter())
            .filter(|key| !stays(key.offset))
            .collect();
        restored.retain(|restored| stays(restored.waits.offset()));
        if begin.keeps != Keeps::All {
            begin.counts.input += kept::records(&restored);
        }
        if !stale.is_empty() {
            tracing::warn!(
                entries = stale.len(),
                "what waits of {task} is set aside: its position was set anew, or another process has gone on"
            );
        }
        Ok((begin, stale, restored))
    }

    /// Gives a task what waited at its last cut.
    fn restore(
        &mut self,
        partition: Partition,
        mut restored: Vec<Restored>,
    ) -> Result<(), FlowError> {
        for restored in &mut restored {
            let came = restored.waits.come_from(partition.source);
            came.map_err(|why| FlowError::State(format!("an in-flight entry: {why}")))?;
        }
        let unwanted = self.unwanted(partition, &restored);
        self.with_task(partition, |task, output| {
            for restored in restored {
                output.restored(&restored);
                task.restore(restored)?;
            }
            // Nothing of it is with a model yet. Answers that are there go on.
            task.end_gone(&unwanted, output).map(drop)
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
        let end = self.insisting_cut()?;
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
        for arriving in &mut self.arriving {
            let left = |one: &Arrived| !partitions.contains(&one.partition);
            arriving.partitions.retain(left);
        }
        self.arriving
            .retain(|arriving| !arriving.partitions.is_empty());
        let tasks = partitions.iter();
        let tasks: Vec<_> = tasks
            .map(|partition| self.shared.topology.task_id(*partition))
            .collect();
        self.committer.release(&tasks);
        self.tell_running();
        // Without a partition this worker is not done: it may be given others.
        let reads = |partition: &Partition| usize::from(partition.source) == source;
        let comes = |arriving: &Arriving| arriving.source == source;
        self.assigned[source] =
            self.tasks.partitions().iter().any(reads) || self.arriving.iter().any(comes);
        match end {
            End::Held(Some((_, SourceError::NotYet { .. }))) => Ok(()),
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
        self.output.hearing.gone(partition);
        let Some(task) = self.tasks.remove(partition) else {
            return;
        };
        let (id, left) = (task.id(), task.left_behind());
        self.shared.ledger.taken_back(&id, task.counts);
        let left = self.shared.ledger.left_behind(&id, task.counts, left);
        let meters = &self.output.meters;
        meters.add_abandoned(left.input, left.split);
        task.abandon(meters);
    }

    pub(super) fn cancel(&self, stage: usize, request: u64) {
        if let Some(StageKind::Model(kind)) =
            (self.shared.topology.stages.get(stage)).map(|stage| &stage.kind)
        {
            kind.cancel(RequestId(request));
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
        self.failed_cuts = self.failed_cuts.saturating_add(1);
        self.output.discard(refused);
        let topology = self.shared.topology.clone();
        let stays = |partition: &Partition| topology.callers_of(partition.source).is_some();
        self.requests.retain(|_, (partition, ..)| stays(partition));
        let partitions = self.tasks.partitions();
        let assigned = partitions.iter().map(|partition| Assigned {
            partition: *partition,
            kept: None,
        });
        let assignments: Vec<Assignment> = assigned.map(|one| self.assignment(one)).collect();
        let images = self.committer.load(&assignments)?;
        for (partition, mut image) in partitions.into_iter().zip(images) {
            let Some(mut task) = self.tasks.get_mut(partition) else {
                continue;
            };
            if stays(&partition) {
                task.stay(&image);
                continue;
            }
            self.shared.ledger.taken_back(&task.id(), task.counts);
            for (stage, entry) in task.take_waiting() {
                let question = |entry: &Entry| match &topology.stages[stage].kind {
                    StageKind::Model(kind) => asked::canonical(kind, entry),
                    StageKind::Operator(_) => String::new(),
                };
                self.kept.keep(partition, stage, entry, question);
            }
            let paused = task.paused;
            let position = task.go_back(&mut image);
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
            let restored = kept::restore(image.entries).map_err(FlowError::State)?;
            self.restore(partition, restored)?;
        }
        self.last_cut = Instant::now();
        Ok(())
    }
}

/// What a log has of a task, and how many records wait in it.
fn count(image: TaskImage) -> Result<(TaskImage, u64), FlowError> {
    let restored = kept::restore(image.entries.clone()).map_err(FlowError::State)?;
    Ok((image, kept::records(&restored)))
}

fn stored(counted: &Option<(TaskImage, u64)>) -> Option<Stored<'_>> {
    let (image, records) = counted.as_ref()?;
    let records = *records;
    Some(Stored { image, records })
}
