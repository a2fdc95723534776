//! The lines of an operator under trial.

use std::sync::{Mutex, MutexGuard};

use tidegate_operator::{Level, Listener};

/// Lines that are kept.
const LINES: usize = 10_000;
/// Bytes of all lines that are kept.
const BYTES: usize = 8 << 20;

/// Keeps lines, so many of them, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Lines>);

/// Lines in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) kept: Vec<(Level, String)>,
    /// How many more there were.
    pub(crate) more: usize,
    bytes: usize,
}

impl Heard {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// What was heard since it was last asked.
    pub(crate) fn take(&self) -> Lines {
        std::mem::take(&mut *self.lines())
    }
}

impl Listener for Heard {
    fn line(&self, level: Level, line: &str) {
        let mut lines = self.lines();
        if lines.kept.len() >= LINES || lines.bytes + line.len() > BYTES {
            lines.more += 1;
            return;
        }
        lines.bytes += line.len();
        lines.kept.push((level, line.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_kept_in_part_and_counted() {
        let heard = Heard::default();
        for _ in 0..LINES + 3 {
            heard.line(Level::Info, "a line");
        }
        let lines = heard.take();
        assert_eq!((lines.kept.len(), lines.more), (LINES, 3));
        let long = "x".repeat(4096);
        for _ in 0..LINES {
            heard.line(Level::Info, &long);
        }
        let lines = heard.take();
        assert!(lines.kept.len() <= BYTES / 4096 && lines.more > 0);
        assert_eq!(heard.take(), Lines::default());
    }
}
