//! What the next step is.

use std::collections::{HashSet, VecDeque};

use tidegate_contract::{BLOCK, FedToken, ModelError, Speculation, StepSequence};

use super::Generator;
use super::admit::GivingWay;
use crate::costs::StepSize;
use crate::guard::guarded_request;
use crate::guess::look_up;
use crate::order::Moment;
use crate::sequence::Sequence;
use crate::stats::Counters;

/// A step, and whose it is.
#[derive(Debug, Default)]
pub(crate) struct StepPlan {
    pub(crate) step: Vec<StepSequence>,
    /// Its tokens that the step before draws, where that one runs.
    pub(crate) fed: Vec<FedToken>,
    pub(super) parts: Vec<Part>,
    pub(super) size: StepSize,
}

/// What a sequence of the step is.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) key: u64,
    pub(super) rows: usize,
    /// Of these, rows of a prompt: all or none.
    pub(super) prompt: usize,
    pub(super) guesses: Vec<u32>,
    pub(super) samples: usize,
    /// How many of these are of use: all, but where a structure has a dead end among the guesses.
    pub(super) masked: usize,
    /// Tokens that can only follow the one that is drawn.
    pub(super) forced: Vec<u32>,
}

/// What is still free in a step.
struct Budget {
    rows: usize,
    samples: usize,
}

impl Generator {
    /// The next step; `None` if there is nothing to do. `now` never goes back.
    pub(crate) fn plan(&mut self, now: Moment) -> Option<StepPlan> {
        loop {
            let (plan, broken) = self.try_plan(now);
            if broken.is_empty() {
                return (!plan.step.is_empty()).then_some(plan);
            }
            // A structure that fails takes its request along; the step is planned again without it.
            for (request, error) in broken {
                self.fail(request, error);
            }
        }
    }

    /// A step, and those whose structure fails in it.
    fn try_plan(&mut self, now: Moment) -> (StepPlan, Vec<(u64, ModelError)>) {
        self.look_beside();
        self.expire(now);
        self.drop_hopeless(now);
        self.admit(now, GivingWay::Now);
        let (running, waiting) = (&self.running, &self.waiting);
        let runs = |key| running.iter().any(|sequence| sequence.key == key);
        let exists = |key| waiting.contains_key(&key) || runs(key);
        let allowed = self.groups.next(exists, runs);
        self.secure_blocks(now, allowed.as_ref());

        let order = self.running_in_order(now);
        let taking_part: Vec<u64> = order
            .into_iter()
            .filter(|key| allowed.as_ref().is_none_or(|allowed| allowed.contains(key)))
            .collect();
        // One that was begun ahead and is of no use is begun no more. Where what follows panics it is one of these that is to
        // blame.
        self.in_steps = VecDeque::from([taking_part.clone()]);
        let (decoding, prompts): (Vec<u64>, Vec<u64>) = taking_part.into_iter().partition(|key| {
            self.index_of(*key)
                .is_some_and(|index| self.running[index].generates())
        });
        let mut budget = Budget {
            rows: self.limits.step_tokens - decoding.len(),
            samples: self.shape.max_samples - self.running.len(),
        };
        let mut plan = StepPlan::default();
        let mut broken = Vec::new();
        self.begin(&decoding, &mut budget);
        let guessing = match prompts.is_empty() {
            true => budget.rows,
            // Prompts have their share of what is left.
            false => budget.rows / 2,
        };
        self.guess(&decoding, guessing, &mut budget);
        for key in &decoding {
            self.add_answer(&mut plan, *key, &mut broken);
        }
        self.add_prompts(&mut plan, &prompts, budget.rows);
        if !broken.is_empty() {
            return (plan, broken);
        }
        self.in_steps.clear();
        self.steps_at(&plan, now);
        (plan, broken)
    }

    /// Those in a step have waited until now.
    pub(super) fn steps_at(&mut self, plan: &StepPlan, now: Moment) {
        let keys = plan.parts.iter().map(|part| part.key);
        self.in_steps.push_back(keys.collect());
        for part in &plan.parts {
            if let Some(index) = self.index_of(part.key)
                && let Some(generation) = self.requests.get_mut(&self.running[index].request)
                && let Some(waited) = generation.open.steps_at(now)
            {
                self.counters.queue_seconds.observe(waited);
            }
        }
    }

    /// Every answer in the making gets a block for its next row, the best ranked first; for want of one the worst
    /// ranked gives its own back.
    fn secure_blocks(&mut self, now: Moment, allowed: Option<&HashSet<u64>>) {
        let mut order = self.running_in_order(now);
        let mut next = 0;
        while let Some(key) = order.get(next).copied() {
            next += 1;
            if allowed.is_some_and(|allowed| !allowed.contains(&key)) {
                continue;
            }
            while let Some(index) = self.index_of(key) {
                let sequence = &mut self.running[index];
                let positions = sequence.tokens.len();
                if self.blocks.grow(&mut sequence.table, positions) {
                    break;
                }
                // The last of the order is still there: it goes from the end only.
                let Some(worst) = order.pop().and_then(|worst| self.index_of(worst)) else {
                    break;
                };
                Counters::add(&self.counters.preemptions, 1);
                self.preempt(worst);
            }
        }
    }

    /// Gives each the rows of its tokens, as far as there are some beyond one for each, and makes ready how its next one is
    /// drawn.
    fn begin(&mut self, keys: &[u64], budget: &mut Budget) {
        for key in keys {
            if let Some(index) = self.index_of(*key) {
                let sequence = &mut self.running[index];
                let forced = sequence.unwritten().saturating_sub(1).min(budget.rows);
                budget.rows -= forced;
                sequence.begin_with(1 + forced);
            }
        }
    }

    /// Makes the masks of a step that runs, before anything is drawn in it. A structure that fails takes its request along.
    ///
    /// Masks are made one after another: matchers of one structure share the automaton of its terminals behind a lock
    /// of the library, so several threads were no faster.
    pub(crate) fn mask(&mut self, plan: &mut StepPlan) {
        let mut broken = Vec::new();
        for (part, sequence) in plan.parts.iter_mut().zip(&mut plan.step) {
            let Some(index) = self.index_of(part.key).filter(|_| part.samples > 0) else {
                continue;
            };
            let (samples, ends) = (&mut sequence.samples, &self.limits.end_tokens);
            let running = &mut self.running[index];
            let masked = guarded_request(|| running.mask(&part.guesses, samples, ends));
            match masked.and_then(|masked| masked) {
                Ok(masked) => {
                    part.masked = masked.draws;
                    part.forced = masked.forced;
                }
                Err(error) => broken.push((self.running[index].request, error)),
            }
        }
        for (request, error) in broken {
            self.fail(request, error);
        }
    }

    /// Guesses ahead for those that decode, as far as `most` rows, samples and blocks go.
    fn guess(&mut self, decoding: &[u64], most: usize, budget: &mut Budget) {
        let mut left = most.min(budget.samples);
        let answers = decoding.iter().filter_map(|key| self.index_of(*key));
        let mut step = answers.fold(StepSize::default(), |step, index| {
            step.with_answer(1, self.running[index].written)
        });
        let mut wanted: Vec<(u64, usize)> = Vec::new();
        for key in decoding {
            let Some(index) = self.index_of(*key) else {
                continue;
            };
            let sequence = &mut self.running[index];
            if sequence.speculation() == Speculation::Off || !sequence.is_whole() {
                continue;
            }
            let most = self.limits.look_ahead.min(sequence.room()).min(left);
            let positions = sequence.tokens.len();
            let mut count = sequence.rate.wanted(most, step, positions, &self.costs);
            // Nobody loses blocks for a guess.
            while count > 0 && !self.blocks.grow(&mut sequence.table, positions + count) {
                count -= 1;
            }
            if count == 0 {
                sequence.rate.rest();
                continue;
            }
            let drafted = sequence.speculation() == Speculation::Auto && self.draft.is_ready();
            if drafted {
                left -= count;
                step = step.with_answer(count, positions);
                wanted.push((*key, count));
                continue;
            }
            let guesses = look_up(&sequence.tokens, count).to_vec();
            for token in guesses {
                if !sequence.guess(token, &self.limits.end_tokens) {
                    break;
                }
                left -= 1;
                step = step.with_answer(1, positions);
            }
        }
        if !wanted.is_empty() {
            self.ask_draft(&wanted);
        }
        let guessed: usize = decoding
            .iter()
            .filter_map(|key| self.index_of(*key))
            .map(|index| self.running[index].guesses().0.len())
            .sum();
        budget.rows -= guessed;
        budget.samples -= guessed;
    }

    /// Has the draft guess so many tokens for each of these.
    fn ask_draft(&mut self, wanted: &[(u64, usize)]) {
        let Some(draft) = self.draft.ready() else {
            return;
        };
        let mut sequences: Vec<(&mut Sequence, usize)> = self
            .running
            .iter_mut()
            .filter_map(|sequence| {
                let wants = wanted.iter().find(|(key, _)| *key == sequence.key);
                wants.map(|(_, count)| (sequence, *count))
            })
            .collect();
        match draft.guess(&mut sequences, &self.limits.end_tokens) {
            Ok(()) => self.draft.did_well(),
            Err(error) => {
                Counters::add(&self.counters.draft_failures, 1);
                self.draft.failed(&error);
            }
        }
    }

    /// The row of an answer's last token, those of tokens that were forced before it, and of its guesses.
    fn add_answer(&mut self, plan: &mut StepPlan, key: u64, broken: &mut Vec<(u64, ModelError)>) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let sequence = &mut self.running[index];
        if let Err(error) = sequence.forget() {
            broken.push((sequence.request, error));
        }
        let (guesses, samples) = sequence.take_guesses();
        let end = sequence.written + sequence.rows;
        let mut tokens = sequence.tokens[sequence.written..end].to_vec();
        tokens.extend(&guesses);
        plan.size = plan.size.with_answer(tokens.len(), sequence.written);
        Counters::add(&self.counters.drafted, guesses.len());
        plan.parts.push(Part {
            key,
            rows: tokens.len(),
            prompt: 0,
            guesses,
            samples: samples.len(),
            masked: samples.len(),
            forced: Vec::new(),
        });
        plan.step.push(StepSequence {
            lora: sequence.table.lora(),
            position: sequence.written as u32,
            tokens,
            blocks: sequence.table.blocks().to_vec(),
            samples,
        });
    }

    /// Pieces of prompts, in order, until the step is full.
    pub(super) fn add_prompts(&mut self, plan: &mut StepPlan, prompts: &[u64], rows: usize) {
        let mut left = rows;
        if plan.size.decode > 0 {
            left = left.min(self.limits.prefill_tokens);
            let first = prompts.first().and_then(|key| self.index_of(*key));
            let position = first.map_or(0, |index| self.running[index].position());
            let limit = self.limits.step_time;
            let in_time = (self.costs).prefill_within(plan.size, position, limit, left);
            left = in_time.unwrap_or(left);
        }
        for key in prompts {
            let Some(index) = self.index_of(*key).filter(|_| left > 0) else {
                break;
            };
            let mut sequence = self.running.swap_remove(index);
            if sequence.underway.rows == 0 {
                self.take_kept(&mut sequence);
                if self.is_written_beside(&sequence, plan) {
                    // Kept blocks are taken where a block begins: the rest of one is not worth it.
                    sequence.written = sequence.table.kept() * BLOCK;
                    self.running.push(sequence);
                    continue;
                }
            }
            let rows = sequence.unwritten().min(left);
            left -= rows;
            let from = sequence.position();
            let end = from + rows;
            let mut samples = Vec::new();
            if end == sequence.tokens.len() {
                sequence.begin();
                samples = sequence.take_guesses().1;
            }
            plan.size = plan.size.with_prompt(rows, from);
            plan.parts.push(Part {
                key: *key,
                rows,
                prompt: rows,
                guesses: Vec::new(),
                samples: samples.len(),
                masked: samples.len(),
                forced: Vec::new(),
            });
            plan.step.push(StepSequence {
                lora: sequence.table.lora(),
                position: from as u32,
                tokens: sequence.tokens[from..end].to_vec(),
                blocks: sequence.table.blocks().to_vec(),
                samples,
            });
            self.running.push(sequence);
        }
    }
}
