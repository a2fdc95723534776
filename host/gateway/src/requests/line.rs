//! Those of a source of whom a model has begun to answer none: how many they are, how long the first has waited, and
//! when one who is sent away may come again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{AFTER, lock};

/// Places that came free are remembered so far back.
const REMEMBERED: usize = 64;
/// One client waits as long as it is told, and another gives up beyond two minutes.
const LONGEST: Duration = Duration::from_secs(60);

/// How much waits in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Records that no model has begun to answer.
    pub waiting: usize,
    /// How long the first of them has waited.
    pub oldest: Duration,
}

/// Those who wait, by their offsets: these rise.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: BTreeMap<u64, Instant>,
    pace: Pace,
}

impl Line {
    /// One more waits.
    pub(super) fn enter(&self, offset: u64, now: Instant) {
        let mut state = lock(&self.0);
        if state.since.is_empty() {
            state.pace.begin(now);
        }
        state.since.insert(offset, now);
    }

    /// It waits no more: a model has begun, or it has ended. Said again it is no news.
    pub(super) fn leave(&self, offset: u64, now: Instant) {
        let mut state = lock(&self.0);
        if state.since.remove(&offset).is_some() {
            state.pace.freed(now);
            if state.since.is_empty() {
                // Nobody waits any more: there are places for all who were sent away.
                state.pace.promised = None;
            }
        }
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        let state = lock(&self.0);
        let first = state.since.first_key_value();
        Load {
            waiting: state.since.len(),
            oldest: first.map_or(Duration::ZERO, |(_, since)| {
                now.saturating_duration_since(*since)
            }),
        }
    }

    /// When there will be a place for one more who is sent away now.
    pub(super) fn turn(&self, now: Instant) -> Duration {
        lock(&self.0).pace.turn(now)
    }
}

/// How quickly places come free while somebody waits.
#[derive(Debug, Default)]
struct Pace {
    /// When this was first looked at, and when places came free since.
    times: VecDeque<Instant>,
    /// The last place that was promised.
    promised: Option<Instant>,
}

impl Pace {
    /// Nobody waited before: how long nothing came free says nothing.
    fn begin(&mut self, now: Instant) {
        self.times.clear();
        self.times.push_back(now);
    }

    fn freed(&mut self, now: Instant) {
        self.times.push_back(now);
        if self.times.len() > REMEMBERED {
            self.times.pop_front();
        }
    }

    /// The time from one place to the next, where it is known.
    fn interval(&self, now: Instant) -> Option<Duration> {
        let freed = u32::try_from(self.times.len().checked_sub(1)?).ok()?;
        let since = now.saturating_duration_since(*self.times.front()?);
        since.checked_div(freed)
    }

    /// Each who is sent away has a place of its own promised, so that they do not all come back for the same one.
    fn turn(&mut self, now: Instant) -> Duration {
        let last = self.promised.map_or(now, |last| last.max(now));
        let next = last + self.interval(now).unwrap_or(AFTER);
        let next = next.min(now + LONGEST);
        self.promised = Some(next);
        next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn those_wait_whom_no_model_has_begun_to_answer() {
        let (line, begin) = (Line::default(), Instant::now());
        assert_eq!(line.load(begin), Load::default());
        line.enter(1, begin);
        line.enter(2, begin + second(1));
        line.enter(3, begin + second(2));
        let load = |at: u64| {
            let load = line.load(begin + second(at));
            (load.waiting, load.oldest.as_secs())
        };
        assert_eq!(load(5), (3, 5));
        line.leave(1, begin + second(5));
        line.leave(1, begin + second(5));
        assert_eq!(load(6), (2, 5));
    }

    #[test]
    fn who_is_sent_away_is_told_when_places_will_have_come_free() {
        let (line, begin) = (Line::default(), Instant::now());
        // Nothing has come free yet: nothing is known.
        line.enter(0, begin);
        assert_eq!(line.turn(begin), AFTER);
        assert_eq!(line.turn(begin), AFTER * 2);

        let line = Line::default();
        for offset in 0..20 {
            line.enter(offset, begin);
        }
        for offset in 0..10 {
            line.leave(offset, begin + second(3 * (offset + 1)));
        }
        // One in three seconds; each has a place of its own.
        let now = begin + second(30);
        assert_eq!(line.turn(now), second(3));
        assert_eq!(line.turn(now), second(6));
        // Nothing has come free since: that is slower.
        let later = line.turn(now + second(4));
        assert_eq!(later, Duration::from_millis(5400));
        let last = (0..100).map(|_| line.turn(now)).last();
        assert_eq!(last, Some(LONGEST));
    }

    #[test]
    fn what_was_promised_ends_when_nobody_waits_any_more() {
        let (line, begin) = (Line::default(), Instant::now());
        line.enter(0, begin);
        let promised = (0..100).map(|_| line.turn(begin)).last();
        assert_eq!(promised, Some(LONGEST));
        line.leave(0, begin + second(1));
        assert_eq!(line.turn(begin + second(1)), second(1));
    }

    #[test]
    fn a_time_in_which_nobody_waited_does_not_count() {
        let (line, begin) = (Line::default(), Instant::now());
        line.enter(1, begin);
        line.leave(1, begin + second(1));
        let later = begin + second(3600);
        line.enter(2, later);
        line.enter(3, later);
        line.leave(2, later + second(2));
        assert_eq!(line.turn(later + second(2)), second(2));
    }
}
