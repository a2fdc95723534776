//! Clocks of the inert world, and what waits for them. A call sees one time: that of its batch. Waiting takes none: what
//! a guest waits for on a clock has come when the wait returns, because its clocks have moved there. So a language's
//! sleep ends at once, by its own clock after as long as it should.

use std::collections::HashMap;

use wasmtime::component::Resource;
use wasmtime::{Result, bail};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::{clocks, sync};

use super::Inert;

/// The earliest time that a clock shows, in nanoseconds: that of `describe`, `init` and batches without one. Not 0, which
/// runtimes (Go's is one) take for a clock that is broken.
const EARLIEST: u64 = 1_000_000_000;

/// The clocks of one instance, in nanoseconds.
pub(super) struct Clock {
    /// The time of the running call since the Unix epoch.
    call: u64,
    /// The monotonic clock when the call began: the same time, unless it has been later before.
    began: u64,
    /// What the call has waited so far.
    waited: u64,
    /// When those things that a guest can wait for are ready which are not so at once, by handle.
    timers: HashMap<u32, u64>,
}

impl Clock {
    pub(super) fn new(micros: i64) -> Clock {
        let call = nanoseconds(micros);
        Clock {
            call,
            began: call,
            waited: 0,
            timers: HashMap::new(),
        }
    }

    /// A call begins, of a batch with this clock in microseconds.
    pub(super) fn begin(&mut self, micros: i64) {
        let before = self.monotonic();
        self.call = nanoseconds(micros);
        self.began = self.call.max(before);
        self.waited = 0;
    }

    fn monotonic(&self) -> u64 {
        self.began.saturating_add(self.waited)
    }

    fn wall(&self) -> u64 {
        self.call.saturating_add(self.waited)
    }

    fn wait_until(&mut self, when: u64) {
        self.waited = self.waited.max(when.saturating_sub(self.began));
    }

    /// When this is ready: 0 if it is at once.
    fn ready_at(&self, pollable: &Resource<DynPollable>) -> u64 {
        self.timers.get(&pollable.rep()).copied().unwrap_or(0)
    }
}

fn nanoseconds(micros: i64) -> u64 {
    (micros.max(0) as u64).saturating_mul(1000).max(EARLIEST)
}

impl Inert {
    fn timer(&mut self, when: u64) -> Result<Resource<DynPollable>> {
        let pollable = self.ready()?;
        self.clock.timers.insert(pollable.rep(), when);
        Ok(pollable)
    }
}

impl clocks::wall_clock::Host for Inert {
    fn now(&mut self) -> Result<clocks::wall_clock::Datetime> {
        let now = self.clock.wall();
        Ok(clocks::wall_clock::Datetime {
            seconds: now / 1_000_000_000,
            nanoseconds: (now % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime {
            seconds: 0,
            nanoseconds: 1000,
        })
    }
}

impl clocks::monotonic_clock::Host for Inert {
    fn now(&mut self) -> Result<u64> {
        Ok(self.clock.monotonic())
    }

    fn resolution(&mut self) -> Result<u64> {
        Ok(1000)
    }

    fn subscribe_instant(&mut self, when: u64) -> Result<Resource<DynPollable>> {
        self.timer(when)
    }

    fn subscribe_duration(&mut self, duration: u64) -> Result<Resource<DynPollable>> {
        self.timer(self.clock.monotonic().saturating_add(duration))
    }
}

impl sync::io::poll::Host for Inert {
    /// What is ready; if nothing is, the time of the earliest timer comes.
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        let times: Vec<u64> = pollables
            .iter()
            .map(|pollable| self.clock.ready_at(pollable))
            .collect();
        let Some(&earliest) = times.iter().min() else {
            bail!("empty poll list");
        };
        self.clock.wait_until(earliest);
        let now = self.clock.monotonic();
        let due = times.iter().enumerate().filter(|(_, when)| **when <= now);
        Ok(due.map(|(index, _)| index as u32).collect())
    }
}

impl sync::io::poll::HostPollable for Inert {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        Ok(self.clock.ready_at(&pollable) <= self.clock.monotonic())
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        let when = self.clock.ready_at(&pollable);
        self.clock.wait_until(when);
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        self.clock.timers.remove(&pollable.rep());
        sync::io::poll::HostPollable::drop(&mut self.table, pollable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: i64 = 1_700_000_000_000_000;

    #[test]
    fn no_clock_stands_at_zero() {
        for micros in [i64::MIN, -1, 0, 1] {
            let clock = Clock::new(micros);
            assert_eq!((clock.monotonic(), clock.wall()), (EARLIEST, EARLIEST));
        }
    }

    #[test]
    fn a_wait_moves_both_clocks_and_the_next_batch_has_its_own_time() {
        let mut clock = Clock::new(0);
        clock.begin(BATCH);
        let began = clock.monotonic();
        clock.wait_until(began + 5_000);
        clock.wait_until(began + 2_000);
        assert_eq!(clock.monotonic(), began + 5_000);
        assert_eq!(clock.wall(), nanoseconds(BATCH) + 5_000);
        clock.begin(BATCH + 1);
        assert_eq!(clock.wall(), nanoseconds(BATCH + 1));
        assert_eq!(clock.monotonic(), began + 5_000, "it never goes back");
        clock.begin(BATCH + 9);
        assert_eq!(clock.monotonic(), nanoseconds(BATCH + 9));
    }

    #[test]
    fn a_wait_for_ever_ends_at_the_last_instant() {
        let mut clock = Clock::new(BATCH);
        clock.wait_until(u64::MAX);
        assert_eq!(clock.monotonic(), u64::MAX);
        clock.begin(BATCH);
        assert_eq!(clock.monotonic(), u64::MAX);
        clock.wait_until(u64::MAX);
        assert_eq!(clock.monotonic(), u64::MAX);
    }
}
