//! The line that shows how a run goes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::format::{count, decimal, milliseconds};
use crate::meters::Snapshot;

/// Between two writings of the line on a terminal.
const TERMINAL: Duration = Duration::from_millis(200);
/// Between two lines in a log.
const PLAIN: Duration = Duration::from_secs(5);

/// Decides when the line is due, and makes it. The caller writes what it is given, as it is, to standard error.
#[derive(Debug)]
pub struct ProgressLine {
    /// Columns of the terminal; none if it is not one.
    columns: Option<usize>,
    last: Option<Instant>,
    shown: bool,
}

impl ProgressLine {
    /// A line for a terminal of so many columns, or for a log.
    pub fn new(columns: Option<usize>) -> Self {
        Self {
            columns,
            last: None,
            shown: false,
        }
    }

    /// What to write now, if it is time. The first line of a log is due after its pause, not at once.
    pub fn update(&mut self, now: Instant, snapshot: &Snapshot) -> Option<String> {
        let pause = if self.columns.is_some() {
            TERMINAL
        } else {
            PLAIN
        };
        match self.last {
            None if self.columns.is_none() => {
                self.last = Some(now);
                return None;
            }
            Some(last) if now.saturating_duration_since(last) < pause => return None,
            _ => self.last = Some(now),
        }
        self.shown = true;
        let line = line(snapshot);
        Some(match self.columns {
            None => line + "\n",
            // One column is left free: a full line would scroll some terminals.
            Some(columns) => {
                let cut: String = line.chars().take(columns.saturating_sub(1)).collect();
                format!("\r\x1b[K{cut}")
            }
        })
    }

    /// What takes the line away from a terminal, so that something else can be written.
    pub fn clear(&mut self) -> &'static str {
        let shown = std::mem::take(&mut self.shown);
        self.last = self.last.filter(|_| self.columns.is_none());
        if shown && self.columns.is_some() {
            "\r\x1b[K"
        } else {
            ""
        }
    }
}

fn line(now: &Snapshot) -> String {
    let records = &now.records;
    let mut line = format!(
        "{:>5.1} s  in {}  out {}  dead {}",
        now.elapsed.as_secs_f64(),
        count(records.input),
        count(records.output),
        count(records.dead),
    );
    // Writing to a string cannot fail.
    if records.in_flight > 0 {
        let _ = write!(line, "  in flight {}", count(records.in_flight));
    }
    if now.tokens > 0 {
        let _ = write!(line, "  {} tokens/s", decimal(now.tokens_per_second));
    }
    let latency = &now.latency_ms;
    if latency.max > 0.0 {
        let _ = write!(
            line,
            "  p50 {}  p95 {}  p99 {}",
            milliseconds(latency.p50),
            milliseconds(latency.p95),
            milliseconds(latency.p99),
        );
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LatencyMs, Records};

    fn snapshot() -> Snapshot {
        Snapshot {
            elapsed: Duration::from_millis(12_345),
            records: Records {
                input: 12_345,
                output: 12_000,
                dead: 3,
                in_flight: 64,
                ..Records::default()
            },
            tokens: 9_000,
            tokens_per_second: 1234.5,
            latency_ms: LatencyMs {
                p50: 4.2,
                p95: 45.67,
                p99: 1234.5,
                max: 2000.0,
            },
            swaps: 0,
            longest_swap_wait_ms: 0.0,
        }
    }

    #[test]
    fn a_log_gets_a_line_every_few_seconds() {
        let mut progress = ProgressLine::new(None);
        let start = Instant::now();
        assert_eq!(progress.update(start, &snapshot()), None);
        let later = start + Duration::from_secs(4);
        assert_eq!(progress.update(later, &snapshot()), None);
        let later = start + Duration::from_secs(5);
        assert_eq!(
            progress.update(later, &snapshot()).as_deref(),
            Some(
                " 12.3 s  in 12,345  out 12,000  dead 3  in flight 64  1,235 tokens/s  p50 4.20 ms  p95 45.7 ms  p99 1.23 s\n"
            )
        );
        assert_eq!(progress.update(later, &snapshot()), None);
        assert_eq!(progress.clear(), "");
    }

    #[test]
    fn a_terminal_has_one_line_that_is_rewritten_and_fits() {
        let mut progress = ProgressLine::new(Some(31));
        let start = Instant::now();
        assert_eq!(
            progress.update(start, &snapshot()).as_deref(),
            Some("\r\x1b[K 12.3 s  in 12,345  out 12,000")
        );
        let later = start + Duration::from_millis(100);
        assert_eq!(progress.update(later, &snapshot()), None);
        assert_eq!(progress.clear(), "\r\x1b[K");
        assert_eq!(progress.clear(), "");
        assert!(progress.update(later, &snapshot()).is_some());
    }
}
