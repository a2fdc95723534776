//! Places of those who come by keys of another server: no one key has all there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// On a request: by which key of another server it comes.
#[derive(Clone, Debug)]
pub(super) struct ByKey(pub(super) Arc<str>);

/// So many places of each key, out of those that there are for all.
pub(super) struct Keys {
    of_one: usize,
    /// Those that have a place, or wait for one.
    keys: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl Keys {
    /// At most half of these places for one key: the others have the rest.
    pub(super) fn of(places: usize) -> Keys {
        Keys {
            of_one: places / 2,
            keys: Mutex::default(),
        }
    }

    /// Most places of one key.
    pub(super) fn of_one(&self) -> usize {
        self.of_one
    }

    /// The places of this key, for as long as somebody has one of them or waits for it.
    pub(super) fn places(&self, ByKey(key): &ByKey) -> Arc<Semaphore> {
        // Each change is whole before anything can panic.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // A place, and whoever waits for one, has the key's places in hand.
        keys.retain(|_, places| Arc::strong_count(places) > 1);
        let places = keys.entry(Arc::clone(key));
        let places = places.or_insert_with(|| Arc::new(Semaphore::new(self.of_one)));
        Arc::clone(places)
    }

    /// A place of this key, if it has one left.
    pub(super) fn place(&self, key: &ByKey) -> Option<OwnedSemaphorePermit> {
        self.places(key).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_half_of_the_places_and_is_forgotten_when_it_has_none() {
        let keys = Keys::of(4);
        let [one, other] = ["one", "other"].map(|key| ByKey(key.into()));
        let (first, second) = (keys.place(&one), keys.place(&one));
        assert!(first.is_some() && second.is_some());
        assert!(keys.place(&one).is_none());
        let others = keys.place(&other);
        assert!(others.is_some());
        drop(second);
        assert!(keys.place(&one).is_some());
        drop((first, others));
        drop(keys.place(&other));
        assert!(keys.keys.lock().unwrap().len() <= 1);
    }
}
