//! How fast a device gets on, learnt from its steps, and how much it is therefore given at once.

use std::time::Duration;

/// Rows up to which a pace holds: a product with one row waits for memory, one with many for arithmetic.
const ROWS: [u32; 5] = [1, 4, 8, 32, u32::MAX];

/// Share of a new measurement in the pace that is kept.
const NEW: f64 = 0.25;

/// Seconds per multiply-add for steps of so many rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pace {
    seconds: [f64; ROWS.len()],
    measured: [bool; ROWS.len()],
    cap: Duration,
}

impl Pace {
    /// A guess on the slow side, until something was measured: 0.5 ns on a software adapter, 10 ps on a GPU. Submissions
    /// are capped at 250 ms on the one, which nothing but its own thread waits for, and at 50 ms on the other, where a
    /// display and a watchdog do.
    pub(crate) fn new(software: bool) -> Pace {
        let (seconds, cap) = if software {
            (5e-10, Duration::from_millis(250))
        } else {
            (1e-11, Duration::from_millis(50))
        };
        Pace {
            seconds: [seconds; ROWS.len()],
            measured: [false; ROWS.len()],
            cap,
        }
    }

    /// A device of this pace that nothing is learnt of.
    pub(crate) fn fixed(seconds: f64, cap: Duration) -> Pace {
        Pace {
            seconds: [seconds; ROWS.len()],
            measured: [true; ROWS.len()],
            cap,
        }
    }

    fn class(rows: u32) -> usize {
        ROWS.iter().position(|most| rows <= *most).unwrap_or(0)
    }

    /// Learns from a step: the first measurement is believed, later ones by and by.
    pub(crate) fn learn(&mut self, rows: u32, work: u64, took: Duration) {
        if work == 0 {
            return;
        }
        let class = Pace::class(rows);
        let seconds = took.as_secs_f64() / work as f64;
        let known = self.seconds[class];
        self.seconds[class] = if self.measured[class] {
            known + NEW * (seconds - known)
        } else {
            seconds
        };
        self.measured[class] = true;
    }

    /// Multiply-adds that fit into one submission, at least 1.
    pub(crate) fn most_work(&self, rows: u32) -> u64 {
        let most = self.cap.as_secs_f64() / self.seconds[Pace::class(rows)];
        (most as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_learnt_for_its_class_of_rows() {
        let mut pace = Pace::new(false);
        pace.learn(1, 1_000_000, Duration::from_millis(1));
        assert_eq!(pace.most_work(1), 50_000_000);
        assert_eq!(pace.most_work(64), 5_000_000_000);
        pace.learn(1, 1_000_000, Duration::from_millis(5));
        assert_eq!(
            pace.most_work(1),
            25_000_000,
            "a quarter of the way to 5 ms"
        );
        pace.learn(1, 0, Duration::from_secs(1));
        assert_eq!(pace.most_work(1), 25_000_000);
    }
}
