//! How often a revision may fail before it is run no more.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::shared::lock;

/// Pieces of a window that are counted together.
const PIECES: u32 = 16;

/// How many failures a revision may have within a time. Default: any number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Most instances that may be lost, where all that are lost in the search for one record count as one, and those
    /// whose call was too long for several records not at all.
    pub lost_instances: Option<u64>,
    /// Most records that it may have no answer for.
    pub failed_records: Option<u64>,
    /// Within this time, to a sixteenth of it.
    pub window: Duration,
}

/// What counts for the breaker of one revision, over all its instances.
#[derive(Debug)]
pub(crate) struct Tally {
    breaker: Breaker,
    windows: Mutex<Windows>,
    tripped: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Windows {
    lost: Window,
    failed: Window,
}

/// Failures lately, by when the first of each piece was.
#[derive(Debug, Default)]
struct Window {
    pieces: VecDeque<(Instant, u64)>,
}

impl Window {
    /// One more. Returns how many there are within the time.
    fn add(&mut self, now: Instant, window: Duration) -> u64 {
        while let Some((since, _)) = self.pieces.front()
            && now.saturating_duration_since(*since) >= window
        {
            self.pieces.pop_front();
        }
        match self.pieces.back_mut() {
            Some((since, number)) if now.saturating_duration_since(*since) < window / PIECES => {
                *number += 1;
            }
            _ => self.pieces.push_back((now, 1)),
        }
        self.pieces.iter().map(|(_, number)| number).sum()
    }
}

impl Tally {
    pub(crate) fn new(breaker: Breaker) -> Tally {
        Tally {
            breaker,
            windows: Mutex::default(),
            tripped: OnceLock::new(),
        }
    }

    /// Why the revision is run no more, if it is not.
    pub(crate) fn tripped(&self) -> Option<&str> {
        self.tripped.get().map(String::as_str)
    }

    pub(crate) fn on_lost(&self) {
        let most = self.breaker.lost_instances;
        self.count(most, "instances were lost", |windows| &mut windows.lost);
    }

    pub(crate) fn on_failed(&self) {
        let most = self.breaker.failed_records;
        self.count(most, "records failed", |windows| &mut windows.failed);
    }

    fn count(&self, most: Option<u64>, what: &str, of: impl FnOnce(&mut Windows) -> &mut Window) {
        let Some(most) = most else { return };
        let window = self.breaker.window;
        let number = of(&mut lock(&self.windows)).add(Instant::now(), window);
        if number > most {
            // Once: what comes later says no more.
            let _ = self
                .tripped
                .set(format!("{number} {what} within {window:?}, limit {most}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_as_long_as_the_window_is() {
        let (mut window, now) = (Window::default(), Instant::now());
        let minute = Duration::from_secs(60);
        let at = |seconds| now + Duration::from_secs(seconds);
        for second in 0..60 {
            assert_eq!(window.add(at(second), minute), second + 1);
        }
        assert!(window.pieces.len() <= PIECES as usize + 1);
        let later = window.add(at(90), minute);
        assert!((28..=34).contains(&later), "{later}");
        assert_eq!(window.add(at(1000), minute), 1);
    }

    #[test]
    fn it_trips_beyond_the_limit_and_says_why_once() {
        let tally = Tally::new(Breaker {
            lost_instances: Some(2),
            failed_records: None,
            window: Duration::from_secs(3600),
        });
        for _ in 0..2 {
            tally.on_lost();
            tally.on_failed();
        }
        assert_eq!(tally.tripped(), None);
        tally.on_lost();
        tally.on_lost();
        let why = "3 instances were lost within 3600s, limit 2";
        assert_eq!(tally.tripped(), Some(why));
    }
}
