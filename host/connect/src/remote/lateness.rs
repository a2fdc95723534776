//! When an answer is late.

use std::time::Duration;

/// Beginnings of answers that are remembered.
const REMEMBERED: usize = 128;
/// Fewest that say anything.
const LEAST: usize = 20;

/// How long the last answers took to begin.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    took: Vec<Duration>,
    next: usize,
}

impl Lateness {
    pub(crate) fn began(&mut self, took: Duration) {
        if self.took.len() < REMEMBERED {
            self.took.push(took);
        } else {
            self.took[self.next] = took;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// So long, nineteen of twenty took at most.
    pub(crate) fn late(&self) -> Option<Duration> {
        if self.took.len() < LEAST {
            return None;
        }
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 19 / 20).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_one_of_twenty_is_by_the_last_answers() {
        let mut lateness = Lateness::default();
        for ms in 0..19 {
            lateness.began(Duration::from_millis(ms));
        }
        assert_eq!(lateness.late(), None);
        for ms in 19..100 {
            lateness.began(Duration::from_millis(ms));
        }
        assert_eq!(lateness.late(), Some(Duration::from_millis(95)));
        for _ in 0..REMEMBERED {
            lateness.began(Duration::from_secs(1));
        }
        assert_eq!(lateness.late(), Some(Duration::from_secs(1)));
    }
}
