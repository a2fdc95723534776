//! An end that whoever has instances can set to all that they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When a slot beside the stream ends, whatever its operator does: its calls have no longer, and none begins then.
#[derive(Debug)]
pub struct Ending {
    at: Instant,
    is_now: AtomicBool,
}

impl Ending {
    /// At this time, if it is not told before.
    pub fn at(at: Instant) -> Ending {
        Ending {
            at,
            is_now: AtomicBool::new(false),
        }
    }

    /// It ends now.
    pub fn end(&self) {
        self.is_now.store(true, Ordering::Relaxed);
    }

    /// How long it still has: none once it has ended.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.at.saturating_duration_since(Instant::now());
        (!self.is_now.load(Ordering::Relaxed) && !left.is_zero()).then_some(left)
    }
}
