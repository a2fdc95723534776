//! Which version of each slot the tasks run: what a cut says, and what a restart begins with.

use std::sync::Arc;

use tidegate_contract::{OperatorVersion, SlotVersion};

use crate::topology::{OperatorStage, StageKind, Topology};

/// What the tasks of one worker run in a stage.
#[derive(Clone, Debug, Default)]
pub(crate) enum Runs {
    /// None of them has an operator there.
    #[default]
    Nothing,
    /// All the same.
    One(Arc<OperatorVersion>),
    /// Some have switched, others not.
    Several,
}

impl Runs {
    /// What these tasks run together.
    pub(crate) fn of<'a>(versions: impl Iterator<Item = &'a Arc<OperatorVersion>>) -> Runs {
        let all = versions.map(|version| Runs::One(Arc::clone(version)));
        all.fold(Runs::Nothing, Runs::and)
    }

    fn and(self, other: Runs) -> Runs {
        match (self, other) {
            (Runs::Nothing, one) | (one, Runs::Nothing) => one,
            (Runs::One(a), Runs::One(b))
                if Arc::ptr_eq(&a, &b)
                    || (a.digest == b.digest && a.revision.digest == b.revision.digest) =>
            {
                Runs::One(a)
            }
            _ => Runs::Several,
        }
    }
}

/// What every worker's tasks run, as each has last said.
#[derive(Debug)]
pub(crate) struct Running {
    /// By worker, then by stage.
    workers: Vec<Vec<Runs>>,
    /// By stage: what a cut says of an operator.
    named: Vec<Option<SlotVersion>>,
}

impl Running {
    pub(crate) fn new(topology: &Topology) -> Running {
        let named = topology.stages.iter().map(|stage| match &stage.kind {
            StageKind::Model(_) => None,
            StageKind::Operator(kind) => Some(of(&stage.name, kind, &kind.slot.version())),
        });
        Running {
            workers: Vec::new(),
            named: named.collect(),
        }
    }

    /// A worker's tasks run this now, by stage; nothing of a worker that has ended.
    pub(crate) fn set(&mut self, worker: usize, runs: Vec<Runs>) {
        if self.workers.len() <= worker {
            self.workers.resize(worker + 1, Vec::new());
        }
        self.workers[worker] = runs;
    }

    /// A deployment to a stage is done: this is what its tasks run, those too that will only start it with their first
    /// record, and tasks to come.
    pub(crate) fn deployed(
        &mut self,
        topology: &Topology,
        stage: usize,
        version: &OperatorVersion,
    ) {
        if let Some(described) = topology.stages.get(stage)
            && let StageKind::Operator(kind) = &described.kind
        {
            self.named[stage] = Some(of(&described.name, kind, version));
        }
    }

    /// What a cut says. A version is named once every task runs it or its deployment is done, and until another is: one
    /// that only some have switched to may be about to go back.
    pub(crate) fn name(&mut self, topology: &Topology) -> Vec<SlotVersion> {
        for (index, (stage, named)) in topology.stages.iter().zip(&mut self.named).enumerate() {
            let StageKind::Operator(kind) = &stage.kind else {
                continue;
            };
            let runs = self.workers.iter().filter_map(|stages| stages.get(index));
            match runs.cloned().fold(Runs::Nothing, Runs::and) {
                Runs::One(version) => *named = Some(of(&stage.name, kind, &version)),
                // Without a task that has an instance, the last deployment that was done says it.
                Runs::Nothing | Runs::Several => {}
            }
        }
        self.named.iter().flatten().cloned().collect()
    }
}

fn of(slot: &str, kind: &OperatorStage, version: &OperatorVersion) -> SlotVersion {
    SlotVersion {
        slot: slot.to_owned(),
        version: version.version.clone(),
        digest: version.digest.clone(),
        configured: kind.configured.clone(),
        revision: version.revision.clone(),
    }
}
