//! Those who wait for records of this worker: waking it, answers as they are made, and callers that have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_contract::{CallerId, Partition, RequestId};
use tidegate_record::Origin;

use super::{Completion, Worker};
use crate::error::FlowError;
use crate::kept::Restored;
use crate::task::Shown;
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

    /// Parts of an answer have come.
    pub(super) fn show(&mut self, request: u64) -> Result<(), FlowError> {
        let Some((partition, stage, number)) = self.requests.get(&request).copied() else {
            return Ok(());
        };
        let shown = self.with_task(partition, |task, output| {
            task.on_pieces(stage, number, output)
        })?;
        self.shown(stage, request, shown.unwrap_or(Shown::GoesOn));
        Ok(())
    }

    /// What follows for the model from what was shown.
    pub(super) fn shown(&mut self, stage: usize, request: u64, shown: Shown) {
        match shown {
            Shown::GoesOn => {}
            Shown::Failed => {
                self.requests.remove(&request);
                self.cancel(stage, request);
            }
            Shown::Ended => {
                if let StageKind::Model(kind) = &self.shared.topology.stages[stage].kind {
                    kind.end(RequestId(request));
                }
            }
        }
    }
}
