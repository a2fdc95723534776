//! What a dispatch does to a cache, kept so that one that is like it but for its buffers does the same with its own: a layer that is
//! not looked at takes as much room as one that is.

use std::collections::HashMap;

use super::cache::{Access, Cache, Moved};
use crate::program::Dispatch;

/// A piece by the number of its buffer among those of a dispatch.
type Piece = (usize, u64);

/// What a dispatch that is followed touches.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Touches so far.
    now: u64,
    seen: HashMap<Piece, Seen>,
    /// Bytes that were read by other than the first reads of pieces: of those that went in the meantime.
    again: u64,
}

/// When a piece was touched.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: u64,
    first_read: Option<u64>,
    last: u64,
    /// Bytes of the piece.
    bytes: u64,
    /// Bytes that were written of it before its first read, or without any, and after it.
    written: [u64; 2],
}

impl Trace {
    /// Notes a touch, and what it moved.
    pub(super) fn note(&mut self, piece: Piece, bytes: u64, access: Access, moved: Moved) {
        self.now += 1;
        let now = self.now;
        let seen = self.seen.entry(piece).or_insert(Seen {
            first: now,
            first_read: None,
            last: now,
            bytes,
            written: [0; 2],
        });
        (seen.last, seen.bytes) = (now, seen.bytes.max(bytes));
        match (access, seen.first_read) {
            (Access::Read, None) => seen.first_read = Some(now),
            (Access::Read, Some(_)) => self.again += moved.read,
            (Access::Write(written), None) => seen.written[0] += written,
            (Access::Write(written), Some(_)) => seen.written[1] += written,
        }
    }

    /// What is to be done again.
    pub(super) fn replay(self) -> Replay {
        let mut touches: Vec<(u64, Again)> = Vec::with_capacity(self.seen.len());
        for (piece, seen) in self.seen {
            let mut add = |at, access, counts| {
                let again = Again {
                    piece,
                    bytes: seen.bytes,
                    access,
                    counts,
                };
                touches.push((at, again));
            };
            let (before, after) = match (seen.first_read, seen.written) {
                (None, [all, _]) => (0, all),
                (Some(_), [before, after]) => (before, after),
            };
            if seen.first_read != Some(seen.first) && seen.first < seen.last {
                add(seen.first, Access::Write(before), false);
            }
            if let Some(at) = seen.first_read {
                add(at, Access::Read, true);
            }
            if after > 0 {
                add(seen.last, Access::Write(after), false);
            } else if seen.first_read != Some(seen.last) {
                add(seen.last, Access::Read, false);
            }
        }
        touches.sort_unstable_by_key(|(at, _)| *at);
        Replay {
            touches: touches.into_iter().map(|(_, again)| again).collect(),
            again: self.again,
        }
    }
}

/// A touch of a piece that is done again.
#[derive(Clone, Copy, Debug)]
struct Again {
    piece: Piece,
    bytes: u64,
    access: Access,
    /// Whether what it reads counts: what is read after that is among what is read again.
    counts: bool,
}

/// The first touch of each piece of a dispatch, its first read and its last touch, in order.
#[derive(Debug)]
pub(super) struct Replay {
    touches: Vec<Again>,
    /// Bytes that are read once more.
    again: u64,
}

impl Replay {
    /// Sends a dispatch through a cache as the one that was followed went, with its own buffers.
    pub(super) fn run(&self, dispatch: &Dispatch, cache: &mut Cache) -> Moved {
        let mut all = Moved {
            read: self.again,
            written: 0,
        };
        for touch in &self.touches {
            let (buffer, piece) = touch.piece;
            let Some(buffer) = dispatch.buffers.get(buffer) else {
                continue;
            };
            let moved = cache.touch((buffer.id(), piece), touch.bytes, touch.access);
            all.written += moved.written;
            if touch.counts {
                all.read += moved.read;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::program::{Count, Work};

    const PIECE: u64 = 4096;

    fn dispatch(buffers: usize) -> Dispatch {
        let buffer = |_| Buffer::planned("a test", 1 << 20);
        Dispatch {
            of: Count::Rows,
            kernels: Vec::new(),
            buffers: (0..buffers).map(buffer).collect(),
            work: Work::Rows(0),
            touches: Vec::new(),
        }
    }

    /// Weights that stream by, activations that every workgroup reads, and an output that is written in parts.
    fn follow(dispatch: &Dispatch, cache: &mut Cache, trace: Option<&mut Trace>) -> Moved {
        let (mut all, mut none) = (Moved::default(), Trace::default());
        let trace = trace.unwrap_or(&mut none);
        for workgroup in 0..40 {
            for (piece, access) in [
                ((0, workgroup), Access::Read),
                ((1, 0), Access::Read),
                ((1, 1), Access::Read),
                ((2, workgroup / 8), Access::Write(PIECE / 8)),
            ] {
                let place = (dispatch.buffers[piece.0].id(), piece.1);
                let moved = cache.touch(place, PIECE, access);
                trace.note(piece, PIECE, access, moved);
                all += moved;
            }
        }
        all
    }

    #[test]
    fn what_is_done_again_moves_what_following_it_moves() {
        // From a cache in which not even activations stay to one that holds everything.
        for pieces in [1, 2, 3, 4, 8, 20, 46, 60, 94, 200] {
            let [first, second] = [dispatch(3), dispatch(3)];
            let [mut followed, mut replayed] = [(); 2].map(|()| Cache::new(pieces * PIECE, PIECE));
            let mut trace = Trace::default();
            follow(&first, &mut followed, None);
            follow(&first, &mut replayed, Some(&mut trace));
            let replay = trace.replay();
            for round in 0..3 {
                let exact = follow(&second, &mut followed, None);
                let found = replay.run(&second, &mut replayed);
                assert_eq!(found.read, exact.read, "{pieces} pieces, round {round}");
            }
            // The cache that it leaves is the same, too.
            let exact = follow(&first, &mut followed, None);
            let found = follow(&first, &mut replayed, None);
            assert_eq!(found.read, exact.read, "{pieces} pieces");
        }
    }
}
