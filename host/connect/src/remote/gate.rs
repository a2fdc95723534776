//! Places of requests: a bound of those that run, and of those that wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::share_beside;
use tokio::sync::oneshot;

use super::side::Side;

/// Lets so many requests run at once, the others by class and then as they came.
///
/// What is beside the stream has places of its own, and of the rights to run a share at most.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    at_once: usize,
    places: usize,
}

#[derive(Debug)]
struct State {
    /// Requests that may still run.
    free: usize,
    /// Requests that run and are beside the stream.
    beside: usize,
    /// Places that are taken: the stream's, and those beside it.
    taken: [usize; 2],
    waiting: BTreeMap<(u8, u64), oneshot::Sender<Permit>>,
    next: u64,
}

/// A request's place, waiting or running.
#[derive(Debug)]
pub(crate) struct Place(Arc<Gate>, Side);

/// A request's right to run.
#[derive(Debug)]
pub(crate) struct Permit(Option<Arc<Gate>>, Side);

impl Gate {
    pub(crate) fn new(at_once: usize, waiting: usize) -> Arc<Gate> {
        Arc::new(Gate {
            state: Mutex::new(State {
                free: at_once,
                beside: 0,
                taken: [0; 2],
                waiting: BTreeMap::new(),
                next: 0,
            }),
            at_once,
            places: at_once.saturating_add(waiting),
        })
    }

    /// Most requests on this side.
    pub(crate) fn places(&self, side: Side) -> usize {
        match side {
            Side::Stream => self.places,
            Side::Beside => share_beside(self.places),
        }
    }

    /// Requests in all.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken.iter().sum()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// A place, if there is one.
    pub(crate) fn enter(self: &Arc<Gate>, side: Side) -> Option<Place> {
        let mut state = self.state();
        let taken = &mut state.taken[side as usize];
        if *taken >= self.places(side) {
            return None;
        }
        *taken += 1;
        Some(Place(self.clone(), side))
    }

    /// The right to run, when its turn comes.
    pub(crate) async fn permit(self: &Arc<Gate>, class: u8) -> Permit {
        let side = Side::of(class);
        let (key, receiver) = {
            let mut state = self.state();
            if state.free > 0 && self.may(&state, side) {
                state.free -= 1;
                return self.give(&mut state, side);
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
            Err(_) => Permit(None, side),
        }
    }

    /// The right to run for a request of the stream, if nobody waits for it.
    pub(crate) fn try_permit(self: &Arc<Gate>) -> Option<Permit> {
        let mut state = self.state();
        state.free = state.free.checked_sub(1)?;
        Some(self.give(&mut state, Side::Stream))
    }

    /// Whether one on this side may have a right.
    fn may(&self, state: &State, side: Side) -> bool {
        side == Side::Stream || state.beside < share_beside(self.at_once)
    }

    /// A right that is not free any more.
    fn give(self: &Arc<Gate>, state: &mut State, side: Side) -> Permit {
        state.beside += usize::from(side == Side::Beside);
        Permit(Some(self.clone()), side)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a right that was had on this side to the next that waits and may have it.
    fn release(self: &Arc<Gate>, mut side: Side) {
        loop {
            let (sender, permit) = {
                let mut state = self.state();
                state.beside -= usize::from(side == Side::Beside);
                // Behind one that is beside the stream all are.
                let next = (state.waiting.first_entry())
                    .map(|first| Side::of(first.key().0))
                    .filter(|next| self.may(&state, *next));
                let waiting = next.and_then(|next| Some((next, state.waiting.pop_first()?.1)));
                let Some((next, sender)) = waiting else {
                    state.free += 1;
                    return;
                };
                side = next;
                (sender, self.give(&mut state, next))
            };
            match sender.send(permit) {
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
        self.0.state().taken[self.1 as usize] -= 1;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.release(self.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tidegate_contract::CLASS_BESIDE;

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
        let enter = || gate.enter(Side::Stream);
        let first = enter().unwrap();
        let _second = enter().unwrap();
        assert!(enter().is_none());
        drop(first);
        assert!(enter().is_some());
    }

    #[test]
    fn what_is_beside_the_stream_has_a_share_of_the_rights_and_none_of_its_places() {
        let gate = Gate::new(8, 4);
        let places: Vec<Place> = std::iter::from_fn(|| gate.enter(Side::Beside)).collect();
        assert_eq!((places.len(), gate.places(Side::Beside)), (3, 3));
        let stream: Vec<Place> = std::iter::from_fn(|| gate.enter(Side::Stream)).collect();
        assert_eq!((stream.len(), gate.taken()), (12, 15));

        let mut context = Context::from_waker(Waker::noop());
        let mut beside: Vec<_> = (0..3)
            .map(|_| Box::pin(gate.permit(CLASS_BESIDE)))
            .collect();
        let mut held = Vec::new();
        for permit in &mut beside {
            if let Poll::Ready(permit) = permit.as_mut().poll(&mut context) {
                held.push(permit);
            }
        }
        assert_eq!(held.len(), 2, "a quarter");
        // All the others are the stream's; one that goes leaves its right to the stream alone.
        let mut stream: Vec<Permit> = std::iter::from_fn(|| gate.try_permit()).collect();
        assert_eq!(stream.len(), 6);
        drop(stream.pop());
        assert!(beside[2].as_mut().poll(&mut context).is_pending());
        assert!(gate.try_permit().is_some());
        drop(held.pop());
        let Poll::Ready(third) = beside[2].as_mut().poll(&mut context) else {
            panic!("there is room on its side");
        };
        drop((third, held, stream));
        let all: Vec<Permit> = std::iter::from_fn(|| gate.try_permit()).collect();
        assert_eq!(all.len(), 8, "none is lost");
    }
}
