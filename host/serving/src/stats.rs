//! What is counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tidegate_contract::ModelError;
use tidegate_telemetry::metrics::{Histogram, REQUEST_SECONDS, Spread, TOKEN_SECONDS};

use crate::costs::StepSize;
use crate::options::LoadedLora;
use crate::request::CLASSES;

/// A snapshot of an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// Bytes that models may hold together.
    pub budget: u64,
    /// Bytes that they hold, or are about to.
    pub used: u64,
    /// Whether the engine takes no more requests.
    pub closed: bool,
    /// The models that can be asked, by name.
    pub models: Vec<ModelStats>,
}

/// A snapshot of a model's counters; those of totals only grow until it is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelStats {
    /// Its name.
    pub name: String,
    /// When it was loaded, from which its totals count; none if it is not.
    pub since: Option<SystemTime>,
    /// Bytes it holds on the device, its draft model included.
    pub memory: u64,
    /// Whether it has ended.
    pub closed: bool,
    /// Whether none of its replicas serves, or it has no other than one that is away: it is loaded again, or does not go on.
    pub away: bool,
    /// Requests that wait for their first step.
    pub waiting: usize,
    /// The same by class.
    pub waiting_by_class: [usize; CLASSES],
    /// Answers or texts in the making.
    pub running: usize,
    /// KV blocks there are.
    pub blocks: usize,
    /// KV blocks that answers in the making hold.
    pub blocks_used: usize,
    /// KV blocks that are kept for prompts that begin alike, held by none.
    pub blocks_cached: usize,
    /// KV blocks that are pinned, whether or not answers in the making hold them too.
    pub blocks_pinned: usize,
    /// Requests that ended with an answer, in total.
    pub answered: u64,
    /// Requests of the stream that ended with an error, in total: those of the next three together.
    pub failed: u64,
    /// Requests whose deadline passed, in total.
    pub expired: u64,
    /// Requests that could not meet their deadline, in total.
    pub hopeless: u64,
    /// Requests that ended with another error, in total.
    pub failed_otherwise: u64,
    /// Requests that were cancelled, in total: whoever asked has gone, and no model has failed.
    pub cancelled: u64,
    /// Requests given back because the queue was full, in total.
    pub refused: u64,
    /// Answer tokens made, in total.
    pub tokens: u64,
    /// Of these, those of reasoning that has a lane of its own, in total.
    pub reasoning_tokens: u64,
    /// Of the answer tokens, those that were not drawn, as a structure allowed no other, in total.
    pub forced: u64,
    /// Prompt and forced-prefix tokens taken in, in total, those found in kept blocks not included.
    pub prompt_tokens: u64,
    /// Tokens that were found in kept blocks, in total.
    pub prefix_hit_tokens: u64,
    /// Tokens that were looked for in kept blocks, in total.
    pub prefix_query_tokens: u64,
    /// Answers in the making that lost their blocks to others, in total.
    pub preemptions: u64,
    /// Requests that went on after a fault of the device, in total.
    pub retried: u64,
    /// Times the model was loaded again after a fault, in total.
    pub reloads: u64,
    /// Times the draft model failed a step or could not be loaded again, in total.
    pub draft_failures: u64,
    /// Times the draft model alone was loaded again, in total.
    pub draft_reloads: u64,
    /// Tokens guessed ahead, in total.
    pub drafted: u64,
    /// Guesses that were right, in total.
    pub accepted: u64,
    /// Guesses that were wrong, in total; nobody knows of those of a step that failed.
    pub rejected: u64,
    /// Steps, failed ones included, in total.
    pub steps: u64,
    /// Steps that failed, in total.
    pub failed_steps: u64,
    /// Rows of all steps, in total: those of the next two together.
    pub rows: u64,
    /// Rows of prompts and texts, in total.
    pub prompt_rows: u64,
    /// Rows of answers, in total.
    pub answer_rows: u64,
    /// Time spent in steps, in total.
    pub step_time: Duration,
    /// Most sequences or texts in one step so far.
    pub largest_batch: usize,
    /// Measured, on the whole: what a step takes without any row.
    pub step_fixed: Duration,
    /// Measured, on the whole: what a prompt token adds.
    pub step_per_prefill_token: Duration,
    /// Measured, on the whole: what a decode row adds.
    pub step_per_decode_row: Duration,
    /// How long requests waited for their first step; this and the next two of those of a stream alone.
    pub queue_seconds: Spread,
    /// How long it took from a request to its first token.
    pub first_token_seconds: Spread,
    /// How long it took from one token of an answer to the next.
    pub between_tokens_seconds: Spread,
    /// How long steps took.
    pub step_seconds: Spread,
    /// Requests that came to it from another replica, which could do no more or had more to do, in total.
    pub moved: u64,
    /// What those that stood under its name before still do.
    pub replaced: ReplacedStats,
    /// Where it has several, or some of them were left out: its replicas.
    pub replicas: Vec<ReplicaStats>,
    /// Its low-rank adapters, in the order of their numbers.
    pub loras: Vec<LoraStats>,
}

/// A low-rank adapter of a model, and what it was asked; all of it is in the model's own figures, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoraStats {
    /// What it is.
    pub lora: LoadedLora,
    /// Requests that ended with an answer, in total.
    pub answered: u64,
    /// Requests of the stream that ended with an error, in total.
    pub failed: u64,
    /// Requests that were cancelled, in total.
    pub cancelled: u64,
    /// Prompt and forced-prefix tokens taken in, in total, those found in kept blocks not included.
    pub prompt_tokens: u64,
    /// Tokens that were found in kept blocks, in total.
    pub prefix_hit_tokens: u64,
    /// Answer tokens made, in total.
    pub tokens: u64,
}

/// How a replica stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplicaStanding {
    /// It takes requests.
    #[default]
    Serves,
    /// Its device has failed, and it is loaded again.
    Away,
    /// Its engine's thread does not go on.
    Stalled,
    /// It was given up, or never came, for this reason.
    LeftOut(String),
}

/// A model on one adapter, of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStats {
    /// The adapter.
    pub adapter: String,
    /// Whether it takes requests.
    pub standing: ReplicaStanding,
    /// How long until it is tried again, if it was left out and is: zero while it is being tried.
    pub again: Option<Duration>,
    /// Bytes it holds there.
    pub memory: u64,
    /// Answers or texts in the making.
    pub running: usize,
    /// KV blocks there are.
    pub blocks: usize,
    /// KV blocks that answers in the making hold.
    pub blocks_used: usize,
    /// Requests that ended with an answer, in total.
    pub answered: u64,
    /// Answer tokens made, in total.
    pub tokens: u64,
    /// Steps, in total.
    pub steps: u64,
    /// Tokens that were found in kept blocks, in total.
    pub prefix_hit_tokens: u64,
    /// Requests that came from another replica, in total.
    pub moved: u64,
    /// Times it was loaded again after a fault, in total.
    pub reloads: u64,
}

/// What models do that were replaced or unloaded: they finish the requests that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplacedStats {
    /// Bytes that they hold until then.
    pub memory: u64,
    /// Requests that wait for their first step.
    pub waiting: u64,
    /// Answers or texts in the making.
    pub running: u64,
    /// Tokens that they made after they were replaced, in total, those that are gone included.
    pub tokens: u64,
}

/// The engine's thread writes, everyone reads.
#[derive(Debug)]
pub(crate) struct Counters {
    /// All of it was zero then.
    since: SystemTime,
    pub(crate) closed: AtomicBool,
    pub(crate) memory: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) blocks_used: AtomicU64,
    pub(crate) blocks_cached: AtomicU64,
    pub(crate) blocks_pinned: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) failed_otherwise: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) hopeless: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) reasoning_tokens: AtomicU64,
    pub(crate) forced: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) prefix_hit_tokens: AtomicU64,
    pub(crate) preemptions: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) reloads: AtomicU64,
    pub(crate) draft_failures: AtomicU64,
    pub(crate) draft_reloads: AtomicU64,
    pub(crate) drafted: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) steps: AtomicU64,
    pub(crate) failed_steps: AtomicU64,
    pub(crate) answer_rows: AtomicU64,
    pub(crate) step_nanoseconds: AtomicU64,
    pub(crate) largest_batch: AtomicU64,
    /// Nanoseconds of a step, a prompt token, a decode row.
    pub(crate) costs: [AtomicU64; 3],
    pub(crate) prefix_query_tokens: AtomicU64,
    pub(crate) prompt_rows: AtomicU64,
    pub(crate) queue_seconds: Histogram,
    pub(crate) first_token_seconds: Histogram,
    pub(crate) between_tokens_seconds: Histogram,
    pub(crate) step_seconds: Histogram,
    loras: Vec<LoraCounters>,
}

/// Those of what goes through a low-rank adapter.
#[derive(Debug, Default)]
pub(crate) struct LoraCounters {
    lora: LoadedLora,
    pub(crate) answered: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) prefix_hit_tokens: AtomicU64,
    pub(crate) tokens: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            since: SystemTime::now(),
            closed: AtomicBool::default(),
            memory: AtomicU64::default(),
            running: AtomicU64::default(),
            blocks: AtomicU64::default(),
            blocks_used: AtomicU64::default(),
            blocks_cached: AtomicU64::default(),
            blocks_pinned: AtomicU64::default(),
            answered: AtomicU64::default(),
            failed_otherwise: AtomicU64::default(),
            expired: AtomicU64::default(),
            hopeless: AtomicU64::default(),
            cancelled: AtomicU64::default(),
            refused: AtomicU64::default(),
            tokens: AtomicU64::default(),
            reasoning_tokens: AtomicU64::default(),
            forced: AtomicU64::default(),
            prompt_tokens: AtomicU64::default(),
            prefix_hit_tokens: AtomicU64::default(),
            preemptions: AtomicU64::default(),
            retried: AtomicU64::default(),
            moved: AtomicU64::default(),
            reloads: AtomicU64::default(),
            draft_failures: AtomicU64::default(),
            draft_reloads: AtomicU64::default(),
            drafted: AtomicU64::default(),
            accepted: AtomicU64::default(),
            rejected: AtomicU64::default(),
            steps: AtomicU64::default(),
            failed_steps: AtomicU64::default(),
            answer_rows: AtomicU64::default(),
            step_nanoseconds: AtomicU64::default(),
            largest_batch: AtomicU64::default(),
            costs: Default::default(),
            prefix_query_tokens: AtomicU64::default(),
            prompt_rows: AtomicU64::default(),
            queue_seconds: Histogram::new(REQUEST_SECONDS),
            first_token_seconds: Histogram::new(REQUEST_SECONDS),
            between_tokens_seconds: Histogram::new(TOKEN_SECONDS),
            step_seconds: Histogram::new(TOKEN_SECONDS),
            loras: Vec::new(),
        }
    }
}

impl ModelStats {
    /// Adds what another replica has done; what was measured of steps is the mean of those that have measured it.
    pub(crate) fn add(&mut self, other: &ModelStats) {
        let mean = |one: Duration, other: Duration| match (one.is_zero(), other.is_zero()) {
            (false, false) => (one + other) / 2,
            (true, _) => other,
            (false, true) => one,
        };
        self.since = self.since.into_iter().chain(other.since).min();
        self.memory += other.memory;
        self.running += other.running;
        self.blocks += other.blocks;
        self.blocks_used += other.blocks_used;
        self.blocks_cached += other.blocks_cached;
        self.blocks_pinned += other.blocks_pinned;
        self.answered += other.answered;
        self.failed += other.failed;
        self.expired += other.expired;
        self.hopeless += other.hopeless;
        self.failed_otherwise += other.failed_otherwise;
        self.cancelled += other.cancelled;
        self.refused += other.refused;
        self.tokens += other.tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.forced += other.forced;
        self.prompt_tokens += other.prompt_tokens;
        self.prefix_hit_tokens += other.prefix_hit_tokens;
        self.prefix_query_tokens += other.prefix_query_tokens;
        self.preemptions += other.preemptions;
        self.retried += other.retried;
        self.moved += other.moved;
        self.reloads += other.reloads;
        self.draft_failures += other.draft_failures;
        self.draft_reloads += other.draft_reloads;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.steps += other.steps;
        self.failed_steps += other.failed_steps;
        self.rows += other.rows;
        self.prompt_rows += other.prompt_rows;
        self.answer_rows += other.answer_rows;
        self.step_time += other.step_time;
        self.largest_batch = self.largest_batch.max(other.largest_batch);
        self.step_fixed = mean(self.step_fixed, other.step_fixed);
        self.step_per_prefill_token =
            mean(self.step_per_prefill_token, other.step_per_prefill_token);
        self.step_per_decode_row = mean(self.step_per_decode_row, other.step_per_decode_row);
        self.queue_seconds.add(&other.queue_seconds);
        self.first_token_seconds.add(&other.first_token_seconds);
        self.between_tokens_seconds
            .add(&other.between_tokens_seconds);
        self.step_seconds.add(&other.step_seconds);
        // Replicas have the same; one that never came has none.
        if self.loras.is_empty() {
            self.loras.clone_from(&other.loras);
            return;
        }
        for (lora, other) in self.loras.iter_mut().zip(&other.loras) {
            lora.answered += other.answered;
            lora.failed += other.failed;
            lora.cancelled += other.cancelled;
            lora.prompt_tokens += other.prompt_tokens;
            lora.prefix_hit_tokens += other.prefix_hit_tokens;
            lora.tokens += other.tokens;
        }
    }

    /// What of it is said of a replica.
    pub(crate) fn of_replica(&self, adapter: &str, standing: ReplicaStanding) -> ReplicaStats {
        ReplicaStats {
            adapter: adapter.to_owned(),
            standing,
            again: None,
            memory: self.memory,
            running: self.running,
            blocks: self.blocks,
            blocks_used: self.blocks_used,
            answered: self.answered,
            tokens: self.tokens,
            steps: self.steps,
            prefix_hit_tokens: self.prefix_hit_tokens,
            moved: self.moved,
            reloads: self.reloads,
        }
    }
}

impl Counters {
    /// Those of a model with these low-rank adapters.
    pub(crate) fn of(loras: &[LoadedLora]) -> Counters {
        let of = |lora: &LoadedLora| LoraCounters {
            lora: lora.clone(),
            ..LoraCounters::default()
        };
        Counters {
            loras: loras.iter().map(of).collect(),
            ..Counters::default()
        }
    }

    /// Those of an adapter of this number, counted from 1; none of the base.
    pub(crate) fn lora(&self, number: u32) -> Option<&LoraCounters> {
        self.loras.get(number.checked_sub(1)? as usize)
    }

    /// Adds to a total of an adapter, if it is one.
    pub(crate) fn add_lora(
        &self,
        number: u32,
        counter: impl FnOnce(&LoraCounters) -> &AtomicU64,
        amount: usize,
    ) {
        if let Some(lora) = self.lora(number) {
            Counters::add(counter(lora), amount);
        }
    }

    /// The numbers now; those that wait are counted by the queue.
    pub(crate) fn snapshot(&self, name: &str, waiting: [usize; CLASSES]) -> ModelStats {
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let size = |counter: &AtomicU64| usize::try_from(total(counter)).unwrap_or(usize::MAX);
        let time = |counter: &AtomicU64| Duration::from_nanos(total(counter));
        // A sum is made of what was read: read by itself, it could be less than a part of it, or a part could fall.
        let (prompt_rows, answer_rows) = (total(&self.prompt_rows), total(&self.answer_rows));
        let failures = [&self.expired, &self.hopeless, &self.failed_otherwise];
        let [expired, hopeless, failed_otherwise] = failures.map(total);
        ModelStats {
            name: name.into(),
            since: Some(self.since),
            memory: total(&self.memory),
            closed: self.closed.load(Ordering::Relaxed),
            away: false,
            waiting: waiting.iter().sum(),
            waiting_by_class: waiting,
            running: size(&self.running),
            blocks: size(&self.blocks),
            blocks_used: size(&self.blocks_used),
            blocks_cached: size(&self.blocks_cached),
            blocks_pinned: size(&self.blocks_pinned),
            answered: total(&self.answered),
            failed: expired + hopeless + failed_otherwise,
            expired,
            hopeless,
            failed_otherwise,
            cancelled: total(&self.cancelled),
            refused: total(&self.refused),
            tokens: total(&self.tokens),
            reasoning_tokens: total(&self.reasoning_tokens),
            forced: total(&self.forced),
            prompt_tokens: total(&self.prompt_tokens),
            prefix_hit_tokens: total(&self.prefix_hit_tokens),
            prefix_query_tokens: total(&self.prefix_query_tokens),
            preemptions: total(&self.preemptions),
            retried: total(&self.retried),
            moved: total(&self.moved),
            reloads: total(&self.reloads),
            draft_failures: total(&self.draft_failures),
            draft_reloads: total(&self.draft_reloads),
            drafted: total(&self.drafted),
            accepted: total(&self.accepted),
            rejected: total(&self.rejected),
            steps: total(&self.steps),
            failed_steps: total(&self.failed_steps),
            rows: prompt_rows + answer_rows,
            prompt_rows,
            answer_rows,
            step_time: time(&self.step_nanoseconds),
            largest_batch: size(&self.largest_batch),
            step_fixed: time(&self.costs[0]),
            step_per_prefill_token: time(&self.costs[1]),
            step_per_decode_row: time(&self.costs[2]),
            queue_seconds: self.queue_seconds.spread(),
            first_token_seconds: self.first_token_seconds.spread(),
            between_tokens_seconds: self.between_tokens_seconds.spread(),
            step_seconds: self.step_seconds.spread(),
            replaced: ReplacedStats::default(),
            replicas: Vec::new(),
            loras: (self.loras.iter())
                .map(|of| LoraStats {
                    lora: of.lora.clone(),
                    answered: total(&of.answered),
                    failed: total(&of.failed),
                    cancelled: total(&of.cancelled),
                    prompt_tokens: total(&of.prompt_tokens),
                    prefix_hit_tokens: total(&of.prefix_hit_tokens),
                    tokens: total(&of.tokens),
                })
                .collect(),
        }
    }

    /// Adds to a total.
    pub(crate) fn add(counter: &AtomicU64, amount: usize) {
        counter.fetch_add(amount as u64, Ordering::Relaxed);
    }

    /// Notes a request that ended without an answer, through an adapter of this number. What has failed is what the stream has
    /// failed at: of a request that is beside it, only whoever asked hears.
    pub(crate) fn failure(&self, (is_beside, lora): (bool, u32), error: &ModelError) {
        match error {
            ModelError::Cancelled => self.add_lora(lora, |lora| &lora.cancelled, 1),
            _ if is_beside => {}
            _ => self.add_lora(lora, |lora| &lora.failed, 1),
        }
        match error {
            _ if is_beside && *error != ModelError::Cancelled => {}
            ModelError::Expired { .. } => Counters::add(&self.expired, 1),
            ModelError::Hopeless { .. } => Counters::add(&self.hopeless, 1),
            ModelError::Cancelled => Counters::add(&self.cancelled, 1),
            _ => Counters::add(&self.failed_otherwise, 1),
        }
    }

    /// Sets a gauge.
    pub(crate) fn set(counter: &AtomicU64, value: usize) {
        counter.store(value as u64, Ordering::Relaxed);
    }

    /// Notes a step of so many sequences and of this size that took so long.
    pub(crate) fn step(
        &self,
        sequences: usize,
        size: StepSize,
        took: Duration,
        costs: [Duration; 3],
    ) {
        Counters::add(&self.steps, 1);
        Counters::add(&self.prompt_rows, size.prefill);
        Counters::add(&self.answer_rows, size.decode);
        self.step_seconds.observe(took);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.step_nanoseconds
            .fetch_add(nanoseconds(took), Ordering::Relaxed);
        self.largest_batch
            .fetch_max(sequences as u64, Ordering::Relaxed);
        for (counter, cost) in self.costs.iter().zip(costs) {
            counter.store(nanoseconds(cost), Ordering::Relaxed);
        }
    }
}
