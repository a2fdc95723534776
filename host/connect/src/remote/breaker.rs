//! Leaves a server alone that fails, and tries it again after a while.

use std::time::{Duration, Instant};

use super::options::BreakerOptions;
use super::rest::Rest;
use super::stats::Standing;

/// Parts of the window; the oldest is forgotten as a whole.
const PARTS: usize = 10;

/// What came of a try that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered, be it a refusal.
    Alive,
    /// It did not, or not as a server that is well.
    Failed,
    /// Nobody waited for it.
    Unknown,
}

/// A breaker: closed while the server is well, open while it is left alone, half open while one request tries it. A
/// server that is well may ask to be left alone for a while, too.
#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    /// Begin, tries and failures of each part.
    parts: [(Option<Instant>, u32, u32); PARTS],
    state: State,
    /// When it first opened since the server was last known to be well.
    since: Option<Instant>,
    /// What the server itself has asked for.
    pub rest: Rest,
    /// How often it has opened.
    pub opened: u64,
}

#[derive(Debug)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { probing: bool },
}

/// Whether a try goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// As usual.
    Yes,
    /// As the one that tries the server.
    Probe,
    /// No.
    No,
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions, rest: Rest) -> Breaker {
        Breaker {
            options,
            parts: [(None, 0, 0); PARTS],
            state: State::Closed,
            since: None,
            rest,
            opened: 0,
        }
    }

    /// Asks whether a try goes; [`told`](Breaker::told) must follow one that does.
    pub(crate) fn admit(&mut self, now: Instant) -> Admitted {
        if self.refuses(now) {
            return Admitted::No;
        }
        if let State::Open { .. } = self.state {
            self.state = State::HalfOpen { probing: false };
        }
        match &mut self.state {
            State::HalfOpen { probing } => {
                *probing = true;
                Admitted::Probe
            }
            _ => Admitted::Yes,
        }
    }

    /// What came of a try, once for each: as soon as the server is known to answer, or when it did not. Those that began
    /// before the breaker opened say nothing any more.
    pub(crate) fn told(&mut self, probe: bool, outcome: Outcome, now: Instant) {
        match (&mut self.state, probe) {
            (State::HalfOpen { probing }, true) => match outcome {
                Outcome::Alive => {
                    self.parts = [(None, 0, 0); PARTS];
                    self.state = State::Closed;
                    self.since = None;
                }
                Outcome::Failed => self.open(now),
                Outcome::Unknown => *probing = false,
            },
            (State::Closed, false) if outcome != Outcome::Unknown => {
                self.count(1, u32::from(outcome == Outcome::Failed), now);
                self.open_if_sick(now);
            }
            _ => {}
        }
    }

    /// An answer broke off whose server was told to be well when it began.
    pub(crate) fn broke_off(&mut self, now: Instant) {
        if let State::Closed = self.state {
            self.count(0, 1, now);
            self.open_if_sick(now);
        }
    }

    /// How it stands.
    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let since = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        match self.state {
            State::Open { until } if now < until => Standing::Open { since },
            State::Open { .. } => Standing::HalfOpen {
                since,
                probing: false,
            },
            State::HalfOpen { probing } => Standing::HalfOpen { since, probing },
            State::Closed if self.rest.lasts(now) => Standing::Resting,
            State::Closed => Standing::Closed,
        }
    }

    /// Whether the server is left alone.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.rest.lasts(now) || matches!(self.state, State::Open { until } if now < until)
    }

    /// Whether no try goes now: the server is left alone, or one request tries it.
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        self.is_open(now) || matches!(self.state, State::HalfOpen { probing: true })
    }

    /// Whether its server is known to be well, and asks for nothing.
    pub(crate) fn is_closed(&self, now: Instant) -> bool {
        matches!(self.state, State::Closed) && !self.rest.lasts(now)
    }

    fn open_if_sick(&mut self, now: Instant) {
        let (tries, failures) = self.counted(now);
        // Tries may be forgotten before the answers break off that they began.
        let share = f64::from(failures) / f64::from(tries.max(failures).max(1));
        if tries >= self.options.least && failures > 0 && share >= self.options.share {
            self.open(now);
        }
    }

    fn open(&mut self, now: Instant) {
        self.opened += 1;
        self.since.get_or_insert(now);
        self.state = State::Open {
            until: now + self.options.open,
        };
    }

    fn part(&self) -> Duration {
        self.options.window / PARTS as u32
    }

    fn count(&mut self, tried: u32, failed: u32, now: Instant) {
        let part = self.part();
        let begin = self.parts[0].0;
        if begin.is_none_or(|begin| now.saturating_duration_since(begin) >= part) {
            self.parts.rotate_right(1);
            self.parts[0] = (Some(now), 0, 0);
        }
        let (_, tries, failures) = &mut self.parts[0];
        *tries = tries.saturating_add(tried);
        *failures = failures.saturating_add(failed);
    }

    fn counted(&self, now: Instant) -> (u32, u32) {
        let window = self.options.window;
        let mut sums = (0_u32, 0_u32);
        for (begin, tries, failures) in &self.parts {
            if begin.is_some_and(|begin| now.saturating_duration_since(begin) < window) {
                sums = (
                    sums.0.saturating_add(*tries),
                    sums.1.saturating_add(*failures),
                );
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> (Breaker, Instant) {
        let options = BreakerOptions {
            window: 10 * SECOND,
            least: 4,
            share: 0.5,
            open: 5 * SECOND,
        };
        (Breaker::new(options, Rest::new(SECOND)), Instant::now())
    }

    fn tries(breaker: &mut Breaker, now: Instant, outcomes: &[Outcome]) {
        for outcome in outcomes {
            assert_eq!(breaker.admit(now), Admitted::Yes);
            breaker.told(false, *outcome, now);
        }
    }

    use Outcome::{Alive, Failed, Unknown};

    #[test]
    fn half_of_the_tries_failing_opens_it_and_a_probe_that_is_answered_closes_it() {
        let (mut breaker, now) = breaker();
        tries(&mut breaker, now, &[Alive, Alive, Failed, Failed]);
        assert!(breaker.is_open(now));
        assert_eq!(breaker.admit(now + 4 * SECOND), Admitted::No);
        let later = now + 5 * SECOND;
        assert!(!breaker.refuses(later));
        assert_eq!(breaker.admit(later), Admitted::Probe);
        assert!(breaker.refuses(later) && !breaker.is_open(later));
        assert_eq!(breaker.admit(later), Admitted::No);
        breaker.told(true, Alive, later);
        // What failed before is forgotten.
        tries(&mut breaker, later, &[Failed, Alive, Alive, Alive]);
        assert_eq!(breaker.opened, 1);
    }

    #[test]
    fn a_probe_that_fails_opens_it_again_and_one_that_nobody_waits_for_frees_its_place() {
        let (mut breaker, now) = breaker();
        tries(&mut breaker, now, &[Failed; 4]);
        let later = now + 5 * SECOND;
        assert_eq!(breaker.admit(later), Admitted::Probe);
        breaker.told(true, Unknown, later);
        assert_eq!(breaker.admit(later), Admitted::Probe);
        breaker.told(true, Failed, later);
        assert_eq!(breaker.admit(later + 4 * SECOND), Admitted::No);
        assert_eq!(breaker.opened, 2);
    }

    #[test]
    fn what_began_before_it_opened_does_not_close_it() {
        let (mut breaker, now) = breaker();
        assert_eq!(breaker.admit(now), Admitted::Yes);
        tries(&mut breaker, now, &[Failed; 4]);
        let later = now + 5 * SECOND;
        assert_eq!(breaker.admit(later), Admitted::Probe);
        breaker.told(false, Alive, later);
        assert_eq!(breaker.admit(later), Admitted::No);
    }

    #[test]
    fn an_answer_that_breaks_off_is_a_failure_of_the_try_that_began_it() {
        let (mut breaker, now) = breaker();
        tries(&mut breaker, now, &[Alive; 4]);
        breaker.broke_off(now);
        assert!(!breaker.is_open(now), "one of four");
        breaker.broke_off(now);
        assert!(breaker.is_open(now), "two of four");
        // It says nothing of a server that is tried anew.
        let later = now + 5 * SECOND;
        assert_eq!(breaker.admit(later), Admitted::Probe);
        breaker.broke_off(later);
        breaker.told(true, Alive, later);
        assert!(!breaker.refuses(later));
    }

    #[test]
    fn it_says_how_it_stands_and_since_when_the_server_does_not_answer() {
        let (mut breaker, now) = breaker();
        assert_eq!(breaker.standing(now), Standing::Closed);
        tries(&mut breaker, now, &[Failed; 4]);
        let since = |seconds| seconds * SECOND;
        let open = |seconds| Standing::Open {
            since: since(seconds),
        };
        let half = |seconds| Standing::HalfOpen {
            since: since(seconds),
            probing: false,
        };
        assert_eq!(breaker.standing(now + 4 * SECOND), open(4));
        // One that is to be tried is not known to be well.
        let later = now + 5 * SECOND;
        assert_eq!(breaker.standing(later), half(5));
        assert_eq!(breaker.admit(later), Admitted::Probe);
        // While one tries it, all others are refused.
        let probing = Standing::HalfOpen {
            since: since(5),
            probing: true,
        };
        assert_eq!(breaker.standing(later), probing);
        breaker.told(true, Failed, later);
        // Since the first time, not since it was last tried.
        assert_eq!(breaker.standing(later + SECOND), open(6));
        let later = now + 10 * SECOND;
        assert_eq!(breaker.admit(later), Admitted::Probe);
        breaker.told(true, Alive, later);
        assert_eq!(breaker.standing(later), Standing::Closed);
        breaker.rest.asked(3 * SECOND, 0, later);
        assert_eq!(breaker.standing(later + SECOND), Standing::Resting);
    }

    #[test]
    fn a_server_that_asks_for_it_is_left_alone_and_is_well() {
        let (mut breaker, now) = breaker();
        breaker.rest.asked(3 * SECOND, 0, now);
        breaker.rest.asked(SECOND, 0, now);
        assert!(breaker.is_open(now + 2 * SECOND));
        assert_eq!(breaker.admit(now + 2 * SECOND), Admitted::No);
        assert_eq!(breaker.admit(now + 3 * SECOND), Admitted::Yes);
        assert_eq!(breaker.opened, 0);
    }

    #[test]
    fn few_tries_and_old_ones_say_nothing() {
        let (mut breaker, now) = breaker();
        tries(&mut breaker, now, &[Failed; 3]);
        let later = now + 10 * SECOND;
        tries(&mut breaker, later, &[Failed, Alive, Alive, Alive]);
        assert_eq!(breaker.opened, 0);
    }
}
