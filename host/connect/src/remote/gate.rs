//! Places of requests: a bound of those that run, and of those that wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Lets so many requests run at once, the others by class and then as they came.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    places: usize,
}

#[derive(Debug)]
struct State {
    /// Requests that may still run.
    free: usize,
    /// Requests in all.
    taken: usize,
    waiting: BTreeMap<(u8, u64), oneshot::Sender<Permit>>,
    next: u64,
}

/// A request's place, waiting or running.
#[derive(Debug)]
pub(crate) struct Place(Arc<Gate>);

/// A request's right to run.
#[derive(Debug)]
pub(crate) struct Permit(Option<Arc<Gate>>);

impl Gate {
    pub(crate) fn new(at_once: usize, waiting: usize) -> Arc<Gate> {
        Arc::new(Gate {
            state: Mutex::new(State {
                free: at_once,
                taken: 0,
                waiting: BTreeMap::new(),
                next: 0,
            }),
            places: at_once.saturating_add(waiting),
        })
    }

    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Requests in all.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// A place, if there is one.
    pub(crate) fn enter(self: &Arc<Gate>) -> Option<Place> {
        let mut state = self.state();
        if state.taken >= self.places {
            return None;
        }
        state.taken += 1;
        Some(Place(self.clone()))
    }

    /// The right to run, when its turn comes.
    pub(crate) async fn permit(self: &Arc<Gate>, class: u8) -> Permit {
        let (key, receiver) = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Permit(Some(self.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            let key = (class, state.next);
            state.next += 1;
            state.waiting.insert(key, sender);
            (key, receiver)
        };
        let _leaves = Leaves(self, key);
        match receiver.await {
            Ok(permit) => permit,
            // Senders are dropped with the gate alone, and that is held here.
            Err(_) => Permit(None),
        }
    }

    /// The right to run, if nobody waits for it.
    pub(crate) fn try_permit(self: &Arc<Gate>) -> Option<Permit> {
        let mut state = self.state();
        state.free = state.free.checked_sub(1)?;
        Some(Permit(Some(self.clone())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a right to the next that waits.
    fn release(self: &Arc<Gate>) {
        loop {
            let next = {
                let mut state = self.state();
                let next = state.waiting.pop_first();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some((_, sender)) = next else {
                return;
            };
            match sender.send(Permit(Some(self.clone()))) {
                Ok(()) => return,
                // Has just gone.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

/// A request that stops waiting leaves the queue.
struct Leaves<'a>(&'a Arc<Gate>, (u8, u64));

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.state().waiting.remove(&self.1);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state().taken -= 1;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn those_who_wait_run_by_class_then_as_they_came_and_who_has_gone_takes_no_turn() {
        let gate = Gate::new(1, 3);
        let mut context = Context::from_waker(Waker::noop());
        let running = gate.try_permit().unwrap();
        assert!(gate.try_permit().is_none());
        let mut low = pin!(gate.permit(5));
        let mut gone = Box::pin(gate.permit(0));
        let mut high = pin!(gate.permit(1));
        assert!(low.as_mut().poll(&mut context).is_pending());
        assert!(gone.as_mut().poll(&mut context).is_pending());
        assert!(high.as_mut().poll(&mut context).is_pending());
        assert_eq!(gate.waiting(), 3);
        drop(gone);
        assert_eq!(gate.waiting(), 2);
        drop(running);
        assert!(low.as_mut().poll(&mut context).is_pending());
        let Poll::Ready(permit) = high.as_mut().poll(&mut context) else {
            panic!("the higher class does not run");
        };
        drop(permit);
        let Poll::Ready(permit) = low.as_mut().poll(&mut context) else {
            panic!("the other does not run");
        };
        drop(permit);
        assert!(gate.try_permit().is_some());
    }

    #[test]
    fn a_right_that_was_given_to_one_who_went_is_given_on() {
        let gate = Gate::new(1, 3);
        let mut context = Context::from_waker(Waker::noop());
        let running = gate.try_permit().unwrap();
        let mut first = Box::pin(gate.permit(0));
        assert!(first.as_mut().poll(&mut context).is_pending());
        drop(running);
        drop(first);
        assert!(gate.try_permit().is_some());
    }

    #[test]
    fn places_have_a_bound() {
        let gate = Gate::new(1, 1);
        let first = gate.enter().unwrap();
        let _second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        assert!(gate.enter().is_some());
    }
}
