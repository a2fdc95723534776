//! Requests that go on in another scheduler: that of another replica of the same model.
//!
//! All that a request is without its blocks is its tokens and what the host made of them: so it goes on from there, with the same
//! answer, as it does when its own decoder was lost.

use std::collections::HashSet;

use super::Generator;
use super::first_of;
use super::generation::Generation;
use crate::replicas::{Burden, Wanted};
use crate::sequence::Sequence;
use crate::stats::Counters;

/// A request on its way to another scheduler.
pub(crate) struct MovedGeneration {
    number: u64,
    generation: Generation,
    /// Its answers that have not ended, without blocks.
    sequences: Vec<Sequence>,
    /// Of these, those that were to be tried apart from others.
    apart: Vec<u64>,
}

impl MovedGeneration {
    /// What it asks for.
    pub(crate) fn wanted(&self) -> Wanted {
        // What one of them computes the others find.
        let rows = self.sequences.iter().map(|sequence| sequence.tokens.len());
        let tokens = self
            .sequences
            .iter()
            .map(|sequence| sequence.remaining.tokens);
        let first = self.sequences.first();
        Wanted {
            rows: rows.max().unwrap_or_default() as u64,
            answers: self.sequences.len() as u64,
            tokens: tokens.max().unwrap_or_default() as u64,
            beginnings: first.map_or_else(Vec::new, |sequence| {
                crate::blocks::beginnings(sequence.table.lora(), &sequence.tokens)
            }),
        }
    }

    /// It is of another replica from now on.
    pub(crate) fn burdens(&mut self, burden: Burden) {
        self.generation.open.goes_on(burden);
    }

    /// Ends it without an answer.
    pub(crate) fn fail(self, counters: &Counters, error: tidegate_contract::ModelError) {
        self.generation.fail(counters, error);
    }
}

impl Generator {
    /// Gives away all requests, those that came first before the others. Who asked has been told what was made so far.
    pub(crate) fn give_away(&mut self) -> Vec<MovedGeneration> {
        self.hand_on();
        for index in (0..self.running.len()).rev() {
            self.preempt(index);
        }
        let apart = self.groups.take();
        let mut numbers: Vec<u64> = self.requests.keys().copied().collect();
        numbers.sort_unstable();
        self.none_late_before = None;
        let moved = numbers.into_iter().filter_map(|number| {
            let generation = self.requests.remove(&number)?;
            let keys = (first_of(number)..).take(generation.choices.len());
            let sequences: Vec<Sequence> =
                keys.filter_map(|key| self.waiting.remove(&key)).collect();
            Some(MovedGeneration {
                number,
                apart: among(&sequences, &apart),
                sequences,
                generation,
            })
        });
        moved.collect()
    }

    /// Takes requests of another replica; those that its device was lost with are tried alone at first.
    pub(crate) fn take_over(&mut self, moved: Vec<MovedGeneration>) {
        let apart: Vec<u64> = moved.iter().flat_map(|moved| moved.apart.clone()).collect();
        for moved in moved {
            Counters::add(&self.counters.moved, 1);
            let deadline = moved.generation.open.queue_key.deadline;
            self.none_late_before = self.none_late_before.into_iter().chain(deadline).min();
            let sequences = moved.sequences.into_iter();
            self.waiting
                .extend(sequences.map(|sequence| (sequence.key, sequence)));
            self.requests.insert(moved.number, moved.generation);
        }
        if !apart.is_empty() {
            self.groups.apart(&apart);
        }
    }
}

fn among(sequences: &[Sequence], apart: &HashSet<u64>) -> Vec<u64> {
    let keys = sequences.iter().map(|sequence| sequence.key);
    keys.filter(|key| apart.contains(key)).collect()
}
