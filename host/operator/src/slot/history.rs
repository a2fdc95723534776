//! What the revisions of a slot have done and measured, those that have left included.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use tidegate_contract::OperatorVersion;

use super::ComponentSlot;
use crate::meters::RevisionStats;
use crate::metrics::{Metric, Metrics, Value};
use crate::revision::Revision;
use crate::shared::{SlotStats, lock};

/// Revisions of a slot that are reported one by one, the latest.
const REPORTED: usize = 8;

/// What the instances of one revision have measured, however often it was deployed.
#[derive(Clone, Debug)]
pub struct RevisionMetrics {
    /// The revision.
    pub version: Arc<OperatorVersion>,
    /// Every metric with what was measured, by the values of its labels.
    pub metrics: Vec<(Metric, BTreeMap<Vec<String>, Value>)>,
    /// Measurements that were left out, because there were too many combinations of labels, or for their name.
    pub refused: u64,
    /// When it had measured nothing.
    pub since: SystemTime,
}

/// What a revision has done since it was made, or first made of those that are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionReport {
    /// What it is.
    pub version: Arc<OperatorVersion>,
    /// What it has done.
    pub stats: RevisionStats,
    /// When it had done nothing.
    pub since: SystemTime,
    /// Whether the slot runs it now.
    pub runs: bool,
    /// Why it is run no more, if it has failed more often than the slot allows.
    pub tripped: Option<String>,
}

impl RevisionReport {
    /// Whether it is of the same revision.
    fn is(&self, other: &RevisionReport) -> bool {
        self.version.revision.digest == other.version.revision.digest
    }

    /// Adds what it did when it was deployed before.
    fn absorb(&mut self, earlier: &RevisionReport) {
        self.stats.add(&earlier.stats);
        self.since = self.since.min(earlier.since);
    }
}

/// What the slot's revisions have done.
#[derive(Default)]
pub(super) struct History {
    /// The latest, the current one at the end.
    latest: VecDeque<RevisionReport>,
    /// Those before together.
    before: RevisionStats,
    /// What the latest have measured, each revision once.
    measured: VecDeque<Measured>,
}

/// A revision and what it has measured.
type Measured = (Arc<OperatorVersion>, Arc<Metrics>);

impl ComponentSlot {
    /// Keeps what a revision has done that the slot lets go of.
    pub(super) fn remember(&self, revision: &Revision) {
        let mut history = lock(&self.history);
        let mut report = report(revision, false);
        // What its last instances hold is gone when its tasks have changed over.
        (report.stats.memory, report.stats.instances) = (0, 0);
        // One that was deployed more than once leaves as one: no part of a figure goes before the others.
        let known = history.latest.iter().position(|known| known.is(&report));
        if let Some(earlier) = known.and_then(|at| history.latest.remove(at)) {
            report.absorb(&earlier);
        }
        history.latest.push_back(report);
        let held = self.current.load_full();
        let held: Vec<_> = held
            .revisions()
            .map(|own| self::report(own, false))
            .collect();
        let leaves = |known: &RevisionReport| held.iter().all(|own| !own.is(known));
        // Two more are the slot's own.
        while history.latest.len() + 2 > REPORTED
            && let Some(at) = history.latest.iter().position(leaves)
            && let Some(oldest) = history.latest.remove(at)
        {
            history.before.add(&oldest.stats);
        }
        let (version, metrics) = measured(revision);
        history
            .measured
            .retain(|(known, _)| known.revision.digest != version.revision.digest);
        history.measured.push_back((version, metrics));
        while history.measured.len() + 2 > REPORTED {
            history.measured.pop_front();
        }
    }

    /// What the latest revisions have measured, the one that runs at the front, each once.
    fn measured(&self) -> Vec<Measured> {
        let current = self.current.load_full();
        let own = [Some(&current.revision), current.previous.as_ref()];
        let mut all: Vec<Measured> = Vec::new();
        let known = lock(&self.history).measured.clone();
        for (version, metrics) in own
            .into_iter()
            .flatten()
            .map(|own| measured(own.as_ref()))
            .chain(known.into_iter().rev())
        {
            let digest = &version.revision.digest;
            if all
                .iter()
                .all(|(known, _)| known.revision.digest != *digest)
            {
                all.push((version, metrics));
            }
        }
        all
    }

    /// The metrics of those.
    pub(super) fn shown(&self) -> Vec<Arc<Metrics>> {
        let measured = self.measured().into_iter();
        measured.map(|(_, metrics)| metrics).collect()
    }

    /// A revision that has run in this slot adds to what it measured then, if it still has the same metrics.
    pub(super) fn go_on_measuring(&self, revision: &mut Revision) {
        let digest = &revision.description.version.revision.digest;
        let before = self.measured().into_iter().find(|(known, metrics)| {
            known.revision.digest == *digest && metrics.declared() == revision.metrics.declared()
        });
        if let Some((_, metrics)) = before {
            revision.metrics = metrics;
        }
    }

    /// What the latest revisions have done, the one that runs at the end. One that was deployed more than once is there
    /// once.
    pub fn revisions(&self) -> Vec<RevisionReport> {
        let current = self.current.load_full();
        let mut all: Vec<RevisionReport> = lock(&self.history).latest.iter().cloned().collect();
        let runs = |revision| Arc::ptr_eq(revision, &current.revision);
        let held = current.revisions();
        all.extend(held.map(|revision| report(revision, runs(revision))));
        let mut merged: Vec<RevisionReport> = Vec::new();
        for mut report in all {
            if let Some(at) = merged.iter().position(|known| known.is(&report)) {
                report.absorb(&merged.remove(at));
            }
            merged.push(report);
        }
        merged
    }

    /// What the latest revisions have measured over all their instances, the one that runs at the front. One that was
    /// deployed more than once is there once.
    pub fn metrics(&self) -> Vec<RevisionMetrics> {
        self.measured()
            .into_iter()
            .map(|(version, metrics)| RevisionMetrics {
                version,
                metrics: metrics.all(),
                refused: metrics.refused(),
                since: metrics.since(),
            })
            .collect()
    }

    /// Bytes of all memories and tables of its instances at this moment, those made ready for tasks included.
    pub fn memory(&self) -> u64 {
        self.context.shared.memory.used()
    }

    /// What has happened in the slot since it was made, in all its revisions.
    pub fn stats(&self) -> SlotStats {
        let totals = self.totals();
        SlotStats {
            instances_lost: totals.lost_instances,
            poisoned: totals.failed,
            ..self.context.shared.stats()
        }
    }

    /// What all its revisions have done together.
    pub fn totals(&self) -> RevisionStats {
        let mut totals = lock(&self.history).before.clone();
        for report in self.revisions() {
            totals.add(&report.stats);
        }
        totals
    }
}

fn measured(revision: &Revision) -> Measured {
    (
        Arc::clone(&revision.description.version),
        Arc::clone(&revision.metrics),
    )
}

fn report(revision: &Revision, runs: bool) -> RevisionReport {
    RevisionReport {
        version: Arc::clone(&revision.description.version),
        stats: revision.meters.stats(),
        since: revision.meters.since,
        runs,
        tripped: revision.tally.tripped().map(str::to_owned),
    }
}
