//! A request that has a slot.

use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{Answer, Finish, ModelError, Parameters, RequestId, Timings};
use tidegate_text::Tokenizer;

use super::answer::AnswerText;
use super::queue::{Submission, Turn};
use super::reply::GuardedReply;

/// One sequence in a KV slot.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) slot: u32,
    pub(super) turn: Turn,
    pub(super) deadline: Option<Instant>,
    /// Prompt, then answer.
    pub(super) tokens: Vec<u32>,
    /// How many of `tokens` have been given to the decoder: they are in the slot.
    pub(super) written: usize,
    prompt: usize,
    /// Most tokens of prompt and answer together.
    context: usize,
    parameters: Parameters,
    seed: u64,
    answer: AnswerText,
    reply: GuardedReply,
    submitted: Instant,
    first_step: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

/// What a token did to its sequence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    Continues,
    /// The answer is complete.
    Finished(Finish),
    /// The reply panicked.
    ReplyPanicked,
}

impl Sequence {
    /// Puts a request into a slot. Its forced prefix is taken as made; `Some` if the answer is complete with it.
    pub(super) fn new(
        submission: Submission,
        prompt: Vec<u32>,
        slot: u32,
        turn: Turn,
        tokenizer: &Arc<Tokenizer>,
        context: usize,
        end_tokens: &[u32],
    ) -> (Sequence, Option<Finish>) {
        let answer = AnswerText::new(Arc::clone(tokenizer), &submission.parameters.stop);
        let mut sequence = Sequence {
            id: submission.id,
            slot,
            turn,
            deadline: submission.deadline,
            prompt: prompt.len(),
            tokens: prompt,
            written: 0,
            context,
            parameters: submission.parameters,
            seed: submission.seed,
            answer,
            reply: submission.reply,
            submitted: submission.submitted,
            first_step: None,
            first_token: None,
            last_token: None,
        };
        let mut finish = sequence.length_reached().then_some(Finish::Length);
        for token in submission.prefix {
            finish = sequence.append(token, end_tokens);
            if matches!(finish, Some(Finish::End | Finish::Stop)) {
                break;
            }
        }
        let finish = finish.map(|finish| sequence.close_text(finish));
        (sequence, finish)
    }

    /// Tokens of the answer.
    pub(super) fn made(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Whether the decoder has everything but the last token: one row is all it needs.
    pub(super) fn generates(&self) -> bool {
        self.written + 1 == self.tokens.len() && self.first_token.is_some()
    }

    /// Rows the decoder has not been given.
    pub(super) fn unwritten(&self) -> usize {
        self.tokens.len() - self.written
    }

    /// Notes that a step with rows of this sequence begins.
    pub(super) fn steps_at(&mut self, now: Instant) {
        self.first_step.get_or_insert(now);
    }

    /// The parameters a token is sampled with: temperature, top-p, seed and index.
    pub(super) fn sampling(&self) -> (f32, f32, u64, u32) {
        (
            self.parameters.temperature,
            self.parameters.top_p,
            self.seed,
            self.made() as u32,
        )
    }

    /// Takes a sampled token and hands it on.
    pub(super) fn take(&mut self, token: u32, end_tokens: &[u32], now: Instant) -> Progress {
        let index = self.made() as u32;
        let certain = self.answer.certain().len();
        let finish = self
            .append(token, end_tokens)
            .map(|finish| self.close_text(finish));
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
        // The token that ends an answer is none of its tokens.
        if finish == Some(Finish::End) {
            return Progress::Finished(Finish::End);
        }
        if !self
            .reply
            .token(index, token, &self.answer.certain()[certain..])
        {
            return Progress::ReplyPanicked;
        }
        finish.map_or(Progress::Continues, Progress::Finished)
    }

    /// Appends a token to the answer, unless it ends it.
    fn append(&mut self, token: u32, end_tokens: &[u32]) -> Option<Finish> {
        if end_tokens.contains(&token) {
            return Some(Finish::End);
        }
        self.tokens.push(token);
        if self.answer.push(token) {
            return Some(Finish::Stop);
        }
        self.length_reached().then_some(Finish::Length)
    }

    /// Makes the undecided text certain; a stop string may be complete only now.
    fn close_text(&mut self, finish: Finish) -> Finish {
        let stopped = finish != Finish::Stop && self.answer.finish();
        if stopped && finish == Finish::Length {
            Finish::Stop
        } else {
            finish
        }
    }

    fn length_reached(&self) -> bool {
        self.made() >= self.parameters.max_tokens as usize || self.tokens.len() >= self.context
    }

    /// Ends the request with its answer.
    pub(super) fn finish(mut self, finish: Finish) {
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from),
            _ => std::time::Duration::ZERO,
        };
        let timings = Timings {
            queued: between(Some(self.submitted), self.first_step),
            prefill: between(self.first_step, self.first_token),
            decode: between(self.first_token, self.last_token),
        };
        let tokens = self.tokens.split_off(self.prompt);
        let prompt_tokens = self.prompt as u32;
        self.reply.done(Ok(Answer {
            text: self.answer.into_text(),
            tokens,
            prompt_tokens,
            finish,
            timings,
        }));
    }

    /// Ends the request without an answer.
    pub(super) fn fail(mut self, error: ModelError) {
        self.reply.done(Err(error));
    }
}
