//! Taking a cut: everything the tasks have done since the last one becomes durable, or was not.

use std::time::{Duration, Instant};

use tidegate_contract::{
    CommitError, CommitPoint, Cut, Done, LARGEST_MARK, Mark, MoveState, Moved, Participants,
    Partition, RefusedRecord, Settled, SourceError, Store, TaskId,
};
use tidegate_telemetry::events::{CutAborted, CutCommitted};

use super::Worker;
use crate::counts::Counts;
use crate::error::FlowError;
use crate::ledger::Ledger;
use crate::output::Output;
use crate::task::Task;
use crate::topology::Positions;
use crate::traced::{self, Finished};

/// A cut of which nothing is known for so long does not become one.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a source that does not take positions yet is left alone: each try may take as long.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// How long it is asked to take those of the last cut, or of partitions that are taken away.
const INSISTS: Duration = Duration::from_secs(30);

/// What a cut that is under way will have made durable.
pub(super) struct Committing {
    began: Instant,
    tasks: Vec<(Partition, TaskId, Counts, Option<u64>)>,
    in_flight: usize,
    /// When records were read that are finished with it, and how many.
    finished: Vec<(Instant, u64)>,
    /// Those of them that are traced.
    traced: Finished,
}

/// The sinks of a worker. The log keeps where their files end, also where cuts of tasks are committed elsewhere: it is
/// told before such a cut is, so that a crash between the two repeats output and takes none away.
struct Sinks<'a> {
    output: &'a mut Output,
    ledger: &'a Ledger,
}

impl Participants for Sinks<'_> {
    fn flush(&mut self, cut: &mut Cut) -> Result<(), CommitError> {
        if self.output.topology.commit_point == CommitPoint::Log {
            return self.output.flush(cut);
        }
        self.ledger.write_files(|| {
            self.output.flush(cut)?;
            Ok(std::mem::take(&mut cut.sinks))
        })
    }
}

/// How a cut ended.
pub(super) enum End {
    /// It holds. A source that keeps positions by itself may have refused to take them.
    Held(Option<(usize, SourceError)>),
    /// It does not: its tasks are to go back.
    Aborted(Vec<(String, RefusedRecord)>),
    /// It does not, and partitions are others' now: which, their source will tell.
    Fenced,
}

impl Worker {
    pub(super) fn cut_is_due(&self) -> bool {
        // A source carries an assignment out with its next poll: until then a group would not take positions of it.
        if self.committing.is_some() || self.opening.contains(&true) {
            return false;
        }
        // The less is in a cut, the less there is for which it may come to nothing again.
        let interval = self.shared.topology.cut_interval / (1 << self.failed_cuts.min(10));
        self.output.is_full() || (self.last_cut.elapsed() >= interval && self.has_changes())
    }

    pub(super) fn has_changes(&self) -> bool {
        let tells = self.untold && self.tell_again.is_none_or(|at| Instant::now() >= at);
        tells || self.output.pending() > 0 || self.tasks.have_changes()
    }

    /// Begins a cut of everything the tasks have done since the last one.
    pub(super) fn begin_cut(&mut self) -> Result<(), FlowError> {
        self.last_cut = Instant::now();
        if !self.has_changes() {
            return Ok(());
        }
        self.tell_running();
        self.shared.ledger.write_slots()?;
        let began = Instant::now();
        let mut cut = Cut::default();
        let in_flight = self.in_flight();
        let mut partitions: Vec<Partition> = self.tasks.changed().into_iter().collect();
        if self.untold || partitions.is_empty() {
            partitions = self.tasks.partitions();
        }
        let mut tasks = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let Some(mut task) = self.tasks.get_mut(partition) else {
                continue;
            };
            let (id, part) = (task.id(), task.cut());
            tasks.push((partition, id.clone(), task.counts, part.unfinished));
            cut.tasks.insert(id, part);
        }
        self.output.refused.cut_begins();
        let mut sinks = Sinks {
            output: &mut self.output,
            ledger: &self.shared.ledger,
        };
        self.committer.begin(cut, &mut sinks)?;
        for (partition, records) in std::mem::take(&mut self.output.refused_late) {
            if let Some(mut task) = self.tasks.get_mut(partition) {
                task.refused_late(records);
            }
            let mut tasks = tasks.iter_mut();
            if let Some((_, _, counts, _)) = tasks.find(|(of, ..)| *of == partition) {
                *counts = counts.refused_late(records);
            }
        }
        self.committing = Some(Committing {
            began,
            tasks,
            in_flight,
            finished: std::mem::take(&mut self.output.finished),
            traced: self.output.traces.take_finished(),
        });
        Ok(())
    }

    /// Looks what became of the cut that is under way. Returns whether that is known now.
    pub(super) fn settle(&mut self, wait: Duration) -> Result<bool, FlowError> {
        match self.end_of_cut(wait)? {
            None => return Ok(false),
            // The cut holds: it is told with the next one.
            Some(End::Held(None | Some((_, SourceError::NotYet { .. })))) => {}
            Some(End::Held(Some((source, error)))) => return Err(self.source_error(source, error)),
            Some(End::Aborted(refused)) => self.go_back(refused)?,
            Some(End::Fenced) => self.go_back_where_possible()?,
        }
        Ok(true)
    }

    /// Takes a cut and waits for its end. Returns whether it holds; otherwise the tasks have gone back.
    pub(super) fn last_cut(&mut self) -> Result<bool, FlowError> {
        match self.insisting_cut()? {
            End::Held(None) => Ok(true),
            End::Held(Some((source, error))) => Err(self.source_error(source, error)),
            End::Aborted(refused) => self.go_back(refused).map(|()| false),
            End::Fenced => self.go_back_where_possible().map(|()| false),
        }
    }

    /// The end of a cut of everything that is done. A source that does not take its positions yet is asked again for a
    /// while.
    pub(super) fn insisting_cut(&mut self) -> Result<End, FlowError> {
        let deadline = Instant::now() + INSISTS;
        loop {
            self.tell_again = None;
            let end = self.whole_cut()?;
            let untold = matches!(&end, End::Held(Some((_, SourceError::NotYet { .. }))));
            if !untold || Instant::now() >= deadline {
                return Ok(end);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The end of a cut of everything that is done: the one that is under way, if that comes to nothing, or one more.
    fn whole_cut(&mut self) -> Result<End, FlowError> {
        let deadline = Instant::now() + PATIENCE;
        let mut begun = false;
        loop {
            let end = match self.end_of_cut(Duration::from_millis(100))? {
                Some(end) => end,
                None if self.committing.is_none() => End::Held(None),
                None if Instant::now() >= deadline => {
                    return Err(FlowError::Commit(CommitError::Commit {
                        place: format!("worker {}", self.number),
                        why: format!("nothing is known of a cut after {PATIENCE:?}"),
                    }));
                }
                None => continue,
            };
            let held = matches!(
                &end,
                End::Held(None | Some((_, SourceError::NotYet { .. })))
            );
            if begun || !held {
                return Ok(end);
            }
            self.tell_again = None;
            self.begin_cut()?;
            begun = true;
        }
    }

    fn end_of_cut(&mut self, wait: Duration) -> Result<Option<End>, FlowError> {
        if self.committing.is_none() {
            return Ok(None);
        }
        let Some(settled) = self.committer.settled(wait)? else {
            return Ok(None);
        };
        let Some(committing) = self.committing.take() else {
            return Ok(None);
        };
        Ok(Some(match settled {
            Settled::Committed { number } => {
                self.audit_settled(true)?;
                let first = |task: &Task| task.begins();
                self.moved(MoveState::There, first)?;
                End::Held(self.held(number, committing))
            }
            Settled::Aborted { why, refused } => {
                self.audit_settled(false)?;
                self.taken_back(&why);
                End::Aborted(refused)
            }
            Settled::Fenced { why } => {
                self.audit_settled(false)?;
                self.taken_back(&why);
                End::Fenced
            }
        }))
    }

    /// The audit says what became of the lines of the cut, where the commit log does not decide that.
    fn audit_settled(&mut self, held: bool) -> Result<(), FlowError> {
        let audit = &mut self.output.audit;
        let ledger = &self.shared.ledger;
        ledger.write_files(|| Ok(audit.settled(held)?.into_iter().collect()))?;
        audit.logged();
        Ok(())
    }

    /// The audit says what became of cuts of a life before this one, as far as what stands beside a task tells it.
    pub(super) fn audit_begun(
        &mut self,
        task: &TaskId,
        mark: Option<&Mark>,
    ) -> Result<(), FlowError> {
        let audit = &mut self.output.audit;
        let ledger = &self.shared.ledger;
        ledger.write_files(|| Ok(audit.begun(task, mark)?.into_iter().collect()))?;
        audit.logged();
        Ok(())
    }

    fn taken_back(&self, why: &impl ToString) {
        CutAborted {
            worker: self.number,
            reason: &why.to_string(),
        }
        .emit(&self.output.meters);
    }

    /// Tells the log of those tasks whose state is in a changelog, of sources that keep no positions, how far it is.
    pub(super) fn moved(
        &self,
        state: MoveState,
        of: impl Fn(&Task) -> bool,
    ) -> Result<(), FlowError> {
        let topology = &self.shared.topology;
        let mut moved = Vec::new();
        for task in self.tasks.values().filter(|task| of(task)) {
            let source = &topology.sources[usize::from(task.partition.source)];
            if !source.fixed {
                continue;
            }
            if let Store::Changelog(topic) = self.committer.keeper(&source.name).store {
                let moved_to = Moved { topic, state };
                moved.push((task.id(), task.as_moved(moved_to)));
            }
        }
        self.shared.ledger.moved(moved)
    }

    /// A cut holds.
    fn held(&mut self, number: u64, committing: Committing) -> Option<(usize, SourceError)> {
        let Committing {
            began,
            tasks,
            in_flight,
            finished,
            traced,
        } = committing;
        let records = finished.iter().map(|(_, records)| records).sum();
        let cut = traced::Cut {
            number,
            worker: self.number,
            records,
            in_flight: in_flight as u64,
            time: began.elapsed(),
        };
        self.output.traces.cut(traced, &cut);
        CutCommitted {
            cut: number,
            worker: self.number,
            records,
            in_flight: in_flight as u64,
            time: began.elapsed(),
        }
        .emit(&self.output.meters);
        self.watch.cut_held(&self.output.meters, began.elapsed());
        for (partition, ..) in &tasks {
            if let Some(mut task) = self.tasks.get_mut(*partition) {
                task.cut_holds();
            }
        }
        self.output.refused.cut_holds();
        let counts = tasks.iter().map(|(_, id, counts, _)| (id.clone(), *counts));
        self.shared.ledger.committed(counts);
        self.failed_cuts = 0;
        let now = Instant::now();
        for (since, records) in finished {
            let latency = now.duration_since(since);
            self.output.latency.record(latency, records);
        }
        let told = self.tell(&tasks);
        self.untold = told.is_some() || self.tell_again.is_some();
        told
    }

    /// Tells sources that keep positions what is done. One that does not take them yet is told again with a later cut, and
    /// keeps no other from being told.
    fn tell(
        &mut self,
        tasks: &[(Partition, TaskId, Counts, Option<u64>)],
    ) -> Option<(usize, SourceError)> {
        if self.tell_again.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        self.tell_again = None;
        let mut not_yet = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let positions = self.shared.topology.sources[index].positions;
            if positions != Positions::CutsAndSource {
                continue;
            }
            let of_source = tasks.iter();
            let of_source =
                of_source.filter(|(partition, ..)| usize::from(partition.source) == index);
            let of_source = of_source.filter_map(|(partition, task, _, unfinished)| {
                let mark = self.committer.mark(task);
                Some(Done {
                    partition: *partition,
                    position: (*unfinished)?,
                    waits: mark.waits > 0,
                    metadata: mark.write(LARGEST_MARK),
                })
            });
            let of_source: Vec<Done> = of_source.collect();
            match source.commit(&of_source) {
                Ok(()) => {}
                Err(error @ SourceError::NotYet { .. }) => {
                    self.tell_again = Some(Instant::now() + TELL_AGAIN);
                    not_yet = Some((index, error));
                }
                Err(error) => return Some((index, error)),
            }
        }
        not_yet
    }
}
