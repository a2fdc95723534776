//! Who gets blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Duration;

use tidegate_contract::{BLOCK, ModelError};

use super::{Generator, first_of};
use crate::blocks::blocks_for;
use crate::costs::StepSize;
use crate::order::{Moment, Rank};
use crate::sequence::Sequence;
use crate::stats::Counters;

/// Whether those who run can be made to give way to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivingWay {
    Now,
    /// A step of theirs runs.
    Later,
}

/// Places and blocks that are left to those who wait for blocks that another writes: whoever is behind them in the order
/// takes none of these.
#[derive(Clone, Copy, Debug, Default)]
struct LeftTo {
    places: usize,
    blocks: usize,
}

/// Whether there is room for one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    There,
    Missing,
    /// There will be when others can be made to give way.
    Later,
}

impl Generator {
    /// Gives places and blocks to the waiting, best ranked first; where the first cannot have them, nobody behind it
    /// can, so that many small requests do not keep a large one waiting. Says whether somebody is to give way and could not
    /// be made to now.
    pub(super) fn admit(&mut self, now: Moment, giving_way: GivingWay) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let mut hopeless = Vec::new();
        let mut order = Vec::with_capacity(self.waiting.len());
        for sequence in self.waiting.values() {
            match self.hopeless(sequence, now) {
                Some(error) => hopeless.push((sequence.request, error)),
                None => order.push(Reverse((self.rank(sequence, now), sequence.key))),
            }
        }
        for (request, error) in hopeless {
            self.fail(request, error);
        }
        // Of very many that wait only the first few are looked at: a heap, and not a sorted list.
        let mut order = BinaryHeap::from(order);
        let mut left_to = LeftTo::default();
        while let Some(Reverse((rank, key))) = order.pop() {
            match self.waiting.get(&key) {
                Some(sequence) if !self.waits_for_first(sequence) => {
                    if let Some(shared) = self.waits_for_alike(sequence, now) {
                        left_to.places += 1;
                        // Those that the other writes for it are counted where they are written.
                        left_to.blocks += blocks_for(sequence.tokens.len()) - shared + 1;
                        if left_to.places >= self.limits.sequences {
                            return false;
                        }
                        continue;
                    }
                }
                _ => continue,
            }
            match self.make_room(key, rank.0, now, giving_way, left_to) {
                Room::There => {}
                Room::Missing => return false,
                Room::Later => return true,
            }
            let Some(mut sequence) = self.waiting.remove(&key) else {
                continue;
            };
            self.adopt(&mut sequence);
            let tokens = sequence.tokens.len();
            Counters::add(&self.counters.prefix_query_tokens, tokens);
            if self.blocks.grow(&mut sequence.table, tokens) {
                self.running.push(sequence);
            } else {
                self.blocks.release(&mut sequence.table);
                sequence.written = 0;
                self.waiting.insert(key, sequence);
                return false;
            }
        }
        false
    }

    /// Takes what others have written of the same beginning.
    pub(super) fn adopt(&mut self, sequence: &mut Sequence) {
        let before = sequence.written;
        sequence.written = self
            .blocks
            .adopt(&mut sequence.table, &sequence.tokens, before);
        let found = sequence.written - before;
        Counters::add(&self.counters.prefix_hit_tokens, found);
        let lora = sequence.table.lora();
        (self.counters).add_lora(lora, |lora| &lora.prefix_hit_tokens, found);
    }

    /// Whether it is a further answer to a prompt that the first answer is still having written: it will find the
    /// blocks.
    fn waits_for_first(&self, sequence: &Sequence) -> bool {
        let first = first_of(sequence.request);
        // What is underway is not kept for others yet.
        let has_prompt =
            |other: &Sequence| other.made() > 0 || other.written + 1 == other.tokens.len();
        sequence.choice > 0
            && (self.waiting.contains_key(&first)
                || self
                    .index_of(first)
                    .is_some_and(|index| !has_prompt(&self.running[index])))
    }

    /// Blocks that a waiting sequence needs beyond those it finds, and how many of those it finds are idle.
    fn own_blocks(&self, sequence: &Sequence) -> (usize, usize) {
        let tokens = &sequence.tokens;
        let reusable = tokens.len().saturating_sub(1) / BLOCK * BLOCK;
        let (found, idle) = self
            .blocks
            .cached(sequence.table.lora(), &tokens[..reusable]);
        (blocks_for(tokens.len()) - found / BLOCK, idle)
    }

    /// Blocks that a waiting sequence needs beyond those it finds, and blocks there are for it.
    fn needed(&self, sequence: &Sequence) -> (usize, usize) {
        let (own, idle) = self.own_blocks(sequence);
        // One more for each that runs, so that the newcomer does not have to go again at once.
        let headroom = match self.running.len() {
            0 => 0,
            running => running + 1,
        };
        (own + headroom, self.blocks.available() - idle)
    }

    /// Whether there is a place and enough blocks, if need be by preempting those of a lower class that are not
    /// overdue; beside what is left to others.
    fn make_room(
        &mut self,
        key: u64,
        rank: Rank,
        now: Moment,
        giving_way: GivingWay,
        left_to: LeftTo,
    ) -> Room {
        loop {
            let Some(sequence) = self.waiting.get(&key) else {
                return Room::Missing;
            };
            let own = sequence.queue_key.class;
            let (needed, available) = self.needed(sequence);
            let needed = needed + left_to.blocks;
            let place_free = self.running.len() + left_to.places < self.limits.sequences;
            if place_free && needed <= available {
                return Room::There;
            }
            let mut victims: Vec<((Rank, u32), u64)> = self
                .running
                .iter()
                .filter(|sequence| sequence.queue_key.class > own)
                .map(|sequence| (self.rank(sequence, now), sequence.key))
                .filter(|((other, _), _)| other.gives_way() && *other > rank)
                .collect();
            victims.sort_unstable();
            let blocks: usize = victims
                .iter()
                .filter_map(|(_, key)| self.index_of(*key))
                .map(|index| self.running[index].table.blocks().len() + 1)
                .sum();
            // Taking them all would still not be enough: they keep theirs.
            let others = self.running.len() - victims.len() + left_to.places;
            if needed > available + blocks || others >= self.limits.sequences {
                return Room::Missing;
            }
            let Some(index) = victims.last().and_then(|(_, key)| self.index_of(*key)) else {
                return Room::Missing;
            };
            if giving_way == GivingWay::Later {
                return Room::Later;
            }
            Counters::add(&self.counters.preemptions, 1);
            self.preempt(index);
        }
    }

    /// Why a sequence's request cannot meet its deadline: the steps its unwritten tokens need at the least, with
    /// nothing beside them and an answer of one token, take longer than there is time.
    ///
    /// What is ahead of it is not counted, as no part of it is certain: whoever runs may end with its very next token, be
    /// cancelled or preempted before the next step, and its place and blocks go on at once; who waits ahead may be
    /// cancelled, expire, or turn out to have its prompt in kept blocks. A bound that counted any of them would refuse
    /// some that would have been in time. Who waits behind too many is told when its deadline passes or its own work
    /// alone has become too much, and a queue holds no more than its limit.
    pub(super) fn hopeless(&self, sequence: &Sequence, now: Moment) -> Option<ModelError> {
        let left = sequence.queue_key.deadline?.saturating_sub(now);
        let needed = self.least_time(sequence.unwritten(), now)?;
        if needed <= left {
            return None;
        }
        // Looked at only now: a prompt that is known already needs less.
        let (found, _) = self.blocks.cached(sequence.table.lora(), &sequence.tokens);
        let unwritten = sequence.tokens.len() - found.max(sequence.written);
        let needed = self.least_time(unwritten.max(1), now)?;
        (needed > left).then_some(ModelError::Hopeless { left, needed })
    }

    fn least_time(&self, tokens: usize, now: Moment) -> Option<Duration> {
        let budget = self.limits.step_tokens.max(1);
        if tokens <= 1 {
            return self.costs.least(StepSize::answers(1), now);
        }
        let whole = u32::try_from(tokens / budget).unwrap_or(u32::MAX);
        let rest = match tokens % budget {
            0 => Duration::ZERO,
            rest => self.costs.least(StepSize::prompt(rest, 0), now)?,
        };
        let step = StepSize::prompt(budget.min(tokens), 0);
        Some(self.costs.least(step, now)?.saturating_mul(whole) + rest)
    }

    /// Ends what runs and has no token yet, and cannot have one in time.
    pub(super) fn drop_hopeless(&mut self, now: Moment) {
        let found: HashSet<u64> = self
            .running
            .iter()
            .filter(|sequence| !sequence.generates())
            .filter(|sequence| self.hopeless(sequence, now).is_some())
            .map(|sequence| sequence.request)
            .collect();
        for request in found {
            let error = self
                .running
                .iter()
                .filter(|sequence| sequence.request == request)
                .find_map(|sequence| self.hopeless(sequence, now));
            if let Some(error) = error {
                self.fail(request, error);
            }
        }
    }
}
