//! A stage without an instance: its records wait, uncounted, until one can be started.

use std::time::{Duration, Instant};

use tidegate_telemetry::Meters;
use tidegate_telemetry::events::{StageAvailable, StageUnavailable};
use tidegate_telemetry::plain;

use super::Task;
use super::collected::REASON_BYTES;

/// From a start that failed to the next try; doubled after each that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest time between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A stage that cannot answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unavailable {
    /// When it is tried again.
    pub(super) until: Instant,
    pause: Duration,
}

impl Unavailable {
    /// The first failure, or one more.
    pub(super) fn again(before: Option<Unavailable>) -> Unavailable {
        let pause = match before {
            None => FIRST_PAUSE,
            Some(before) => (before.pause * 2).min(LONGEST_PAUSE),
        };
        Unavailable {
            until: Instant::now() + pause,
            pause,
        }
    }
}

impl Task {
    /// The stage has no instance and could not start one: records that come for it wait from now on.
    pub(super) fn suspend(&mut self, stage: usize, why: &str, meters: &Meters) {
        let before = self.unavailable[stage];
        self.unavailable[stage] = Some(Unavailable::again(before));
        StageUnavailable {
            stage,
            first: before.is_none(),
            reason: &plain(why, REASON_BYTES),
        }
        .emit(meters);
    }

    /// The stage has answered.
    pub(super) fn resume(&mut self, stage: usize, meters: &Meters) {
        if self.unavailable[stage].take().is_some() {
            StageAvailable { stage }.emit(meters);
        }
    }

    /// Whether a stage cannot answer.
    pub(crate) fn is_suspended(&self) -> bool {
        self.unavailable.iter().any(Option::is_some)
    }

    /// Whether records of the stage are to wait: until then, or until the next try.
    pub(super) fn must_wait(&self, stage: usize, now: Instant) -> bool {
        self.unavailable[stage].is_some_and(|unavailable| unavailable.until > now)
    }

    /// Has the stage's operator ready: that of the slot's current version, or the one it has if that cannot be started.
    pub(super) fn ready(&mut self, stage: usize) -> Result<(), String> {
        let put_off = |until: Option<Instant>| until.is_some_and(|until| until > Instant::now());
        let (has_one, put_off) = match &self.operators[stage] {
            Some(instance) => (true, put_off(instance.switch_again)),
            None => (false, false),
        };
        if put_off {
            return Ok(());
        }
        match self.start(stage) {
            Err(error) if !has_one => Err(error.to_string()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Tries to start the operator of a stage that has none. Returns whether it has one now.
    pub(super) fn retry_start(&mut self, stage: usize, meters: &Meters) -> bool {
        let ready = self.ready(stage);
        if let Err(why) = &ready {
            self.suspend(stage, why, meters);
        }
        ready.is_ok()
    }

    /// The task ends: none of its stages waits for an instance any more.
    pub(crate) fn forget_suspended(&self, meters: &Meters) {
        for (stage, unavailable) in self.unavailable.iter().enumerate() {
            if unavailable.is_some() {
                StageAvailable { stage }.emit(meters);
            }
        }
    }
}
