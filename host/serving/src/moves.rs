//! Where requests have gone from an engine, so that a cancellation or an early end that comes after them follows.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use tidegate_contract::RequestId;

use crate::engine::Shared;

/// Most requests that are known to have gone, ended or not. Beyond them those that went first are forgotten: a cancellation that
/// overtook one of these on its way is lost then. A caller's reaches every engine of the model by itself.
const MOST: usize = 1 << 16;

/// The engines that requests have gone to, the last of each.
#[derive(Debug, Default)]
pub(crate) struct Moves<T = Weak<Shared>> {
    to: HashMap<RequestId, (u64, T)>,
    /// The order in which they went.
    order: BTreeMap<u64, RequestId>,
    next: u64,
}

impl<T> Moves<T> {
    /// A request goes to another engine.
    pub(crate) fn went(&mut self, id: RequestId, to: T) {
        self.came(id);
        self.next += 1;
        self.order.insert(self.next, id);
        self.to.insert(id, (self.next, to));
        while self.order.len() > MOST {
            if let Some((_, first)) = self.order.pop_first() {
                self.to.remove(&first);
            }
        }
    }

    /// A request has come here, or never went.
    pub(crate) fn came(&mut self, id: RequestId) {
        if let Some((place, _)) = self.to.remove(&id) {
            self.order.remove(&place);
        }
    }

    fn of(&self, id: RequestId) -> Option<&T> {
        self.to.get(&id).map(|(_, to)| to)
    }
}

impl Moves {
    /// Where a request went; none where it did not, or where that engine is gone.
    pub(crate) fn engine_of(&self, id: RequestId) -> Option<Arc<Shared>> {
        self.of(id).and_then(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_followed_to_where_it_went_last_until_it_is_back() {
        let mut moves = Moves::<u32>::default();
        assert_eq!(moves.of(RequestId(1)), None);
        moves.went(RequestId(1), 5);
        moves.went(RequestId(2), 6);
        moves.went(RequestId(1), 7);
        assert_eq!(moves.of(RequestId(1)), Some(&7));
        moves.came(RequestId(1));
        assert_eq!(moves.of(RequestId(1)), None);
        assert_eq!(moves.of(RequestId(2)), Some(&6));
    }

    #[test]
    fn of_very_many_that_went_the_first_are_forgotten() {
        let mut moves = Moves::<u32>::default();
        moves.went(RequestId(0), 0);
        for n in 0..MOST as u64 {
            moves.went(RequestId(n), 1);
        }
        assert_eq!(moves.of(RequestId(0)), Some(&1));
        moves.went(RequestId(MOST as u64), 2);
        assert_eq!(moves.of(RequestId(0)), None);
        assert_eq!((moves.to.len(), moves.order.len()), (MOST, MOST));
        for n in 0..=MOST as u64 {
            moves.came(RequestId(n));
        }
        assert!(moves.to.is_empty() && moves.order.is_empty());
    }
}
