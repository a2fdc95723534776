//! The bytes that a dispatch moves: what its workgroups touch, in the order in which they run.

use std::collections::HashMap;
use std::ops::Range;

use super::cache::{Access, Cache, Moved, Place};
use super::experts::{Groups, overlap};
use super::trace::Trace;
use crate::decoder::Partition;
use crate::kernels::GROUP;
use crate::program::{Axis, Count, Dispatch, Extent, Plan, RowContext, SizedKernel, Splits};
use crate::touch::{Area, Touch, Use, Which};

/// Where positions begin in their buffer, in positions: behind everything that is counted by rows.
const POSITIONS: u64 = 1 << 32;

/// Positions that there is room for between one head of a sequence and the next, and parts between one row and the next.
const APART: u64 = 1 << 24;

/// A pass of a step of a decoder.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) extent: Extent,
    rows: Vec<Taken>,
    /// Rows that attention takes one by one, without what it has taken together.
    alone: Vec<Taken>,
    /// Tiles of rows that it takes together; of sequences that begin alike all as if they were of the first.
    tiles: Vec<Vec<Taken>>,
}

/// A row and its number in the pass.
type Taken = (u64, Row);

/// A row of a pass.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The number of its sequence in the step.
    sequence: u64,
    /// Positions that it sees without a window.
    positions: u64,
    /// Positions from the first on that are not looked at.
    before: u64,
    /// Positions that rows of its sequence see in this pass, all together.
    end: u64,
}

impl Row {
    /// First position that it sees through a window.
    fn begin(&self, window: u32) -> u64 {
        let begin = self.positions.saturating_sub(u64::from(window));
        begin.max(self.before)
    }

    /// The parts that it sees.
    fn parts(&self, splits: Splits) -> Range<u64> {
        splits.parts(self.begin(splits.window), self.positions)
    }

    fn is(&self, which: Which) -> bool {
        match which {
            Which::All => true,
            Which::InParts(splits) => self.parts(splits).count() > 1,
            Which::Whole(splits) => self.parts(splits).count() <= 1,
        }
    }
}

impl Pass {
    /// `sequences`: the number in the step of each row's sequence.
    pub(super) fn new(
        extent: Extent,
        contexts: &[RowContext],
        sequences: &[usize],
        partition: &Partition,
    ) -> Pass {
        let end = |sequence: &usize| {
            let of = contexts.iter().zip(sequences);
            let of = of.filter(|(_, other)| *other == sequence);
            of.map(|(context, _)| u64::from(context.positions))
                .max()
                .unwrap_or(0)
        };
        let mut ends: Vec<(usize, u64)> = Vec::new();
        let rows = contexts.iter().zip(sequences).map(|(context, sequence)| {
            let known = ends.iter().find(|known| known.0 == *sequence).copied();
            let (_, end) = known.unwrap_or_else(|| {
                ends.push((*sequence, end(sequence)));
                (*sequence, end(sequence))
            });
            Row {
                sequence: *sequence as u64,
                positions: u64::from(context.positions),
                before: 0,
                end,
            }
        });
        let rows: Vec<Taken> = (0..).zip(rows).collect();
        let row = |index: &u32| rows.get(*index as usize).copied();
        let positions = |groups: u32| u64::from(groups * GROUP);
        let alone = partition.alone.iter().filter_map(|(index, groups)| {
            let (number, row) = row(index)?;
            let before = positions(*groups);
            Some((number, Row { before, ..row }))
        });
        let tiles = partition.tiles.iter().map(|tile| {
            let of = tile.rows.iter().filter_map(row);
            let together = of.map(|(number, row)| {
                let positions = row.positions.min(positions(tile.groups));
                (number, Row { positions, ..row })
            });
            let mut together: Vec<Taken> = together.collect();
            if let Some((_, first)) = together.first().copied() {
                for (_, row) in &mut together {
                    (row.sequence, row.end) = (first.sequence, first.end);
                }
            }
            together
        });
        Pass {
            extent,
            alone: alone.collect(),
            tiles: tiles.collect(),
            rows,
        }
    }

    /// Everything that `count` of such are.
    fn all(&self, of: Count, count: u64) -> Vec<Taken> {
        match of {
            Count::Alone => self.alone.clone(),
            Count::Tiles(_) => self
                .tiles
                .iter()
                .take(count as usize)
                .flatten()
                .copied()
                .collect(),
            _ => self.rows.iter().take(count as usize).copied().collect(),
        }
    }
}

/// Bytes of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// What its workgroups need of its buffers, each byte once.
    pub(super) needed: u64,
    /// What they ask for, of memory or a cache.
    pub(super) asked: u64,
    /// What they write.
    pub(super) stored: u64,
    /// What comes from memory.
    pub(super) read: u64,
    /// What goes to memory while it runs, whoever has written it.
    pub(super) written: u64,
}

/// An axis of a grid, and what its workgroups have: so many things each, or so many workgroups that share them.
type Role = Option<(usize, u64)>;

/// Which axes of a grid count what.
#[derive(Clone, Copy, Debug)]
struct Roles {
    /// What rows are counted by.
    of: Count,
    rows: Role,
    positions: Role,
    /// Of what a row sees, if each workgroup has a part.
    splits: Option<Splits>,
    columns: Role,
    heads: Role,
    elements: Role,
    groups: Option<(usize, Groups)>,
}

impl Roles {
    fn of(choice: &SizedKernel) -> Roles {
        let mut roles = Roles {
            of: Count::Rows,
            rows: None,
            positions: None,
            splits: None,
            columns: None,
            heads: None,
            elements: None,
            groups: None,
        };
        for (axis, of) in choice.grid.iter().enumerate() {
            if let Axis::Groups {
                chosen,
                experts,
                each,
            } = *of
            {
                roles.groups = Some((axis, Groups::new(chosen, experts, each)));
                continue;
            }
            let (role, number) = match *of {
                Axis::Per {
                    of: Count::Visible(_) | Count::VisibleAlone(_) | Count::VisibleTogether(_),
                    each,
                } => (&mut roles.positions, each),
                Axis::Parts(splits) => {
                    roles.splits = Some(splits);
                    (&mut roles.positions, splits.each)
                }
                Axis::Per { of, each } => {
                    roles.of = of;
                    (&mut roles.rows, each)
                }
                Axis::Columns(workgroups) => (&mut roles.columns, workgroups),
                Axis::Heads(workgroups) => (&mut roles.heads, workgroups),
                Axis::Elements(workgroups) => (&mut roles.elements, workgroups),
                Axis::Fixed(_) | Axis::Groups { .. } => continue,
            };
            *role = Some((axis, u64::from(number)));
        }
        roles
    }
}

/// Bytes of a buffer from here to there, or positions.
type Span = (u64, u64);

/// A workgroup among those of a dispatch.
struct Workgroup<'a> {
    roles: Roles,
    id: [u64; 3],
    /// Rows of the dispatch.
    count: u64,
    pass: &'a Pass,
}

impl Workgroup<'_> {
    /// Its rows.
    fn rows(&self) -> &[Taken] {
        let (first, last) = match self.roles.rows {
            Some((axis, each)) => {
                let first = self.id[axis] * each;
                (first.min(self.count), (first + each).min(self.count))
            }
            None => (0, self.count),
        };
        let of = |rows: &'_ [Taken]| -> Span {
            let most = rows.len() as u64;
            (first.min(most), last.min(most))
        };
        match self.roles.of {
            Count::Alone => {
                let (first, last) = of(&self.pass.alone);
                &self.pass.alone[first as usize..last as usize]
            }
            // One for each workgroup.
            Count::Tiles(_) => self
                .pass
                .tiles
                .get(first as usize)
                .map_or(&[], Vec::as_slice),
            _ => {
                let (first, last) = of(&self.pass.rows);
                &self.pass.rows[first as usize..last as usize]
            }
        }
    }

    /// Rows of what the dispatch works on, all together.
    fn all_rows(&self) -> u64 {
        match self.roles.of {
            Count::Alone | Count::Tiles(_) => self.pass.rows.len() as u64,
            _ => self.count,
        }
    }

    /// The expert of its tile, and its pairs.
    fn group(&self) -> Option<(u64, impl Iterator<Item = u64> + use<>)> {
        let (axis, groups) = self.roles.groups?;
        groups.tile(self.count, self.id[axis])
    }

    /// Its share of so many bytes.
    fn share(&self, role: Role, of: u64) -> Span {
        match role {
            Some((axis, workgroups)) => {
                let at = self.id[axis];
                (of * at / workgroups, of * (at + 1) / workgroups)
            }
            None => (0, of),
        }
    }

    /// Its share of the bytes of a row: its columns, or its heads.
    fn of_row(&self, bytes: u64) -> Span {
        self.share(self.roles.columns.or(self.roles.heads), bytes)
    }

    /// Its share of so many heads, of which neighbours may have one together.
    fn heads(&self, of: u64) -> Span {
        match self.roles.heads.or(self.roles.columns) {
            Some((axis, workgroups)) if workgroups > of => {
                let head = self.id[axis] * of / workgroups;
                (head, head + 1)
            }
            role => self.share(role, of),
        }
    }

    /// What it has of the positions that a row sees from `begin` on.
    fn positions(&self, row: &Row, begin: u64) -> Span {
        let (first, each) = match (self.roles.positions, self.roles.splits) {
            (Some((axis, _)), Some(splits)) => {
                // Parts of the rows of a tile are counted from the first that its first row sees.
                let of = self.rows().first().map_or(*row, |(_, first)| *first);
                let each = splits.part(row.positions);
                let number = of.parts(splits).start + self.id[axis];
                (number * each, each)
            }
            (Some((axis, each)), None) => (begin + self.id[axis] * each, each),
            (None, _) => return (begin, row.positions),
        };
        let within = |position: u64| position.clamp(begin, row.positions);
        (within(first), within(first + each))
    }

    /// Where a position's bytes of a head begin: those of one sequence and head lie together here. On a device they lie in
    /// blocks, each key whole.
    fn position_of(row: &Row, heads: u64, head: u64, position: u64, bytes: u64) -> u64 {
        (POSITIONS + (row.sequence * heads + head) * APART + position) * bytes
    }

    /// What it touches: each range, and where what the dispatch touches ends there.
    fn ranges(&self, touch: &Touch, mut add: impl FnMut(Span, u64)) {
        let all = self.all_rows();
        let rows = || {
            let rows = self.rows().iter();
            rows.filter(|(_, row)| row.is(touch.rows))
                .map(|(number, row)| (*number, row))
        };
        match touch.area {
            Area::All(bytes) => add((0, bytes), bytes),
            Area::Columns(bytes) => add(self.share(self.roles.columns, bytes), bytes),
            Area::Rows(bytes) => {
                rows().for_each(|(row, _)| add((row * bytes, (row + 1) * bytes), all * bytes));
            }
            Area::Cells(bytes) => {
                let (from, to) = self.of_row(bytes);
                let end = all * bytes;
                rows().for_each(|(row, _)| add((row * bytes + from, row * bytes + to), end));
            }
            Area::CellsOf {
                stride,
                from: begin,
                bytes,
            } => {
                let (from, to) = self.of_row(bytes);
                for (row, _) in rows() {
                    let at = row * stride + begin;
                    add((at + from, at + to), all * stride);
                }
            }
            Area::Positions {
                kv_heads,
                bytes,
                window,
            } => {
                let heads = u64::from(kv_heads);
                let (from, to) = self.heads(heads);
                let mut rows = rows().map(|(_, row)| row).peekable();
                while let Some(row) = rows.next() {
                    let (mut begin, mut end) = self.positions(row, row.begin(window));
                    // Neighbours of one sequence see much the same.
                    while let Some(other) = rows.next_if(|other| other.sequence == row.sequence) {
                        let (first, last) = self.positions(other, other.begin(window));
                        (begin, end) = (begin.min(first), end.max(last));
                    }
                    for head in from..to {
                        let at =
                            |position| Workgroup::position_of(row, heads, head, position, bytes);
                        // Of each position it has its elements: as many bytes as if they lay together.
                        let (from, to) = self.share(self.roles.elements, at(end) - at(begin));
                        add((at(begin) + from, at(begin) + to), at(row.end));
                    }
                }
            }
            Area::OwnPosition { kv_heads, bytes } => {
                let heads = u64::from(kv_heads);
                let (from, to) = self.heads(heads);
                for (_, row) in rows() {
                    for head in from..to {
                        let own = row.positions - 1;
                        let at =
                            |position| Workgroup::position_of(row, heads, head, position, bytes);
                        add((at(own), at(own + 1)), at(row.end));
                    }
                }
            }
            Area::OwnCells {
                kv_heads,
                bytes,
                columns,
                own,
                first,
                all,
            } => {
                let heads = u64::from(kv_heads);
                let (from, to) = self.of_row(columns);
                let byte = |column: u64| {
                    let column = column.clamp(own.0, own.1) - own.0 + first;
                    column * heads * bytes / all.max(1)
                };
                let (from, to) = (byte(from), byte(to));
                for (_, row) in rows() {
                    for head in 0..heads {
                        let own = row.positions - 1;
                        let at =
                            |position| Workgroup::position_of(row, heads, head, position, bytes);
                        let within =
                            |byte: u64| byte.clamp(head * bytes, (head + 1) * bytes) - head * bytes;
                        let (from, to) = (within(from), within(to));
                        if from < to {
                            add((at(own) + from, at(own) + to), at(row.end));
                        }
                    }
                }
            }
            Area::Experts {
                each, first, count, ..
            } => {
                let Some((expert, _)) = self.group() else {
                    return;
                };
                let first = u64::from(first);
                if (first..first + u64::from(count)).contains(&expert) {
                    let (from, to) = self.share(self.roles.columns, each);
                    let at = (expert - first) * each;
                    add((at + from, at + to), each * u64::from(count));
                }
            }
            Area::Pairs {
                bytes,
                share,
                chosen,
                first,
                count,
                ..
            } => {
                let Some((expert, pairs)) = self.group() else {
                    return;
                };
                let first = u64::from(first);
                if !(first..first + u64::from(count)).contains(&expert) {
                    return;
                }
                let (from, to) = match touch.used {
                    Use::Read => (0, bytes),
                    _ => self.of_row(bytes),
                };
                let end = all * u64::from(chosen / share) * bytes;
                for pair in pairs {
                    let at = pair / u64::from(share) * bytes;
                    add((at + from, at + to), end);
                }
            }
            Area::Parts { bytes, splits } => {
                let (from, to) = self.of_row(bytes);
                for (number, row) in rows() {
                    let (first, last) = self.positions(row, row.begin(splits.window));
                    let all = row.parts(splits);
                    let part = splits.part(row.positions);
                    // The parts of its heads lie together.
                    let start = number * APART * bytes + from * APART;
                    let at = |part: u64| start + (part - all.start) * (to - from);
                    if first < last {
                        add((at(first / part), at(last.div_ceil(part))), at(all.end));
                    }
                }
            }
        }
    }
}

/// What of a buffer all workgroups together touch, each byte once: `count` of `of`.
fn once(touch: &Touch, (of, count): (Count, u64), pass: &Pass) -> u64 {
    let all = pass.all(of, count);
    let rows = || {
        all.iter()
            .map(|(_, row)| row)
            .filter(|row| row.is(touch.rows))
    };
    match touch.area {
        Area::All(bytes) | Area::Columns(bytes) => bytes,
        Area::Rows(bytes) | Area::Cells(bytes) | Area::CellsOf { bytes, .. } => {
            rows().count() as u64 * bytes
        }
        Area::OwnCells {
            kv_heads,
            bytes,
            own,
            all,
            ..
        } => {
            let part = u64::from(kv_heads) * bytes * (own.1 - own.0) / all.max(1);
            rows().count() as u64 * part
        }
        Area::OwnPosition { kv_heads, bytes } => {
            rows().count() as u64 * u64::from(kv_heads) * bytes
        }
        Area::Positions {
            kv_heads,
            bytes,
            window,
        } => {
            // Of each sequence from the first position that one of its rows sees to the last.
            let mut seen: Vec<(u64, u64, u64)> = Vec::new();
            for row in rows() {
                let begin = row.begin(window);
                match seen.iter_mut().find(|seen| seen.0 == row.sequence) {
                    Some(seen) => *seen = (seen.0, seen.1.min(begin), seen.2.max(row.positions)),
                    None => seen.push((row.sequence, begin, row.positions)),
                }
            }
            let positions = seen.iter().map(|seen| seen.2 - seen.1);
            positions.sum::<u64>() * u64::from(kv_heads) * bytes
        }
        Area::Experts {
            each,
            first,
            count,
            chosen,
            of,
        } => {
            overlap(
                rows().count() as u64 * u64::from(chosen),
                of,
                (first, count),
            ) * each
        }
        Area::Pairs {
            bytes,
            share,
            chosen,
            of,
            first,
            count,
        } => {
            let pairs = rows().count() as u64 * u64::from(chosen);
            let own = match u64::from(count) < u64::from(of) {
                // Of a shard about so many.
                true => {
                    pairs * overlap(pairs, of, (first, count)) / pairs.min(u64::from(of)).max(1)
                }
                false => pairs,
            };
            own / u64::from(share) * bytes
        }
        Area::Parts { bytes, splits } => {
            let parts = rows().map(|row| row.parts(splits).count() as u64);
            parts.sum::<u64>() * bytes
        }
    }
}

/// Bytes of the weights that a step uses, and of the keys and values that its rows see: each once, however often it is read, in however
/// many passes, and whether with other rows or alone.
pub(super) fn least<'a>(plan: &Plan, passes: impl Iterator<Item = &'a Pass>) -> u64 {
    let mut kept: HashMap<(usize, Option<u64>), Spans> = HashMap::new();
    for pass in passes {
        for dispatch in plan.dispatches() {
            let rows = (dispatch.of, u64::from(dispatch.of.of(pass.extent)));
            let read = dispatch.touches.iter().filter(|of| of.used == Use::Read);
            for touch in read.filter(|_| rows.1 > 0) {
                if let Some(buffer) = dispatch.buffers.get(touch.buffer) {
                    kept_of(touch, rows, pass, |sequence, span| {
                        let spans = kept.entry((buffer.id(), sequence));
                        spans.or_default().add(span);
                    });
                }
            }
        }
    }
    kept.into_values().map(Spans::bytes).sum()
}

/// What of a buffer that is kept from step to step all workgroups together read: ranges of bytes, of keys and values those of a sequence.
/// Nothing of a buffer that is written in each step anew.
fn kept_of(
    touch: &Touch,
    (of, count): (Count, u64),
    pass: &Pass,
    mut add: impl FnMut(Option<u64>, Span),
) {
    match touch.area {
        Area::All(_) | Area::Columns(_) | Area::Experts { .. } => {
            // Rows go through experts in turn, from the first on.
            add(None, (0, once(touch, (of, count), pass)));
        }
        Area::Positions {
            kv_heads,
            bytes,
            window,
        } => {
            let position = u64::from(kv_heads) * bytes;
            let rows = pass.all(of, count);
            for (_, row) in rows.iter().filter(|(_, row)| row.is(touch.rows)) {
                let span = (row.begin(window) * position, row.positions * position);
                add(Some(row.sequence), span);
            }
        }
        _ => {}
    }
}

/// Ranges of bytes of which each byte counts once.
#[derive(Debug, Default)]
struct Spans(Vec<Span>);

impl Spans {
    fn add(&mut self, (from, to): Span) {
        if to <= from {
            return;
        }
        match self.0.last_mut() {
            // As most do: rows follow each other, and layers read their buffer more than once.
            Some(last) if from <= last.1 && last.0 <= to => {
                *last = (last.0.min(from), last.1.max(to));
            }
            _ => self.0.push((from, to)),
        }
    }

    fn bytes(mut self) -> u64 {
        self.0.sort_unstable();
        let (mut bytes, mut end) = (0, 0);
        for (from, to) in self.0 {
            bytes += to.saturating_sub(from.max(end));
            end = end.max(to);
        }
        bytes
    }
}

/// The workgroups of a dispatch, in the order in which they run.
fn workgroups<'a>(
    dispatch: &Dispatch,
    choice: &SizedKernel,
    pass: &'a Pass,
) -> impl Iterator<Item = Workgroup<'a>> {
    let roles = Roles::of(choice);
    let count = u64::from(dispatch.of.of(pass.extent));
    let [x, y, z] = choice
        .grid
        .map(|axis| u64::from(axis.workgroups(pass.extent)));
    let ids = (0..z).flat_map(move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
    ids.map(move |id| Workgroup {
        roles,
        id,
        count,
        pass,
    })
}

/// What the workgroups of a dispatch touch, without a cache.
pub(super) fn touched(dispatch: &Dispatch, choice: &SizedKernel, pass: &Pass) -> Traffic {
    let count = (dispatch.of, u64::from(dispatch.of.of(pass.extent)));
    let mut traffic = Traffic::default();
    for touch in &dispatch.touches {
        let bytes = once(touch, count, pass);
        if touch.used != Use::Write {
            traffic.needed += bytes;
        }
        if touch.used != Use::Read {
            traffic.stored += bytes;
        }
    }
    for workgroup in workgroups(dispatch, choice, pass) {
        for touch in dispatch.touches.iter().filter(|of| of.used != Use::Write) {
            workgroup.ranges(touch, |(from, to), _| traffic.asked += to - from);
        }
    }
    traffic
}

/// A piece that a workgroup touches.
struct Touched {
    place: Place,
    /// The same by the number of the buffer among those of its dispatch.
    of_dispatch: (usize, u64),
    bytes: u64,
    access: Access,
}

/// Sends the workgroups of a dispatch through a cache, `side_by_side` of them at a time. `trace` notes what they touch, if it is asked for.
pub(super) fn moved(
    dispatch: &Dispatch,
    choice: &SizedKernel,
    pass: &Pass,
    side_by_side: usize,
    cache: &mut Cache,
    mut trace: Option<&mut Trace>,
) -> Moved {
    let mut workgroups = workgroups(dispatch, choice, pass);
    let mut all = Moved::default();
    let mut touched: Vec<Vec<Touched>> = Vec::new();
    loop {
        touched.clear();
        for workgroup in workgroups.by_ref().take(side_by_side.max(1)) {
            touched.push(pieces(&workgroup, dispatch, cache.piece));
        }
        if touched.is_empty() {
            return all;
        }
        // Those that run side by side get on together.
        let longest = touched.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..longest {
            for piece in touched.iter().filter_map(|pieces| pieces.get(index)) {
                let moved = cache.touch(piece.place, piece.bytes, piece.access);
                all += moved;
                if let Some(trace) = trace.as_deref_mut() {
                    trace.note(piece.of_dispatch, piece.bytes, piece.access, moved);
                }
            }
        }
    }
}

/// The pieces that a workgroup touches, in order.
fn pieces(workgroup: &Workgroup<'_>, dispatch: &Dispatch, size: u64) -> Vec<Touched> {
    let mut touched = Vec::new();
    for touch in &dispatch.touches {
        let Some(buffer) = dispatch.buffers.get(touch.buffer) else {
            continue;
        };
        workgroup.ranges(touch, |(from, to), end| {
            if to <= from {
                return;
            }
            for piece in from / size..to.div_ceil(size) {
                let begin = piece * size;
                let written = to.min(begin + size) - from.max(begin);
                let mut add = |access| {
                    touched.push(Touched {
                        place: (buffer.id(), piece),
                        of_dispatch: (touch.buffer, piece),
                        bytes: (end - begin).min(size),
                        access,
                    });
                };
                if touch.used != Use::Write {
                    add(Access::Read);
                }
                if touch.used != Use::Read {
                    add(Access::Write(written));
                }
            }
        });
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_several_ranges_have_counts_once() {
        let bytes = |ranges: &[Span]| {
            let mut spans = Spans::default();
            ranges.iter().for_each(|range| spans.add(*range));
            spans.bytes()
        };
        assert_eq!(bytes(&[]), 0);
        assert_eq!(bytes(&[(0, 10), (0, 10), (5, 12)]), 12);
        assert_eq!(bytes(&[(20, 30), (0, 10), (9, 21), (40, 40), (25, 26)]), 30);
        // The last but one, which those after it have parted from it.
        assert_eq!(bytes(&[(0, 4), (8, 12), (2, 9), (100, 101), (3, 12)]), 13);
    }
}
