//! A last-level cache, simulated: which of the pieces that are touched must come from memory.

use std::collections::{HashMap, VecDeque};

/// Bytes of a piece: what is kept or let go of at once. A cache's lines are smaller, but what a workgroup reads lies together.
pub(super) const PIECE: u64 = 4096;

/// Where a piece lies: a buffer, and which of its pieces.
pub(super) type Place = (usize, u64);

/// Pieces by when they were last touched; the one that was not for longest goes first.
#[derive(Debug)]
pub(super) struct Cache {
    most: usize,
    now: u64,
    touched: HashMap<Place, u64>,
    /// Every touch in order; all but the last of a piece are out of date.
    order: VecDeque<(Place, u64)>,
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Cache {
        Cache {
            most: (bytes / PIECE).max(1) as usize,
            now: 0,
            touched: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Touches a piece and says whether it was there.
    pub(super) fn touch(&mut self, place: Place) -> bool {
        self.now += 1;
        let known = self.touched.insert(place, self.now).is_some();
        self.order.push_back((place, self.now));
        while self.touched.len() > self.most {
            let Some((oldest, at)) = self.order.pop_front() else {
                break;
            };
            if self.touched.get(&oldest) == Some(&at) {
                self.touched.remove(&oldest);
            }
        }
        // What is out of date is not kept for ever.
        if self.order.len() > 8 * self.most + 1024 {
            let touched = &self.touched;
            self.order
                .retain(|(place, at)| touched.get(place) == Some(at));
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_touched_for_longest_goes_first() {
        let mut cache = Cache::new(3 * PIECE);
        let touch = |cache: &mut Cache, pieces: &[u64]| -> Vec<bool> {
            pieces
                .iter()
                .map(|piece| cache.touch((7, *piece)))
                .collect()
        };
        assert_eq!(
            touch(&mut cache, &[1, 2, 3, 1]),
            [false, false, false, true]
        );
        // 2 goes, not 1.
        assert_eq!(touch(&mut cache, &[4, 1, 2]), [false, true, false]);
        // Another buffer's piece is another.
        assert!(!cache.touch((8, 1)));
    }

    #[test]
    fn a_sweep_over_more_than_there_is_room_for_finds_nothing_and_over_less_everything() {
        for (pieces, found) in [(100, 100), (101, 0)] {
            let mut cache = Cache::new(100 * PIECE);
            for round in 0..50 {
                let hits = (0..pieces).filter(|piece| cache.touch((0, *piece))).count();
                assert_eq!(hits, if round == 0 { 0 } else { found }, "{pieces} {round}");
            }
        }
    }
}
