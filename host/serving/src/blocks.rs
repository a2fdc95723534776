//! The KV blocks of one decoder: who holds which, and what is kept for those who begin alike.
//!
//! A block is free, held (by one or more sequences), or idle: held by none but kept, because it has what some beginning
//! of a text looks like. Full blocks are found again by a chained hash of all tokens up to their end, and checked token
//! by token, so that a hash that happens to be equal costs a miss and never a wrong answer.
//!
//! Invariants:
//! - a block is free, idle or held, and as often held as it stands in tables;
//! - a block that is kept has a kept parent (the block before it): tables are given back from their end, so the oldest
//!   idle block, which goes first, has no kept block after it;
//! - a block that is kept is full, and is never written again while it is kept;
//! - a block that is pinned is held by its pins, so it is never taken from whoever looks for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_contract::BLOCK;

use crate::replicas::Known;

/// Blocks that `positions` positions need.
pub(crate) fn blocks_for(positions: usize) -> usize {
    positions.div_ceil(BLOCK)
}

/// The blocks of a sequence, from position 0.
#[derive(Debug, Default)]
pub(crate) struct Table {
    blocks: Vec<u32>,
    /// How many of the first blocks are kept for others as well.
    kept: usize,
    /// Which low-rank adapter their tokens are written with; 0 for none. With another they have other keys and values.
    lora: u32,
}

impl Table {
    /// One without blocks, of a sequence that goes through this low-rank adapter.
    pub(crate) fn through(lora: u32) -> Table {
        Table {
            lora,
            ..Table::default()
        }
    }

    /// Which low-rank adapter its sequence goes through; 0 for none.
    pub(crate) fn lora(&self) -> u32 {
        self.lora
    }

    /// The block numbers.
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// How many of the first blocks can be found by others.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }
}

/// A full block that can be found again.
#[derive(Debug)]
struct Kept {
    hash: u64,
    parent: Option<u32>,
    tokens: [u32; BLOCK],
    lora: u32,
}

#[derive(Debug, Default)]
struct Block {
    holders: u32,
    /// Of these, the tables of pins.
    pins: u32,
    /// When it became idle, in the order of giving back.
    since: u64,
    kept: Option<Kept>,
}

/// The hash of what is before the first block of a sequence that goes through this low-rank adapter.
fn start(lora: u32) -> u64 {
    u64::from(lora)
}

/// The chained hashes of the whole blocks of a prompt whose last token is to be written in any case.
pub(crate) fn beginnings(lora: u32, prompt: &[u32]) -> Vec<u64> {
    let reusable = prompt.len().saturating_sub(1) / BLOCK * BLOCK;
    let blocks = prompt[..reusable].chunks_exact(BLOCK);
    let hashes = blocks.scan(start(lora), |hash, tokens| {
        *hash = chain(*hash, tokens);
        Some(*hash)
    });
    hashes.collect()
}

/// Mixes the hash of what is before a block with its tokens.
type ChainHash = fn(u64, &[u32]) -> u64;

/// All blocks of a decoder.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Kept blocks that nobody holds, the longest idle first.
    idle: BTreeMap<u64, u32>,
    by_hash: HashMap<u64, u32>,
    /// Blocks that are pinned, each once.
    pinned: Vec<u32>,
    clock: u64,
    hash: ChainHash,
    /// Where others can see what is kept.
    known: Option<Arc<Known>>,
}

impl Blocks {
    /// `count` free blocks. Each decoder has blocks of its own: what another model wrote cannot be found in them.
    pub(crate) fn new(count: usize) -> Blocks {
        Blocks::with_hash(count, chain)
    }

    fn with_hash(count: usize, hash: ChainHash) -> Blocks {
        Blocks {
            blocks: (0..count).map(|_| Block::default()).collect(),
            free: (0..count as u32).rev().collect(),
            idle: BTreeMap::new(),
            by_hash: HashMap::new(),
            pinned: Vec::new(),
            clock: 0,
            hash,
            known: None,
        }
    }

    /// The same, and what is kept in it is seen there from now on; it is new.
    pub(crate) fn known_to(self, known: Option<&Arc<Known>>) -> Blocks {
        if let Some(known) = known {
            known.forget();
        }
        Blocks {
            known: known.cloned(),
            ..self
        }
    }

    /// All of them.
    pub(crate) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Those that sequences hold.
    pub(crate) fn held(&self) -> usize {
        self.blocks.len() - self.available()
    }

    /// Those that are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.pinned.len()
    }

    /// Of these, the ones that no sequence holds.
    pub(crate) fn pinned_idle(&self) -> usize {
        let idle = |number: &&u32| {
            let block = &self.blocks[**number as usize];
            block.holders == block.pins
        };
        self.pinned.iter().filter(idle).count()
    }

    /// Those that are kept and held by nobody.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Those that can be taken.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// How many of the first tokens are in kept blocks that were written with this low-rank adapter, and how many of those
    /// blocks are idle.
    pub(crate) fn cached(&self, lora: u32, tokens: &[u32]) -> (usize, usize) {
        let (mut parent, mut hash, mut idle) = (None, start(lora), 0);
        let mut positions = 0;
        for chunk in tokens.chunks_exact(BLOCK) {
            hash = (self.hash)(hash, chunk);
            let Some(block) = self.find((lora, hash), parent, chunk) else {
                break;
            };
            idle += usize::from(self.blocks[block as usize].holders == 0);
            positions += BLOCK;
            parent = Some(block);
        }
        (positions, idle)
    }

    /// Takes kept blocks that go on where the first `written` tokens end, in place of the table's own empty ones; at
    /// least one token is left to be written. Returns how many tokens are written now.
    pub(crate) fn adopt(&mut self, table: &mut Table, tokens: &[u32], written: usize) -> usize {
        if !written.is_multiple_of(BLOCK) || table.kept * BLOCK != written {
            return written;
        }
        self.take_found(table, tokens, tokens.len().saturating_sub(1) / BLOCK);
        table.kept * BLOCK
    }

    /// Takes kept blocks that go on where a table's kept ones end, up to so many.
    fn take_found(&mut self, table: &mut Table, tokens: &[u32], limit: usize) {
        while table.kept < limit {
            let index = table.kept;
            let chunk = &tokens[index * BLOCK..(index + 1) * BLOCK];
            let (parent, before) = self.end_of(table);
            let Some(block) = self.find((table.lora, (self.hash)(before, chunk)), parent, chunk)
            else {
                break;
            };
            self.hold(block);
            self.place(table, index, block);
            table.kept += 1;
        }
    }

    /// Has whole blocks with these tokens held for good, those that are there already and others; how many of the tokens are
    /// in the first. The others are kept as they are, and are for the caller to write. Where there are not enough blocks it
    /// has those that there are.
    pub(crate) fn pin(&mut self, lora: u32, tokens: &[u32]) -> (Table, usize) {
        let mut table = Table::through(lora);
        self.take_found(&mut table, tokens, tokens.len() / BLOCK);
        let found = table.kept * BLOCK;
        let room = (self.available() + table.kept).min(tokens.len() / BLOCK) * BLOCK;
        if self.grow(&mut table, room) {
            self.keep(&mut table, tokens, room);
        }
        for number in &table.blocks {
            let block = &mut self.blocks[*number as usize];
            block.pins += 1;
            if block.pins == 1 {
                self.pinned.push(*number);
            }
        }
        (table, found)
    }

    /// Makes room for `positions` positions; false, and nothing is taken, if there are not enough blocks.
    pub(crate) fn grow(&mut self, table: &mut Table, positions: usize) -> bool {
        let wanted = blocks_for(positions).saturating_sub(table.blocks.len());
        if wanted > self.available() {
            return false;
        }
        for _ in 0..wanted {
            let Some(block) = self.take() else {
                return false;
            };
            table.blocks.push(block);
        }
        true
    }

    /// Keeps the blocks that are full with the first `written` of `tokens`, for whoever begins alike.
    pub(crate) fn keep(&mut self, table: &mut Table, tokens: &[u32], written: usize) {
        while (table.kept + 1) * BLOCK <= written {
            let index = table.kept;
            let Some(chunk) = tokens[index * BLOCK..].first_chunk::<BLOCK>() else {
                return;
            };
            let (parent, before) = self.end_of(table);
            let hash = (self.hash)(before, chunk);
            match self.by_hash.get(&hash) {
                None => {
                    let block = table.blocks[index];
                    self.by_hash.insert(hash, block);
                    if let Some(known) = &self.known {
                        known.add(hash);
                    }
                    self.blocks[block as usize].kept = Some(Kept {
                        hash,
                        parent,
                        tokens: *chunk,
                        lora: table.lora,
                    });
                }
                // Somebody wrote the same at the same time: one of the two blocks is enough.
                Some(_) => match self.find((table.lora, hash), parent, chunk) {
                    Some(block) => {
                        self.hold(block);
                        self.place(table, index, block);
                    }
                    // An equal hash of other tokens: this block stays the sequence's own.
                    None => return,
                },
            }
            table.kept += 1;
        }
    }

    /// Gives a table's blocks back.
    pub(crate) fn release(&mut self, table: &mut Table) {
        table.kept = 0;
        while let Some(block) = table.blocks.pop() {
            self.let_go(block);
        }
    }

    /// The last kept block of a table, and the hash up to its end.
    fn end_of(&self, table: &Table) -> (Option<u32>, u64) {
        let last = table.kept.checked_sub(1).map(|index| table.blocks[index]);
        let hash = last.and_then(|block| self.blocks[block as usize].kept.as_ref());
        (last, hash.map_or(start(table.lora), |kept| kept.hash))
    }

    /// The kept block of these tokens after this parent, of this adapter and with this hash.
    fn find(&self, (lora, hash): (u32, u64), parent: Option<u32>, tokens: &[u32]) -> Option<u32> {
        let block = *self.by_hash.get(&hash)?;
        let kept = self.blocks[block as usize].kept.as_ref()?;
        (kept.parent == parent && kept.tokens == tokens && kept.lora == lora).then_some(block)
    }

    /// Puts a block that is held already at a place of a table, in exchange for the one that is there.
    fn place(&mut self, table: &mut Table, index: usize, block: u32) {
        match table.blocks.get_mut(index) {
            Some(place) => {
                let own = std::mem::replace(place, block);
                self.let_go(own);
            }
            None => table.blocks.push(block),
        }
    }

    fn hold(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        if state.holders == 0 {
            self.idle.remove(&state.since);
        }
        state.holders += 1;
    }

    fn let_go(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        if state.kept.is_none() {
            self.free.push(block);
        } else {
            self.clock += 1;
            state.since = self.clock;
            self.idle.insert(self.clock, block);
        }
    }

    /// A block for one holder: a free one, else the longest idle one.
    fn take(&mut self) -> Option<u32> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => self.idle.pop_first()?.1,
        };
        let state = &mut self.blocks[block as usize];
        if let Some(kept) = state.kept.take() {
            self.by_hash.remove(&kept.hash);
            if let Some(known) = &self.known {
                known.remove(kept.hash);
            }
        }
        state.holders = 1;
        Some(block)
    }

    /// What must hold between two calls, `tables` being all there are.
    #[cfg(test)]
    pub(crate) fn check<'a>(&self, tables: impl Iterator<Item = &'a Table>) {
        let mut holders = vec![0; self.blocks.len()];
        for table in tables {
            for block in &table.blocks {
                holders[*block as usize] += 1;
            }
        }
        let mut idle = 0;
        let mut kept_blocks = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.holders, holders[number], "holders of block {number}");
            if let Some(kept) = &block.kept {
                kept_blocks += 1;
                assert_eq!(self.by_hash.get(&kept.hash), Some(&(number as u32)));
                if let Some(parent) = kept.parent {
                    let parent = &self.blocks[parent as usize];
                    assert!(parent.kept.is_some(), "block {number} lost its parent");
                    assert!(block.holders == 0 || parent.holders > 0);
                }
                if block.holders == 0 {
                    idle += 1;
                    assert_eq!(self.idle.get(&block.since), Some(&(number as u32)));
                }
            } else if block.holders == 0 {
                assert!(self.free.contains(&(number as u32)), "block {number} leaks");
            }
        }
        assert_eq!(kept_blocks, self.by_hash.len());
        assert_eq!(idle, self.idle.len());
        let free: std::collections::HashSet<_> = self.free.iter().collect();
        assert_eq!(free.len(), self.free.len());
        let pinned = self.blocks.iter().filter(|block| block.pins > 0).count();
        assert_eq!(pinned, self.pinned.len());
        assert!(self.blocks.iter().all(|block| block.pins <= block.holders));
        assert_eq!(
            self.free.len() + self.idle.len() + holders.iter().filter(|count| **count > 0).count(),
            self.blocks.len()
        );
    }
}

/// SplitMix64's mixing (Steele, Lea and Flood 2014) of each token into the hash so far.
fn chain(before: u64, tokens: &[u32]) -> u64 {
    tokens
        .iter()
        .fold(before ^ 0x9e37_79b9_7f4a_7c15, |hash, token| {
            let mut z = hash
                .rotate_left(5)
                .wrapping_add(u64::from(*token).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(blocks: &mut Blocks, tokens: &[u32]) -> Table {
        let mut table = Table::default();
        let from = blocks.adopt(&mut table, tokens, 0);
        assert!(blocks.grow(&mut table, tokens.len()), "from {from}");
        blocks.keep(&mut table, tokens, tokens.len());
        table
    }

    #[test]
    fn who_begins_alike_shares_full_blocks_only() {
        let mut blocks = Blocks::new(10);
        let text: Vec<u32> = (0..40).collect();
        let first = written(&mut blocks, &text);
        let mut other = text.clone();
        other[39] = 99;
        let second = written(&mut blocks, &other);
        assert_eq!(first.blocks()[..2], second.blocks()[..2]);
        assert_ne!(first.blocks()[2], second.blocks()[2]);
        // The last token is always written anew, so that there are logits.
        let third = written(&mut blocks, &text[..32]);
        assert_eq!(third.blocks()[0], first.blocks()[0]);
        // And what was written anew is found to be the same.
        assert_eq!(third.blocks()[1], first.blocks()[1]);
        blocks.check([&first, &second, &third].into_iter());
        assert_eq!((blocks.held(), blocks.idle()), (4, 0));
    }

    #[test]
    fn the_longest_idle_goes_first_and_ends_go_before_beginnings() {
        let mut blocks = Blocks::new(6);
        let texts: Vec<Vec<u32>> = (0..2u32)
            .map(|n| (n * 100..n * 100 + 48).collect())
            .collect();
        for text in &texts {
            let mut table = written(&mut blocks, text);
            blocks.release(&mut table);
        }
        assert_eq!((blocks.held(), blocks.idle()), (0, 6));
        let mut table = Table::default();
        assert!(blocks.grow(&mut table, 20));
        assert_eq!(blocks.cached(0, &texts[0]).0, 16);
        assert_eq!(blocks.cached(0, &texts[1]).0, 48);
        blocks.check([&table].into_iter());
        blocks.release(&mut table);
        // Used again, the older text outlives the younger.
        let mut table = Table::default();
        assert_eq!(blocks.adopt(&mut table, &texts[0], 0), 16);
        blocks.release(&mut table);
        assert!(blocks.grow(&mut table, 5 * BLOCK));
        assert_eq!(blocks.cached(0, &texts[0]).0, 16);
        assert_eq!(blocks.cached(0, &texts[1]).0, 0);
    }

    #[test]
    fn too_few_blocks_take_nothing() {
        let mut blocks = Blocks::new(2);
        let mut table = Table::default();
        assert!(!blocks.grow(&mut table, 33));
        assert_eq!(blocks.available(), 2);
        assert!(blocks.grow(&mut table, 32) && blocks.grow(&mut table, 32));
        assert_eq!(blocks.available(), 0);
    }

    #[test]
    fn an_equal_hash_of_other_tokens_is_a_miss() {
        let mut blocks = Blocks::with_hash(8, |_, _| 7);
        let one = written(&mut blocks, &[1; 20]);
        let two = written(&mut blocks, &[2; 20]);
        assert_ne!(one.blocks()[0], two.blocks()[0]);
        assert_eq!(blocks.cached(0, &[2; 20]).0, 0);
        // The same tokens after another beginning.
        let three = written(&mut blocks, &[1; 40]);
        assert_eq!(three.blocks()[0], one.blocks()[0]);
        assert_ne!(three.blocks()[1], one.blocks()[0]);
        blocks.check([&one, &two, &three].into_iter());
    }

    #[test]
    fn another_beginning_or_order_is_another_hash() {
        let text: Vec<u32> = (0..16).collect();
        assert_ne!(chain(1, &text), chain(2, &text));
        assert_ne!(chain(0, &[1, 2]), chain(0, &[2, 1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_block_is_lost_or_held_twice(
            steps in proptest::collection::vec((0usize..4, 0usize..8, 0u32..3, 1usize..70), 1..300),
            collide in any::<bool>(),
        ) {
            let hash: ChainHash = if collide { |before, tokens| (before + u64::from(tokens[0])) % 3 } else { chain };
            let mut blocks = Blocks::with_hash(12, hash);
            let mut open: Vec<(Table, Vec<u32>, usize)> = Vec::new();
            for (what, place, letter, length) in steps {
                match what {
                    0 | 1 => {
                        // Texts of few letters, so that beginnings are often alike.
                        let tokens: Vec<u32> = (0..length).map(|at| if at < 16 { letter } else { letter % 2 }).collect();
                        let mut table = Table::default();
                        let from = blocks.adopt(&mut table, &tokens, 0);
                        prop_assert!(from < tokens.len());
                        if blocks.grow(&mut table, tokens.len()) {
                            open.push((table, tokens, from));
                        } else {
                            blocks.release(&mut table);
                        }
                    }
                    2 if !open.is_empty() => {
                        let count = open.len();
                        let (table, tokens, from) = &mut open[place % count];
                        *from = blocks.adopt(table, tokens, *from);
                        *from = (*from + length).min(tokens.len());
                        blocks.keep(table, tokens, *from);
                    }
                    3 if !open.is_empty() => {
                        let (mut table, ..) = open.remove(place % open.len());
                        blocks.release(&mut table);
                    }
                    _ => {}
                }
                blocks.check(open.iter().map(|(table, ..)| table));
            }
        }
    }

    #[test]
    fn what_was_written_with_an_adapter_is_found_by_that_adapter_alone() {
        let tokens: Vec<u32> = (0..40).collect();
        // Of equal hashes too: adapters are told apart by themselves.
        for hash in [chain as ChainHash, |_, _| 7] {
            let mut blocks = Blocks::with_hash(12, hash);
            let mut tables = Vec::new();
            for lora in [2, 0, 1] {
                assert_eq!(blocks.cached(lora, &tokens).0, 0, "adapter {lora}");
                let mut table = Table::through(lora);
                assert_eq!(blocks.adopt(&mut table, &tokens, 0), 0, "adapter {lora}");
                assert!(blocks.grow(&mut table, tokens.len()));
                blocks.keep(&mut table, &tokens, tokens.len());
                tables.push(table);
            }
            blocks.check(tables.iter());
        }
        let mut blocks = Blocks::new(12);
        let mut table = Table::through(3);
        assert!(blocks.grow(&mut table, tokens.len()));
        blocks.keep(&mut table, &tokens, tokens.len());
        let mut other = Table::through(3);
        assert_eq!(blocks.adopt(&mut other, &tokens, 0), 32);
        assert_eq!(other.blocks()[..2], table.blocks()[..2]);
        assert_eq!(blocks.cached(3, &tokens).0, 32);
        assert_eq!(blocks.cached(4, &tokens).0, 0);
        blocks.check([&table, &other].into_iter());
    }
}
