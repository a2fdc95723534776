//! How many traces are recorded because somebody else asks for it: whoever sends a record or a request may name a trace that
//! is recorded, and so decides what is recorded here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::tracer::SpanCounts;

const SECOND: u64 = 1_000_000_000;

/// So many a second; what was not taken for a second may come at once, and no more than that.
#[derive(Debug)]
pub struct Quota {
    a_second: u64,
    began: Instant,
    /// Until when those that were taken last, nanoseconds.
    until: AtomicU64,
    counts: Arc<SpanCounts>,
}

impl Quota {
    pub(super) fn new(a_second: u32, counts: Arc<SpanCounts>) -> Quota {
        Quota {
            a_second: u64::from(a_second),
            began: Instant::now(),
            until: AtomicU64::new(0),
            counts,
        }
    }

    /// Takes one; where there is none left, it is counted.
    pub fn takes(&self) -> bool {
        let takes = self.takes_at(self.began.elapsed());
        if !takes {
            self.counts.unforced.add(1);
        }
        takes
    }

    fn takes_at(&self, now: Duration) -> bool {
        let Some(each) = SECOND.checked_div(self.a_second) else {
            return false;
        };
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let next = |until: u64| {
            let next = until.max(now).saturating_add(each);
            (next <= now.saturating_add(SECOND)).then_some(next)
        };
        let taken = (self.until).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_however_they_come() {
        let counts = Arc::<SpanCounts>::default();
        let quota = Quota::new(100, Arc::clone(&counts));
        let taken = |from: u64, times: u64, each: u64| {
            let at = |time| Duration::from_millis(from + time * each);
            (0..times).filter(|time| quota.takes_at(at(*time))).count()
        };
        assert_eq!(taken(10_000, 5000, 0), 100, "all at once");
        assert_eq!(
            taken(10_000, 1000, 1),
            99,
            "one after another, for a second"
        );
        // After a rest no more than in a second.
        assert_eq!(taken(60_000, 5000, 0), 100);
        assert!(!Quota::new(0, Arc::clone(&counts)).takes());
        assert!(Quota::new(1, Arc::clone(&counts)).takes());
        assert_eq!(counts.unforced.get(), 1);
    }
}
