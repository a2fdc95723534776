//! Requests that go on in another scheduler: that of another replica of the same model.
//!
//! All that a request is without its blocks is its tokens and what the host made of them: so it goes on from there, with the same
//! answer, as it does when its own decoder was lost.

use std::collections::HashSet;

use tidegate_contract::RequestId;

use super::Generator;
use super::fault::Groups;
use super::first_of;
use super::generation::Generation;
use crate::blocks::{Blocks, Table};
use crate::replicas::{Burden, Wanted};
use crate::sequence::Sequence;
use crate::stats::Counters;

/// What was given away of a scheduler that does not go on.
#[derive(Default)]
pub(crate) struct Abandoned {
    pub(crate) moved: Vec<MovedGeneration>,
    /// What has been in too many steps that ended like this, or, after a panic, has lost an answer or
    /// cannot be taken back to where it was.
    pub(crate) failed: Vec<MovedGeneration>,
    /// What has all its answers.
    pub(crate) ended: Vec<Generation>,
}

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
    pub(crate) fn id(&self) -> RequestId {
        self.generation.open.id
    }

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

    /// Whether it has all its answers, those that have ended and those that have not. Where a panic was at one of them that is
    /// gone, and the request would never end.
    fn is_whole(&self) -> bool {
        let ended = self.generation.choices.iter().flatten().count();
        ended + self.sequences.len() >= self.generation.choices.len()
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
        self.take_all()
    }

    /// Takes all requests out, none of which runs.
    fn take_all(&mut self) -> Vec<MovedGeneration> {
        let apart = self.groups.take();
        let mut numbers: Vec<u64> = self.requests.keys().copied().collect();
        numbers.sort_unstable();
        self.none_late_before = None;
        self.to_tell.clear();
        let numbers = numbers.into_iter();
        let moved = numbers.filter_map(|number| self.take_out(number, &apart));
        moved.collect()
    }

    fn take_out(&mut self, number: u64, apart: &HashSet<u64>) -> Option<MovedGeneration> {
        let generation = self.requests.remove(&number)?;
        let keys = keys_of(number, &generation);
        let sequences: Vec<Sequence> = keys.filter_map(|key| self.waiting.remove(&key)).collect();
        Some(MovedGeneration {
            number,
            apart: among(&sequences, apart),
            sequences,
            generation,
        })
    }

    /// Gives away the requests that no step has had a part of, and that are not to be tried apart, in the order of arrival.
    pub(crate) fn give_away_unbegun(&mut self) -> Vec<MovedGeneration> {
        self.hand_on();
        let apart = self.groups.keys();
        let is_unbegun = |(number, generation): &(&u64, &Generation)| {
            let mut keys = keys_of(**number, generation);
            !generation.open.has_begun()
                && keys.all(|key| self.waiting.contains_key(&key) && !apart.contains(&key))
        };
        let unbegun = self.requests.iter().filter(is_unbegun);
        let mut numbers: Vec<u64> = unbegun.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let numbers = numbers.into_iter();
        let moved = numbers.filter_map(|number| self.take_out(number, &HashSet::new()));
        moved.collect()
    }

    /// Gives away all requests while a step of theirs does not come to its end, or after a panic. Nobody is told anything here:
    /// what they have to hear goes along. Those of the step are tried alone at first, and those that have been in too many steps
    /// like this are apart from the others.
    pub(crate) fn abandon(&mut self) -> Abandoned {
        let mut keys: Vec<u64> = Vec::new();
        for key in std::mem::take(&mut self.in_steps).into_iter().flatten() {
            if self.index_of(key).is_some() && !keys.contains(&key) {
                keys.push(key);
            }
        }
        let stepped = self.running.iter().filter(|one| keys.contains(&one.key));
        let mut stepped: Vec<u64> = stepped.map(|one| one.request).collect();
        stepped.sort_unstable();
        stepped.dedup();
        let mut unsound = HashSet::new();
        for index in (0..self.running.len()).rev() {
            let sequence = &mut self.running[index];
            if let Err(error) = sequence.leave_step() {
                tracing::error!(%error, "an answer cannot be taken back to where it was; its request fails");
                unsound.insert(sequence.request);
            }
            self.preempt(index);
        }
        self.groups.apart(&keys);
        let mut abandoned = Abandoned {
            ended: std::mem::take(&mut self.ended),
            ..Abandoned::default()
        };
        for mut moved in self.take_all() {
            let was_in = stepped.binary_search(&moved.number).is_ok();
            let goes_on = !was_in || moved.generation.open.lost(stepped.len() == 1);
            if !goes_on || !moved.is_whole() || unsound.contains(&moved.number) {
                abandoned.failed.push(moved);
                continue;
            }
            Counters::add(&self.counters.retried, usize::from(was_in));
            abandoned.moved.push(moved);
        }
        abandoned
    }

    /// After a panic: as [`Generator::abandon`], and nothing of it is relied on, the blocks that the panic may have been in
    /// least of all. It has no request and no block from now on, and its decoder is gone.
    pub(crate) fn begin_anew(&mut self) -> Abandoned {
        self.blocks = Blocks::new(self.shape.blocks).known_to(self.known.as_ref());
        self.pinned.clear();
        for sequence in &mut self.running {
            sequence.table = Table::through(sequence.table.lora());
        }
        let _ = self.draft.lost();
        self.panicked_ahead();
        let abandoned = self.abandon();
        self.empty();
        abandoned
    }

    fn empty(&mut self) {
        self.requests.clear();
        self.waiting.clear();
        self.running.clear();
        self.groups = Groups::default();
        self.in_steps.clear();
    }

    /// Takes requests of another replica; those that its device was lost with are tried alone at first.
    pub(crate) fn take_over(&mut self, moved: Vec<MovedGeneration>) {
        let apart: Vec<u64> = moved.iter().flat_map(|moved| moved.apart.clone()).collect();
        for moved in moved {
            self.to_tell.insert(moved.number);
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

/// The keys of a request's answers.
fn keys_of(number: u64, generation: &Generation) -> impl Iterator<Item = u64> + use<> {
    (first_of(number)..).take(generation.choices.len())
}

fn among(sequences: &[Sequence], apart: &HashSet<u64>) -> Vec<u64> {
    let keys = sequences.iter().map(|sequence| sequence.key);
    keys.filter(|key| apart.contains(key)).collect()
}
