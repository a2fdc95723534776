//! Starts of operators that failed, as all tasks of a worker know them: one tries again for all, and the longer a try
//! takes, the less often there is one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From a start that failed to the next try; doubled after each that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// What doubling ends at.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A pause is at least so many times as long as the try before it: whatever a guest does in its start, its worker has
/// nine tenths of the time for everything else.
const SHARE: u32 = 9;

/// See the module. One for each worker.
#[derive(Debug)]
pub(crate) struct Starts {
    stages: Vec<Mutex<Option<Failed>>>,
}

/// From a try that failed to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub until: Instant,
    length: Duration,
}

impl Pause {
    /// The one after a try that took so long, and after the pause before that, if that try was another.
    pub(crate) fn after(before: Option<Pause>, cost: Duration) -> Pause {
        let length = before.map_or(FIRST_PAUSE, |before| (before.length * 2).min(LONGEST_PAUSE));
        Pause {
            until: Instant::now() + length.max(cost.saturating_mul(SHARE)),
            length,
        }
    }
}

/// A start that failed.
#[derive(Clone, Debug)]
struct Failed {
    /// Generation of the slot that it was a start of: another may well start.
    generation: u64,
    pause: Pause,
    why: String,
}

impl Starts {
    pub(crate) fn new(stages: usize) -> Starts {
        Starts {
            stages: (0..stages).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether an instance of this generation may be started now; otherwise why the last could not.
    pub(super) fn may(&self, stage: usize, generation: u64) -> Result<(), String> {
        match &*self.lock(stage) {
            Some(failed)
                if failed.generation == generation && failed.pause.until > Instant::now() =>
            {
                Err(failed.why.clone())
            }
            _ => Ok(()),
        }
    }

    /// When the next start of the stage is tried, if one has failed.
    pub(super) fn until(&self, stage: usize) -> Option<Instant> {
        self.lock(stage).as_ref().map(|failed| failed.pause.until)
    }

    /// A start has failed, after so long.
    pub(super) fn failed(&self, stage: usize, generation: u64, cost: Duration, why: &str) {
        let mut known = self.lock(stage);
        let before = known
            .take()
            .filter(|failed| failed.generation == generation);
        *known = Some(Failed {
            generation,
            pause: Pause::after(before.map(|before| before.pause), cost),
            why: why.to_owned(),
        });
    }

    /// A start has not failed: whoever waits for one may try.
    pub(super) fn succeeded(&self, stage: usize) {
        *self.lock(stage) = None;
    }

    fn lock(&self, stage: usize) -> MutexGuard<'_, Option<Failed>> {
        // Each change is one step.
        self.stages[stage]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_for_all_grows_with_what_a_try_takes_and_ends_with_another_version() {
        let starts = Starts::new(1);
        let left = || {
            starts
                .until(0)
                .unwrap()
                .saturating_duration_since(Instant::now())
        };
        assert!(starts.may(0, 1).is_ok());
        starts.failed(0, 1, Duration::from_secs(500), "no");
        assert_eq!(starts.may(0, 1).unwrap_err(), "no");
        assert!(left() > Duration::from_secs(4000));
        assert!(starts.may(0, 2).is_ok());
        for _ in 0..20 {
            starts.failed(0, 2, Duration::ZERO, "no");
        }
        assert!(left() <= LONGEST_PAUSE);
        starts.succeeded(0);
        assert!(starts.may(0, 2).is_ok() && starts.until(0).is_none());
    }
}
