//! Places of those that wait.
//!
//! A record has a place from before it is queued until a model has made the first of its answer, or it has ended. A request
//! of several records has as many places as it can use at once, from before the first of them is queued, and gives none of
//! them back while one of its records is still to be queued: none of them is refused once another was taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedSemaphorePermit;

use super::lock;

/// The places of one request.
pub(super) struct Places {
    most: usize,
    state: Mutex<State>,
}

struct State {
    held: OwnedSemaphorePermit,
    /// Records that are still to be queued.
    left: usize,
    /// Records that wait.
    waiting: usize,
}

impl State {
    /// Gives back what nobody needs any more.
    fn settle(&mut self) {
        let needed = match self.left {
            0 => self.waiting,
            _ => self.held.num_permits(),
        };
        let over = self.held.num_permits().saturating_sub(needed);
        drop(self.held.split(over));
    }
}

impl Places {
    /// Those of a request with so many records.
    pub(super) fn new(held: OwnedSemaphorePermit, records: usize) -> Arc<Places> {
        Arc::new(Places {
            most: held.num_permits(),
            state: Mutex::new(State {
                held,
                left: records,
                waiting: 0,
            }),
        })
    }

    /// How many records may be under way at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// One more record waits.
    pub(super) fn wait(self: &Arc<Places>) -> Place {
        let mut state = lock(&self.state);
        state.left = state.left.saturating_sub(1);
        state.waiting += 1;
        state.settle();
        Place {
            places: self.clone(),
            free: AtomicBool::new(false),
        }
    }

    /// No more records will be queued.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.left = 0;
        state.settle();
    }
}

/// The place of a record.
pub(super) struct Place {
    places: Arc<Places>,
    free: AtomicBool,
}

impl Place {
    /// It waits no more.
    pub(super) fn free(&self) {
        if !self.free.swap(true, Ordering::AcqRel) {
            let mut state = lock(&self.places.state);
            state.waiting = state.waiting.saturating_sub(1);
            state.settle();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn places(semaphore: &Arc<Semaphore>, held: u32, records: usize) -> Arc<Places> {
        let held = semaphore.clone().try_acquire_many_owned(held).unwrap();
        Places::new(held, records)
    }

    #[test]
    fn a_place_is_free_when_its_record_waits_no_more_and_none_is_to_come() {
        let all = Arc::new(Semaphore::new(8));
        let several = places(&all, 2, 3);
        let first = several.wait();
        first.free();
        let _second = several.wait();
        // The third is still to come.
        assert_eq!(all.available_permits(), 6);
        let third = several.wait();
        assert_eq!(all.available_permits(), 6);
        third.free();
        drop(third);
        assert_eq!(all.available_permits(), 7);
    }

    #[test]
    fn places_of_a_request_that_ends_early_are_free() {
        let all = Arc::new(Semaphore::new(8));
        let several = places(&all, 4, 9);
        let waits = several.wait();
        several.end();
        assert_eq!(all.available_permits(), 7);
        drop((several, waits));
        assert_eq!(all.available_permits(), 8);
    }
}
