//! A smaller decoder that guesses tokens ahead.
//!
//! It has blocks of its own and is kept in step with the answers: what it wrote of wrong guesses is written over. It draws
//! as the answers do, with their seeds and places, so that it guesses right wherever it thinks alike, at any temperature.

use std::collections::HashMap;

use tidegate_contract::{BLOCK, DecodeError, Decoder, Sampled, Sampling, StepSequence};

use crate::blocks::{Blocks, Table};
use crate::guard::guarded_step;
use crate::sequence::Sequence;

#[derive(Default)]
struct State {
    table: Table,
    written: usize,
}

/// The decoder, and what it knows of each answer.
pub(crate) struct DraftModel {
    decoder: Box<dyn Decoder>,
    blocks: Blocks,
    states: HashMap<u64, State>,
    sampled: Vec<Sampled>,
}

/// A sequence that takes part in the next of the draft's steps.
struct Live {
    /// Its place among those to guess for.
    place: usize,
    tokens: Vec<u32>,
}

impl DraftModel {
    pub(crate) fn new(decoder: Box<dyn Decoder>) -> DraftModel {
        DraftModel {
            blocks: Blocks::new(decoder.shape().blocks),
            decoder,
            states: HashMap::new(),
            sampled: Vec::new(),
        }
    }

    /// Bytes it holds on the device.
    pub(crate) fn memory(&self) -> u64 {
        self.decoder.memory()
    }

    /// A sequence has lost its blocks or ended.
    pub(crate) fn forget(&mut self, key: u64) {
        if let Some(mut state) = self.states.remove(&key) {
            self.blocks.release(&mut state.table);
        }
    }

    /// It starts anew with every sequence.
    pub(super) fn forget_all(&mut self) {
        self.states.clear();
        self.blocks = Blocks::new(self.blocks.count());
    }

    /// Of a sequence's tokens, as the draft has them, the first `written` were right.
    pub(crate) fn keep(&mut self, key: u64, written: usize) {
        if let Some(state) = self.states.get_mut(&key) {
            state.written = state.written.min(written);
        }
    }

    /// Guesses up to so many tokens for each of the sequences, as far as rows, blocks and structures go.
    ///
    /// # Errors
    /// The draft failed a step; what was guessed until then stands.
    pub(crate) fn guess(
        &mut self,
        sequences: &mut [(&mut Sequence, usize)],
        end_tokens: &[u32],
    ) -> Result<(), DecodeError> {
        let mut live = self.catch_up(sequences)?;
        loop {
            live.retain(|one| sequences[one.place].0.mask_ahead());
            if live.is_empty() {
                return Ok(());
            }
            let mut next = Vec::new();
            let mut step = Vec::with_capacity(live.len());
            for one in &live {
                let sequence = &sequences[one.place].0;
                step.extend(self.part(sequence.key, &one.tokens, drawn_alike(sequence)));
            }
            let mut sampled = std::mem::take(&mut self.sampled);
            guarded_step(self.decoder.as_mut(), &step, &mut sampled)?;
            for (one, drawn) in live.iter().zip(&sampled) {
                let (sequence, count) = &mut sequences[one.place];
                self.wrote(sequence.key, one.tokens.len());
                let Some(token) = drawn.token else {
                    continue;
                };
                if sequence.guess(token, end_tokens) && sequence.guesses().0.len() < *count {
                    next.push(Live {
                        place: one.place,
                        tokens: vec![token],
                    });
                }
            }
            self.sampled = sampled;
            live = next;
        }
    }

    /// Writes what the draft has not seen of the sequences, a step's worth; those that then lack only their last
    /// tokens can be guessed for.
    fn catch_up(
        &mut self,
        sequences: &mut [(&mut Sequence, usize)],
    ) -> Result<Vec<Live>, DecodeError> {
        let shape = self.decoder.shape().clone();
        let (mut live, mut behind, mut wrote) = (Vec::new(), Vec::new(), Vec::new());
        let (mut live_rows, mut behind_rows) = (0, 0);
        for (place, (sequence, count)) in sequences.iter().enumerate() {
            let tokens = &sequence.tokens;
            let end = tokens.len() + count;
            let state = self.states.entry(sequence.key).or_default();
            // After a step that failed, the guesses for it are still written; the last token is drawn from anew.
            state.written = state.written.min(tokens.len() - 1);
            state.written = self.blocks.adopt(&mut state.table, tokens, state.written);
            self.blocks.keep(&mut state.table, tokens, state.written);
            if end > shape.context || !self.blocks.grow(&mut state.table, end) {
                continue;
            }
            let unwritten = &tokens[state.written..];
            let fits = live_rows + unwritten.len() <= shape.max_rows
                && live.len() < shape.max_samples
                && unwritten.len() <= BLOCK;
            if fits {
                live_rows += unwritten.len();
                live.push(Live {
                    place,
                    tokens: unwritten.to_vec(),
                });
            } else {
                // All but the last token, which the next round draws from.
                let rows = (unwritten.len() - 1).min(shape.max_rows - behind_rows);
                if rows > 0 {
                    behind_rows += rows;
                    let piece = &unwritten[..rows];
                    behind.extend(self.part(sequence.key, piece, None));
                    wrote.push((sequence.key, rows));
                }
            }
        }
        if !behind.is_empty() {
            guarded_step(self.decoder.as_mut(), &behind, &mut self.sampled)?;
            for (key, rows) in wrote {
                self.wrote(key, rows);
            }
        }
        Ok(live)
    }

    #[cfg(test)]
    pub(super) fn check(&self, runs: impl Fn(u64) -> bool) {
        self.blocks
            .check(self.states.values().map(|state| &state.table));
        assert!(self.states.keys().all(|key| runs(*key)));
    }

    fn wrote(&mut self, key: u64, rows: usize) {
        if let Some(state) = self.states.get_mut(&key) {
            state.written += rows;
        }
    }

    fn part(&self, key: u64, tokens: &[u32], sampling: Option<Sampling>) -> Option<StepSequence> {
        let state = self.states.get(&key)?;
        Some(StepSequence {
            lora: 0,
            position: state.written as u32,
            tokens: tokens.to_vec(),
            blocks: state.table.blocks().to_vec(),
            samples: sampling.into_iter().collect(),
        })
    }
}

/// How a sequence's next token is drawn, without what only the answer wants to know.
fn drawn_alike(sequence: &Sequence) -> Option<Sampling> {
    let mut sampling = sequence.guesses().1.cloned()?;
    sampling.logprobs = None;
    Some(sampling)
}
