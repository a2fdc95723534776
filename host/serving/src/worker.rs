//! The engine's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use tidegate_contract::{ModelError, RequestId};
use tidegate_text::Tokenizer;

use super::plan::StepPlan;
use super::queue::{Submission, WaitingQueue};
use super::sequence::{Progress, Sequence};
use super::stats::Shared;
use super::{EngineOptions, Reload, sampler};
use crate::decoder::{DecodeError, Decoder};

/// Failed steps in a row after which the engine ends.
const FAILURES: u32 = 3;
/// Commands taken between two steps, so that a flood of them does not hold up the steps.
const COMMANDS_PER_STEP: usize = 1024;
/// How long an idle thread sleeps at most.
const IDLE: Duration = Duration::from_secs(1);

/// Between two attempts to load the model again: a driver that restarts takes a moment.
const RELOAD_PAUSE: Duration = Duration::from_millis(250);

/// What callers ask of the thread.
pub(super) enum Command {
    Submit(Box<Submission>),
    Cancel(RequestId),
    Close,
}

pub(super) struct Worker {
    decoder: Box<dyn Decoder>,
    reload: Option<Reload>,
    tokenizer: Arc<Tokenizer>,
    options: EngineOptions,
    end_tokens: Vec<u32>,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    waiting: WaitingQueue,
    /// In the order of their turns.
    running: Vec<Sequence>,
    free_slots: Vec<u32>,
    plan: StepPlan,
    /// `[rows that want logits, vocabulary]`
    logits: Vec<f32>,
    /// Where the next step begins among the sequences that generate.
    turn: usize,
    failures: u32,
}

impl Worker {
    pub(super) fn new(
        decoder: Box<dyn Decoder>,
        reload: Option<Reload>,
        tokenizer: Arc<Tokenizer>,
        options: EngineOptions,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Worker {
        let slots = decoder.shape().slots as u32;
        let mut end_tokens = options.end_tokens.clone();
        end_tokens.extend(tokenizer.eos());
        Worker {
            decoder,
            reload,
            tokenizer,
            options,
            end_tokens,
            shared,
            commands,
            waiting: WaitingQueue::default(),
            running: Vec::new(),
            free_slots: (0..slots).rev().collect(),
            plan: StepPlan::default(),
            logits: Vec::new(),
            turn: 0,
            failures: 0,
        }
    }

    /// Runs until the engine is closed or the decoder is given up. What is then left is answered `Closed` by the
    /// replies themselves.
    pub(super) fn run(mut self) {
        let shape = self.decoder.shape();
        if shape.slots == 0
            || shape.max_rows == 0
            || shape.context < 2
            || self.options.step_rows == 0
        {
            tracing::error!(
                ?shape,
                step_rows = self.options.step_rows,
                "the engine cannot run: a size is zero"
            );
            self.shared.closed.store(true, Ordering::Release);
        }
        while !self.shared.closed.load(Ordering::Acquire) && self.take_commands() {
            let now = Instant::now();
            self.expire(now);
            self.admit();
            if !self.running.is_empty() {
                self.step();
            }
        }
        self.shared.closed.store(true, Ordering::Release);
        for sequence in self.running.drain(..) {
            sequence.fail(ModelError::Closed);
        }
        self.shared.running.store(0, Ordering::Relaxed);
    }

    /// Takes what callers asked for; waits if there is nothing to do. False when the engine is to end.
    fn take_commands(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            match self.commands.recv_timeout(IDLE) {
                Ok(command) => {
                    if !self.obey(command) {
                        return false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        for _ in 0..COMMANDS_PER_STEP {
            match self.commands.try_recv() {
                Ok(command) => {
                    if !self.obey(command) {
                        return false;
                    }
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Submit(submission) => {
                let mut submission = *submission;
                match &submission.prompt {
                    Ok(_) => self.waiting.push(submission),
                    Err(error) => {
                        let error = error.clone();
                        self.refuse(&mut submission, error);
                    }
                }
            }
            Command::Cancel(id) => {
                for mut submission in self.waiting.cancel(id) {
                    self.refuse(&mut submission, ModelError::Cancelled);
                }
                self.end_where(|sequence| (sequence.id == id).then_some(ModelError::Cancelled));
            }
            Command::Close => return false,
        }
        true
    }

    /// Ends a request that has no slot.
    fn refuse(&self, submission: &mut Submission, error: ModelError) {
        Shared::add(&self.shared.failed, 1);
        submission.reply.done(Err(error));
    }

    /// Ends the running requests for which `why` has a reason.
    fn end_where(&mut self, why: impl Fn(&Sequence) -> Option<ModelError>) {
        let mut index = 0;
        while index < self.running.len() {
            match why(&self.running[index]) {
                Some(error) => self.release(index).fail(error),
                None => index += 1,
            }
        }
    }

    /// Takes a sequence that ends with an error out of its slot.
    fn release(&mut self, index: usize) -> Sequence {
        Shared::add(&self.shared.failed, 1);
        self.take_out(index)
    }

    fn take_out(&mut self, index: usize) -> Sequence {
        let sequence = self.running.remove(index);
        self.free_slots.push(sequence.slot);
        self.shared
            .running
            .store(self.running.len(), Ordering::Relaxed);
        sequence
    }

    fn expire(&mut self, now: Instant) {
        for mut submission in self.waiting.expire(now) {
            let made = submission.prefix.len();
            self.refuse(&mut submission, ModelError::Expired { made });
        }
        self.end_where(|sequence| {
            let passed = sequence.deadline.is_some_and(|deadline| deadline <= now);
            passed.then(|| ModelError::Expired {
                made: sequence.made(),
            })
        });
    }

    /// Gives the free slots to those whose turn it is.
    fn admit(&mut self) {
        let context = self.shared.context;
        while let Some(slot) = self.free_slots.pop() {
            let Some((turn, mut submission)) = self.waiting.pop() else {
                self.free_slots.push(slot);
                break;
            };
            let prompt =
                match std::mem::replace(&mut submission.prompt, Err(ModelError::EmptyPrompt)) {
                    Ok(prompt) => prompt,
                    Err(error) => {
                        self.free_slots.push(slot);
                        self.refuse(&mut submission, error);
                        continue;
                    }
                };
            let (sequence, finish) = Sequence::new(
                submission,
                prompt,
                slot,
                turn,
                &self.tokenizer,
                context,
                &self.end_tokens,
            );
            if let Some(finish) = finish {
                self.free_slots.push(slot);
                Shared::add(&self.shared.answered, 1);
                sequence.finish(finish);
                continue;
            }
            let place = self
                .running
                .partition_point(|other| other.turn < sequence.turn);
            self.running.insert(place, sequence);
            self.shared
                .running
                .store(self.running.len(), Ordering::Relaxed);
        }
    }

    fn step(&mut self) {
        let budget = self.options.step_rows.min(self.decoder.shape().max_rows);
        self.plan
            .fill(&self.running, budget, self.options.prefill_rows, self.turn);
        self.turn = self.turn.wrapping_add(1);
        let began = Instant::now();
        for (index, _) in &self.plan.parts {
            self.running[*index].steps_at(began);
        }
        let (decoder, plan, logits) = (&mut self.decoder, &self.plan, &mut self.logits);
        let result = catch_unwind(AssertUnwindSafe(|| decoder.step(&plan.rows, logits)))
            .unwrap_or_else(|_| {
                Err(DecodeError::Device {
                    reason: "the decoder panicked".into(),
                })
            });
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared
            .step_nanoseconds
            .fetch_add(took, Ordering::Relaxed);
        Shared::add(&self.shared.steps, 1);
        Shared::add(&self.shared.rows, self.plan.rows.len());
        self.shared
            .largest_batch
            .fetch_max(self.plan.parts.len(), Ordering::Relaxed);

        let wanted = self.plan.wanted.len() * self.shared.vocabulary;
        let result = result.and_then(|()| match self.logits.len() == wanted {
            true => Ok(()),
            false => Err(DecodeError::Device {
                reason: format!("{} logits, not {wanted}", self.logits.len()),
            }),
        });
        match result {
            Ok(()) => {
                self.failures = 0;
                self.deliver();
            }
            Err(error) => self.step_failed(&error),
        }
    }

    /// Samples and hands on the tokens of the last step, and ends what is complete.
    fn deliver(&mut self) {
        let now = Instant::now();
        for (index, rows) in &self.plan.parts {
            let sequence = &mut self.running[*index];
            if !sequence.generates() {
                Shared::add(&self.shared.prompt_tokens, *rows);
            }
            sequence.written += rows;
        }
        let mut ended = Vec::new();
        for (index, logits) in self
            .plan
            .wanted
            .iter()
            .zip(self.logits.chunks_exact(self.shared.vocabulary))
        {
            let sequence = &mut self.running[*index];
            let (temperature, top_p, seed, place) = sequence.sampling();
            match sampler::sample(logits, temperature, top_p, seed, place) {
                Some(token) => {
                    Shared::add(&self.shared.tokens, 1);
                    match sequence.take(token, &self.end_tokens, now) {
                        Progress::Continues => {}
                        Progress::Finished(finish) => ended.push((*index, Ok(finish))),
                        Progress::ReplyPanicked => ended.push((*index, Err(ModelError::Cancelled))),
                    }
                }
                None => {
                    let reason = format!("no logit of token {place} is a number");
                    ended.push((*index, Err(ModelError::Device(reason))));
                }
            }
        }
        // From the back, so that the indices stay true.
        ended.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, end) in ended {
            match end {
                Ok(finish) => {
                    Shared::add(&self.shared.answered, 1);
                    self.take_out(index).finish(finish);
                }
                Err(error) => self.release(index).fail(error),
            }
        }
    }

    /// The decoder failed: what runs fails with it, what waits is tried next.
    fn step_failed(&mut self, error: &DecodeError) {
        self.failures += 1;
        Shared::add(&self.shared.failed_steps, 1);
        tracing::error!(%error, failures = self.failures, running = self.running.len(), "a step of the model failed");
        let mut useless = matches!(
            error,
            DecodeError::DeviceLost { .. }
                | DecodeError::OutOfMemory { .. }
                | DecodeError::DeadlineExceeded { .. }
        );
        while useless && self.failures < FAILURES {
            let Some(reload) = &mut self.reload else {
                break;
            };
            let loaded = catch_unwind(AssertUnwindSafe(reload))
                .unwrap_or_else(|_| Err("loading panicked".into()));
            match loaded {
                Ok(decoder) if decoder.shape() == self.decoder.shape() => {
                    tracing::warn!("the model was loaded again");
                    self.decoder = decoder;
                    useless = false;
                }
                Ok(_) => {
                    tracing::error!("the model that was loaded again has another shape");
                    break;
                }
                Err(reason) => {
                    self.failures += 1;
                    tracing::error!(%reason, failures = self.failures, "the model could not be loaded again");
                    std::thread::sleep(RELOAD_PAUSE);
                }
            }
        }
        if self.failures >= FAILURES {
            tracing::error!(%error, "the engine ends: its decoder is of no more use");
            self.shared.closed.store(true, Ordering::Release);
        }
        let reason = error.to_string();
        self.end_where(|_| Some(ModelError::Device(reason.clone())));
    }
}
