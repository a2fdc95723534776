//! What a pipeline alone decides of whom callers hear.

use super::At;
use crate::answer;
use crate::topology::{Ask, Heard, ModelStage, StageKind, Target, Topology};

/// What is decided by the pipeline.
#[derive(Debug)]
pub(super) struct Ways {
    /// By sink that answers callers: whose answers it takes, the one that counts before all others first.
    pub sinks: Vec<Option<Vec<Heard>>>,
    /// By stage: whether a record may come from there to such a sink.
    pub lead: Vec<bool>,
    /// By stage: whether nothing behind it can take its answer away, or say something else in its place.
    pub last: Vec<bool>,
    /// By stage that asks a model: the attribute that has the number of its answer.
    pub numbers: Vec<Option<String>>,
}

impl Ways {
    pub(super) fn of(topology: &Topology) -> Ways {
        let mut sinks = vec![None; topology.sinks.len()];
        for (sink, heard) in topology.callers.iter().flat_map(|called| &called.sinks) {
            if let Some(place) = sinks.get_mut(*sink) {
                *place = Some(heard.clone());
            }
        }
        let numbers = topology.stages.iter().map(|stage| match &stage.kind {
            StageKind::Model(kind) => Some(answer::number_name(&kind.field)),
            StageKind::Operator(_) => None,
        });
        let mut ways = Ways {
            numbers: numbers.collect(),
            sinks,
            lead: leading(topology),
            last: Vec::new(),
        };
        let stages = topology.stages.iter().enumerate();
        let last = stages.map(|(index, stage)| match &stage.kind {
            StageKind::Model(kind) => ways.is_last(topology, index, kind),
            StageKind::Operator(_) => false,
        });
        ways.last = last.collect();
        ways
    }

    fn is_last(&self, topology: &Topology, index: usize, kind: &ModelStage) -> bool {
        let is_shown = matches!(kind.ask, Ask::Generate { .. });
        if !is_shown || !self.lead[index] {
            return false;
        }
        let writes = |heard: &Heard| heard.stage == index && heard.writes;
        let mut seen = vec![false; topology.stages.len()];
        let mut waiting = vec![index];
        while let Some(stage) = waiting.pop() {
            for target in topology.stages[stage].outputs() {
                match target {
                    Target::Sink(sink) => {
                        let heard = self.sinks[sink].as_ref();
                        if heard.is_some_and(|heard| !heard.iter().any(writes)) {
                            return false;
                        }
                    }
                    Target::Stage(next) => {
                        // Where nothing leads to a caller, whatever is done there is done to nobody's answer.
                        if !self.lead[next] || std::mem::replace(&mut seen[next], true) {
                            continue;
                        }
                        if !kind.tokens.contains(&next) {
                            return false;
                        }
                        waiting.push(next);
                    }
                }
            }
        }
        true
    }

    pub(super) fn leads(&self, at: At) -> i64 {
        let leads = match at {
            At::Source => true,
            At::Stage(stage) => self.lead.get(stage) == Some(&true),
            At::Sink(sink) => self.sinks.get(sink).is_some_and(Option::is_some),
        };
        i64::from(leads)
    }
}

/// By stage: whether a record may come from there to a sink that answers callers.
pub(crate) fn leading(topology: &Topology) -> Vec<bool> {
    let answers = |sink| {
        let called = topology.callers.as_ref();
        called.is_some_and(|called| called.sinks.contains_key(&sink))
    };
    let mut lead = vec![false; topology.stages.len()];
    // Those behind a stage come after it.
    for (index, stage) in topology.stages.iter().enumerate().rev() {
        let leads = stage.outputs().any(|target| match target {
            Target::Stage(stage) => lead[stage],
            Target::Sink(sink) => answers(sink),
        });
        lead[index] = leads;
    }
    lead
}
