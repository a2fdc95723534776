//! Numbers that go up and down, and time that several count.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The time in which something was so, for that of several to whom it was so longest: each counts for itself, whenever it
/// comes to tell, and no more than all the time that went by is ever counted.
#[derive(Debug, Default)]
pub struct Stretch(Mutex<Vec<Arc<AtomicU64>>>);

/// What one of them counts. It stays when that one has ended: time that went by is not taken back.
#[derive(Debug)]
pub struct StretchPart(Arc<AtomicU64>);

impl Stretch {
    /// For one of them.
    pub fn part(&self) -> StretchPart {
        let part = Arc::<AtomicU64>::default();
        self.parts().push(part.clone());
        StretchPart(part)
    }

    /// The longest.
    pub fn get(&self) -> Duration {
        let parts = self.parts();
        let longest = parts.iter().map(|part| part.load(Ordering::Relaxed)).max();
        Duration::from_nanos(longest.unwrap_or_default())
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        // The list is whole after any panic: a push is its only change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StretchPart {
    /// It was so for this long.
    pub fn was(&self, time: Duration) {
        self.0.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_late_counts_and_what_two_see_at_once_counts_once() {
        let stretch = Stretch::default();
        let (one, other) = (stretch.part(), stretch.part());
        other.was(Duration::from_millis(10));
        assert_eq!(stretch.get(), Duration::from_millis(10));
        // In one long call, at the end of which the other had told already.
        one.was(Duration::from_secs(5));
        assert_eq!(stretch.get(), Duration::from_secs(5));
        other.was(Duration::from_secs(2));
        drop(one);
        assert_eq!(stretch.get(), Duration::from_secs(5));
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
