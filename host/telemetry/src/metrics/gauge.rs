//! Numbers that go up and down, and time that several count together.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A number to which several add, and from which they take back what they added.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// One that adds to it had so much of it before, and has so much now.
    pub fn change(&self, before: u64, now: u64) {
        if before != now {
            self.0
                .fetch_add(now as i64 - before as i64, Ordering::Relaxed);
        }
    }

    /// Sets it, where one alone does.
    pub fn set(&self, now: u64) {
        self.0
            .store(i64::try_from(now).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// The time in which something was so for at least one of several that look at it by themselves: what two of them see at
/// once counts once.
#[derive(Debug, Default)]
pub struct Stretch {
    /// Nanoseconds.
    total: AtomicU64,
    /// Until when time was counted, nanoseconds of the clock that all of them share.
    until: AtomicU64,
}

impl Stretch {
    /// It was so from one point in time to another, for one of them.
    pub fn was(&self, from: Duration, to: Duration) {
        let (from, to) = (nanoseconds(from), nanoseconds(to));
        let counted = self.until.fetch_max(to, Ordering::Relaxed);
        self.total
            .fetch_add(to.saturating_sub(from.max(counted)), Ordering::Relaxed);
    }

    /// All of it.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.total.load(Ordering::Relaxed))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_see_at_once_counts_once() {
        let stretch = Stretch::default();
        let was = |from, to| stretch.was(Duration::from_secs(from), Duration::from_secs(to));
        was(1, 3);
        was(2, 4);
        was(2, 3);
        was(10, 11);
        assert_eq!(stretch.get(), Duration::from_secs(4));
    }

    #[test]
    fn a_gauge_is_what_all_have_together() {
        let gauge = Gauge::default();
        gauge.change(0, 5);
        gauge.change(0, 7);
        gauge.change(5, 1);
        assert_eq!(gauge.get(), 8);
        gauge.change(9, 0);
        assert_eq!(gauge.get(), 0, "never less than nothing");
    }
}
