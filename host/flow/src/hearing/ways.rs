//! What a pipeline alone decides of whom callers hear.

use super::At;
use crate::answer;
use crate::topology::{AnswerInto, Ask, ModelStage, StageKind, Target, Topology};

/// What is decided by the pipeline.
#[derive(Debug)]
pub(super) struct Ways {
    /// By sink: the member that it answers callers with.
    pub sinks: Vec<Option<String>>,
    /// By stage: whether a record may come from there to such a sink.
    pub lead: Vec<bool>,
    /// By stage: whether nothing behind it can take its answer away, or say something else in its place.
    pub last: Vec<bool>,
    /// By stage that asks a model: the member that it writes, and the attribute that has the number of its answer.
    pub fields: Vec<Option<(String, String)>>,
}

impl Ways {
    pub(super) fn of(topology: &Topology) -> Ways {
        let mut sinks = vec![None; topology.sinks.len()];
        for (sink, field) in topology.callers.iter().flat_map(|called| &called.sinks) {
            if let Some(place) = sinks.get_mut(*sink) {
                *place = Some(field.clone());
            }
        }
        let mut lead = vec![false; topology.stages.len()];
        // Those behind a stage come after it.
        for (index, stage) in topology.stages.iter().enumerate().rev() {
            let leads = stage.outputs().any(|target| match target {
                Target::Stage(stage) => lead[stage],
                Target::Sink(sink) => sinks[sink].is_some(),
            });
            lead[index] = leads;
        }
        let fields = topology.stages.iter().map(|stage| match &stage.kind {
            StageKind::Model(kind) => Some((kind.field.clone(), answer::number_name(&kind.field))),
            StageKind::Operator(_) => None,
        });
        let mut ways = Ways {
            fields: fields.collect(),
            sinks,
            lead,
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
        if !is_shown || !self.lead[index] || kind.into == AnswerInto::Attributes {
            return false;
        }
        let takes = |field: &str| kind.into == AnswerInto::Value || field == kind.field;
        let mut seen = vec![false; topology.stages.len()];
        let mut waiting = vec![index];
        while let Some(stage) = waiting.pop() {
            for target in topology.stages[stage].outputs() {
                match target {
                    Target::Sink(sink) => {
                        if self.sinks[sink].as_ref().is_some_and(|field| !takes(field)) {
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
