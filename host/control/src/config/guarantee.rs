//! The guarantee a pipeline really has, and why.

use std::collections::BTreeSet;
use std::fmt;

use tidegate_contract::{CommitPoint, Level};

use super::pipeline::{Input, Node, Pipeline, SinkKind};

/// What holds for every record, also across a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// The weakest of the parts.
    pub level: Level,
    /// What makes a cut hold.
    pub commit_point: CommitPoint,
    /// Every source, every sink and the dead letters, with the reason.
    pub parts: Vec<GuaranteePart>,
}

/// A source's or sink's share in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuaranteePart {
    /// `source tickets`, `sink answers`, `dead letters`.
    pub name: String,
    /// What it allows.
    pub level: Level,
    /// Why, in a sentence without final period.
    pub reason: String,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guarantee: {}", self.level.name())?;
        write!(f, "\n  a cut holds with {}", self.commit_point)?;
        for part in &self.parts {
            write!(
                f,
                "\n  {}: {}: {}",
                part.name,
                part.level.name(),
                part.reason
            )?;
        }
        Ok(())
    }
}

/// The guarantee of a pipeline.
pub fn guarantee(pipeline: &Pipeline) -> Guarantee {
    let commit_point = pipeline.commit_point();
    let mut parts = Vec::new();
    for source in &pipeline.sources {
        let (level, reason) = commit_point.source(&source.kind.class());
        parts.push(GuaranteePart {
            name: format!("source {}", source.name),
            level,
            reason: reason.into(),
        });
    }
    let feeding = feeding_stages(pipeline);
    let sources: BTreeSet<usize> = (0..pipeline.sources.len()).collect();
    let mut ends = Vec::new();
    for sink in &pipeline.sinks {
        let feeding = feeding_inputs(&sink.inputs, &feeding);
        let name = format!("sink {}", sink.name);
        ends.push((part(name, &sink.kind, &commit_point), feeding));
    }
    let name = "dead letters".into();
    ends.push((part(name, &pipeline.dead_letters, &commit_point), sources));
    if let Some(audit) = &pipeline.audit {
        let kind = SinkKind::File {
            path: audit.path.clone(),
        };
        let sources = (0..pipeline.sources.len()).collect();
        ends.push((part("audit".into(), &kind, &commit_point), sources));
    }
    for (mut part, feeding) in ends {
        weaken(
            &mut part,
            pipeline,
            &parts[..pipeline.sources.len()],
            &feeding,
        );
        parts.push(part);
    }
    Guarantee {
        level: parts
            .iter()
            .map(|part| part.level)
            .min()
            .unwrap_or(Level::ExactlyOnce),
        commit_point,
        parts,
    }
}

/// The sources whose records come to each stage.
fn feeding_stages(pipeline: &Pipeline) -> Vec<BTreeSet<usize>> {
    let mut stages: Vec<BTreeSet<usize>> = Vec::new();
    // Inputs of a stage are earlier stages.
    for stage in &pipeline.stages {
        let feeding = feeding_inputs(&stage.inputs, &stages);
        stages.push(feeding);
    }
    stages
}

fn feeding_inputs(inputs: &[Input], stages: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let of = |input: &Input| match input.from {
        Node::Source(source) => BTreeSet::from([source]),
        Node::Stage(stage) => stages.get(stage).cloned().unwrap_or_default(),
    };
    inputs.iter().flat_map(of).collect()
}

/// A sink can keep what comes once; it cannot know what comes again, or never.
fn weaken(
    part: &mut GuaranteePart,
    pipeline: &Pipeline,
    sources: &[GuaranteePart],
    feeding: &BTreeSet<usize>,
) {
    let weakest = feeding.iter().min_by_key(|source| sources[**source].level);
    let Some(&source) = weakest.filter(|source| sources[**source].level < part.level) else {
        return;
    };
    part.level = sources[source].level;
    let what = match part.level {
        Level::MayLose => "may be gone after a crash",
        Level::AtLeastOnce | Level::ExactlyOnce => "may come again after a crash",
    };
    let name = &pipeline.sources[source].name;
    part.reason = format!("{}, but what source {name} gives {what}", part.reason);
}

fn part(name: String, sink: &SinkKind, commit_point: &CommitPoint) -> GuaranteePart {
    let (level, reason) = commit_point.sink(&sink.class());
    GuaranteePart {
        name,
        level,
        reason: reason.into(),
    }
}
