//! Leaves a server alone that is well and asks for it.

use std::time::{Duration, Instant};

use super::server::{backed_off, spread};

/// Until when a server has asked to be left alone, and how often it has since it last answered.
#[derive(Debug)]
pub(crate) struct Rest {
    backoff: Duration,
    until: Option<Instant>,
    times: u32,
}

impl Rest {
    pub(crate) fn new(backoff: Duration) -> Rest {
        Rest {
            backoff,
            until: None,
            times: 0,
        }
    }

    /// The server asks for so long. It is left alone no shorter than the backoff, which doubles each time that it asks
    /// again before it has answered: one that names next to nothing is not asked without end. Returns how long the
    /// request waits that it said it to: up to a quarter longer, so that those it said it to do not come back together.
    pub(crate) fn asked(&mut self, wait: Duration, jitter: u64, now: Instant) -> Duration {
        // What it says to those who were asked together is said once.
        if !self.lasts(now) {
            self.times = self.times.saturating_add(1);
        }
        let wait = wait.max(backed_off(self.backoff, self.times));
        self.until = self.until.max(Some(now + wait));
        spread(wait, jitter)
    }

    /// The server has begun an answer: it has time.
    pub(crate) fn answered(&mut self) {
        self.times = 0;
    }

    /// Whether it is left alone.
    pub(crate) fn lasts(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn next_to_nothing_is_no_less_than_a_backoff_that_doubles_until_the_server_answers() {
        let (mut rest, mut now) = (Rest::new(500 * MS), Instant::now());
        for floor in [500, 1000, 2000, 4000, 8000, 8000] {
            assert_eq!(rest.asked(MS, 0, now), floor * MS);
            // Those who were asked with it change nothing.
            assert_eq!(rest.asked(MS, 0, now), floor * MS);
            assert!(rest.lasts(now + (floor - 1) * MS));
            now += floor * MS;
            assert!(!rest.lasts(now));
        }
        rest.answered();
        assert_eq!(rest.asked(MS, 0, now), 500 * MS);
    }

    #[test]
    fn who_was_put_off_waits_as_long_as_was_asked_for_or_a_little_longer_and_each_differently() {
        let (mut rest, now) = (Rest::new(MS), Instant::now());
        let asked = 8000 * MS;
        let mut waits: Vec<Duration> = (0..1000)
            .map(|jitter| rest.asked(asked, jitter, now))
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| (asked..asked + asked / 4).contains(wait))
        );
        assert!(!rest.lasts(now + asked), "the server said no more");
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 500, "{}", waits.len());
    }
}
