//! Pauses before something that has failed is tried again.

use std::time::Duration;

/// Each is twice as long as the one before, up to a longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// Before the first try.
    pub first: Duration,
    /// None is longer; at least the first.
    pub longest: Duration,
}

impl Default for Pauses {
    /// From a second to a minute.
    fn default() -> Self {
        Pauses {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

impl Pauses {
    /// The pause after so many tries that failed.
    pub(crate) fn after(self, tries: u32) -> Duration {
        let times = 1u32.checked_shl(tries).unwrap_or(u32::MAX);
        let longest = self.longest.max(self.first);
        self.first.saturating_mul(times).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_stay_there() {
        let pauses = Pauses::default();
        let seconds: Vec<u64> = (0..8).map(|tries| pauses.after(tries).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pauses.after(u32::MAX), pauses.longest);
        let same = Pauses {
            first: Duration::from_secs(5),
            longest: Duration::ZERO,
        };
        assert_eq!(same.after(3), Duration::from_secs(5));
    }
}
