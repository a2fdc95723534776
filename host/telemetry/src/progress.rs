//! The line that shows how a run goes, and what takes long.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::format::{count, decimal, milliseconds};
use crate::meters::Snapshot;
use crate::works::UnderWay;

/// Between two writings of the line on a terminal.
const TERMINAL: Duration = Duration::from_millis(200);
/// Between two lines in a log.
const PLAIN: Duration = Duration::from_secs(5);

/// Work that has been under way for less is not spoken of: it would flicker.
const SHORT: Duration = Duration::from_millis(300);

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

    /// What to write now, if it is time: how the run goes, if there is one, and what is under way. On a terminal that is
    /// one line, in a log a line for each. The first lines of a log are due after its pause, not at once.
    pub fn update(
        &mut self,
        now: Instant,
        run: Option<&Snapshot>,
        works: &[UnderWay],
    ) -> Option<String> {
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
        let works = works.iter().filter(|work| work.elapsed >= SHORT);
        let parts: Vec<String> = run
            .map(line)
            .into_iter()
            .chain(works.map(UnderWay::to_string))
            .collect();
        if parts.is_empty() {
            return Some(self.clear().to_owned()).filter(|clear| !clear.is_empty());
        }
        self.shown = true;
        Some(match self.columns {
            None => parts.join("\n") + "\n",
            // One column is left free: a full line would scroll some terminals.
            Some(columns) => {
                let line = parts.join("  |  ");
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
    use crate::{LatencyMs, Records, WorkKind};

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
        assert_eq!(progress.update(start, Some(&snapshot()), &[]), None);
        let later = start + Duration::from_secs(4);
        assert_eq!(progress.update(later, Some(&snapshot()), &[]), None);
        let later = start + Duration::from_secs(5);
        assert_eq!(
            progress.update(later, Some(&snapshot()), &[]).as_deref(),
            Some(
                " 12.3 s  in 12,345  out 12,000  dead 3  in flight 64  1,235 tokens/s  p50 4.20 ms  p95 45.7 ms  p99 1.23 s\n"
            )
        );
        assert_eq!(progress.update(later, Some(&snapshot()), &[]), None);
        assert_eq!(progress.clear(), "");
    }

    #[test]
    fn a_terminal_has_one_line_that_is_rewritten_and_fits() {
        let mut progress = ProgressLine::new(Some(31));
        let start = Instant::now();
        assert_eq!(
            progress.update(start, Some(&snapshot()), &[]).as_deref(),
            Some("\r\x1b[K 12.3 s  in 12,345  out 12,000")
        );
        let later = start + Duration::from_millis(100);
        assert_eq!(progress.update(later, Some(&snapshot()), &[]), None);
        assert_eq!(progress.clear(), "\r\x1b[K");
        assert_eq!(progress.clear(), "");
        assert!(progress.update(later, Some(&snapshot()), &[]).is_some());
    }

    fn work(kind: WorkKind, done: u64, of: Option<u64>, milliseconds: u64) -> UnderWay {
        UnderWay {
            number: 1,
            kind,
            subject: "support".into(),
            done,
            of,
            elapsed: Duration::from_millis(milliseconds),
            still: Duration::ZERO,
        }
    }

    #[test]
    fn work_is_shown_before_a_run_and_beside_it() {
        let start = Instant::now();
        let later = start + PLAIN;
        let load = work(WorkKind::Load, 512 << 20, Some(2 << 30), 12_900);
        let replay = work(WorkKind::Replay, 0, None, 3_000);
        let short = work(WorkKind::Compile, 0, None, 100);
        let mut terminal = ProgressLine::new(Some(53));
        assert_eq!(terminal.update(start, None, &[]), None);
        assert_eq!(
            terminal
                .update(later, None, &[load.clone(), replay.clone()])
                .as_deref(),
            Some("\r\x1b[Kload support: 25 % of 2.0 GiB, 12 s  |  replay suppo")
        );
        let ended = later + PLAIN;
        assert_eq!(
            terminal.update(ended, None, &[]).as_deref(),
            Some("\r\x1b[K")
        );
        assert_eq!(terminal.update(ended, None, &[short]), None);
        let mut log = ProgressLine::new(None);
        assert_eq!(log.update(start, None, std::slice::from_ref(&load)), None);
        let lines = log
            .update(later, Some(&snapshot()), &[load, replay])
            .unwrap();
        let lines: Vec<&str> = lines.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["load support: 25 % of 2.0 GiB, 12 s", "replay support: 3 s"]
        );
    }
}
