//! The scheduler of one decoder: which requests run, and what the next step is.
//!
//! It has no thread and no clock: the time is given to it. A step is made in two halves, [`Generator::plan`] and, when
//! the decoder has run it, [`Generator::deliver`] or [`Generator::failed`]. In between, while it runs, masks are made
//! ([`Generator::mask`]) and those who asked are told what the step before has made ([`Generator::hand_on`]). Requests come
//! and go at any time: whoever has gone when a step comes back has no part in what it made. While it runs the next one can
//! be planned already ([`Generator::plan_after`]), and is filled in when the first was delivered ([`Generator::fill_in`]).
//!
//! A step has a budget of rows: first one for every answer in the making, then guesses, then prompts in pieces, each in
//! the order of [`crate::order::QueueKey::rank`]. Where KV blocks run out, the worst ranked gives its own back and is
//! queued again with its tokens.
//!
//! Where a structure leaves one token only, that is known before it is drawn, and so is what can only follow it. Those
//! tokens are taken with the drawn one, and are rows of the answer's next step together, as those of a prompt are.

mod admit;
mod ahead;
mod alike;
mod deliver;
mod draft;
mod drafting;
mod fault;
mod generation;
mod moved;
mod step_plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_contract::{BLOCK, DecoderShape, Finish, ModelError, RequestId};

use crate::answer::AnswerText;
use crate::blocks::{Blocks, Table};
use crate::constraint::Constraint;
use crate::costs::{Beside, StepCosts, StepSize};
use crate::guard::guarded_request;
use crate::order::{Moment, Rank};
use crate::parameters::choice_seed;
use crate::pins::Pins;
use crate::replicas::Known;
use crate::request::{Open, Submission, Work};
use crate::sequence::{Sequence, SequenceIdentity};
use crate::stats::Counters;

use ahead::Ahead;
pub(crate) use deliver::Took;
pub(crate) use draft::DraftModel;
use drafting::Drafting;
pub(crate) use fault::{Groups, Verdict};
pub(crate) use generation::Generation;
pub(crate) use moved::{Abandoned, MovedGeneration};
pub(crate) use step_plan::StepPlan;

/// The sizes a generator keeps to.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) step_tokens: usize,
    pub(crate) prefill_tokens: usize,
    pub(crate) step_time: Duration,
    pub(crate) sequences: usize,
    pub(crate) aging: Duration,
    pub(crate) look_ahead: usize,
    pub(crate) end_tokens: Vec<u32>,
}

impl Limits {
    /// Cut down to what a decoder can do.
    pub(crate) fn within(mut self, shape: &DecoderShape) -> Limits {
        self.step_tokens = self.step_tokens.min(shape.max_rows);
        self.sequences = self.sequences.min(self.step_tokens).min(shape.max_samples);
        self.prefill_tokens = self.prefill_tokens.max(1);
        self
    }
}

/// Positions of a sequence: those of the model, as far as the blocks reach.
pub(crate) fn context_of(shape: &DecoderShape) -> usize {
    shape.context.min(shape.blocks.saturating_mul(BLOCK))
}

/// The key of the first answer to the request of this number; those of the others follow it.
fn first_of(request: u64) -> u64 {
    request + 1
}

/// Everything of a decoder model but the decoder.
pub(crate) struct Generator {
    shape: DecoderShape,
    limits: Limits,
    counters: Arc<Counters>,
    blocks: Blocks,
    pins: Pins,
    /// The tables of what is pinned; none while the decoder is away, and with it what was written.
    pinned: Vec<Table>,
    draft: Drafting,
    requests: HashMap<u64, Generation>,
    /// Requests with something to tell.
    to_tell: BTreeSet<u64>,
    /// Requests that have all their answers, and are yet to be told so.
    ended: Vec<Generation>,
    /// Without blocks, by their keys, which follow the number of their request ([`first_of`]): what ends one request
    /// looks at no other.
    waiting: BTreeMap<u64, Sequence>,
    /// With blocks.
    running: Vec<Sequence>,
    costs: StepCosts,
    /// What ran when the step was begun: one for a whole step, so that its order is one.
    beside: Beside,
    /// No request's deadline is earlier than this; none has one if there is none.
    none_late_before: Option<Moment>,
    /// Where a step failed without a known culprit: whom to try apart.
    groups: Groups,
    /// Who is in the steps that were begun and have not ended, in their order: one, or one and the step after it.
    in_steps: VecDeque<Vec<u64>>,
    ahead: Ahead,
    /// Where other threads can see what is kept in blocks.
    known: Option<Arc<Known>>,
}

/// The next of the numbers of requests and of their answers' keys: the same in no two schedulers, as requests move among them.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of a request with so many answers, whose keys are those that follow it.
fn number_of(answers: u32) -> u64 {
    NEXT.fetch_add(1 + u64::from(answers), Ordering::Relaxed)
}

impl Generator {
    /// One for a decoder that has computed what is pinned.
    pub(crate) fn new(
        shape: DecoderShape,
        limits: Limits,
        counters: Arc<Counters>,
        draft: Option<Box<DraftModel>>,
        (pins, known): (Pins, Option<Arc<Known>>),
    ) -> Generator {
        let mut blocks = Blocks::new(shape.blocks).known_to(known.as_ref());
        Generator {
            limits: limits.within(&shape),
            pinned: pins.take(&mut blocks),
            pins,
            blocks,
            shape,
            counters,
            draft: Drafting::new(draft),
            requests: HashMap::new(),
            to_tell: BTreeSet::new(),
            ended: Vec::new(),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            costs: StepCosts::default(),
            beside: Beside::default(),
            none_late_before: None,
            groups: Groups::default(),
            in_steps: VecDeque::new(),
            ahead: Ahead::default(),
            known,
        }
    }

    /// Takes a request; what can be answered without a step is answered here.
    pub(crate) fn submit(&mut self, submission: Submission) {
        let answers = match &submission.work {
            Ok(Work::Generate { parameters, .. }) => parameters.n,
            _ => 0,
        };
        let number = number_of(answers);
        let lora = submission.lora;
        let (open, work) = Open::new(submission, number, 0);
        let mut generation = Generation::new(open);
        let (prompt, detokenizer, prefix, seed, parameters, (matcher, thinking), lanes) = match work
        {
            Ok(Work::Generate {
                prompt,
                detokenizer,
                prefix,
                seed,
                parameters,
                matcher,
                thinking,
                lanes,
            }) => (
                prompt,
                detokenizer,
                prefix,
                seed,
                Arc::new(parameters),
                (matcher, thinking),
                lanes,
            ),
            Ok(Work::Encode { .. }) => {
                let reason = "a text to encode came to a decoder".to_owned();
                return generation.fail(&self.counters, ModelError::Device(reason));
            }
            Err(error) => return generation.fail(&self.counters, error),
        };
        generation.open.prompt_tokens = prompt.len();
        generation.choices.resize(parameters.n as usize, None);
        let mut sequences = Vec::with_capacity(parameters.n as usize);
        let mut begin = |generation: &mut Generation, choice: u32| -> Result<(), ModelError> {
            let identity = SequenceIdentity {
                key: first_of(number) + u64::from(choice),
                request: number,
                choice,
                context: context_of(&self.shape),
                seed,
                queue_key: generation.open.queue_key,
                lora,
            };
            let constraint = (matcher.is_some() || thinking.is_some()).then(|| {
                let (matcher, thinking) = (matcher.as_deref(), thinking.as_deref());
                Constraint::new(matcher.cloned(), thinking.cloned(), self.shape.vocabulary)
            });
            let lanes = lanes.as_deref().map(|lanes| {
                let lanes = lanes.clone();
                let seed = choice_seed(lanes.seed(), choice);
                lanes.with_seed(seed)
            });
            let made = Sequence::new(
                identity,
                prompt.clone(),
                if choice == 0 { &prefix } else { &[] },
                Arc::clone(&parameters),
                AnswerText::new(
                    detokenizer.as_ref().clone(),
                    &parameters.stop,
                    lanes,
                    generation.open.reply.wants_pieces(),
                ),
                constraint,
                &self.limits.end_tokens,
            );
            match made? {
                (mut sequence, None) => {
                    generation.keep_pieces(&mut sequence);
                    sequences.push(sequence);
                }
                (sequence, Some(finish)) => generation.complete(sequence, finish),
            }
            Ok(())
        };
        let begun = guarded_request(|| {
            (0..parameters.n).try_for_each(|choice| begin(&mut generation, choice))
        });
        if let Err(error) = begun.and_then(|begun| begun) {
            return generation.fail(&self.counters, error);
        }
        self.waiting.extend(
            sequences
                .into_iter()
                .map(|sequence| (sequence.key, sequence)),
        );
        let deadline = generation.open.queue_key.deadline;
        self.none_late_before = self.none_late_before.into_iter().chain(deadline).min();
        self.requests.insert(number, generation);
        self.to_tell.insert(number);
        self.end_if_complete(number);
    }

    /// Tells those who asked what was made for them, and is yet to be told. A reply that panics cancels its request.
    pub(crate) fn hand_on(&mut self) {
        for generation in std::mem::take(&mut self.ended) {
            generation.end(&self.counters);
        }
        for request in std::mem::take(&mut self.to_tell) {
            let generation = self.requests.get_mut(&request);
            if generation.is_some_and(|generation| !generation.hand_on()) {
                self.fail(request, ModelError::Cancelled);
            }
        }
    }

    /// Ends the requests of this number.
    pub(crate) fn cancel(&mut self, id: RequestId) {
        let of_id = |(_, generation): &(&u64, &Generation)| generation.open.id == id;
        let found: Vec<u64> = self
            .requests
            .iter()
            .filter(of_id)
            .map(|(key, _)| *key)
            .collect();
        for request in found {
            self.fail(request, ModelError::Cancelled);
        }
    }

    /// Ends the answers to the requests of this number with what they have. Their blocks are free when this returns.
    pub(crate) fn end(&mut self, id: RequestId) {
        let of_id = |(_, generation): &(&u64, &Generation)| generation.open.id == id;
        let found: Vec<(u64, usize)> = self
            .requests
            .iter()
            .filter(of_id)
            .map(|(key, generation)| (*key, generation.choices.len()))
            .collect();
        for (request, choices) in found {
            for key in (first_of(request)..).take(choices) {
                if let Some(index) = self.index_of(key) {
                    let mut sequence = self.running.remove(index);
                    self.let_go(&mut sequence);
                    self.complete(sequence, Finish::Filtered);
                } else if let Some(sequence) = self.waiting.remove(&key) {
                    self.complete(sequence, Finish::Filtered);
                }
            }
            self.end_if_complete(request);
        }
    }

    /// Ends the requests whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Moment) {
        if self.none_late_before.is_none_or(|earliest| now < earliest) {
            return;
        }
        let late = |(_, generation): &(&u64, &Generation)| generation.open.is_late(now);
        let mut found: Vec<u64> = self
            .requests
            .iter()
            .filter(late)
            .map(|(key, _)| *key)
            .collect();
        found.sort_unstable();
        for request in found {
            let made = self.made(request);
            self.fail(request, ModelError::Expired { made });
        }
        self.none_late_before = self.deadline();
    }

    /// Whether there is anything to make.
    pub(crate) fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Whether some of it is of the stream, and not beside it.
    pub(crate) fn has_work_of_the_stream(&self) -> bool {
        let mut requests = self.requests.values();
        requests.any(|generation| !generation.open.queue_key.is_beside())
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let deadlines = self.requests.values();
        deadlines.filter_map(|g| g.open.queue_key.deadline).min()
    }

    /// Ends every request.
    pub(crate) fn fail_all(&mut self, error: &ModelError) {
        let mut all: Vec<u64> = self.requests.keys().copied().collect();
        all.sort_unstable();
        for request in all {
            self.fail(request, error.clone());
        }
        self.hand_on();
    }

    /// Looks at who generates now.
    fn look_beside(&mut self) {
        let generating = self.running.iter().filter(|s| s.generates());
        let mut answers = generating.fold(StepSize::default(), |answers, sequence| {
            answers.with_answer(1, sequence.position())
        });
        let rows_per_step = match answers.decode {
            0 => self.limits.step_tokens,
            _ => self.limits.step_tokens.min(self.limits.prefill_tokens),
        };
        answers.decode = answers.decode.max(1);
        self.beside = Beside {
            answers,
            rows_per_step,
        };
    }

    /// The order in which sequences go: their request's with the work they were queued with, then their place in it.
    fn rank(&self, sequence: &Sequence, now: Moment) -> (Rank, u32) {
        let work = self.costs.time_for(sequence.remaining, self.beside);
        let rank = sequence.queue_key.rank(now, self.limits.aging, work);
        (rank, sequence.choice)
    }

    /// Keys of the running, best ranked first.
    fn running_in_order(&self, now: Moment) -> Vec<u64> {
        let mut order: Vec<((Rank, u32), u64)> = self
            .running
            .iter()
            .map(|sequence| (self.rank(sequence, now), sequence.key))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, key)| key).collect()
    }

    fn index_of(&self, key: u64) -> Option<usize> {
        self.running.iter().position(|sequence| sequence.key == key)
    }

    /// Answer tokens of a request's first choice so far.
    fn made(&self, request: u64) -> usize {
        let first = first_of(request);
        let running = self.index_of(first).map(|index| &self.running[index]);
        match running.or_else(|| self.waiting.get(&first)) {
            Some(sequence) => sequence.made(),
            None => self
                .requests
                .get(&request)
                .and_then(|generation| generation.choices.first())
                .and_then(Option::as_ref)
                .map_or(0, |choice| choice.tokens.len()),
        }
    }

    /// Takes a running sequence's blocks from it and queues it again.
    fn preempt(&mut self, index: usize) {
        let mut sequence = self.running.remove(index);
        self.blocks.release(&mut sequence.table);
        sequence.queue();
        self.draft.forget(sequence.key);
        self.waiting.insert(sequence.key, sequence);
    }

    /// A sequence is complete.
    fn finish(&mut self, key: u64, finish: Finish) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let mut sequence = self.running.remove(index);
        self.let_go(&mut sequence);
        let request = sequence.request;
        self.complete(sequence, finish);
        self.end_if_complete(request);
    }

    /// Keeps an answer that has ended; where its text panics, its request fails.
    fn complete(&mut self, mut sequence: Sequence, finish: Finish) {
        let request = sequence.request;
        let Some(generation) = self.requests.get_mut(&request) else {
            return;
        };
        self.to_tell.insert(request);
        let completed = guarded_request(|| {
            if finish == Finish::Filtered {
                sequence.end();
            }
            generation.complete(sequence, finish);
        });
        if let Err(panicked) = completed {
            self.fail(request, panicked);
        }
    }

    fn end_if_complete(&mut self, request: u64) {
        if !(self.requests.get(&request)).is_some_and(Generation::is_complete) {
            return;
        }
        self.ended.extend(self.requests.remove(&request));
    }

    /// Ends a request without an answer.
    fn fail(&mut self, request: u64, error: ModelError) {
        let (gone, kept) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|sequence| sequence.request == request);
        self.running = kept;
        for mut sequence in gone as Vec<Sequence> {
            self.let_go(&mut sequence);
        }
        if let Some(generation) = self.requests.remove(&request) {
            for key in (first_of(request)..).take(generation.choices.len()) {
                self.waiting.remove(&key);
            }
            generation.fail(&self.counters, error);
        }
    }

    fn let_go(&mut self, sequence: &mut Sequence) {
        #[cfg(test)]
        sequence.may_panic("blocks");
        self.blocks.release(&mut sequence.table);
        self.draft.forget(sequence.key);
    }

    /// What must hold between two steps.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let running = self.running.iter().map(|s| &s.table);
        self.blocks.check(running.chain(&self.pinned));
        self.draft.check(|key| self.index_of(key).is_some());
        assert!(self.running.len() <= self.limits.sequences);
        for sequence in &self.running {
            assert!(sequence.written < sequence.tokens.len());
            assert!(sequence.table.blocks().len() * BLOCK >= sequence.written);
        }
        for sequence in self.waiting.values() {
            assert!(sequence.written == 0 && sequence.table.blocks().is_empty());
            assert!(sequence.is_in_no_step());
        }
        for sequence in self.running.iter().chain(self.waiting.values()) {
            let place = sequence.key - first_of(sequence.request);
            assert_eq!(place, u64::from(sequence.choice));
        }
        assert!(match (self.none_late_before, self.deadline()) {
            (_, None) => true,
            (bound, Some(earliest)) => bound.is_some_and(|bound| bound <= earliest),
        });
        for (key, generation) in &self.requests {
            let made = generation.choices.iter().flatten().count();
            let all = self.running.iter().chain(self.waiting.values());
            let open = all.filter(|sequence| sequence.request == *key).count();
            assert_eq!(made + open, generation.choices.len());
            assert!(open > 0, "a complete request is still open");
        }
    }

    /// Tells the gauges.
    pub(crate) fn report(&self) {
        Counters::set(&self.counters.running, self.running.len());
        Counters::set(&self.counters.blocks, self.blocks.count());
        let pinned = self.blocks.pinned();
        let used = self.blocks.held() - self.blocks.pinned_idle();
        Counters::set(&self.counters.blocks_used, used);
        Counters::set(&self.counters.blocks_pinned, pinned);
        Counters::set(&self.counters.blocks_cached, self.blocks.idle());
    }
}
