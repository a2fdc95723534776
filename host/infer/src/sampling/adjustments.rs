//! Adjustments on the device: a step sends what has changed.
//!
//! The lists of rows are kept there from step to step, ascending by token, and a row says which of them is nearest to its own
//! and what is different. Nothing asks whose a list was: a row that finds none near enough sends its own whole, so whatever
//! became of its sequence meanwhile, the list that is read is the one that was asked for.

use tidegate_contract::Sampling;

/// Differences of a row from a kept list at most; a list of more is sent whole.
const MOST_CHANGES: usize = 64;

/// Differences that are worth less than a list, however short it is.
const LEAST_CHANGES: usize = 8;

/// As `lists` in `shaders/sampling/sample_scan.wgsl`: token, twice its count and whether it was seen, bits of the bias, whether
/// it is a change of a token that the kept list does not have.
pub(super) type Entry = [u32; 4];

/// A list on the device.
#[derive(Debug)]
struct Kept {
    /// Index of its first entry in the buffer.
    first: usize,
    entries: Vec<Entry>,
    /// Whether a row of this step is read by it.
    used: bool,
}

/// What is on the device: changes of a step's rows, then lists.
#[derive(Debug)]
pub(super) struct Adjustments {
    /// Where lists begin.
    front: usize,
    /// Entries the buffer may have at most.
    most: usize,
    /// Entries the buffer has, or is to have.
    room: usize,
    /// Where the last list ends.
    end: usize,
    kept: Vec<Kept>,
    /// Which list each row had last time.
    of_rows: Vec<usize>,
}

/// What a step needs to find its adjustments.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// For each row: first entry of its list, how many; first of its changes, how many.
    pub(super) rows: Vec<[u32; 4]>,
    /// What must be written to the buffer: from which entry on, and what.
    pub(super) writes: Vec<(usize, Vec<Entry>)>,
    /// Entries the buffer must have room for. Where it has not, everything that is needed is in `writes`.
    pub(super) room: usize,
}

/// Entries that the buffer begins with, in all at most `most`: for the changes of so many rows, and as many for lists.
pub(super) fn room_at_first(max_samples: usize, most: usize) -> usize {
    2 * (max_samples * MOST_CHANGES).min(most / 4)
}

impl Adjustments {
    /// For steps of so many rows, in a buffer of up to `most` entries.
    pub(super) fn new(max_samples: usize, most: usize) -> Adjustments {
        let room = room_at_first(max_samples, most);
        let front = room / 2;
        Adjustments {
            front,
            most,
            room,
            end: front,
            kept: Vec::new(),
            of_rows: Vec::new(),
        }
    }

    /// Adjustments that the rows of a step may have together: a list that is read with changes may be longer than what is wanted, by
    /// all changes that there are at most.
    pub(super) fn most(&self) -> usize {
        self.most.saturating_sub(2 * self.front)
    }

    /// Nothing is on the device any more.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.of_rows.clear();
        (self.room, self.end) = (2 * self.front, self.front);
    }

    /// Places the lists of a step's rows, together [`Adjustments::most`] entries or fewer.
    pub(super) fn place(&mut self, rows: &[Vec<Entry>]) -> Placed {
        let mut placed = Placed::default();
        for kept in &mut self.kept {
            kept.used = false;
        }
        let new = self.kept.len();
        let (mut of_rows, mut changes) = (Vec::new(), Vec::new());
        for (row, wanted) in rows.iter().enumerate() {
            if wanted.is_empty() {
                // Its place keeps what it knows, for when a sequence of the sort is there again.
                of_rows.push(self.of_rows.get(row).copied().unwrap_or(usize::MAX));
                placed.rows.push([0; 4]);
                continue;
            }
            let (index, own) = self.nearest(row, wanted, self.front - changes.len());
            of_rows.push(index);
            let first = if own.is_empty() { 0 } else { changes.len() };
            placed.rows.push([0, 0, first as u32, own.len() as u32]);
            changes.extend(own);
        }
        self.of_rows = of_rows;
        self.lay(new, &mut placed);
        for (row, wanted) in rows.iter().enumerate() {
            if let Some(kept) = self
                .of_rows
                .get(row)
                .and_then(|index| self.kept.get(*index))
                && !wanted.is_empty()
            {
                placed.rows[row][0] = kept.first as u32;
                placed.rows[row][1] = kept.entries.len() as u32;
            }
        }
        if !changes.is_empty() {
            placed.writes.push((0, changes));
        }
        placed.room = self.room;
        placed
    }

    /// The list that a row is read by, and how it differs: that of last time, another that is near, or one of its own.
    /// There is room for so many differences.
    fn nearest(&mut self, row: usize, wanted: &[Entry], room: usize) -> (usize, Vec<Entry>) {
        let last = self.of_rows.get(row).copied().unwrap_or(usize::MAX);
        let others = (0..self.kept.len()).rev().filter(|index| *index != last);
        for index in std::iter::once(last).chain(others) {
            if let Some(kept) = self.kept.get_mut(index)
                && let Some(changes) = changes(&kept.entries, wanted, room)
            {
                kept.used = true;
                return (index, changes);
            }
        }
        self.kept.push(Kept {
            first: 0,
            entries: wanted.to_vec(),
            used: true,
        });
        (self.kept.len() - 1, Vec::new())
    }

    /// Gives the lists from number `new` on their places. Where there is no room, those that no row is read by make some, and
    /// all others move.
    fn lay(&mut self, mut new: usize, placed: &mut Placed) {
        let size = |kept: &[Kept]| kept.iter().map(|kept| kept.entries.len()).sum::<usize>();
        if self.end + size(&self.kept[new..]) > self.room {
            let mut left = vec![usize::MAX; self.kept.len()];
            let mut count = 0;
            for (left, kept) in left.iter_mut().zip(&self.kept) {
                if kept.used {
                    *left = count;
                    count += 1;
                }
            }
            self.kept.retain(|kept| kept.used);
            for index in &mut self.of_rows {
                *index = left.get(*index).copied().unwrap_or(usize::MAX);
            }
            (new, self.end) = (0, self.front);
            // As much again, so that this is seldom.
            let wanted = self.front + 2 * size(&self.kept);
            if wanted > self.room {
                self.room = wanted.next_power_of_two().min(self.most);
            }
        }
        for kept in &mut self.kept[new..] {
            kept.first = self.end;
            self.end += kept.entries.len();
            placed.writes.push((kept.first, kept.entries.clone()));
        }
    }
}

/// What makes `wanted` of `kept`, ascending by token, in `room` entries; nothing where it is too much.
fn changes(kept: &[Entry], wanted: &[Entry], room: usize) -> Option<Vec<Entry>> {
    let most = (kept.len() / 4)
        .clamp(LEAST_CHANGES, MOST_CHANGES)
        .min(room);
    if kept.len().abs_diff(wanted.len()) > most {
        return None;
    }
    let mut changes = Vec::new();
    let (mut of_kept, mut of_wanted) = (kept.iter().peekable(), wanted.iter().peekable());
    loop {
        let change = match (of_kept.peek(), of_wanted.peek()) {
            (None, None) => return Some(changes),
            (Some(kept), wanted) if wanted.is_none_or(|wanted| kept[0] < wanted[0]) => {
                let token = kept[0];
                of_kept.next();
                [token, 0, 0, 0]
            }
            (Some(kept), Some(wanted)) if kept[0] == wanted[0] => {
                let (same, change) = (kept == wanted, **wanted);
                of_kept.next();
                of_wanted.next();
                if same {
                    continue;
                }
                change
            }
            (_, Some(&&[token, count, bias, _])) => {
                of_wanted.next();
                [token, count, bias, 1]
            }
            (Some(_), None) => return None,
        };
        if changes.len() == most {
            return None;
        }
        changes.push(change);
    }
}

/// The adjustments of a sampling that change a logit, ascending by token.
pub(super) fn entries(sampling: &Sampling) -> Vec<Entry> {
    let penalised = sampling.frequency != 0.0 || sampling.presence != 0.0;
    let entry = |adjustment: &tidegate_contract::Adjustment| {
        let repeated = adjustment.seen && sampling.repetition != 1.0;
        let counted = adjustment.count > 0 && penalised;
        let count = adjustment.count.min(u32::MAX >> 1);
        (repeated || counted || adjustment.bias != 0.0).then_some([
            adjustment.token,
            count << 1 | u32::from(adjustment.seen),
            adjustment.bias.to_bits(),
            0,
        ])
    };
    sampling.adjustments.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A device that keeps what it is told, and reads lists as the kernel does.
    struct Device {
        adjustments: Adjustments,
        entries: Vec<Option<Entry>>,
        /// Entries written by the last step.
        written: usize,
    }

    impl Device {
        fn new(max_samples: usize, most: usize) -> Device {
            Device {
                adjustments: Adjustments::new(max_samples, most),
                entries: vec![None; room_at_first(max_samples, most)],
                written: 0,
            }
        }

        /// What each row reads of a step.
        fn step(&mut self, rows: &[Vec<Entry>]) -> Vec<Vec<Entry>> {
            let placed = self.adjustments.place(rows);
            if placed.room > self.entries.len() {
                // What a greater buffer begins with.
                self.entries = vec![None; placed.room];
            }
            self.written = placed.writes.iter().map(|(_, entries)| entries.len()).sum();
            for (first, entries) in placed.writes {
                for (index, entry) in entries.into_iter().enumerate() {
                    self.entries[first + index] = Some(entry);
                }
            }
            let read = |[first_kept, kept, first_change, changes]: &[u32; 4]| {
                let part = |first: u32, count: u32| {
                    let entries = &self.entries[first as usize..(first + count) as usize];
                    let entries = entries.iter().map(|entry| entry.unwrap());
                    entries.collect::<Vec<Entry>>()
                };
                let changes = part(*first_change, *changes);
                assert!(changes.is_sorted_by(|a, b| a[0] < b[0]));
                let mut list = part(*first_kept, *kept);
                for entry in &mut list {
                    if let Some(change) = changes.iter().find(|change| change[0] == entry[0]) {
                        assert_eq!(change[3], 0);
                        *entry = *change;
                    }
                }
                let kept: Vec<u32> = list.iter().map(|entry| entry[0]).collect();
                for [token, count, bias, new] in changes {
                    assert_eq!(new == 0, kept.contains(&token));
                    if new == 1 {
                        list.push([token, count, bias, 0]);
                    }
                }
                list.retain(|entry| entry[1..3] != [0, 0]);
                list.sort_unstable();
                list
            };
            placed.rows.iter().map(read).collect()
        }
    }

    fn list(tokens: impl Iterator<Item = u32>) -> Vec<Entry> {
        tokens.map(|token| [token, 3, 0, 0]).collect()
    }

    proptest! {
        #[test]
        fn every_row_is_read_by_the_list_that_it_asks_for(
            steps in proptest::collection::vec(
                proptest::collection::vec(
                    // Of which of four sequences, how many of its tokens, how many of those guessed.
                    (0..4u32, 0..300usize, 0..4usize),
                    0..6,
                ),
                1..25,
            ),
            max_samples in prop_oneof![Just(6usize), Just(400)],
            most in 1800..6000usize,
        ) {
            let mut device = Device::new(max_samples, 2 * most);
            for rows in steps {
                let rows: Vec<Vec<Entry>> = rows
                    .into_iter()
                    .map(|(sequence, tokens, guessed)| {
                        let token = |n: u32| (n * 7919 + sequence * 13) % (400 + 50 * sequence);
                        let mut rows = std::collections::BTreeMap::new();
                        for n in 0..(tokens + guessed) as u32 {
                            rows.entry(token(n)).or_insert([token(n), 1, n / 100, 0])[1] += 2;
                        }
                        rows.into_values().collect()
                    })
                    .collect();
                prop_assert_eq!(device.step(&rows), rows);
            }
        }
    }

    #[test]
    fn there_is_room_for_lists_that_are_longer_than_what_is_wanted() {
        let mut device = Device::new(2, 4096);
        let most = device.adjustments.most() as u32;
        let full = [list(0..most - 68), list(8000..8068)];
        assert_eq!(device.step(&full), full);
        // The first is read by its list with eight taken away, the second is another.
        let other = [list(8..most - 68), list(9000..9076)];
        assert_eq!(device.step(&other), other);
        assert_eq!(device.step(&full), full);
    }

    #[test]
    fn a_step_sends_what_has_changed_since_the_one_before() {
        let mut device = Device::new(4, 1 << 20);
        let mut rows = [list(0..1000), list(5000..7000)];
        assert_eq!(device.step(&rows), rows);
        assert_eq!(device.written, 3000);
        let mut sent = 0;
        for n in 0..50 {
            rows[0].push([10_000 + n, 3, 0, 0]);
            rows[1][n as usize % 7][1] += 2;
            assert_eq!(device.step(&rows), rows);
            assert!(device.written <= 58, "{}", device.written);
            sent += device.written;
        }
        assert!(sent < 1700, "{sent}");
        // Rows change places, one ends, another is there twice.
        let moved = [rows[1].clone(), rows[0].clone(), rows[1].clone()];
        assert_eq!(device.step(&moved), moved);
        assert!(device.written <= 65);
        assert_eq!(device.step(&moved[1..]), moved[1..]);
        assert!(device.written <= 58);
        assert_eq!(device.step(&[]), Vec::<Vec<Entry>>::new());
        assert_eq!(device.step(&moved), moved);
        assert!(device.written <= 65, "it comes back after a pause");
    }

    #[test]
    fn a_sequence_that_comes_back_with_another_answer_is_read_by_that() {
        let mut device = Device::new(1, 4096);
        let long = [list(0..500)];
        device.step(&long);
        // As after an answer that was cut short, or another sequence with tokens in common.
        for rows in [[list(0..490)], [list(3..200)], [list(0..501)], long] {
            assert_eq!(device.step(&rows), rows);
        }
    }

    #[test]
    fn what_nobody_reads_makes_room() {
        let mut device = Device::new(2, 2 * MOST_CHANGES + 1000);
        for first in 0..40 {
            let rows = [list(first * 900..first * 900 + 900), list(0..100)];
            assert_eq!(device.step(&rows), rows);
        }
        assert!(device.entries.len() <= 2 * MOST_CHANGES + 1000);
    }
}
