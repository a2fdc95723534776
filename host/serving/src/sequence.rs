//! One answer in the making.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    BLOCK, Choice, Finish, ModelError, Parameters, Sampled, Sampling, Speculation, TokenLogprob,
};

use crate::answer::{AnswerPiece, AnswerText};
use crate::blocks::Table;
use crate::constraint::Constraint;
use crate::counts::Counts;
use crate::guard::guarded_request;
use crate::guess::GuessRate;
use crate::order::{Moment, QueueKey};
use crate::parameters::choice_seed;
use crate::remaining::Remaining;

/// A prompt, the tokens of an answer to it, and everything that decides the next one.
pub(crate) struct Sequence {
    /// Unique in its model.
    pub(crate) key: u64,
    /// The request it is an answer to.
    pub(crate) request: u64,
    /// Which of the request's answers.
    pub(crate) choice: u32,
    /// Prompt, then answer.
    pub(crate) tokens: Vec<u32>,
    pub(crate) table: Table,
    /// How many of `tokens` are in the blocks.
    pub(crate) written: usize,
    pub(crate) rate: GuessRate,
    /// Its request's.
    pub(crate) queue_key: QueueKey,
    /// What it needed when it was queued last.
    pub(crate) remaining: Remaining,
    /// While the step after one that runs is planned: what that one does to it.
    pub(crate) underway: Underway,
    /// How many of the last tokens its structure forced, behind one that was drawn: they are rows of the answer's next step.
    pub(crate) forced: usize,
    /// While a step is planned: how many of the tokens that are not in the blocks it has rows for.
    pub(crate) rows: usize,
    /// When its last token was made.
    last_token: Option<Moment>,
    prompt: usize,
    /// Most tokens of prompt and answer together.
    context: usize,
    parameters: Arc<Parameters>,
    seed: u64,
    answer: AnswerText,
    counts: Counts,
    constraint: Option<Constraint>,
    logprobs: Vec<TokenLogprob>,
    /// Tokens guessed after `tokens`.
    guesses: Vec<u32>,
    /// A guess is half made.
    is_guessing: bool,
    /// How the token after `tokens` is drawn, and the one after each guess.
    samplings: Vec<Sampling>,
}

/// What a step that runs does to a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Underway {
    /// Rows it writes.
    pub(crate) rows: usize,
    /// Which of the step's tokens will be its next, if one is drawn for it.
    pub(crate) sampling: Option<usize>,
}

/// Most tokens behind a drawn one that are forced at once: with it a KV block's worth of rows, which is what a step may have
/// of prompts beside answers whatever it costs.
pub(crate) const MOST_FORCED: usize = BLOCK - 1;

/// What the masks of a step come to.
#[derive(Debug, Default)]
pub(crate) struct Masked {
    /// How many of the draws are of use: a guess may come to a dead end that the answer itself never comes to, and what
    /// follows it then is no draw.
    pub(crate) draws: usize,
    /// The tokens that can only follow the one that is drawn.
    pub(crate) forced: Vec<u32>,
}

/// The only token of a mask.
fn only(mask: &[u32]) -> Option<u32> {
    let mut words = (0u32..).zip(mask).filter(|(_, word)| **word != 0);
    let (place, word) = words.next()?;
    (word.is_power_of_two() && words.next().is_none()).then(|| place * 32 + word.trailing_zeros())
}

/// Who a sequence is.
pub(crate) struct SequenceIdentity {
    pub(crate) key: u64,
    pub(crate) request: u64,
    pub(crate) choice: u32,
    pub(crate) context: usize,
    pub(crate) seed: u64,
    pub(crate) queue_key: QueueKey,
    /// Which low-rank adapter it goes through; 0 for none.
    pub(crate) lora: u32,
}

/// What a drawn token did.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Whether it is a token of the answer: the token that ends one is not.
    pub(crate) joined: bool,
    /// Where the text that became certain with it begins.
    pub(crate) from: usize,
    /// The answer is complete.
    pub(crate) finish: Option<Finish>,
}

impl Sequence {
    /// An answer that has its forced prefix; `Some` if it is complete with it.
    pub(crate) fn new(
        identity: SequenceIdentity,
        prompt: Vec<u32>,
        prefix: &[u32],
        parameters: Arc<Parameters>,
        answer: AnswerText,
        constraint: Option<Constraint>,
        end_tokens: &[u32],
    ) -> Result<(Sequence, Option<Finish>), ModelError> {
        let mut sequence = Sequence {
            key: identity.key,
            request: identity.request,
            choice: identity.choice,
            table: Table::through(identity.lora),
            written: 0,
            rate: GuessRate::default(),
            queue_key: identity.queue_key,
            remaining: Remaining::default(),
            underway: Underway::default(),
            forced: 0,
            rows: 0,
            last_token: None,
            prompt: prompt.len(),
            context: identity.context,
            seed: choice_seed(identity.seed, identity.choice),
            counts: Counts::new(&parameters, &prompt),
            tokens: prompt,
            parameters,
            answer,
            constraint,
            logprobs: Vec::new(),
            guesses: Vec::new(),
            is_guessing: false,
            samplings: Vec::new(),
        };
        let mut finish = sequence.limit_reached()?;
        for token in prefix {
            finish = sequence.append(*token, None, end_tokens)?;
            if !matches!(finish, None | Some(Finish::Length)) {
                break;
            }
        }
        let finish = finish.map(|finish| sequence.close_text(finish));
        sequence.queue();
        Ok((sequence, finish))
    }

    /// It is queued, without blocks: all its tokens are to be written.
    pub(crate) fn queue(&mut self) {
        self.written = 0;
        self.forced = 0;
        self.remaining = Remaining {
            rows: self.tokens.len(),
            tokens: self.left(),
        };
    }

    /// So many tokens were made together. Returns how long each took since the one before, if there was one.
    pub(crate) fn tokens_at(&mut self, now: Moment, tokens: u32) -> Option<Duration> {
        if tokens == 0 {
            return None;
        }
        let before = self.last_token.replace(now);
        before.map(|before| now.saturating_sub(before) / tokens)
    }

    /// Tokens of the answer.
    pub(crate) fn made(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Tokens, with the one that is underway.
    pub(crate) fn length(&self) -> usize {
        self.tokens.len() + usize::from(self.underway.sampling.is_some())
    }

    /// How many of its tokens are in the blocks, with the rows that are underway.
    pub(crate) fn position(&self) -> usize {
        self.written + self.underway.rows
    }

    /// Tokens that are not in the blocks, at least one; what is underway is there.
    pub(crate) fn unwritten(&self) -> usize {
        self.length() - self.position()
    }

    /// Whether it is full with the token that is underway.
    pub(crate) fn ends_with_underway(&self) -> bool {
        self.underway.sampling.is_some() && self.left() <= 1
    }

    /// Whether one row is all it needs for its next token, but for those of tokens that were forced.
    pub(crate) fn generates(&self) -> bool {
        self.unwritten() <= 1 + self.forced
    }

    /// Whether and how its tokens may be guessed.
    pub(crate) fn speculation(&self) -> Speculation {
        self.parameters.speculation
    }

    /// Guesses that the answer and the context have room for, a drawn token after them included.
    pub(crate) fn room(&self) -> usize {
        self.left().saturating_sub(1)
    }

    /// Tokens that the answer may still have, by its own limit and the context.
    fn left(&self) -> usize {
        let answer = (self.parameters.max_tokens as usize).saturating_sub(self.made());
        let context = self.context.saturating_sub(self.tokens.len());
        answer.min(context)
    }

    /// Begins a step with rows for so many of its tokens, one to all that are not in the blocks. With all of them, how the
    /// next token is drawn is made ready, but for what the structure allows.
    pub(crate) fn begin_with(&mut self, rows: usize) {
        self.rows = rows;
        match self.is_whole() {
            true => self.begin(),
            false => {
                self.guesses.clear();
                self.samplings.clear();
            }
        }
    }

    /// Whether the step that is planned has rows for all of its tokens, so that a next one is drawn.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows == self.unwritten()
    }

    /// Begins a step: how the next token is drawn is made ready, but for what the structure allows.
    pub(crate) fn begin(&mut self) {
        self.guesses.clear();
        self.samplings.clear();
        let sampling = self.sampling();
        self.samplings.push(sampling);
    }

    /// Adds a guess; false if it cannot be one. Guesses end with [`Sequence::forget`].
    pub(crate) fn guess(&mut self, token: u32, end_tokens: &[u32]) -> bool {
        if end_tokens.contains(&token) {
            return false;
        }
        self.is_guessing = true;
        #[cfg(test)]
        self.may_panic("matcher");
        let constraint = self.constraint.as_mut();
        let may_come = constraint.is_none_or(|constraint| constraint.guess(token));
        if may_come {
            self.counts.add(token);
            self.guesses.push(token);
        }
        self.is_guessing = false;
        if !may_come {
            return false;
        }
        #[cfg(test)]
        self.may_panic("guess");
        let sampling = self.sampling();
        self.samplings.push(sampling);
        true
    }

    /// Makes the mask for what follows the last guess, so that a draft can draw by it; false if nothing can follow.
    pub(crate) fn mask_ahead(&mut self) -> bool {
        let (Some(constraint), Some(last)) = (&mut self.constraint, self.samplings.last_mut())
        else {
            return true;
        };
        match constraint.mask() {
            Ok(mask) => last.allowed = mask,
            Err(_) => return false,
        }
        true
    }

    /// Makes the masks of a step with these guesses: while it runs, and before anything is drawn.
    ///
    /// # Errors
    /// Nothing can follow the answer so far.
    pub(crate) fn mask(
        &mut self,
        guesses: &[u32],
        samplings: &mut [Sampling],
        end_tokens: &[u32],
    ) -> Result<Masked, ModelError> {
        #[cfg(test)]
        self.may_panic("mask");
        let Some(constraint) = &mut self.constraint else {
            return Ok(Masked {
                draws: samplings.len(),
                forced: Vec::new(),
            });
        };
        let (mut masked, mut ahead) = (0, 0);
        for (place, sampling) in samplings.iter_mut().enumerate() {
            if let Some(guess) = place.checked_sub(1).and_then(|place| guesses.get(place)) {
                if !constraint.guess(*guess) {
                    break;
                }
                ahead += 1;
            }
            if sampling.allowed.is_none() {
                match constraint.mask() {
                    Ok(mask) => sampling.allowed = mask,
                    Err(error) if place == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            masked += 1;
        }
        if ahead > 0 {
            constraint.rollback(ahead)?;
        }
        let forced = match samplings {
            [drawn] if masked == 1 => self.forced_behind(drawn, end_tokens)?,
            _ => Vec::new(),
        };
        Ok(Masked {
            draws: masked,
            forced,
        })
    }

    /// The tokens that can only follow the one that is drawn, where that is known before, as no other may come. An end
    /// is drawn like any other token; so is each where the probabilities of tokens are asked for.
    fn forced_behind(
        &mut self,
        drawn: &Sampling,
        end_tokens: &[u32],
    ) -> Result<Vec<u32>, ModelError> {
        let most = MOST_FORCED.min(self.room());
        let (Some(constraint), None) = (&mut self.constraint, self.parameters.logprobs) else {
            return Ok(Vec::new());
        };
        let mut run = Vec::new();
        let mut next = drawn.allowed.as_deref().and_then(only);
        while let Some(token) = next.filter(|token| !end_tokens.contains(token)) {
            if run.len() > most || !constraint.guess(token) {
                break;
            }
            run.push(token);
            // Where nothing can follow, the step after says so.
            let mask = match run.len() > most {
                true => None,
                false => constraint.mask().ok().flatten(),
            };
            next = mask.as_deref().and_then(only);
        }
        if !run.is_empty() {
            constraint.rollback(run.len())?;
            run.remove(0);
        }
        Ok(run)
    }

    /// Takes penalties and structure back to where they were before the guesses.
    pub(crate) fn forget(&mut self) -> Result<(), ModelError> {
        for token in &self.guesses {
            self.counts.remove(*token);
        }
        match &mut self.constraint {
            Some(constraint) if !self.guesses.is_empty() => constraint.rollback(self.guesses.len()),
            _ => Ok(()),
        }
    }

    /// Has no part any more in a step that was being planned.
    ///
    /// # Errors
    /// A panic was in a guess of it, or penalties and structure cannot be taken back to where they were: nothing that followed could be
    /// relied on.
    pub(crate) fn leave_step(&mut self) -> Result<(), ModelError> {
        self.underway = Underway::default();
        self.samplings.clear();
        let forgotten = guarded_request(|| {
            #[cfg(test)]
            self.may_panic("forget");
            self.forget()
        });
        self.guesses.clear();
        if std::mem::take(&mut self.is_guessing) {
            return Err(ModelError::Device("a guess panicked".to_owned()));
        }
        forgotten.and_then(|forgotten| forgotten)
    }

    /// Whether nothing of it is of a step that is being planned.
    #[cfg(test)]
    pub(crate) fn is_in_no_step(&self) -> bool {
        self.guesses.is_empty()
            && self.samplings.is_empty()
            && self.underway.rows == 0
            && self.underway.sampling.is_none()
    }

    /// The guesses so far, and how the last of them would be followed.
    pub(crate) fn guesses(&self) -> (&[u32], Option<&Sampling>) {
        (&self.guesses, self.samplings.last())
    }

    /// The guesses and how each token is drawn, for a step.
    pub(crate) fn take_guesses(&mut self) -> (Vec<u32>, Vec<Sampling>) {
        (
            std::mem::take(&mut self.guesses),
            std::mem::take(&mut self.samplings),
        )
    }

    /// Panics from its third token on where a test has it do so, by a stop string ([`crate::tests::support::panics`]).
    #[cfg(test)]
    pub(crate) fn may_panic(&self, at: &str) {
        let told = self
            .parameters
            .stop
            .contains(&crate::tests::support::panics(at));
        assert!(!told || self.made() < 3, "it was told to panic in its {at}");
    }

    /// How the token after `tokens` and the guesses is drawn.
    fn sampling(&self) -> Sampling {
        #[cfg(test)]
        self.may_panic("plan");
        Sampling {
            temperature: self.parameters.temperature,
            top_k: self.parameters.top_k,
            top_p: self.parameters.top_p,
            min_p: self.parameters.min_p,
            repetition: self.parameters.repetition_penalty,
            presence: self.parameters.presence_penalty,
            frequency: self.parameters.frequency_penalty,
            seed: self.seed,
            index: (self.made() + self.guesses.len()) as u32,
            adjustments: self.counts.adjustments(),
            allowed: None,
            logprobs: self.parameters.logprobs,
        }
    }

    /// Takes a drawn token.
    pub(crate) fn take(
        &mut self,
        sampled: &Sampled,
        end_tokens: &[u32],
    ) -> Result<Taken, ModelError> {
        let place = self.made();
        let Some(token) = sampled.token else {
            let what = match self.constraint {
                Some(_) => "that the structure allows is a number",
                None => "is a number",
            };
            return Err(ModelError::Device(format!(
                "no logit of token {place} {what}"
            )));
        };
        let from = self.answer.certain().len();
        let logprob = self.parameters.logprobs.map(|_| TokenLogprob {
            token,
            logprob: sampled.logprob,
            top: sampled.top.clone(),
            said: false,
        });
        let finish = self
            .append(token, logprob, end_tokens)?
            .map(|finish| self.close_text(finish));
        let joined = self.made() > place;
        Ok(Taken {
            joined,
            from,
            finish,
        })
    }

    /// The certain text from a place on.
    pub(crate) fn text_from(&self, from: usize) -> &str {
        self.answer.certain().get(from..).unwrap_or_default()
    }

    /// The parts of the text that became certain since they were taken last.
    pub(crate) fn take_pieces(&mut self) -> Vec<AnswerPiece> {
        self.answer.take_pieces()
    }

    /// How many of its tokens are reasoning.
    pub(crate) fn reasoning_tokens(&self) -> u32 {
        self.answer.reasoning_tokens()
    }

    /// Ends it where it is.
    pub(crate) fn end(&mut self) {
        self.answer.finish();
    }

    /// Appends a token to the answer, unless it ends it.
    fn append(
        &mut self,
        token: u32,
        logprob: Option<TokenLogprob>,
        end_tokens: &[u32],
    ) -> Result<Option<Finish>, ModelError> {
        if let Some(constraint) = &mut self.constraint {
            let held = constraint.holds();
            constraint.accept(token)?;
            if !held && constraint.holds() {
                self.answer.content_begins();
            }
        }
        if end_tokens.contains(&token) {
            return Ok(Some(Finish::End));
        }
        self.tokens.push(token);
        self.counts.add(token);
        self.logprobs.extend(logprob.clone());
        #[cfg(test)]
        self.may_panic("text");
        if let Some(finish) = self.answer.push(token, logprob) {
            return Ok(Some(finish));
        }
        self.limit_reached()
    }

    /// Whether nothing can follow: the structure is complete, or there is no more room. A structured answer that has
    /// room for no more but may end where it is has not been cut.
    fn limit_reached(&mut self) -> Result<Option<Finish>, ModelError> {
        let full =
            self.made() >= self.parameters.max_tokens as usize || self.tokens.len() >= self.context;
        if let Some(constraint) = &mut self.constraint
            && (constraint.must_end() || (full && constraint.may_end()?))
        {
            return Ok(Some(Finish::End));
        }
        Ok(full.then_some(Finish::Length))
    }

    /// Makes the undecided text certain; a stop string may be complete only now.
    fn close_text(&mut self, finish: Finish) -> Finish {
        if finish == Finish::Stop {
            self.answer.close_lanes();
            return finish;
        }
        let stopped = self.answer.finish();
        match finish {
            Finish::Length if stopped => Finish::Stop,
            Finish::End if self.answer.calls() => Finish::Calls,
            finish => finish,
        }
    }

    /// The answer.
    pub(crate) fn into_choice(mut self, finish: Finish) -> Choice {
        #[cfg(test)]
        self.may_panic("choice");
        let tokens = self.tokens.split_off(self.prompt);
        self.answer.into_choice(tokens, finish, self.logprobs)
    }
}
