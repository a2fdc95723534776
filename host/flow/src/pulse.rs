//! What can be seen of workers from outside, without asking them: whether they go round, and whether their cuts hold.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerHealth {
    /// For how long it has been at work of its own in one round: zero while it waits for disks, brokers or input.
    pub silent: Duration,
    /// For how long no cut has held of something that is done, or that was begun.
    pub uncut: Duration,
    /// Index of the first source that has not said yet which of its partitions are read here.
    pub unassigned: Option<usize>,
    /// Index of the stage whose operator is called now.
    pub calls: Option<usize>,
}

/// What one worker shows. It writes, others read.
#[derive(Debug)]
pub(crate) struct Pulse {
    epoch: Instant,
    /// Milliseconds since then: when its round began, and when nothing of it was without a cut.
    round: AtomicU64,
    held: AtomicU64,
    /// It waits for something outside, or has ended.
    outside: AtomicBool,
    ended: AtomicBool,
    /// One more than the index of the source.
    unassigned: AtomicUsize,
    /// One more than the index of the stage, if its operator is called.
    calling: AtomicUsize,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse {
            epoch: Instant::now(),
            round: AtomicU64::new(0),
            held: AtomicU64::new(0),
            outside: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            unassigned: AtomicUsize::new(1),
            calling: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    fn since(&self, then: &AtomicU64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then.load(Ordering::Relaxed)))
    }

    /// A round begins.
    pub(crate) fn round(&self, unassigned: Option<usize>) {
        self.round.store(self.now(), Ordering::Relaxed);
        let unassigned = unassigned.map_or(0, |source| source + 1);
        self.unassigned.store(unassigned, Ordering::Relaxed);
    }

    /// From now on it waits for what is outside, or does no more.
    pub(crate) fn outside(&self, outside: bool) {
        self.round.store(self.now(), Ordering::Relaxed);
        self.outside.store(outside, Ordering::Relaxed);
    }

    /// The operator of a stage is called: however the worker got there, this is work of its own, until what is given is
    /// dropped.
    pub(crate) fn calls(&self, stage: usize) -> Call<'_> {
        self.round.store(self.now(), Ordering::Relaxed);
        self.calling.store(stage + 1, Ordering::Relaxed);
        Call {
            pulse: self,
            was_outside: self.outside.swap(false, Ordering::Relaxed),
        }
    }

    /// The last cut held, and none is under way.
    pub(crate) fn held(&self) {
        self.held.store(self.now(), Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn health(&self) -> WorkerHealth {
        if self.ended.load(Ordering::Relaxed) {
            return WorkerHealth {
                silent: Duration::ZERO,
                uncut: Duration::ZERO,
                unassigned: None,
                calls: None,
            };
        }
        WorkerHealth {
            silent: match self.outside.load(Ordering::Relaxed) {
                true => Duration::ZERO,
                false => self.since(&self.round),
            },
            uncut: self.since(&self.held),
            unassigned: self.unassigned.load(Ordering::Relaxed).checked_sub(1),
            calls: self.calling.load(Ordering::Relaxed).checked_sub(1),
        }
    }
}

/// A call of an operator that is under way.
pub(crate) struct Call<'a> {
    pulse: &'a Pulse,
    was_outside: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.pulse.calling.store(0, Ordering::Relaxed);
        self.pulse.outside(self.was_outside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    #[test]
    fn a_worker_that_waits_for_what_is_outside_is_not_silent_and_one_that_works_on_is() {
        let pulse = Pulse::new();
        pulse.round(Some(1));
        std::thread::sleep(MOMENT);
        let worker = pulse.health();
        assert!(worker.silent >= MOMENT, "{worker:?}");
        assert_eq!(worker.unassigned, Some(1));
        pulse.outside(true);
        std::thread::sleep(MOMENT);
        assert_eq!(pulse.health().silent, Duration::ZERO);
        pulse.outside(false);
        std::thread::sleep(MOMENT);
        assert!(pulse.health().silent >= MOMENT);
        pulse.round(None);
        assert_eq!(pulse.health().unassigned, None);
        // What has been read is given to an operator.
        pulse.outside(true);
        let call = pulse.calls(2);
        std::thread::sleep(MOMENT);
        let worker = pulse.health();
        assert!(worker.silent >= MOMENT);
        assert_eq!(worker.calls, Some(2));
        drop(call);
        let worker = pulse.health();
        assert_eq!((worker.silent, worker.calls), (Duration::ZERO, None));
    }

    #[test]
    fn what_no_cut_has_is_counted_from_the_last_moment_at_which_all_was_in_one() {
        let pulse = Pulse::new();
        std::thread::sleep(MOMENT);
        assert!(pulse.health().uncut >= MOMENT);
        pulse.held();
        let after = pulse.health().uncut;
        std::thread::sleep(MOMENT);
        assert!(pulse.health().uncut >= after + MOMENT / 2);
        pulse.ended();
        assert_eq!(pulse.health().uncut, Duration::ZERO, "it has nothing left");
    }
}
