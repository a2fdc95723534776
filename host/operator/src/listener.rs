//! Lines of an operator, for who wants them in the log's place.

use std::fmt::Debug;

/// How severe a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every step.
    Trace,
    /// For who looks for a mistake.
    Debug,
    /// What happens.
    Info,
    /// What should be looked at.
    Warn,
    /// What went wrong.
    Error,
}

impl Level {
    /// All, from the least severe on.
    pub const ALL: [Level; 5] = [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
    ];

    /// Its name in the WIT.
    pub fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// The level of this name.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Takes the lines of a slot's operator in the log's place: what it logs, and what it writes to stdout and stderr.
pub trait Listener: Send + Sync + Debug {
    /// A line of at most 4 KiB that can be shown as it is. There may be any number of them: who keeps them bounds them. It
    /// is called while the operator runs, and takes of its time.
    fn line(&self, level: Level, line: &str);
}
