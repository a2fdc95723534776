//! Those who wait for records of this worker: waking it, answers as they are made, and callers that have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_contract::{CallerId, Partition, RequestId};
use tidegate_record::Origin;

use super::{Completion, TURN, Worker};
use crate::error::FlowError;
use crate::kept::Restored;
use crate::task::{Shown, Then};
use crate::topology::StageKind;

impl Worker {
    /// Lets sources wake this worker while it waits for something else.
    pub(super) fn hear_sources(&mut self) {
        for (index, source) in self.sources.iter_mut().enumerate() {
            let (awake, sender) = (self.awake.clone(), self.sender.clone());
            let told = source.wakes(Arc::new(move || {
                // Once until the worker has looked, so that there is always room.
                if !awake.swap(true, Ordering::AcqRel) {
                    let _ = sender.try_send(Completion::Awake);
                }
            }));
            let called = self.shared.topology.callers_of(index as u16).is_some();
            self.is_woken &= told || !called;
        }
    }

    /// Whether it waits by itself rather than with its last source: it has several, and one of them wakes it.
    pub(super) fn waits_by_itself(&self) -> bool {
        self.is_woken && self.sources.len() > 1 && self.called().next().is_some()
    }

    /// The sources that callers have, of which this worker reads something.
    fn called(&self) -> impl Iterator<Item = u16> {
        let topology = &self.shared.topology;
        let sources = 0..topology.sources.len() as u16;
        let called = |source: &u16| topology.callers_of(*source).is_some();
        sources
            .filter(called)
            .filter(|source| self.tasks.reads(*source))
    }

    /// The offsets of records that an earlier run left and that no caller will ask for.
    pub(super) fn unwanted(&self, partition: Partition, restored: &[Restored]) -> BTreeSet<u64> {
        let Some(callers) = self.shared.topology.callers_of(partition.source) else {
            return BTreeSet::new();
        };
        let mut left: BTreeMap<CallerId, usize> = BTreeMap::new();
        let mut unwanted = BTreeSet::new();
        for id in restored
            .iter()
            .flat_map(|restored| restored.waits.records())
        {
            unwanted.insert(id.offset);
            if id.origin == Origin::Source {
                *left.entry(id.into()).or_default() += 1;
            }
        }
        let left: Vec<(CallerId, usize)> = left.into_iter().collect();
        for wanted in callers.left(partition.source, &left) {
            unwanted.remove(&wanted.offset);
        }
        unwanted
    }

    /// Ends the records of callers that have gone, and the requests that models have for them.
    pub(super) fn take_gone(&mut self) -> Result<bool, FlowError> {
        if self.called().next().is_none() {
            return Ok(false);
        }
        let topology = self.shared.topology.clone();
        let gone = (topology.callers.as_ref()).map(|called| called.callers.take_gone());
        let gone = gone.unwrap_or_default();
        let mut partitions: BTreeMap<Partition, BTreeSet<u64>> = BTreeMap::new();
        for caller in gone {
            let partition = Partition {
                source: caller.source,
                number: caller.partition,
            };
            let offsets = partitions.entry(partition).or_default();
            offsets.insert(caller.offset);
        }
        let any = !partitions.is_empty();
        for (partition, offsets) in partitions {
            if topology.callers_of(partition.source).is_none() {
                continue;
            }
            let requests =
                self.with_task(partition, |task, output| task.end_gone(&offsets, output))?;
            for (stage, request) in requests.unwrap_or_default() {
                // Its reply still comes, and is nobody's.
                self.requests.remove(&request);
                self.cancel(stage, request);
            }
        }
        Ok(any)
    }

    /// Parts of an answer have come, or have their turn.
    pub(super) fn show(&mut self, request: u64) -> Result<(), FlowError> {
        self.rests.take(request);
        let Some((partition, stage, number)) = self.requests.get(&request).copied() else {
            return Ok(());
        };
        self.follow_versions(partition, stage, number);
        let shown = self.with_task(partition, |task, output| task.show(stage, number, output))?;
        if let Some(shown) = shown {
            self.shown(stage, request, shown);
        }
        Ok(())
    }

    /// Has an answer go on with the version that a slot runs now, where its handlers of another one cannot.
    fn follow_versions(&mut self, partition: Partition, stage: usize, number: u64) {
        let topology = self.shared.topology.clone();
        let Some(mut task) = self.tasks.get_mut(partition) else {
            return;
        };
        let Some(Some(showing)) = task.waiting[stage].showing(number) else {
            return;
        };
        for stuck in showing.stuck() {
            if let StageKind::Operator(operator) = &topology.stages[stuck.stage].kind
                && operator.slot.generation() != stuck.generation
                && let Some(handler) = self.handlers.of(stuck.stage, operator.slot.as_ref())
            {
                showing.goes_to(&handler);
            }
        }
    }

    /// Has answers go on whose turn has come again, or whose handlers may be tried again.
    pub(super) fn take_rests(&mut self) -> Result<bool, FlowError> {
        let began = Instant::now();
        let mut any = false;
        while (!any || began.elapsed() < TURN)
            && let Some(request) = self.rests.take_due(began)
        {
            self.show(request)?;
            any = true;
        }
        self.handlers.tell(&self.output.meters);
        Ok(any)
    }

    /// What follows for the model from what was shown.
    pub(super) fn shown(&mut self, stage: usize, request: u64, shown: Shown) {
        if shown.is_ended
            && let StageKind::Model(kind) = &self.shared.topology.stages[stage].kind
        {
            kind.end(RequestId(request));
        }
        match shown.then {
            Then::Waits => {}
            Then::GoesOn(due) => self.rests.put(request, due),
            Then::Done => drop(self.requests.remove(&request)),
            Then::Left => {
                self.requests.remove(&request);
                self.cancel(stage, request);
            }
        }
    }
}
