//! What makes the answers of those who wait. Whoever keeps answers must know from when on an equal question would have
//! another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_contract::{Model, Slot};

use crate::hearing::leading;
use crate::topology::{StageKind, Target, Topology};

/// The models, operators and handlers of tokens that have a part in the answers of those who wait for records of a source.
pub struct Makers {
    models: Vec<Arc<dyn Model>>,
    slots: Vec<Arc<dyn Slot>>,
    outdated: Outdated,
}

/// How often a batch was answered by a version of an operator that is not its slot's current one: that could not be started
/// yet. A copy is the same.
#[derive(Clone, Debug, Default)]
pub struct Outdated(Arc<AtomicU64>);

impl Outdated {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Makers {
    /// What was asked and answered while this stayed the same was made by the same, and by what is there now. Nothing that
    /// was replaced comes back to the text it had, not even by being loaded or deployed again.
    pub fn mark(&self) -> String {
        let mut mark = String::new();
        for model in &self.models {
            let digest = model.facts().digest;
            mark += &format!("{digest} {}\n", model.loads());
        }
        for slot in &self.slots {
            mark += &format!("{}\n", slot.generation());
        }
        mark + &self.outdated.0.load(Ordering::SeqCst).to_string()
    }
}

impl Topology {
    /// What makes the answers to a source's records.
    pub fn makers(&self, source: usize) -> Makers {
        let (leads, mut reached) = (leading(self), vec![false; self.stages.len()]);
        let mut makers = Makers {
            models: Vec::new(),
            slots: Vec::new(),
            outdated: (self.callers.as_ref())
                .map_or_else(Outdated::default, |called| called.outdated.clone()),
        };
        let mut waiting: Vec<Target> = match self.sources.get(source) {
            Some(source) => source.targets.clone(),
            None => Vec::new(),
        };
        while let Some(target) = waiting.pop() {
            let Target::Stage(index) = target else {
                continue;
            };
            if !leads[index] || std::mem::replace(&mut reached[index], true) {
                continue;
            }
            let stage = &self.stages[index];
            waiting.extend(stage.outputs());
            match &stage.kind {
                StageKind::Operator(kind) => makers.slots.push(kind.slot.clone()),
                StageKind::Model(kind) => {
                    makers.models.push(kind.model.clone());
                    let others = kind.alternatives.iter();
                    makers
                        .models
                        .extend(others.map(|other| other.model.clone()));
                    let handlers = kind.tokens.iter().filter_map(|of| self.stages.get(*of));
                    makers
                        .slots
                        .extend(handlers.filter_map(|of| match &of.kind {
                            StageKind::Operator(kind) => Some(kind.slot.clone()),
                            StageKind::Model(_) => None,
                        }));
                }
            }
        }
        makers
    }
}
