//! Requests of which something has come that is not shown yet: its turn was over, or a handler cannot go on.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// See the module. There are no more of them than requests of the worker.
#[derive(Debug, Default)]
pub(super) struct Rests {
    due: BTreeSet<(Instant, u64)>,
    /// When each of them is.
    of: HashMap<u64, Instant>,
}

impl Rests {
    /// This request goes on from then on.
    pub(super) fn put(&mut self, request: u64, due: Instant) {
        self.take(request);
        self.of.insert(request, due);
        self.due.insert((due, request));
    }

    /// It goes on now.
    pub(super) fn take(&mut self, request: u64) {
        if let Some(due) = self.of.remove(&request) {
            self.due.remove(&(due, request));
        }
    }

    /// Takes one that may go on by now, the one that has waited for longest.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (due, request) = self.due.first().copied()?;
        if due > now {
            return None;
        }
        self.take(request);
        Some(request)
    }

    /// When the next one may go on.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// What kept them may be over: all may go on.
    pub(super) fn wake(&mut self, now: Instant) {
        for request in self.of.keys().copied().collect::<Vec<_>>() {
            self.put(request, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_waits_once_and_the_longest_goes_first() {
        let mut rests = Rests::default();
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        rests.put(1, at(3));
        rests.put(2, at(2));
        rests.put(1, at(1));
        rests.put(3, at(9));
        assert_eq!(rests.next_due(), Some(at(1)));
        assert_eq!(rests.take_due(now), None);
        assert_eq!(rests.take_due(at(5)), Some(1));
        assert_eq!(rests.take_due(at(5)), Some(2));
        assert_eq!(rests.take_due(at(5)), None);
        rests.wake(now);
        assert_eq!(rests.take_due(now), Some(3));
        assert_eq!(rests.next_due(), None);
    }
}
