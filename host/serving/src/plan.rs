//! Which rows the next step has.

use super::sequence::Sequence;
use crate::decoder::StepRow;

/// The rows of a step, and which sequence each row of logits belongs to.
#[derive(Debug, Default)]
pub(super) struct StepPlan {
    pub(super) rows: Vec<StepRow>,
    /// Index of the sequence and its number of rows, in the order of `rows`.
    pub(super) parts: Vec<(usize, usize)>,
    /// Index of the sequence of each row of logits.
    pub(super) wanted: Vec<usize>,
}

impl StepPlan {
    /// Fills a step of at most `budget` rows: first a row for every sequence that generates, beginning at `turn` so
    /// that each has its turn if there are more than rows; then prompts in the order of the sequences, together at
    /// most `prefill_rows` if anything generates.
    pub(super) fn fill(
        &mut self,
        running: &[Sequence],
        budget: usize,
        prefill_rows: usize,
        turn: usize,
    ) {
        self.rows.clear();
        self.parts.clear();
        self.wanted.clear();
        let count = running.len();
        for offset in 0..count {
            let index = (turn + offset) % count;
            if self.rows.len() < budget && running[index].generates() {
                self.add(running, index, 1);
            }
        }
        let left = budget - self.rows.len();
        let mut left = if self.rows.is_empty() {
            left
        } else {
            left.min(prefill_rows.max(1))
        };
        for index in 0..count {
            if left == 0 {
                break;
            }
            if !running[index].generates() {
                let rows = running[index].unwritten().min(left);
                self.add(running, index, rows);
                left -= rows;
            }
        }
    }

    fn add(&mut self, running: &[Sequence], index: usize, rows: usize) {
        let sequence = &running[index];
        for position in sequence.written..sequence.written + rows {
            let wants_logits = position + 1 == sequence.tokens.len();
            if wants_logits {
                self.wanted.push(index);
            }
            let token = sequence.tokens[position];
            self.rows.push(StepRow {
                slot: sequence.slot,
                token,
                position: position as u32,
                wants_logits,
            });
        }
        self.parts.push((index, rows));
    }
}
