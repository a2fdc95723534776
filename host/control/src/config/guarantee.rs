//! The guarantee a pipeline really has, and why.

use std::collections::BTreeSet;
use std::fmt;

use super::pipeline::{Input, Node, Pipeline, SinkKind, SourceKind};

/// What holds for every record, also across a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// The weakest of the parts.
    pub level: Level,
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

/// How often a record has an effect; a lower one is weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A crash may lose records that were read.
    MayLose,
    /// A crash may repeat output, and loses nothing.
    AtLeastOnce,
    /// Every record has its effect once.
    ExactlyOnce,
}

impl Level {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Level::MayLose => "may lose records on a crash",
            Level::AtLeastOnce => "at least once",
            Level::ExactlyOnce => "exactly once",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guarantee: {}", self.level.name())?;
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
    let mut parts = Vec::new();
    for source in &pipeline.sources {
        let (level, reason) = match &source.kind {
            SourceKind::File { .. } => (
                Level::ExactlyOnce,
                "the position in each file is part of every cut",
            ),
            SourceKind::Stdin => (
                Level::MayLose,
                "standard input cannot be read again, so what was read after the last cut is gone",
            ),
            SourceKind::Kafka(_) => (
                Level::AtLeastOnce,
                "offsets are committed to the group after the cut and wait for the oldest unfinished record, so a crash reads records again",
            ),
        };
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
        ends.push((part(format!("sink {}", sink.name), &sink.kind), feeding));
    }
    ends.push((part("dead letters".into(), &pipeline.dead_letters), sources));
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

fn part(name: String, sink: &SinkKind) -> GuaranteePart {
    let (level, reason) = match sink {
        SinkKind::File { .. } => (
            Level::ExactlyOnce,
            "its length is part of every cut, and recovery takes away what lies beyond",
        ),
        SinkKind::Stdout => (
            Level::AtLeastOnce,
            "standard output cannot be taken back, so a crash repeats what was written after the last cut",
        ),
        SinkKind::Kafka(_) => (
            Level::AtLeastOnce,
            "records are acknowledged before the cut holds, so a crash between the two writes them again",
        ),
    };
    GuaranteePart {
        name,
        level,
        reason: reason.into(),
    }
}
