//! A last-level cache, simulated: which bytes that are touched come from memory, and which go back to it.

use std::collections::{HashMap, VecDeque};
use std::ops::AddAssign;

/// A piece of a buffer: what is kept or let go of at once. A cache's lines are smaller, but what a workgroup touches lies together.
pub(super) type Place = (usize, u64);

/// What is done with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Of so many of its bytes that were not written before.
    Write(u64),
}

/// What is known of a piece that is there.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    touched: u64,
    /// Bytes that were read or written.
    present: u64,
    /// Bytes that memory does not have yet.
    dirty: u64,
}

/// Bytes to and from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) read: u64,
    pub(super) written: u64,
}

impl AddAssign for Moved {
    fn add_assign(&mut self, other: Moved) {
        self.read += other.read;
        self.written += other.written;
    }
}

/// Pieces by when they were last touched; the one that was not for longest goes first, and what was written of it to memory.
#[derive(Debug)]
pub(super) struct Cache {
    /// Bytes of a piece.
    pub(super) piece: u64,
    most: usize,
    now: u64,
    kept: HashMap<Place, Kept>,
    /// Every touch in order; all but the last of a piece are out of date.
    order: VecDeque<(Place, u64)>,
}

impl Cache {
    pub(super) fn new(bytes: u64, piece: u64) -> Cache {
        Cache {
            piece,
            most: usize::try_from(bytes / piece).unwrap_or(usize::MAX).max(1),
            now: 0,
            kept: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Touches a piece of so many bytes.
    pub(super) fn touch(&mut self, place: Place, bytes: u64, access: Access) -> Moved {
        self.now += 1;
        let kept = self.kept.entry(place).or_default();
        kept.touched = self.now;
        let mut moved = Moved::default();
        match access {
            Access::Read => {
                moved.read = bytes.saturating_sub(kept.present);
                kept.present = bytes;
            }
            Access::Write(written) => {
                kept.present = (kept.present + written).min(bytes);
                kept.dirty = (kept.dirty + written).min(bytes);
            }
        }
        self.order.push_back((place, self.now));
        while self.kept.len() > self.most {
            let Some((oldest, at)) = self.order.pop_front() else {
                break;
            };
            if let Some(kept) = self.kept.get(&oldest)
                && kept.touched == at
            {
                moved.written += kept.dirty;
                self.kept.remove(&oldest);
            }
        }
        // What is out of date is not kept for ever.
        if self.order.len() > 4 * self.kept.len() + 1024 {
            let kept = &self.kept;
            let last = |(place, at): &(Place, u64)| {
                kept.get(place).is_some_and(|kept| kept.touched == *at)
            };
            self.order.retain(last);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 4096;

    fn read(cache: &mut Cache, piece: u64) -> u64 {
        cache.touch((7, piece), PIECE, Access::Read).read
    }

    #[test]
    fn what_was_not_touched_for_longest_goes_first() {
        let mut cache = Cache::new(3 * PIECE, PIECE);
        let mut missed = |pieces: &[u64]| -> Vec<bool> {
            let pieces = pieces.iter();
            pieces.map(|piece| read(&mut cache, *piece) > 0).collect()
        };
        assert_eq!(missed(&[1, 2, 3, 1]), [true, true, true, false]);
        // 2 goes, not 1.
        assert_eq!(missed(&[4, 1, 2]), [true, false, true]);
        // Another buffer's piece is another.
        assert_eq!(cache.touch((8, 1), PIECE, Access::Read).read, PIECE);
    }

    #[test]
    fn a_sweep_over_more_than_there_is_room_for_finds_nothing_and_over_less_everything() {
        for (pieces, found) in [(100, 0), (101, 101)] {
            let mut cache = Cache::new(100 * PIECE, PIECE);
            for round in 0..50 {
                let missed = (0..pieces)
                    .filter(|piece| read(&mut cache, *piece) > 0)
                    .count();
                assert_eq!(
                    missed,
                    if round == 0 { pieces as usize } else { found },
                    "{round}"
                );
            }
            assert!(cache.order.len() <= 4 * 101 + 1024);
        }
    }

    #[test]
    fn what_is_written_is_there_and_goes_to_memory_when_its_room_is_taken() {
        let mut cache = Cache::new(2 * PIECE, PIECE);
        let write =
            |cache: &mut Cache, piece, bytes| cache.touch((7, piece), PIECE, Access::Write(bytes));
        assert_eq!(write(&mut cache, 1, 100), Moved::default());
        assert_eq!(write(&mut cache, 1, 50), Moved::default());
        // The rest of the piece is not there.
        assert_eq!(read(&mut cache, 1), PIECE - 150);
        assert_eq!(read(&mut cache, 1), 0);
        assert_eq!(read(&mut cache, 2), PIECE);
        let moved = cache.touch((7, 3), PIECE, Access::Read);
        assert_eq!((moved.read, moved.written), (PIECE, 150));
        // What was only read goes to nowhere.
        assert_eq!(cache.touch((7, 4), PIECE, Access::Read).written, 0);
    }
}
