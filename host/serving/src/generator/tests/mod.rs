//! The scheduler under a virtual clock: no thread, no time but what a test says.

mod ahead;
mod deadlines;
mod drafts;
mod faults;
mod forced;
mod guesses;
mod leaks;
mod pins;
mod prompts;
mod sharing;
mod slack;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_contract::{Decoder, DecoderShape, ModelError, Sampled, StepSequence};

use super::{DraftModel, Generator, Limits, StepPlan, Verdict};
use crate::costs::StepSize;
use crate::order::Moment;
use crate::pins::{Pin, Pins};
use crate::stats::{Counters, ModelStats};
use crate::tests::support::*;

/// What a step takes here: 2 ms, 20 us a prompt token, 100 us a decode row.
fn time_of(prefill: usize, decode: usize) -> Duration {
    Duration::from_micros(2000 + 20 * prefill as u64 + 100 * decode as u64)
}

fn limits() -> Limits {
    Limits {
        step_tokens: usize::MAX,
        prefill_tokens: usize::MAX,
        step_time: Duration::from_secs(1),
        sequences: usize::MAX,
        aging: Duration::from_secs(1),
        look_ahead: 0,
        end_tokens: vec![EOS],
    }
}

/// A scheduler, a fake decoder, and the time.
struct Bench {
    generator: Generator,
    decoder: Box<dyn Decoder>,
    control: Control,
    counters: Arc<Counters>,
    now: Moment,
    /// What a step takes, by its rows of prompts and of answers.
    time_of: fn(usize, usize) -> Duration,
    /// How many times as long as usual steps take.
    slow: u32,
    /// Whether the next step is begun while one runs.
    ahead: bool,
    /// That step.
    next: Option<StepPlan>,
    /// What the last step drew, as the device has it.
    drawn: Vec<Sampled>,
    /// Steps that were begun ahead, and rows of them that nobody asked for any more.
    begun_ahead: usize,
    thrown_away: usize,
}

impl Bench {
    fn new(shape: DecoderShape, limits: Limits) -> Bench {
        Bench::with(shape, limits, Arc::new(hashed), None)
    }

    fn with(
        shape: DecoderShape,
        limits: Limits,
        logits: Arc<Logits>,
        draft: Option<Box<dyn Decoder>>,
    ) -> Bench {
        Bench::of(shape, limits, logits, draft, Vec::new())
    }

    /// One with something pinned.
    fn pinned(shape: DecoderShape, limits: Limits, pins: Vec<Pin>) -> Bench {
        Bench::of(shape, limits, Arc::new(hashed), None, pins)
    }

    fn of(
        shape: DecoderShape,
        limits: Limits,
        logits: Arc<Logits>,
        draft: Option<Box<dyn Decoder>>,
        pins: Vec<Pin>,
    ) -> Bench {
        let (mut decoder, control) = Fake::alone(shape.clone(), logits);
        let pins = Pins::new("fake", pins, &shape).unwrap();
        pins.write("fake", decoder.as_mut()).unwrap();
        let counters = Arc::new(Counters::default());
        Bench {
            generator: Generator::new(
                shape,
                limits,
                Arc::clone(&counters),
                draft.map(|draft| Box::new(DraftModel::new(draft))),
                (pins, None),
            ),
            decoder,
            control,
            counters,
            now: Duration::ZERO,
            time_of,
            slow: 1,
            ahead: false,
            next: None,
            drawn: Vec::new(),
            begun_ahead: 0,
            thrown_away: 0,
        }
    }

    /// The same, with the next step begun while one runs, and a first one measured, so that the next may be.
    fn ahead(mut self, ahead: bool) -> Bench {
        if ahead {
            let first = StepSize::answers(1);
            self.generator.costs.observe(first, time_of(0, 1), self.now);
        }
        Bench { ahead, ..self }
    }

    fn submit(&mut self, ask: &Ask) -> Pending {
        self.submit_until(ask, None)
    }

    fn submit_until(&mut self, ask: &Ask, deadline: Option<Moment>) -> Pending {
        let (submission, pending) = ask.submission(self.now, deadline);
        self.generator.submit(submission);
        self.generator.hand_on();
        self.generator.check();
        pending
    }

    /// One step; what it was, if there was anything to do.
    fn step(&mut self) -> Option<Vec<StepSequence>> {
        self.step_while(|_| {})
    }

    /// The step that is to run now, and how the device has it.
    fn begin(&mut self) -> Option<(StepPlan, Vec<StepSequence>)> {
        let begun = self.next.take();
        let Some(mut plan) = begun.filter(|plan| self.generator.is_of_use(plan)) else {
            let plan = self.generator.plan(self.now)?;
            assert!(plan.fed.is_empty());
            return Some((plan, Vec::new()));
        };
        self.begun_ahead += 1;
        let before = plan.step.clone();
        let fed = plan.fed.clone();
        self.generator.fill_in(&mut plan);
        let mut on_device = plan.step.clone();
        for fed in &fed {
            let place = fed.sequence;
            assert_eq!(before[place].tokens, [0]);
            let token = self.drawn[fed.sampling].token.unwrap_or(u32::MAX);
            on_device[place].tokens = vec![token.min(VOCABULARY as u32 - 1)];
            if self.generator.index_of(plan.parts[place].key).is_some() {
                assert_eq!(on_device[place], plan.step[place], "of {before:?}");
            } else {
                self.thrown_away += 1;
            }
        }
        for (place, sequence) in plan.step.iter().enumerate() {
            let is_fed = fed.iter().any(|fed| fed.sequence == place);
            assert!(is_fed || *sequence == before[place], "known before");
            let shape = |of: &StepSequence| (of.position, of.tokens.len(), of.samples.len());
            assert_eq!(shape(sequence), shape(&before[place]));
            assert_eq!(sequence.blocks, before[place].blocks);
        }
        Some((plan, on_device))
    }

    /// One step; what is done to the scheduler while it runs.
    fn step_while(&mut self, meanwhile: impl FnOnce(&mut Generator)) -> Option<Vec<StepSequence>> {
        let begun = self.begin();
        self.generator.check();
        let Some((mut plan, mut on_device)) = begun else {
            self.generator.hand_on();
            return None;
        };
        self.generator.mask(&mut plan);
        self.generator.check();
        if on_device.is_empty() {
            on_device.clone_from(&plan.step);
        }
        for (sequence, on_device) in plan.step.iter().zip(&mut on_device) {
            on_device.samples.clone_from(&sequence.samples);
        }
        if self.ahead {
            self.next = self.generator.plan_after(&plan, self.now);
            self.generator.check();
        }
        self.generator.hand_on();
        meanwhile(&mut self.generator);
        self.generator.check();
        let mut sampled: Vec<Sampled> = Vec::new();
        let took = (self.time_of)(plan.size.prefill, plan.size.decode) * self.slow;
        self.now += took;
        let result = self
            .decoder
            .step(&on_device, &mut sampled)
            .and_then(|()| self.generator.deliver(&plan, &sampled, self.now, took));
        if let Err(error) = result {
            self.next = None;
            assert_eq!(self.generator.failed(&plan, &error), Verdict::GoesOn);
        }
        self.drawn = sampled;
        self.generator.check();
        self.generator.hand_on();
        Some(plan.step)
    }

    /// The device goes away in the middle of a step, if there is one to be done.
    fn lose(&mut self, reason: &str) {
        if let Some((plan, _)) = self.begin() {
            let after = match self.ahead {
                true => self.generator.plan_after(&plan, self.now),
                false => None,
            };
            self.generator.lost(&plan, after.as_ref(), reason);
            self.generator.hand_on();
            self.generator.check();
        }
    }

    /// After a panic: what may go on does, and the rest is closed; how many of each.
    fn begin_anew(&mut self) -> (usize, usize) {
        let abandoned = self.generator.begin_anew();
        assert!(abandoned.ended.is_empty());
        self.generator.check();
        let counts = (abandoned.moved.len(), abandoned.failed.len());
        for failed in abandoned.failed {
            failed.fail(&self.counters, ModelError::Closed);
        }
        self.generator.take_over(abandoned.moved);
        self.generator.check();
        counts
    }

    /// Steps until nothing is left; how many.
    fn run(&mut self) -> usize {
        let mut steps = 0;
        while self.step().is_some() {
            steps += 1;
            assert!(steps < 1_000_000);
        }
        assert!(
            !self.generator.has_work(),
            "work is left that is never done"
        );
        let blocks = &self.generator.blocks;
        assert_eq!(blocks.held(), blocks.pinned(), "blocks leak");
        self.control.is_sound();
        steps
    }

    fn stats(&self) -> ModelStats {
        self.counters.snapshot("", Default::default())
    }
}

/// Whether a request's answers are those it has alone.
fn check(ask: &Ask, pending: &Pending, context: usize, logits: &Logits) {
    let (handed_on, result) = pending.wait();
    let choices = match result.unwrap().made {
        tidegate_contract::Made::Choices(choices) => choices,
        made => panic!("{made:?}"),
    };
    assert_eq!(choices.len(), ask.parameters.n as usize);
    for (number, choice) in choices.iter().enumerate() {
        let (tokens, finish) = choice_alone(ask, number as u32, context, logits);
        assert_eq!(
            (&choice.tokens, choice.finish),
            (&tokens, finish),
            "choice {number} of {ask:?}"
        );
        let wanted = match ask.parameters.logprobs {
            Some(_) => tokens.len(),
            None => 0,
        };
        assert_eq!(choice.logprobs.len(), wanted);
        for (logprob, token) in choice.logprobs.iter().zip(&tokens) {
            assert!(logprob.token == *token && logprob.top.len() == 2 && logprob.logprob <= 0.0);
        }
    }
    // Tokens are handed on of the first only, each once and in order.
    let wanted: Vec<(u32, u32)> = (0..).zip(choices[0].tokens.iter().copied()).collect();
    let handed_on: Vec<(u32, u32)> = handed_on.iter().map(|(i, t, _)| (*i, *t)).collect();
    assert_eq!(handed_on, wanted);
}

#[test]
fn an_answer_is_the_same_at_batch_1_3_8_and_32() {
    let mut dice = Dice(5);
    let asks: Vec<Ask> = (0..32).map(|_| dice.ask(40, 24)).collect();
    for (batch, ahead) in [1, 3, 8, 32].map(|n| [(n, false), (n, true)]).concat() {
        for step_tokens in [usize::MAX, 40] {
            let limits = Limits {
                sequences: batch,
                step_tokens,
                ..limits()
            };
            let mut bench = Bench::new(shape(batch, 256, 96), limits).ahead(ahead);
            let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
            let steps = bench.run();
            assert!(bench.begun_ahead * 2 > steps || !ahead, "{steps} steps");
            for (ask, pending) in asks.iter().zip(&pending) {
                check(ask, pending, 96, &hashed);
            }
            let stats = bench.stats();
            assert_eq!(stats.answered, 32);
            // What is spread over time is of the same requests, steps and tokens.
            let counts = [
                &stats.queue_seconds,
                &stats.first_token_seconds,
                &stats.step_seconds,
            ];
            let counts = counts.map(|spread| spread.count());
            assert_eq!(counts, [32, 32, stats.steps], "{stats:?}");
            let choices: u32 = asks.iter().map(|ask| ask.parameters.n).sum();
            let between = stats.between_tokens_seconds.count();
            assert!(between + u64::from(choices) >= stats.tokens, "{stats:?}");
            assert_eq!(stats.prompt_rows, stats.prompt_tokens);
            assert!(stats.prompt_rows < stats.rows, "{stats:?}");
        }
    }
}

#[test]
fn a_preempted_answer_is_the_same() {
    let mut dice = Dice(6);
    let asks: Vec<Ask> = (0..40).map(|_| dice.ask(40, 60)).collect();
    let mut few = shape(1, 64, 128);
    few.blocks = 9;
    for ahead in [false, true] {
        let mut bench = Bench::new(few.clone(), limits()).ahead(ahead);
        let pending: Vec<Pending> = asks.iter().map(|ask| bench.submit(ask)).collect();
        bench.run();
        for (ask, pending) in asks.iter().zip(&pending) {
            check(ask, pending, 128, &hashed);
        }
        let stats = bench.stats();
        assert!(stats.preemptions > 5, "{stats:?}");
        assert!(stats.prefix_hit_tokens > 0, "{stats:?}");
        assert!(
            stats.prefix_hit_tokens <= stats.prefix_query_tokens,
            "{stats:?}"
        );
        assert_eq!(bench.begun_ahead > 0, ahead);
    }
}

/// Counts calls for seeds of generated tests.
fn next_seed() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(1);
    SEED.fetch_add(1, Ordering::Relaxed)
}
