//! The guarantee a pipeline really has, and why.

use std::fmt;

use super::pipeline::{Pipeline, SinkKind, SourceKind};

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
                "offsets are committed to the group after the cut, so a crash between the two reads records again",
            ),
        };
        parts.push(GuaranteePart {
            name: format!("source {}", source.name),
            level,
            reason: reason.into(),
        });
    }
    for sink in &pipeline.sinks {
        parts.push(part(format!("sink {}", sink.name), &sink.kind));
    }
    parts.push(part("dead letters".into(), &pipeline.dead_letters));
    Guarantee {
        level: parts
            .iter()
            .map(|part| part.level)
            .min()
            .unwrap_or(Level::ExactlyOnce),
        parts,
    }
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
