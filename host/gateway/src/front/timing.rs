//! How long requests take, by what they ask.

use std::sync::Arc;
use std::time::Instant;

use tidegate_telemetry::metrics::{Gauge, Histogram, REQUEST_SECONDS};

/// How long the requests of one endpoint took, and how many are under way.
#[derive(Debug)]
pub struct Times {
    /// Requests under way, their answers' bodies included.
    pub under_way: Gauge,
    /// From the head of a request to the end of its answer, or until its client went.
    pub seconds: Histogram,
    /// From the head of a request to the first byte of its answer's body.
    pub first_byte: Histogram,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            under_way: Gauge::default(),
            seconds: Histogram::new(REQUEST_SECONDS),
            first_byte: Histogram::new(REQUEST_SECONDS),
        }
    }
}

/// The time of one request. It ends when this is dropped.
#[derive(Debug)]
pub struct Timing {
    began: Instant,
    times: Arc<Times>,
    begun: bool,
}

impl Timing {
    /// A request begins.
    pub fn new(times: Arc<Times>) -> Timing {
        times.under_way.change(0, 1);
        Timing {
            began: Instant::now(),
            times,
            begun: false,
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
        self.times.under_way.change(1, 0);
        self.times.seconds.observe(self.began.elapsed());
    }
}
