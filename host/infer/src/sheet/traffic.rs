//! The bytes that a dispatch moves: what its workgroups touch, in the order in which they run.

use std::collections::HashSet;

use super::cache::{Cache, PIECE, Place};
use crate::buffer::Buffer;
use crate::program::{Axis, Count, Dispatch, Extent, Plan, RowContext, SizedKernel};
use crate::touch::{Area, Use};

/// Where positions begin in their buffer, in positions: behind everything that is counted by rows.
const POSITIONS: u64 = 1 << 32;

/// Positions that there is room for between one head of a sequence and the next, and parts between one row and the next.
const APART: u64 = 1 << 24;

/// What a step of a decoder comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) extent: Extent,
    pub(super) rows: &'a [RowContext],
}

/// Bytes of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// What its workgroups need of its buffers, each byte once.
    pub(super) needed: u64,
    /// What comes from memory.
    pub(super) read: u64,
    /// What its workgroups ask for, from memory or a cache.
    pub(super) asked: u64,
    /// What they write.
    pub(super) written: u64,
}

/// Which axes of a grid count what.
#[derive(Clone, Copy, Debug)]
struct Roles {
    /// Rows or samples, so many of each workgroup.
    rows: Option<(usize, u64)>,
    /// Positions, so many of each workgroup.
    positions: Option<(usize, u64)>,
    /// Columns, so many workgroups.
    columns: Option<(usize, u64)>,
}

impl Roles {
    fn of(choice: &SizedKernel) -> Roles {
        let mut roles = Roles {
            rows: None,
            positions: None,
            columns: None,
        };
        for (axis, of) in choice.grid.iter().enumerate() {
            match *of {
                Axis::Per {
                    of: Count::Visible(_),
                    each,
                } => roles.positions = Some((axis, u64::from(each))),
                Axis::Per { each, .. } => roles.rows = Some((axis, u64::from(each))),
                Axis::Fixed(1) => {}
                Axis::Fixed(workgroups) => {
                    roles.columns.get_or_insert((axis, u64::from(workgroups)));
                }
            }
        }
        roles
    }
}

/// Bytes of a buffer from here to there.
type Range = (u64, u64);

/// A sequence of a step.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// From 0.
    index: u64,
    /// That its rows see, all together.
    positions: u64,
}

/// The sequence of each row.
fn sequences(rows: &[RowContext]) -> Vec<Sequence> {
    let mut known: Vec<(u32, u64)> = Vec::new();
    let mut indices = Vec::with_capacity(rows.len());
    for row in rows {
        let positions = u64::from(row.positions);
        let index = known.iter().position(|known| known.0 == row.sequence);
        let index = index.unwrap_or_else(|| {
            known.push((row.sequence, 0));
            known.len() - 1
        });
        known[index].1 = known[index].1.max(positions);
        indices.push(index);
    }
    let sequence = |index: usize| Sequence {
        index: index as u64,
        positions: known[index].1,
    };
    indices.into_iter().map(sequence).collect()
}

/// A workgroup among those of a dispatch.
struct Workgroup<'a> {
    roles: Roles,
    id: [u64; 3],
    /// Rows of the dispatch.
    count: u64,
    step: Step<'a>,
    /// Of each row.
    sequences: &'a [Sequence],
}

impl Workgroup<'_> {
    /// First and last row, not included.
    fn rows(&self) -> Range {
        match self.roles.rows {
            Some((axis, each)) => {
                let first = self.id[axis] * each;
                (first.min(self.count), (first + each).min(self.count))
            }
            None => (0, self.count),
        }
    }

    /// Its share of so many, by its place among the columns.
    fn share(&self, of: u64) -> Range {
        match self.roles.columns {
            Some((axis, workgroups)) => {
                let at = self.id[axis];
                (of * at / workgroups, of * (at + 1) / workgroups)
            }
            None => (0, of),
        }
    }

    /// Its share of so many heads, of which neighbours may have one together.
    fn heads(&self, of: u64) -> Range {
        match self.roles.columns {
            Some((axis, workgroups)) if workgroups > of => {
                let head = self.id[axis] * of / workgroups;
                (head, head + 1)
            }
            _ => self.share(of),
        }
    }

    /// What row `row` sees of a window, and what of that this workgroup has.
    fn positions(&self, row: u64, window: u32) -> [Range; 2] {
        let end = self.step.rows.get(row as usize);
        let end = end.map_or(0, |context| u64::from(context.positions));
        let begin = end.saturating_sub(u64::from(window));
        let own = match self.roles.positions {
            Some((axis, each)) => {
                let first = begin + self.id[axis] * each;
                (first.min(end), (first + each).min(end))
            }
            None => (begin, end),
        };
        [(begin, end), own]
    }

    /// What it touches of a buffer: each range, and where what the dispatch touches ends there.
    fn ranges(&self, area: Area, mut add: impl FnMut(Range, u64)) {
        let (first, last) = self.rows();
        match area {
            Area::All(bytes) => add((0, bytes), bytes),
            Area::Columns(bytes) => add(self.share(bytes), bytes),
            Area::Rows(bytes) => add((first * bytes, last * bytes), self.count * bytes),
            Area::Cells(bytes) => {
                let (from, to) = self.share(bytes);
                for row in first..last {
                    add((row * bytes + from, row * bytes + to), self.count * bytes);
                }
            }
            Area::Positions {
                kv_heads,
                bytes,
                window,
            } => {
                let heads = u64::from(kv_heads);
                let (from, to) = self.heads(heads);
                for row in first..last {
                    let [_, (begin, end)] = self.positions(row, window);
                    let Some(sequence) = self.sequences.get(row as usize) else {
                        continue;
                    };
                    for head in from..to {
                        // A sequence's keys of a head lie together here; on a device they lie in blocks, each key whole.
                        let head = POSITIONS + (sequence.index * heads + head) * APART;
                        let at = |position: u64| (head + position) * bytes;
                        add((at(begin), at(end)), at(sequence.positions));
                    }
                }
            }
            Area::Parts {
                bytes,
                each,
                window,
            } => {
                let (from, to) = self.share(bytes);
                for row in first..last {
                    let [seen, own] = self.positions(row, window);
                    let part = |position: u64| (position - seen.0).div_ceil(u64::from(each));
                    let at = |part: u64| (row * APART + part) * bytes;
                    for number in part(own.0)..part(own.1) {
                        add((at(number) + from, at(number) + to), at(part(seen.1)));
                    }
                }
            }
        }
    }
}

/// What of a buffer all workgroups together touch, each byte once.
fn once(area: Area, rows: u64, step: Step<'_>) -> u64 {
    let contexts = step.rows.iter().take(rows as usize);
    match area {
        Area::All(bytes) | Area::Columns(bytes) => bytes,
        Area::Rows(bytes) | Area::Cells(bytes) => rows * bytes,
        Area::Positions {
            kv_heads,
            bytes,
            window,
        } => {
            // Of each sequence from the first position that one of its rows sees to the last.
            let mut seen: Vec<(u32, u32, u32)> = Vec::new();
            for context in contexts {
                let (begin, end) = (context.positions.saturating_sub(window), context.positions);
                match seen.iter_mut().find(|seen| seen.0 == context.sequence) {
                    Some(seen) => *seen = (seen.0, seen.1.min(begin), seen.2.max(end)),
                    None => seen.push((context.sequence, begin, end)),
                }
            }
            let positions = seen.iter().map(|seen| u64::from(seen.2 - seen.1));
            positions.sum::<u64>() * u64::from(kv_heads) * bytes
        }
        Area::Parts {
            bytes,
            each,
            window,
        } => {
            let parts = contexts.map(|context| context.positions.min(window).div_ceil(each));
            parts.map(u64::from).sum::<u64>() * bytes
        }
    }
}

/// Bytes of the weights that a step uses, and of the keys and values that it sees: each once, however often it is read.
pub(super) fn least(plan: &Plan, step: Step<'_>) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for dispatch in plan.dispatches() {
        let rows = u64::from(dispatch.of.of(step.extent));
        for touch in &dispatch.touches {
            let kept = matches!(
                touch.area,
                Area::All(_) | Area::Columns(_) | Area::Positions { .. }
            );
            let buffer = dispatch.buffers.get(touch.buffer).map(Buffer::id);
            if kept && rows > 0 && touch.used == Use::Read && seen.insert(buffer) {
                bytes += once(touch.area, rows, step);
            }
        }
    }
    bytes
}

/// A piece that a workgroup touches.
struct Touched {
    place: Place,
    bytes: u64,
    read: bool,
}

/// Sends the workgroups of a dispatch through a cache, `side_by_side` of them at a time, and counts.
pub(super) fn traffic(
    dispatch: &Dispatch,
    choice: &SizedKernel,
    step: Step<'_>,
    side_by_side: usize,
    cache: &mut Cache,
) -> Traffic {
    let roles = Roles::of(choice);
    let count = u64::from(dispatch.of.of(step.extent));
    let sequences = sequences(step.rows);
    let mut traffic = Traffic::default();
    for touch in &dispatch.touches {
        let bytes = once(touch.area, count, step);
        if touch.used != Use::Write {
            traffic.needed += bytes;
        }
        if touch.used != Use::Read {
            traffic.written += bytes;
        }
    }
    let [x, y, z] = choice
        .grid
        .map(|axis| u64::from(axis.workgroups(step.extent)));
    let ids = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
    let mut workgroups = ids.map(|id| Workgroup {
        roles,
        id,
        count,
        step,
        sequences: &sequences,
    });
    let mut touched: Vec<Vec<Touched>> = Vec::new();
    loop {
        touched.clear();
        for workgroup in workgroups.by_ref().take(side_by_side.max(1)) {
            touched.push(touched_by(&workgroup, dispatch, &mut traffic.asked));
        }
        if touched.is_empty() {
            return traffic;
        }
        // Those that run side by side get on together.
        let longest = touched.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..longest {
            for piece in touched.iter().filter_map(|pieces| pieces.get(index)) {
                if !cache.touch(piece.place) && piece.read {
                    traffic.read += piece.bytes;
                }
            }
        }
    }
}

/// The pieces that a workgroup touches, in order. The bytes that it reads are added to `asked`.
fn touched_by(workgroup: &Workgroup<'_>, dispatch: &Dispatch, asked: &mut u64) -> Vec<Touched> {
    let mut touched = Vec::new();
    for touch in &dispatch.touches {
        let Some(buffer) = dispatch.buffers.get(touch.buffer) else {
            continue;
        };
        let read = touch.used != Use::Write;
        workgroup.ranges(touch.area, |(from, to), end| {
            if to <= from {
                return;
            }
            if read {
                *asked += to - from;
            }
            for piece in from / PIECE..to.div_ceil(PIECE) {
                touched.push(Touched {
                    place: (buffer.id(), piece),
                    bytes: (end - piece * PIECE).min(PIECE),
                    read,
                });
            }
        });
    }
    touched
}
