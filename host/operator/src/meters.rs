//! What one revision of a slot has done, over all its instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Kinds of outcomes, by their code in an answer.
pub const OUTCOMES: [&str; 7] = [
    "pass",
    "drop",
    "replace",
    "split",
    "route",
    "retry",
    "dead-letter",
];

/// What a revision has done since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionStats {
    /// Outcomes by kind, in the order of [`OUTCOMES`]; a record that came again counts again.
    pub outcomes: [u64; OUTCOMES.len()],
    /// Records it could not answer for.
    pub failed: u64,
    /// Instances that were lost to a trap, a deadline, a refused allocation or a bad answer.
    pub lost_instances: u64,
    /// Pieces of answers that its handlers of tokens were given.
    pub token_steps: u64,
    /// Time in its guests, answers read and checked, and what handles tokens included.
    pub guest_time: Duration,
    /// Bytes of the linear memories of its instances at this moment.
    pub memory: u64,
    /// Its instances at this moment, spares included.
    pub instances: u64,
}

impl RevisionStats {
    /// Records it was given, answered or not.
    pub fn records(&self) -> u64 {
        self.outcomes.iter().sum::<u64>() + self.failed
    }

    /// Adds what another has done.
    pub(crate) fn add(&mut self, other: &RevisionStats) {
        for (sum, more) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum += more;
        }
        self.failed += other.failed;
        self.lost_instances += other.lost_instances;
        self.token_steps += other.token_steps;
        self.guest_time += other.guest_time;
        self.memory += other.memory;
        self.instances += other.instances;
    }
}

/// Counts for a revision; see [`RevisionStats`].
#[derive(Debug)]
pub(crate) struct RevisionMeters {
    /// When all of them were zero.
    pub(crate) since: SystemTime,
    outcomes: [AtomicU64; OUTCOMES.len()],
    failed: AtomicU64,
    lost: AtomicU64,
    token_steps: AtomicU64,
    guest_nanos: AtomicU64,
    memory: AtomicI64,
    instances: AtomicU64,
}

impl Default for RevisionMeters {
    fn default() -> RevisionMeters {
        RevisionMeters {
            since: SystemTime::now(),
            outcomes: Default::default(),
            failed: AtomicU64::default(),
            lost: AtomicU64::default(),
            token_steps: AtomicU64::default(),
            guest_nanos: AtomicU64::default(),
            memory: AtomicI64::default(),
            instances: AtomicU64::default(),
        }
    }
}

impl RevisionMeters {
    /// Answers for the stream, by the code of their kind.
    pub(crate) fn on_answer(&self, outcomes: [u64; OUTCOMES.len()]) {
        for (counter, number) in self.outcomes.iter().zip(outcomes) {
            if number > 0 {
                counter.fetch_add(number, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn on_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_token_step(&self) {
        self.token_steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_call(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.guest_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> RevisionStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RevisionStats {
            outcomes: std::array::from_fn(|kind| get(&self.outcomes[kind])),
            failed: get(&self.failed),
            lost_instances: get(&self.lost),
            token_steps: get(&self.token_steps),
            guest_time: Duration::from_nanos(get(&self.guest_nanos)),
            memory: u64::try_from(self.memory.load(Ordering::Relaxed)).unwrap_or(0),
            instances: get(&self.instances),
        }
    }
}

/// What an instance holds counts for its revision, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    meters: Arc<RevisionMeters>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(meters: &Arc<RevisionMeters>, bytes: usize) -> Held {
        meters.instances.fetch_add(1, Ordering::Relaxed);
        let mut held = Held {
            meters: Arc::clone(meters),
            bytes: 0,
        };
        held.set(bytes);
        held
    }

    /// It holds so many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            let change = bytes as i64 - self.bytes as i64;
            self.meters.memory.fetch_add(change, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
        self.meters.instances.fetch_sub(1, Ordering::Relaxed);
    }
}
