//! Who waits for blocks that another writes.
//!
//! Of those whose prompts begin alike, the best ranked writes the blocks that they share, and the others take them when they
//! are there, in place of writing the same again. Nobody waits for what may never come: the one waited for runs and is
//! better ranked, or has rows in the step in question, and whoever waits looks anew each step. Where the one that writes
//! fails, is cancelled or loses its blocks, the next best ranked writes on from where it was.

use tidegate_contract::BLOCK;

use super::Generator;
use super::step_plan::StepPlan;
use crate::order::Moment;
use crate::sequence::Sequence;

impl Generator {
    /// Whether a better ranked sequence that runs is about to write a block with which this one goes on, and which is not
    /// kept yet; if so, how many blocks of this one are those of the other, written or to come.
    pub(super) fn waits_for_alike(&self, sequence: &Sequence, now: Moment) -> Option<usize> {
        let mut found = None;
        self.running.iter().find_map(|other| {
            let end = next_shared(other, sequence)?;
            let found = *found.get_or_insert_with(|| {
                let lora = sequence.table.lora();
                self.blocks.cached(lora, &sequence.tokens).0
            });
            let waits = found < end && self.rank(other, now) < self.rank(sequence, now);
            waits.then(|| shared_blocks(other, sequence))
        })
    }

    /// Takes what others have written of the same beginning since it was looked for last. Kept blocks are taken where a block
    /// begins: what it has written of the one that it is in is given up for those.
    pub(super) fn take_kept(&mut self, sequence: &mut Sequence) {
        let begun = sequence.table.kept() * BLOCK;
        if sequence.written > begun && sequence.written - begun < BLOCK {
            let before_last = sequence.tokens.len().saturating_sub(1);
            let (found, _) = self
                .blocks
                .cached(sequence.table.lora(), &sequence.tokens[..before_last]);
            if found > sequence.written {
                sequence.written = begun;
            }
        }
        self.adopt(sequence);
    }

    /// Whether another that has rows in this step, or in the one that runs, writes the block with which this one goes on.
    pub(super) fn is_written_beside(&self, sequence: &Sequence, plan: &StepPlan) -> bool {
        // Who has a block that is not kept can take none behind it.
        let takes = sequence.table.kept() == sequence.written / BLOCK;
        let mut running = self.running.iter();
        takes
            && running.any(|other| {
                let steps =
                    other.underway.rows > 0 || plan.parts.iter().any(|part| part.key == other.key);
                steps && next_shared(other, sequence).is_some_and(|end| end > sequence.written)
            })
    }
}

/// How many whole blocks before its last token the second sequence has as the first one.
fn shared_blocks(writes: &Sequence, waits: &Sequence) -> usize {
    let last = waits.tokens.len().saturating_sub(1);
    let both = writes.tokens.iter().zip(&waits.tokens[..last]);
    both.take_while(|(one, other)| one == other).count() / BLOCK
}

/// Where the block ends that the first sequence writes next, if the second one begins with all tokens up to there and one
/// more: with fewer it has to write that block itself, for the sake of its last token's logits.
fn next_shared(writes: &Sequence, waits: &Sequence) -> Option<usize> {
    let start = writes.written / BLOCK * BLOCK;
    let end = start + BLOCK;
    // Through another adapter the same tokens have other keys and values.
    let is_other = writes.key != waits.key && writes.table.lora() == waits.table.lora();
    // What is not kept, as its hash is that of another, is found by nobody.
    (is_other && writes.table.kept() * BLOCK == start && end < waits.tokens.len()).then_some(())?;
    let shared = writes.tokens.get(..end)?;
    // The last block first: it differs where anything does, as a rule.
    (shared[start..] == waits.tokens[start..end] && shared[..start] == waits.tokens[..start])
        .then_some(end)
}
