//! What the instances of one slot share: its name, its log with a bound on length and rate, its counters.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tidegate_telemetry::plain;

use crate::budget::Budget;
use crate::ending::Ending;
use crate::listener::{Level, Listener};
use crate::names::Names;
use crate::recent::{LogLines, Recent};

/// Longest line an operator may log, in bytes; the rest is cut.
pub(crate) const LINE_BYTES: usize = 4096;
/// Lines a slot may log in a second; the others are counted.
pub(crate) const LINES_PER_SECOND: u64 = 100;
/// Counters a slot may have.
pub(crate) const COUNTERS: usize = 64;
/// Longest name of a counter, in bytes.
pub(crate) const COUNTER_NAME: usize = 64;

/// What has happened in a slot since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// Instances that were lost to a trap, a deadline, a refused allocation or a bad answer.
    pub instances_lost: u64,
    /// Records named as poison.
    pub poisoned: u64,
    /// Lines logged by the operator.
    pub lines: u64,
    /// Lines that were over the bound of the slot and were not logged.
    pub lines_suppressed: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    start: Instant,
    window: Mutex<Window>,
    recent: Mutex<Recent>,
    lines: AtomicU64,
    suppressed: AtomicU64,
    /// Who takes the lines in the log's place.
    listener: Option<Arc<dyn Listener>>,
    /// When all that its instances do ends.
    pub(crate) ending: Option<Arc<Ending>>,
    /// What all instances have together.
    pub(crate) memory: Budget,
    /// What the metrics of all operators are called that are shown with its own.
    pub(crate) names: Arc<Names>,
}

#[derive(Debug, Default)]
struct Window {
    second: u64,
    lines: u64,
    suppressed: u64,
}

impl Shared {
    /// Of a slot that shares memory with no other.
    pub(crate) fn new(name: String) -> Shared {
        Shared::within(name, Budget::of_engine(u64::MAX))
    }

    /// Of a slot with so much memory.
    pub(crate) fn within(name: String, memory: Budget) -> Shared {
        Shared {
            name,
            start: Instant::now(),
            window: Mutex::default(),
            recent: Mutex::default(),
            lines: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            listener: None,
            ending: None,
            memory,
            names: Arc::default(),
        }
    }

    /// Beside all that have these names for what they measure.
    pub(crate) fn named(mut self, names: Arc<Names>) -> Shared {
        self.names = names;
        self
    }

    /// With an end to all that its instances do.
    pub(crate) fn ending(mut self, ending: Option<Arc<Ending>>) -> Shared {
        self.ending = ending;
        self
    }

    /// With somebody who takes the lines in the log's place.
    pub(crate) fn heard_by(mut self, listener: Option<Arc<dyn Listener>>) -> Shared {
        self.listener = listener;
        self
    }

    /// Logs a line of the operator, if the slot has not logged too many in this second.
    pub(crate) fn log(&self, level: Level, line: &str) {
        self.log_with(level, || Cow::Borrowed(line));
    }

    /// The same with a line that is only made if it is logged.
    pub(crate) fn log_with<'a>(&self, level: Level, line: impl FnOnce() -> Cow<'a, str>) {
        if let Some(listener) = &self.listener {
            self.lines.fetch_add(1, Ordering::Relaxed);
            listener.line(level, &plain(&line(), LINE_BYTES));
            return;
        }
        self.log_at(self.start.elapsed().as_secs(), level, line);
    }

    fn log_at<'a>(&self, second: u64, level: Level, line: impl FnOnce() -> Cow<'a, str>) {
        let missed = {
            let mut window = lock(&self.window);
            let mut missed = 0;
            if window.second != second {
                missed = std::mem::take(&mut window.suppressed);
                *window = Window {
                    second,
                    ..Window::default()
                };
            }
            if window.lines == LINES_PER_SECOND {
                window.suppressed += 1;
                self.suppressed.fetch_add(1, Ordering::Relaxed);
                lock(&self.recent).pass();
                return;
            }
            window.lines += 1;
            missed
        };
        let slot = self.name.as_str();
        if missed > 0 {
            self.tell_missed(missed);
        }
        self.lines.fetch_add(1, Ordering::Relaxed);
        let line = line();
        let line = plain(&line, LINE_BYTES);
        lock(&self.recent).add(level, &line);
        match level {
            Level::Trace => tracing::trace!(target: "tidegate::operator", slot, "{line}"),
            Level::Debug => tracing::debug!(target: "tidegate::operator", slot, "{line}"),
            Level::Info => tracing::info!(target: "tidegate::operator", slot, "{line}"),
            Level::Warn => tracing::warn!(target: "tidegate::operator", slot, "{line}"),
            Level::Error => tracing::error!(target: "tidegate::operator", slot, "{line}"),
        }
    }

    /// The last lines that were logged, of this number and later.
    pub(crate) fn recent(&self, from: u64) -> LogLines {
        lock(&self.recent).from(from)
    }

    fn tell_missed(&self, missed: u64) {
        tracing::warn!(target: "tidegate::operator", slot = self.name, "{missed} lines of the operator were not logged: more than {LINES_PER_SECOND} a second");
    }

    pub(crate) fn stats(&self) -> SlotStats {
        SlotStats {
            lines: self.lines.load(Ordering::Relaxed),
            lines_suppressed: self.suppressed.load(Ordering::Relaxed),
            ..SlotStats::default()
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What came after is what tells otherwise.
        let missed = lock(&self.window).suppressed;
        if missed > 0 {
            self.tell_missed(missed);
        }
    }
}

/// Locks; what a panicking holder left is still whole, since every change under these locks is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether this may be the name of a counter: `[a-z][a-z0-9_]*`, at most 64 bytes.
pub(crate) fn is_counter(name: &str) -> bool {
    name.len() <= COUNTER_NAME
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_bounded_each_second_and_counted() {
        let shared = Shared::new("s".into());
        for _ in 0..1000 {
            shared.log_at(0, Level::Info, || "again".into());
        }
        assert_eq!(shared.stats().lines, LINES_PER_SECOND);
        assert_eq!(shared.stats().lines_suppressed, 1000 - LINES_PER_SECOND);
        shared.log_at(1, Level::Info, || "later".into());
        assert_eq!(shared.stats().lines, LINES_PER_SECOND + 1);
    }

    #[test]
    fn a_line_that_is_not_logged_is_not_made() {
        let shared = Shared::new("s".into());
        let made = std::cell::Cell::new(0);
        for _ in 0..1000 {
            shared.log_at(0, Level::Warn, || {
                made.set(made.get() + 1);
                "long".repeat(1 << 20).into()
            });
        }
        assert_eq!(made.get(), LINES_PER_SECOND);
    }

    #[test]
    fn names_of_counters_are_short_and_lower_case() {
        assert!(is_counter("records_seen_2") && !is_counter("Records") && !is_counter(""));
        assert!(!is_counter("2nd") && !is_counter(&"a".repeat(65)));
    }
}
