//! How long requests take, by what they ask, and what they are answered with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidegate_telemetry::metrics::{Gauge, Histogram, REQUEST_SECONDS};

use crate::exchange::CLIENT_GONE;

/// How long the requests of one endpoint took, how many are under way, and what the others were answered with.
#[derive(Debug)]
pub struct Times {
    /// Requests under way, their answers' bodies included.
    pub under_way: Gauge,
    /// From the head of a request to the end of its answer, or until its client went.
    pub seconds: Histogram,
    /// From the head of a request to the first byte of its answer's body; of an answer that is whole, to that answer.
    pub first_byte: Histogram,
    statuses: Mutex<BTreeMap<u16, u64>>,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            under_way: Gauge::default(),
            seconds: Histogram::new(REQUEST_SECONDS),
            first_byte: Histogram::new(REQUEST_SECONDS),
            statuses: Mutex::default(),
        }
    }
}

impl Times {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        // Each change is whole before anything can panic.
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests were answered with each status.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let counts = self.counts();
        counts
            .iter()
            .map(|(status, count)| (*status, *count))
            .collect()
    }
}

/// The time of one request. It ends when this is dropped. It is counted once, however it ends: by the status of its answer,
/// or as one whose client went before that.
#[derive(Debug)]
pub struct Timing {
    began: Instant,
    times: Arc<Times>,
    begun: bool,
    answered: bool,
}

impl Timing {
    /// A request begins.
    pub fn new(times: Arc<Times>) -> Timing {
        times.under_way.change(0, 1);
        Timing {
            began: Instant::now(),
            times,
            begun: false,
            answered: false,
        }
    }

    /// It is answered with this status.
    pub(super) fn answered(&mut self, status: u16) {
        if !std::mem::replace(&mut self.answered, true) {
            *self.times.counts().entry(status).or_default() += 1;
        }
    }

    /// A byte of its answer's body goes out.
    pub(super) fn begins(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.times.first_byte.observe(self.began.elapsed());
        }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        self.answered(CLIENT_GONE);
        self.times.under_way.change(1, 0);
        self.times.seconds.observe(self.began.elapsed());
    }
}
