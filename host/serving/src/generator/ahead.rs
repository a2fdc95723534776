//! The step after one that runs, planned before anybody knows what that one draws.
//!
//! Every answer that the running step draws a token for is taken to go on: its next row is that token, which the decoder
//! feeds to itself. Who turns out to have ended has its row thrown away. What is certain is used: who is full with its next
//! token has no row, and rows of prompts are known. Nobody is preempted: where that is called for, where somebody would guess
//! or has tokens that its structure forces, or where a step is so long that what the host does hardly counts, the next step
//! waits until this one has ended.

use std::time::Duration;

use tidegate_contract::{FedToken, Sampling, Speculation, StepSequence};

use super::Generator;
use super::admit::GivingWay;
use super::step_plan::{Part, StepPlan};
use crate::costs::StepSize;
use crate::guess::look_up;
use crate::order::Moment;
use crate::sequence::Underway;

/// The longest step that is begun ahead: whoever comes while a step runs may have to wait for one such step more, and what
/// there is to gain is what the host does between two steps, less than a millisecond as a rule.
const LONGEST: Duration = Duration::from_millis(20);

/// Steps for which nothing is planned ahead after a panic there; each further one doubles them.
const REST: u32 = 64;
/// Most such doublings.
const MOST_DOUBLINGS: u32 = 16;

/// Whether steps are planned ahead: not for some time after a panic in it, which costs everybody a load of the model. Nobody who was
/// in the step that ran has to do with it, and all that runs can be planned without.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    is_under_way: bool,
    panics: u32,
    /// Steps until something is planned ahead again.
    rest: u32,
}

impl Ahead {
    fn is_allowed(&self) -> bool {
        self.rest == 0
    }

    /// A step went well.
    pub(super) fn rests(&mut self) {
        self.rest = self.rest.saturating_sub(1);
    }

    /// There was a panic; whether it was in planning ahead.
    fn panicked(&mut self) -> bool {
        if !std::mem::take(&mut self.is_under_way) {
            return false;
        }
        self.rest = REST << self.panics;
        self.panics = MOST_DOUBLINGS.min(self.panics + 1);
        true
    }
}

impl Generator {
    /// The step after that of `running`, which runs; `None` where it is better planned when that has ended, or where there
    /// would be nothing to do.
    pub(crate) fn plan_after(&mut self, running: &StepPlan, now: Moment) -> Option<StepPlan> {
        let mut parts = running.parts.iter();
        let is_plain = |part: &Part| part.guesses.is_empty() && part.forced.is_empty();
        let may_be = self.ahead.is_allowed() && self.groups.are_settled();
        if !parts.all(is_plain) || !may_be {
            return None;
        }
        self.ahead.is_under_way = true;
        self.expire(now);
        let mut drawn = 0;
        for part in &running.parts {
            let sampling = (part.samples > 0).then_some(drawn);
            drawn += part.samples;
            if let Some(index) = self.index_of(part.key) {
                self.running[index].underway = Underway {
                    rows: part.rows,
                    sampling,
                };
            }
        }
        let plan = self.try_after(now);
        for sequence in &mut self.running {
            sequence.underway = Underway::default();
        }
        self.ahead.is_under_way = false;
        plan
    }

    /// After a panic: where it was in planning ahead nothing is for some steps, and nobody was in a step that is to blame.
    pub(super) fn panicked_ahead(&mut self) {
        if self.ahead.panicked() {
            let steps = self.ahead.rest;
            tracing::error!(
                steps,
                "what plans a step while another runs panicked: none is begun ahead for some steps"
            );
            self.in_steps.clear();
        }
    }

    fn try_after(&mut self, now: Moment) -> Option<StepPlan> {
        self.look_beside();
        self.drop_hopeless(now);
        // Whoever waits has the place at once that is sure to become free.
        let frees = self.running.iter().any(|s| s.ends_with_underway());
        if (frees && !self.waiting.is_empty()) || self.admit(now, GivingWay::Later) {
            return None;
        }
        let order = self.running_in_order(now).into_iter();
        let goes_on = |key: &u64| {
            let index = self.index_of(*key);
            index.is_some_and(|index| !self.running[index].ends_with_underway())
        };
        let (answers, prompts): (Vec<u64>, Vec<u64>) = order.filter(goes_on).partition(|key| {
            let index = self.index_of(*key);
            index.is_some_and(|index| self.running[index].generates())
        });
        let has_forced = answers.iter().any(|key| {
            let index = self.index_of(*key);
            index.is_some_and(|index| self.running[index].unwritten() > 1)
        });
        if has_forced || self.would_guess(&answers) || !self.have_blocks(&answers) {
            return None;
        }
        let mut plan = StepPlan::default();
        for key in &answers {
            self.add_row(&mut plan, *key);
        }
        let rows = self.limits.step_tokens.saturating_sub(answers.len());
        self.add_prompts(&mut plan, &prompts, rows);
        // Of the first step nothing is known: whoever comes while it runs does not wait for a second like it.
        let takes = self.costs.guess(plan.size);
        if plan.step.is_empty() || takes.is_none_or(|takes| takes > LONGEST) {
            return None;
        }
        for key in answers {
            if let Some(index) = self.index_of(key) {
                self.running[index].rate.rest();
            }
        }
        self.steps_at(&plan, now);
        Some(plan)
    }

    /// Whether one of these would guess, as far as is known before its next token is: who guesses goes on with that token.
    fn would_guess(&self, answers: &[u64]) -> bool {
        let indices = || answers.iter().filter_map(|key| self.index_of(*key));
        let step = indices().fold(StepSize::default(), |step, index| {
            step.with_answer(1, self.running[index].position())
        });
        let mut sequences = indices().map(|index| &self.running[index]);
        sequences.any(|sequence| {
            let most = self.limits.look_ahead.min(sequence.room());
            let rate = &sequence.rate;
            sequence.speculation() != Speculation::Off
                && rate.wanted(most, step, sequence.length(), &self.costs) > 0
                && (self.draft.is_ready() && sequence.speculation() == Speculation::Auto
                    || !look_up(&sequence.tokens, 1).is_empty())
        })
    }

    /// Whether there are blocks for the next row of each of these.
    fn have_blocks(&mut self, answers: &[u64]) -> bool {
        answers.iter().all(|key| {
            let Some(index) = self.index_of(*key) else {
                return true;
            };
            let sequence = &mut self.running[index];
            let positions = sequence.length();
            self.blocks.grow(&mut sequence.table, positions)
        })
    }

    /// The row of an answer's next token, which may be underway.
    fn add_row(&mut self, plan: &mut StepPlan, key: u64) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let sequence = &mut self.running[index];
        let position = sequence.position();
        let (token, samples) = match sequence.underway.sampling {
            Some(sampling) => {
                #[cfg(test)]
                sequence.may_panic("ahead");
                plan.fed.push(FedToken {
                    sequence: plan.step.len(),
                    sampling,
                });
                (0, vec![Sampling::default()])
            }
            None => {
                sequence.begin();
                (sequence.tokens[position], sequence.take_guesses().1)
            }
        };
        plan.size = plan.size.with_answer(1, position);
        plan.parts.push(Part {
            key,
            rows: 1,
            prompt: 0,
            guesses: Vec::new(),
            samples: 1,
            masked: 1,
            forced: Vec::new(),
        });
        plan.step.push(StepSequence {
            lora: sequence.table.lora(),
            position: position as u32,
            tokens: vec![token],
            blocks: sequence.table.blocks().to_vec(),
            samples,
        });
    }

    /// Puts the tokens that were fed, and how those after them are drawn, into a step whose predecessor was delivered. The rows
    /// of who has gone stay as they are: nobody asks what they make.
    pub(crate) fn fill_in(&mut self, plan: &mut StepPlan) {
        for fed in std::mem::take(&mut plan.fed) {
            let place = fed.sequence;
            let (Some(part), Some(row)) = (plan.parts.get(place), plan.step.get_mut(place)) else {
                continue;
            };
            if let Some(index) = self.index_of(part.key) {
                let sequence = &mut self.running[index];
                sequence.begin();
                row.samples = sequence.take_guesses().1;
                row.tokens = sequence.tokens[sequence.written..].to_vec();
            }
        }
    }

    /// Whether anybody is left of those in a step.
    pub(crate) fn is_of_use(&self, plan: &StepPlan) -> bool {
        let mut parts = plan.parts.iter();
        parts.any(|part| self.index_of(part.key).is_some())
    }
}
