//! The last lines of a slot's log, for who looks at the slot.

use std::collections::VecDeque;
use std::time::SystemTime;

use crate::listener::Level;

/// Most lines that are kept of a slot.
const LINES: usize = 1000;
/// Most bytes of them.
const BYTES: usize = 256 << 10;

/// A line of an operator that can be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its number in the slot, from 0.
    pub number: u64,
    /// When it was said.
    pub at: SystemTime,
    /// How severe it is.
    pub level: Level,
    /// The text, at most 4 KiB.
    pub text: String,
}

/// Lines of a slot from one of them on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLines {
    /// Those that are still there.
    pub lines: Vec<LogLine>,
    /// The number that the next line will have.
    pub next: u64,
    /// How many that were asked for are not among them: they are gone, or were never kept, since too many were said at once.
    pub missed: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    lines: VecDeque<LogLine>,
    bytes: usize,
    next: u64,
}

impl Recent {
    pub(crate) fn add(&mut self, level: Level, text: &str) {
        self.lines.push_back(LogLine {
            number: self.next,
            at: SystemTime::now(),
            level,
            text: text.to_owned(),
        });
        self.next += 1;
        self.bytes += text.len();
        while self.lines.len() > LINES || self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= oldest.text.len();
        }
    }

    /// A line that is not kept has its number all the same: whoever reads on knows that there was one.
    pub(crate) fn pass(&mut self) {
        self.next += 1;
    }

    /// Those of this number and later.
    pub(crate) fn from(&self, number: u64) -> LogLines {
        let skip = self.lines.partition_point(|line| line.number < number);
        let lines: Vec<LogLine> = self.lines.iter().skip(skip).cloned().collect();
        let asked = self.next.saturating_sub(number);
        LogLines {
            next: self.next,
            missed: asked.saturating_sub(lines.len() as u64),
            lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_within_their_bounds_and_what_is_gone_is_counted() {
        let mut recent = Recent::default();
        assert_eq!(recent.from(0), LogLines::default());
        for number in 0..LINES + 5 {
            recent.add(Level::Info, &number.to_string());
        }
        let all = recent.from(0);
        assert_eq!((all.lines.len(), all.missed), (LINES, 5));
        assert_eq!((all.lines[0].number, all.lines[0].text.as_str()), (5, "5"));
        let last = recent.from(all.next - 2);
        assert_eq!((last.lines.len(), last.missed), (2, 0));
        assert!(recent.from(all.next).lines.is_empty());
        assert!(recent.from(u64::MAX).lines.is_empty());
        for _ in 0..200 {
            recent.add(Level::Error, &"x".repeat(4096));
        }
        // Those that were too many leave a gap where they were said.
        let next = recent.from(0).next;
        recent.pass();
        recent.pass();
        assert_eq!(
            (recent.from(next).missed, recent.from(next).next),
            (2, next + 2)
        );
        recent.add(Level::Error, &"x".repeat(4096));
        let behind = recent.from(next);
        assert_eq!((behind.lines[0].number, behind.missed), (next + 2, 2));
        let long = recent.from(0);
        assert_eq!(long.lines.len(), BYTES / 4096);
        assert_eq!(long.missed, long.next - long.lines.len() as u64);
    }
}
