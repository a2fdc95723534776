//! Which rows of a pass see the same positions in the same blocks, so that attention reads their keys and values once for all of
//! them: tiles of neighbours in one sequence, and on a software adapter of sequences that begin with the same blocks.

use tidegate_contract::BLOCK;

use crate::kernels::{GROUP, SPLIT, TILE_ROWS, Together};
use crate::program::Company;

/// Blocks of a group.
const GROUP_BLOCKS: usize = GROUP as usize / BLOCK;

/// Groups that rows of several sequences must have in common: of fewer, reading them once saves less than a dispatch costs.
const LEAST_GROUPS: usize = 2;

/// A row of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Where its sequence's block table begins.
    pub(super) table: u32,
    pub(super) position: u32,
}

/// Rows that are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Groups from the first position on that they see together.
    pub(crate) groups: u32,
    pub(crate) rows: Vec<u32>,
}

/// How the rows of a pass are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Rows that see something by themselves, and how many groups before that they see with their tile.
    pub(crate) alone: Vec<(u32, u32)>,
    /// Tiles of neighbours, which see nothing by themselves, and then those of several sequences.
    pub(crate) tiles: Vec<Tile>,
    /// How many of them are of neighbours.
    pub(crate) neighbours: usize,
    /// Whether the words name no rows of a tile but the first, the others being its neighbours.
    by_first: bool,
}

impl Partition {
    /// Takes rows together as attention asks for it.
    pub(super) fn of(together: Together, rows: &[Row], tables: &[u32]) -> Partition {
        let (most, by_first) = match together {
            Together::Unasked => return Partition::default(),
            Together::Sharing(most) => (most, false),
            Together::Neighbours(most) => (most, true),
        };
        let mut partition = Partition {
            by_first,
            ..Partition::default()
        };
        let most = most as usize;
        // A tile is computed as if it were full, so less than half of one is not made.
        let least = most.div_ceil(2).max(2);
        let left = partition.take_neighbours(rows, [least, most]);
        if by_first {
            partition.alone = left.into_iter().map(|row| (row, 0)).collect();
        } else {
            partition.take_prefixes(rows, tables, left, [least, most]);
        }
        partition
    }

    /// Takes neighbours together, and says which rows are left.
    fn take_neighbours(&mut self, rows: &[Row], [least, most]: [usize; 2]) -> Vec<u32> {
        let mut left = Vec::new();
        let mut index = 0;
        let same_split = |one: u32, other: u32| !self.by_first || one / SPLIT == other / SPLIT;
        let follows = |pair: &[Row]| {
            pair[0].table == pair[1].table
                && pair[0].position + 1 == pair[1].position
                && same_split(pair[0].position, pair[1].position)
        };
        let mut tiles = Vec::new();
        while index < rows.len() {
            let run = rows[index..].windows(2).take(most.saturating_sub(1));
            let count = 1 + run.take_while(|pair| follows(pair)).count();
            let of = index as u32..(index + count) as u32;
            index += count;
            if count < least {
                left.extend(of);
                continue;
            }
            tiles.push(Tile {
                groups: rows[index - 1].position / GROUP + 1,
                rows: of.collect(),
            });
        }
        self.neighbours = tiles.len();
        self.tiles = tiles;
        left
    }

    /// Takes those of the rows `left` together whose tables agree long enough.
    fn take_prefixes(
        &mut self,
        rows: &[Row],
        tables: &[u32],
        mut left: Vec<u32>,
        [least, most]: [usize; 2],
    ) {
        // The blocks of the groups before its own. Its own group it sees alone, since there it ends.
        let blocks = |row: u32| {
            let Row { table, position } = rows[row as usize];
            &tables[table as usize..][..(position / GROUP) as usize * GROUP_BLOCKS]
        };
        let common = |one: u32, other: u32| {
            let pairs = blocks(one).iter().zip(blocks(other));
            pairs.take_while(|(one, other)| one == other).count() / GROUP_BLOCKS
        };
        left.sort_by(|one, other| blocks(*one).cmp(blocks(*other)));
        let mut left = &left[..];
        while let Some((first, rest)) = left.split_first() {
            let mut groups = usize::MAX;
            // Groups that need not be read again, rows, groups that those have in common.
            let mut best = (0, 1, 0);
            for (count, other) in (2..=most).zip(rest) {
                groups = groups.min(common(*first, *other));
                if groups < LEAST_GROUPS {
                    break;
                }
                let saved = (count - 1) * groups;
                if count >= least && saved >= best.0 {
                    best = (saved, count, groups);
                }
            }
            let (_, count, groups) = best;
            let (taken, rest) = left.split_at(count);
            left = rest;
            let alone = taken.iter().map(|row| (*row, groups as u32));
            self.alone.extend(alone);
            if count > 1 {
                self.tiles.push(Tile {
                    groups: groups as u32,
                    rows: taken.to_vec(),
                });
            }
        }
        self.alone.sort_unstable();
    }

    /// What it comes to.
    pub(super) fn company(&self, rows: &[Row]) -> Company {
        let seen = |row: u32| rows[row as usize].position + 1;
        let most = |of: &mut dyn Iterator<Item = u32>| of.max().unwrap_or(0);
        let groups = |tiles: &[Tile]| most(&mut tiles.iter().map(|tile| tile.groups * GROUP));
        let neighbours = &self.tiles[..self.neighbours];
        let alone = || self.alone.iter();
        Company {
            alone: self.alone.len() as u32,
            alone_positions: [
                most(&mut alone().map(|(row, groups)| seen(*row) - groups * GROUP)),
                most(&mut alone().map(|(row, _)| seen(*row))),
            ],
            tiles: [self.tiles.len() as u32, self.neighbours as u32],
            tile_positions: [groups(&self.tiles), groups(neighbours)],
        }
    }

    /// Positions that each row sees together with others: through no window, through any.
    pub(super) fn together(&self, rows: &[Row]) -> Vec<[u32; 2]> {
        let mut together: Vec<_> = rows.iter().map(|row| [row.position + 1; 2]).collect();
        for (row, groups) in &self.alone {
            together[*row as usize] = [groups * GROUP, 0];
        }
        together
    }

    /// The words that `shaders/attention/attention_software.wgsl` reads, or `attention_tile.wgsl`.
    pub(super) fn write(&self, words: &mut Vec<u32>) {
        for (row, groups) in &self.alone {
            words.extend([*row, *groups, 0, 0]);
        }
        for Tile { groups, rows } in &self.tiles {
            if self.by_first {
                let first = rows.first().copied().unwrap_or(0);
                words.extend([first, rows.len() as u32, 0, 0]);
                continue;
            }
            words.extend([*groups, 0, 0, 0]);
            let last = rows.last().copied().unwrap_or(0);
            let all = rows.iter().copied().chain(std::iter::repeat(last));
            words.extend(all.take(TILE_ROWS));
        }
    }

    /// How many words that are at most, for so many rows.
    pub(super) fn most_words(rows: usize) -> usize {
        4 * rows + (4 + TILE_ROWS) * (rows / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of sequences, (blocks, first position, rows), and their tables.
    fn pass(of: &[(&[u32], u32, u32)]) -> (Vec<Row>, Vec<u32>) {
        let (mut rows, mut tables) = (Vec::new(), Vec::new());
        for (blocks, first, count) in of {
            let table = tables.len() as u32;
            tables.extend_from_slice(blocks);
            rows.extend((*first..first + count).map(|position| Row { table, position }));
        }
        (rows, tables)
    }

    fn partition(of: &[(&[u32], u32, u32)], most: u32) -> (Partition, Vec<Row>) {
        let (rows, tables) = pass(of);
        (Partition::of(Together::Sharing(most), &rows, &tables), rows)
    }

    fn tiles(partition: &Partition) -> Vec<(u32, Vec<u32>)> {
        let tile = |tile: &Tile| (tile.groups, tile.rows.clone());
        partition.tiles.iter().map(tile).collect()
    }

    /// Blocks of a prefix of so many, then others from `own` on.
    fn table(prefix: u32, own: u32) -> Vec<u32> {
        (0..prefix).chain(own..own + 20 - prefix).collect()
    }

    #[test]
    fn neighbours_are_cut_into_tiles_wherever_they_begin() {
        let blocks: Vec<u32> = (0..20).collect();
        let of = [(&blocks[..], 40, 1), (&blocks, 60, 13), (&blocks, 9, 3)];
        let (partition, rows) = partition(&of, 8);
        let expected = [(3, (1..9).collect()), (3, (9..14).collect())];
        assert_eq!(tiles(&partition), expected);
        assert_eq!(partition.alone, [(0, 0), (14, 0), (15, 0), (16, 0)]);
        let company = partition.company(&rows);
        assert_eq!(company.tiles, [2, 2]);
        assert_eq!(company.tile_positions, [96, 96]);
        assert_eq!((company.alone, company.alone_positions), (4, [41, 41]));
    }

    #[test]
    fn neighbours_on_gpus_end_in_the_same_split_and_are_named_by_the_first() {
        let blocks: Vec<u32> = (0..40).collect();
        let (rows, tables) = pass(&[(&blocks[..], 250, 20), (&blocks, 30, 1), (&blocks, 7, 3)]);
        let partition = Partition::of(Together::Neighbours(8), &rows, &tables);
        // 250 to 255, 256 to 263, 264 to 269.
        let expected = [
            (8, (0..6).collect()),
            (9, (6..14).collect()),
            (9, (14..20).collect()),
        ];
        assert_eq!(tiles(&partition), expected);
        assert_eq!(partition.alone, [(20, 0), (21, 0), (22, 0), (23, 0)]);
        let company = partition.company(&rows);
        assert_eq!((company.alone, company.tiles), (4, [3, 3]));
        assert_eq!(partition.together(&rows)[19..21], [[270, 270], [0, 0]]);
        let mut words = Vec::new();
        partition.write(&mut words);
        assert_eq!(words[..4], [20, 0, 0, 0]);
        assert_eq!(words[16..], [0, 6, 0, 0, 6, 8, 0, 0, 14, 6, 0, 0]);
        let alone = Partition::of(Together::Neighbours(1), &rows, &tables);
        assert_eq!((alone.alone.len(), alone.tiles.len()), (24, 0));
    }

    #[test]
    fn sequences_go_together_as_far_as_their_tables_agree() {
        // Groups of two blocks: two of them have four in common with each other, and two with two others.
        let tables = [
            table(8, 100),
            table(4, 200),
            table(8, 300),
            table(5, 400),
            table(0, 500),
        ];
        let of: Vec<_> = tables.iter().map(|table| (&table[..], 300, 1)).collect();
        let (two, rows) = partition(&of, 2);
        assert_eq!(tiles(&two), [(4, vec![0, 2]), (2, vec![3, 1])]);
        assert_eq!(two.alone, [(0, 4), (1, 2), (2, 4), (3, 2), (4, 0)]);
        let company = two.company(&rows);
        assert_eq!((company.tiles, company.tile_positions), ([2, 0], [128, 0]));
        assert_eq!(company.alone_positions, [301, 301]);
        assert_eq!(two.together(&rows)[..2], [[128, 0], [64, 0]]);
        let (four, rows) = partition(&of[..4], 4);
        assert_eq!(tiles(&four), [(2, vec![0, 2, 3, 1])]);
        assert_eq!(four.company(&rows).alone_positions, [301 - 64, 301]);
        // Of eight, four are half.
        assert_eq!(partition(&of, 8).0.tiles.len(), 1);
        assert_eq!(partition(&of[..3], 8).0.tiles.len(), 0);
        assert_eq!(partition(&of, 1).0.tiles.len(), 0);
    }

    #[test]
    fn what_agrees_again_behind_a_hole_is_not_shared() {
        let whole: Vec<u32> = (0..20).collect();
        let mut hole = whole.clone();
        hole[6] = 77;
        let (partition, _) = partition(&[(&whole, 310, 1), (&hole, 310, 1)], 2);
        assert_eq!(tiles(&partition), [(3, vec![0, 1])]);
    }

    #[test]
    fn a_row_has_the_group_in_which_it_ends_to_itself() {
        let blocks: Vec<u32> = (0..20).collect();
        for (positions, groups) in [([96, 300], 3), ([95, 95], 2), ([64, 65], 2)] {
            let of = positions.map(|position| (&blocks[..], position, 1));
            // Of one table each, as two sequences have.
            let (partition, _) = partition(&of, 2);
            let (found, _) = tiles(&partition)[0];
            assert_eq!(found, groups, "{positions:?}");
        }
        let of = [(&blocks[..], 63, 1), (&blocks[..], 300, 1)];
        assert_eq!(partition(&of, 2).0.tiles.len(), 0, "too little in common");
    }

    #[test]
    fn words_name_eight_rows_of_a_tile_and_are_no_more_than_there_is_room_for() {
        let tables = [table(8, 100), table(8, 200), table(8, 300)];
        let of: Vec<_> = tables.iter().map(|table| (&table[..], 300, 1)).collect();
        let (two, _) = partition(&of, 2);
        let mut words = Vec::new();
        two.write(&mut words);
        let alone = [[0, 4, 0, 0], [1, 4, 0, 0], [2, 0, 0, 0]].concat();
        assert_eq!(words[..12], alone);
        assert_eq!(words[12..], [4, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
        let blocks: Vec<u32> = (0..20).collect();
        for most in [1, 2, 4, 8] {
            for count in 1..40 {
                let same: Vec<_> = (0..count).map(|_| (&blocks[..], 300, 1)).collect();
                for of in [&same[..], &[(&blocks[..], 10, count)]] {
                    words.clear();
                    partition(of, most).0.write(&mut words);
                    assert!(words.len() <= Partition::most_words(count as usize));
                }
            }
        }
    }
}
