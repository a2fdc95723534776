//! What the host grants: its log. In native tests lines are kept per thread, for [`crate::testing`] to look at.

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For following single records.
    Trace,
    /// For finding a fault.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth looking at.
    Warn,
    /// Something failed.
    Error,
}

/// Writes a line to the host's log, which bounds length and rate. Usually called through [`crate::log!`].
pub fn log_line(level: Level, message: &str) {
    imports::write(level, message);
}

/// Writes a formatted line to the host's log: `log!(Level::Warn, "{count} words")`.
#[macro_export]
macro_rules! log {
    ($level:expr, $($text:tt)+) => {
        $crate::log_line($level, &::std::format!($($text)+))
    };
}

#[cfg(target_family = "wasm")]
mod imports {
    use super::Level;
    use crate::bindings::tidegate::operator as host;

    pub(super) fn write(level: Level, message: &str) {
        let level = match level {
            Level::Trace => host::log::Level::Trace,
            Level::Debug => host::log::Level::Debug,
            Level::Info => host::log::Level::Info,
            Level::Warn => host::log::Level::Warn,
            Level::Error => host::log::Level::Error,
        };
        host::log::write(level, message);
    }
}

#[cfg(not(target_family = "wasm"))]
pub(crate) mod imports {
    use std::cell::RefCell;

    use super::Level;

    /// What an operator has told the host on this thread, and what the host tells it.
    #[derive(Default)]
    pub(crate) struct Recording {
        pub(crate) lines: Vec<(Level, String)>,
    }

    thread_local! {
        pub(crate) static TOLD: RefCell<Recording> = RefCell::new(Recording::default());
    }

    pub(super) fn write(level: Level, message: &str) {
        TOLD.with_borrow_mut(|told| told.lines.push((level, message.to_owned())));
    }
}
