//! A rate over the last seconds, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whole seconds a rate looks back.
const SECONDS: u64 = 10;
/// More buckets than seconds, so that the one being filled is never one that is read.
const BUCKETS: usize = 16;

/// What happened in each of the last seconds. A bucket packs its second (high half) and its sum (low half), so that a
/// stale one is seen as such.
#[derive(Debug)]
pub(crate) struct Lately {
    buckets: [AtomicU64; BUCKETS],
}

impl Lately {
    pub(crate) fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Adds to the second `now`, counted from the start.
    pub(crate) fn add(&self, now: u64, number: u64) {
        let number = number.min(u64::from(u32::MAX));
        // The closure always gives a value, so the update always takes place.
        let _ = self
            .bucket(now)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| {
                let sum = if packed >> 32 == stamp(now) {
                    (packed & u64::from(u32::MAX)) + number
                } else {
                    number
                };
                Some(stamp(now) << 32 | sum.min(u64::from(u32::MAX)))
            });
    }

    /// The rate a second over the whole seconds before `now`, and over the time since the start if that is shorter.
    pub(crate) fn rate(&self, now: f64) -> f64 {
        let second = now.max(0.0) as u64;
        let sum = |second: u64| {
            let packed = self.bucket(second).load(Ordering::Relaxed);
            if packed >> 32 == stamp(second) {
                packed & u64::from(u32::MAX)
            } else {
                0
            }
        };
        if second < SECONDS {
            let all: u64 = (0..=second).map(sum).sum();
            return all as f64 / now.max(0.001);
        }
        let whole: u64 = (second - SECONDS..second).map(sum).sum();
        whole as f64 / SECONDS as f64
    }

    fn bucket(&self, second: u64) -> &AtomicU64 {
        &self.buckets[(second % BUCKETS as u64) as usize]
    }
}

/// Never 0, which is what an unused bucket has.
fn stamp(second: u64) -> u64 {
    second % u64::from(u32::MAX) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_forgets_what_is_long_ago() {
        let lately = Lately::new();
        lately.add(0, 100);
        assert_eq!(lately.rate(0.5), 200.0);
        lately.add(4, 100);
        assert_eq!(lately.rate(5.0), 40.0);
        assert_eq!(lately.rate(10.0), 20.0);
        assert_eq!(lately.rate(12.0), 10.0);
        assert_eq!(lately.rate(20.0), 0.0);
        lately.add(20, 7);
        assert_eq!(lately.rate(25.9), 0.7);
    }
}
