//! How much is tried again.

use std::time::Instant;

use super::options::RetryBudget;

/// Most retries that are saved up.
const MOST: f64 = 10.0;

/// A bucket that each request and each second fill a little, and each retry takes one from.
#[derive(Debug)]
pub(crate) struct Budget {
    options: RetryBudget,
    left: f64,
    filled: Instant,
}

impl Budget {
    /// Begins with one retry, so that the first request may have one.
    pub(crate) fn new(options: RetryBudget, now: Instant) -> Budget {
        let one = options.share > 0.0 || options.least > 0.0;
        Budget {
            options,
            left: f64::from(u8::from(one)),
            filled: now,
        }
    }

    /// A request came.
    pub(crate) fn asked(&mut self) {
        self.left = (self.left + self.options.share).min(MOST);
    }

    /// Takes a retry, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        self.left = (self.left + seconds * self.options.least).min(MOST);
        let fits = self.left >= 1.0 - 1e-9;
        if fits {
            self.left -= 1.0;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn retries_are_a_share_of_the_requests_beside_a_least_rate() {
        let now = Instant::now();
        let options = RetryBudget {
            share: 0.1,
            least: 0.5,
        };
        let mut budget = Budget::new(options, now);
        assert!(budget.take(now));
        assert!(!budget.take(now));
        for _ in 0..10 {
            budget.asked();
        }
        assert!(budget.take(now));
        assert!(!budget.take(now));
        assert!(budget.take(now + Duration::from_secs(2)));
        assert!(!budget.take(now + Duration::from_secs(2)));
    }

    #[test]
    fn what_is_saved_up_has_a_bound_and_none_is_none() {
        let now = Instant::now();
        let mut budget = Budget::new(RetryBudget::default(), now);
        let later = now + Duration::from_secs(1_000_000);
        let taken = (0..100).filter(|_| budget.take(later)).count();
        assert_eq!(taken, MOST as usize);
        let none = RetryBudget {
            share: 0.0,
            least: 0.0,
        };
        let mut budget = Budget::new(none, now);
        budget.asked();
        assert!(!budget.take(later));
    }
}
