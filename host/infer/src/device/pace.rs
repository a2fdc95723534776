//! How fast a device gets on, learnt from its steps, and how much it is therefore given at once.

use std::time::Duration;

/// Rows up to which a pace holds: a product with one row waits for memory, one with many for arithmetic.
const ROWS: [u32; 5] = [1, 4, 8, 32, u32::MAX];

/// Share of a new measurement in the pace that is kept.
const NEW: f64 = 0.25;

/// Seconds per multiply-add for steps of so many rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Of what nothing was measured of.
    guess: f64,
    measured: [Option<f64>; ROWS.len()],
    cap: Duration,
}

impl Pace {
    /// A guess on the slow side, until something was measured: 5 ns on a software adapter, where kernels for GPUs take that; on a
    /// GPU 0.2 ns, what weights in f32 take of 20 GB/s. Submissions are capped at 250 ms on the one, which nothing but its own
    /// thread waits for, and at 50 ms on the other, where a display and a watchdog do.
    pub(crate) fn new(software: bool) -> Pace {
        let (guess, cap) = if software {
            (5e-9, Duration::from_millis(250))
        } else {
            (2e-10, Duration::from_millis(50))
        };
        Pace {
            guess,
            measured: [None; ROWS.len()],
            cap,
        }
    }

    /// A device of this pace that nothing is learnt of.
    pub(crate) fn fixed(seconds: f64, cap: Duration) -> Pace {
        Pace {
            guess: seconds,
            measured: [Some(seconds); ROWS.len()],
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
        self.measured[class] = Some(match self.measured[class] {
            Some(known) => known + NEW * (seconds - known),
            None => seconds,
        });
    }

    /// Multiply-adds that fit into one submission, at least 1. A class of rows that was not measured is taken to be as fast as
    /// the next below it that was: with more rows at once each is no slower.
    pub(crate) fn most_work(&self, rows: u32) -> u64 {
        let known = self.measured.iter().take(Pace::class(rows) + 1).rev();
        let seconds = known.flatten().next().unwrap_or(&self.guess);
        ((self.cap.as_secs_f64() / seconds) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_learnt_for_its_class_of_rows() {
        let mut pace = Pace::new(false);
        assert_eq!(pace.most_work(1), 250_000_000, "a guess");
        pace.learn(4, 1_000_000, Duration::from_millis(1));
        assert_eq!(pace.most_work(1), 250_000_000, "fewer rows may be slower");
        assert_eq!(pace.most_work(64), 50_000_000, "more rows are not");
        pace.learn(64, 1_000_000, Duration::from_micros(100));
        assert_eq!(pace.most_work(64), 500_000_000);
        assert_eq!(pace.most_work(4), 50_000_000);
        pace.learn(1, 1_000_000, Duration::from_millis(1));
        assert_eq!(pace.most_work(1), 50_000_000);
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
