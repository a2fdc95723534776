//! Who answers the gateway's clients. It is decided here alone: names, endpoints and fields that the pipeline file leaves
//! out follow from it, bounds that a request is held against, models under load, and while the pipeline runs whose answer
//! a record brings.
//!
//! On each way from a source to a sink one stage answers: the last one that writes what the sink takes. Where none does,
//! an operator may have made the answer of what a model said, so it is the last stage that makes a text, else the last
//! that makes a vector or a ranking. Labels and entities are an answer at no endpoint: a stage
//! that classifies or recognizes answers nobody.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::models::{Ask, Into};
use super::pipeline::{Input, Node, Pipeline, Sink, SinkKind, Stage, StageKind};

/// The member that vectors stand in where a stage says no other. Sinks take it where their own is not there.
const EMBEDDING: &str = "embedding";

/// A stage whose answer may be what the clients of a sink get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// Its index in the pipeline.
    pub stage: usize,
    /// Whether it writes what the sink takes.
    pub writes: bool,
}

/// What a stage writes, as a sink sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Writes {
    /// Nothing that the sink takes.
    Aside,
    /// What it takes where nothing better is there.
    Vector,
    /// What it takes.
    Answer,
}

/// Of the stages on one way that with the greatest rank answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    writes: Writes,
    is_text: bool,
    stage: usize,
}

impl Rank {
    /// None of a stage that answers nobody. Where the field of the sink is not known yet, it is any.
    fn of(index: usize, stage: &Stage, field: Option<&str>) -> Option<Rank> {
        let StageKind::Model(asks) = &stage.kind else {
            return None;
        };
        let is_text = match asks.ask {
            Ask::Generate(_) => true,
            Ask::Embed | Ask::Rerank { .. } => false,
            Ask::Classify { .. } | Ask::Recognize { .. } => return None,
        };
        let takes = |field| asks.field == field;
        let writes = match asks.into {
            Into::Attributes => Writes::Aside,
            Into::Value => Writes::Answer,
            Into::Member if field.is_none_or(takes) => Writes::Answer,
            Into::Member if !is_text && takes(EMBEDDING) => Writes::Vector,
            Into::Member => Writes::Aside,
        };
        Some(Rank {
            writes,
            is_text,
            stage: index,
        })
    }
}

/// The field of a sink that answers; none of another, and none that is not known yet.
fn field(sink: &Sink) -> Option<&str> {
    match &sink.kind {
        SinkKind::Gateway { field } => Some(field.as_str()).filter(|field| !field.is_empty()),
        _ => None,
    }
}

/// The sinks that answer clients.
fn replies(sinks: &[Sink]) -> impl Iterator<Item = &Sink> {
    let is_one = |sink: &&Sink| matches!(sink.kind, SinkKind::Gateway { .. });
    sinks.iter().filter(is_one)
}

/// The stages that answer at the ends of all ways from these sources to a sink.
pub(crate) fn answering_at(
    sink: &Sink,
    stages: &[Stage],
    is_source: impl Fn(usize) -> bool,
) -> BTreeSet<usize> {
    let field = field(sink);
    // By stage: who answers behind it, on each of the ways that lead through it; none where nobody does yet.
    let mut behind: Vec<BTreeSet<Option<Rank>>> = vec![BTreeSet::new(); stages.len()];
    let before = |inputs: &[Input], behind: &[BTreeSet<Option<Rank>>]| {
        let mut ways = BTreeSet::new();
        for input in inputs {
            match input.from {
                Node::Source(source) if is_source(source) => ways.extend([None]),
                Node::Source(_) => {}
                Node::Stage(stage) => ways.extend(behind.get(stage).into_iter().flatten()),
            }
        }
        ways
    };
    for (index, stage) in stages.iter().enumerate() {
        let own = Rank::of(index, stage, field);
        let ways = before(&stage.inputs, &behind).into_iter();
        behind[index] = ways.map(|best| best.max(own)).collect();
    }
    let best = before(&sink.inputs, &behind).into_iter().flatten();
    best.map(|best| best.stage).collect()
}

/// Whether clients of a sink get nothing that the stages before it make: none writes what it takes, and no operator may.
pub(crate) fn takes_nothing(sink: &Sink, stages: &[Stage], answering: &BTreeSet<usize>) -> bool {
    let field = field(sink);
    let aside = |index: &usize| {
        let rank = stages.get(*index);
        let rank = rank.and_then(|stage| Rank::of(*index, stage, field));
        rank.is_some_and(|rank| rank.writes == Writes::Aside)
    };
    let leads = leading(std::slice::from_ref(sink), stages);
    let mut before = stages.iter().zip(leads).filter(|(_, leads)| *leads);
    !answering.is_empty()
        && answering.iter().all(aside)
        && before.all(|(stage, _)| matches!(stage.kind, StageKind::Model(_)))
}

/// The stages that answer a source's clients.
pub(crate) fn answering_of(source: usize, sinks: &[Sink], stages: &[Stage]) -> BTreeSet<usize> {
    let is_source = |one| one == source;
    let replies = replies(sinks);
    replies
        .flat_map(|sink| answering_at(sink, stages, is_source))
        .collect()
}

/// By stage: whether its records may come to a sink that answers.
pub(crate) fn leading(sinks: &[Sink], stages: &[Stage]) -> Vec<bool> {
    let mut leads = vec![false; stages.len()];
    let mut inputs: Vec<&Input> = replies(sinks).flat_map(|sink| &sink.inputs).collect();
    while let Some(input) = inputs.pop() {
        if let Node::Stage(index) = input.from
            && let (Some(leads), Some(stage)) = (leads.get_mut(index), stages.get(index))
            && !std::mem::replace(leads, true)
        {
            inputs.extend(&stage.inputs);
        }
    }
    leads
}

/// Whether records of a source get to these inputs.
pub(crate) fn reaches(source: usize, inputs: &[Input], stages: &[Stage]) -> bool {
    let mut reached = vec![false; stages.len()];
    let gets = |inputs: &[Input], reached: &[bool]| {
        inputs.iter().any(|input| match input.from {
            Node::Source(from) => from == source,
            Node::Stage(from) => reached.get(from) == Some(&true),
        })
    };
    for (index, stage) in stages.iter().enumerate() {
        reached[index] = gets(&stage.inputs, &reached);
    }
    gets(inputs, &reached)
}

impl Pipeline {
    /// The stages that answer a source's clients.
    pub fn answering(&self, source: usize) -> Vec<usize> {
        let answering = answering_of(source, &self.sinks, &self.stages);
        answering.into_iter().collect()
    }

    /// The stages whose answer may be what the clients of a sink get, the one that counts before all others first.
    pub fn answering_order(&self, sink: usize) -> Vec<Answering> {
        let Some(sink) = self.sinks.get(sink) else {
            return Vec::new();
        };
        let stages = self.stages.iter().enumerate();
        let mut ranks: Vec<Rank> = stages
            .filter_map(|(index, stage)| Rank::of(index, stage, field(sink)))
            .collect();
        ranks.sort_by_key(|rank| Reverse(*rank));
        let answering = ranks.into_iter().map(|rank| Answering {
            stage: rank.stage,
            writes: rank.writes == Writes::Answer,
        });
        answering.collect()
    }

    /// The stages that a source's records get to.
    pub fn reached(&self, source: usize) -> impl Iterator<Item = &Stage> {
        let stages = self.stages.iter();
        stages.filter(move |stage| reaches(source, &stage.inputs, &self.stages))
    }

    /// The stages on the ways from a source's requests to their answers.
    pub fn on_the_way(&self, source: usize) -> impl Iterator<Item = &Stage> {
        let leads = leading(&self.sinks, &self.stages);
        let stages = self.stages.iter().zip(leads);
        let leading = stages.filter_map(|(stage, leads)| leads.then_some(stage));
        leading.filter(move |stage| reaches(source, &stage.inputs, &self.stages))
    }
}

#[cfg(test)]
mod tests;
