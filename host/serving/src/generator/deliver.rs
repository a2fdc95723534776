//! What a step made.

use std::time::Duration;

use tidegate_contract::{DecodeError, Finish, ModelError, Sampled};

use super::Generator;
use super::generation::Untold;
use super::step_plan::{Part, StepPlan};
use crate::guard::guarded_request;
use crate::order::Moment;
use crate::stats::Counters;

/// How long a step took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Of whoever waits for its tokens.
    pub(crate) whole: Duration,
    /// Of the device, if that is known.
    pub(crate) ran: Option<Duration>,
}

impl From<Duration> for Took {
    fn from(took: Duration) -> Took {
        Took {
            whole: took,
            ran: Some(took),
        }
    }
}

impl Generator {
    /// Takes the tokens of a step that took so long, and ends what is complete; those who asked are told by
    /// [`Generator::hand_on`], while the next step runs.
    ///
    /// # Errors
    /// The decoder gave another number of tokens than it was asked for; none was taken.
    pub(crate) fn deliver(
        &mut self,
        plan: &StepPlan,
        sampled: &[Sampled],
        now: Moment,
        took: impl Into<Took>,
    ) -> Result<(), DecodeError> {
        let wanted: usize = plan.parts.iter().map(|part| part.samples).sum();
        if sampled.len() != wanted {
            return Err(DecodeError::Device {
                reason: format!("{} tokens were drawn, not {wanted}", sampled.len()),
            });
        }
        let took = took.into();
        match took.ran {
            // Whoever was in it was taken away, as it did not end: what it took is no measure of any other.
            _ if !self.is_of_use(plan) => {}
            Some(ran) => self.costs.observe(plan.size, ran, now),
            None => self.costs.observe_at_most(plan.size, took.whole, now),
        }
        self.counters
            .step(plan.parts.len(), plan.size, took.whole, self.costs.parts());
        Counters::add(&self.counters.prompt_tokens, plan.size.prefill);
        for (part, sequence) in plan.parts.iter().zip(&plan.step) {
            let taken_in = part.prompt;
            (self.counters).add_lora(sequence.lora, |lora| &lora.prompt_tokens, taken_in);
        }
        self.draft.rests();
        self.ahead.rests();
        self.groups
            .succeeded(plan.parts.iter().map(|part| part.key));
        let mut sampled = sampled;
        for part in &plan.parts {
            let (own, rest) = sampled.split_at(part.samples);
            sampled = rest;
            self.deliver_part(part, own, now);
        }
        // Not before: where this panics it is one of these that is to blame.
        self.in_steps.pop_front();
        Ok(())
    }

    fn deliver_part(&mut self, part: &Part, sampled: &[Sampled], now: Moment) {
        let Some(index) = self.index_of(part.key) else {
            // Its request has ended with another of its answers.
            return;
        };
        let request = self.running[index].request;
        let mut end: Option<Result<Finish, ModelError>> = None;
        let (mut right, mut made) = (0, 0);
        let before = self.running[index].written;
        for (place, drawn) in sampled.iter().take(part.masked).enumerate() {
            end = self.take(index, drawn, now);
            made += 1;
            if end.is_some() || part.guesses.get(place).copied() != drawn.token {
                break;
            }
            right += 1;
        }
        // What can only follow is rows of the next step, and none of them is drawn.
        let mut forced = 0;
        for token in part.forced.iter().take_while(|_| made > 0) {
            if end.is_some() {
                break;
            }
            let only = Sampled {
                token: Some(*token),
                ..Sampled::default()
            };
            end = self.take(index, &only, now);
            forced += 1;
        }
        Counters::add(&self.counters.forced, forced);
        // The last token made is yet to be written, also where it was guessed and nothing of use was drawn after it.
        right = right.min(usize::saturating_sub(made, 1));
        let generation = self.requests.get(&request);
        let is_beside = generation.is_some_and(|generation| generation.open.is_beside());
        let sequence = &mut self.running[index];
        if made > 0 {
            sequence.forced = forced;
        }
        let tokens = made + forced;
        if let Some(between) = sequence.tokens_at(now, tokens as u32)
            && !is_beside
        {
            (self.counters.between_tokens_seconds).observe_times(between, tokens as u64);
        }
        // What was guessed wrong is written over.
        sequence.written = before + part.rows - part.guesses.len() + right;
        if !part.guesses.is_empty() {
            sequence.rate.learn(part.guesses.len(), right);
            Counters::add(&self.counters.accepted, right);
            Counters::add(&self.counters.rejected, part.guesses.len() - right);
        }
        self.draft.keep(part.key, sequence.written);
        // What made no token is not kept for others: numbers that are none would go on to them.
        if !matches!(end, Some(Err(_))) {
            self.blocks
                .keep(&mut sequence.table, &sequence.tokens, sequence.written);
        }
        match end {
            None => {}
            Some(Ok(finish)) => self.finish(part.key, finish),
            Some(Err(error)) => self.fail(request, error),
        }
    }

    /// Gives a drawn token to a sequence; `Some` if the sequence ends with it, as it does where its text panics: a token may
    /// have joined it then whose text has not.
    fn take(
        &mut self,
        index: usize,
        drawn: &Sampled,
        now: Moment,
    ) -> Option<Result<Finish, ModelError>> {
        guarded_request(|| self.take_token(index, drawn, now))
            .unwrap_or_else(|panicked| Some(Err(panicked)))
    }

    fn take_token(
        &mut self,
        index: usize,
        drawn: &Sampled,
        now: Moment,
    ) -> Option<Result<Finish, ModelError>> {
        let sequence = &mut self.running[index];
        let position = sequence.made() as u32;
        let thought = sequence.reasoning_tokens();
        let taken = match sequence.take(drawn, &self.limits.end_tokens) {
            Ok(taken) => taken,
            Err(error) => return Some(Err(error)),
        };
        if let Some(generation) = self.requests.get_mut(&sequence.request) {
            if let Some(waited) = generation.open.token_at(now) {
                self.counters.first_token_seconds.observe(waited);
            }
            generation.keep_pieces(sequence);
            if let (Some(token), true) = (drawn.token, taken.joined) {
                Counters::add(&self.counters.tokens, 1);
                let lora = sequence.table.lora();
                self.counters.add_lora(lora, |lora| &lora.tokens, 1);
                let thought = sequence.reasoning_tokens().saturating_sub(thought);
                Counters::add(&self.counters.reasoning_tokens, thought as usize);
                if sequence.choice == 0 {
                    let text = sequence.text_from(taken.from).to_owned();
                    generation.untold.push(Untold::Token(position, token, text));
                }
            }
            self.to_tell.insert(sequence.request);
        }
        taken.finish.map(Ok)
    }
}
