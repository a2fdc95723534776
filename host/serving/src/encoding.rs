//! The scheduler of one encoder: which texts go together next.
//!
//! As the scheduler of a decoder it has no thread and no clock. A text is done in one step; texts go in the order of
//! [`crate::order::QueueKey::rank`], as many as a step has rows for.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{DecodeError, Encoder, Made, ModelError, RequestId};

use crate::costs::{Beside, StepCosts, StepSize};
use crate::generator::{Groups, Verdict};
use crate::order::{Moment, Rank};
use crate::remaining::Remaining;
use crate::request::{Open, Submission, Work};
use crate::stats::Counters;

/// The sizes an encoder keeps to.
#[derive(Clone, Debug)]
pub(crate) struct EncodingLimits {
    /// Most tokens of a step; at least those of the longest text.
    pub(crate) step_tokens: usize,
    /// Most texts of a step.
    pub(crate) texts: usize,
    pub(crate) aging: Duration,
    /// Length of a vector.
    pub(crate) width: usize,
    /// Of each score; empty where vectors are made.
    pub(crate) labels: Vec<String>,
}

struct Text {
    key: u64,
    open: Open,
    tokens: Vec<u32>,
}

impl Text {
    fn size(&self) -> StepSize {
        StepSize::prompt(self.tokens.len(), 0)
    }

    /// One step with all its tokens.
    fn remaining(&self) -> Remaining {
        Remaining {
            rows: self.tokens.len(),
            tokens: 1,
        }
    }
}

/// Everything of an encoder model but the encoder.
pub(crate) struct Encoding {
    limits: EncodingLimits,
    counters: Arc<Counters>,
    waiting: Vec<Text>,
    costs: StepCosts,
    groups: Groups,
    next: u64,
}

/// A step: the texts by their keys.
#[derive(Debug)]
pub(crate) struct EncodingPlan {
    keys: Vec<u64>,
    size: StepSize,
}

impl Encoding {
    pub(crate) fn new(limits: EncodingLimits, counters: Arc<Counters>) -> Encoding {
        Encoding {
            limits,
            counters,
            waiting: Vec::new(),
            costs: StepCosts::default(),
            groups: Groups::default(),
            next: 0,
        }
    }

    pub(crate) fn submit(&mut self, submission: Submission) {
        self.next += 1;
        let key = self.next;
        let (mut open, work) = Open::new(submission, key, 0);
        match work {
            Ok(Work::Encode { tokens }) => {
                open.prompt_tokens = tokens.len();
                self.waiting.push(Text { key, open, tokens });
            }
            Ok(Work::Generate { .. }) => {
                let reason = "a prompt came to an encoder".to_owned();
                self.count_failure(open, ModelError::Device(reason));
            }
            Err(error) => self.count_failure(open, error),
        }
    }

    pub(crate) fn cancel(&mut self, id: RequestId) {
        self.fail_where(|text| (text.open.id == id).then_some(ModelError::Cancelled));
    }

    pub(crate) fn expire(&mut self, now: Moment) {
        let expired = ModelError::Expired { made: 0 };
        self.fail_where(|text| text.open.is_late(now).then(|| expired.clone()));
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether some of it is of the stream, and not beside it.
    pub(crate) fn has_work_of_the_stream(&self) -> bool {
        let mut texts = self.waiting.iter();
        texts.any(|text| !text.open.queue_key.is_beside())
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let deadlines = self.waiting.iter();
        deadlines
            .filter_map(|text| text.open.queue_key.deadline)
            .min()
    }

    pub(crate) fn fail_all(&mut self, error: &ModelError) {
        self.fail_where(|_| Some(error.clone()));
    }

    /// The next step; `None` if there is nothing to do.
    pub(crate) fn plan(&mut self, now: Moment) -> Option<EncodingPlan> {
        self.expire(now);
        let costs = std::mem::take(&mut self.costs);
        self.fail_where(|text| {
            let left = text.open.queue_key.deadline?.saturating_sub(now);
            let needed = costs.least(text.size(), now)?;
            (needed > left).then_some(ModelError::Hopeless { left, needed })
        });
        self.costs = costs;
        let allowed = {
            let waiting = &self.waiting;
            let waits = |key| waiting.iter().any(|text: &Text| text.key == key);
            self.groups.next(waits, waits)
        };
        let alone = Beside {
            answers: StepSize::default(),
            rows_per_step: self.limits.step_tokens,
        };
        let rank = |text: &Text| {
            let work = self.costs.time_for(text.remaining(), alone);
            text.open.queue_key.rank(now, self.limits.aging, work)
        };
        let mut order: Vec<(Rank, usize)> = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, text)| allowed.as_ref().is_none_or(|keys| keys.contains(&text.key)))
            .map(|(place, text)| (rank(text), place))
            .collect();
        order.sort_unstable();
        let mut plan = EncodingPlan {
            keys: Vec::new(),
            size: StepSize::default(),
        };
        for (_, place) in order {
            let text = &mut self.waiting[place];
            let full = plan.keys.len() >= self.limits.texts.max(1);
            if full || plan.size.rows() + text.tokens.len() > self.limits.step_tokens {
                break;
            }
            if let Some(waited) = text.open.steps_at(now) {
                self.counters.queue_seconds.observe(waited);
            }
            plan.size = plan.size.with_prompt(text.tokens.len(), 0);
            plan.keys.push(text.key);
        }
        (!plan.keys.is_empty()).then_some(plan)
    }

    /// The tokens of a step's texts.
    pub(crate) fn texts(&self, plan: &EncodingPlan) -> Vec<&[u32]> {
        let tokens = |key: &u64| {
            let text = self.waiting.iter().find(|text| text.key == *key);
            text.map(|text| text.tokens.as_slice())
        };
        plan.keys.iter().filter_map(tokens).collect()
    }

    /// Ends a step's texts with their vectors, `[texts, width]`.
    ///
    /// # Errors
    /// The encoder gave another count of numbers than it was asked for; nothing was handed on.
    pub(crate) fn deliver(
        &mut self,
        plan: &EncodingPlan,
        vectors: &[f32],
        now: Moment,
        took: Duration,
    ) -> Result<(), DecodeError> {
        let wanted = plan.keys.len() * self.limits.width;
        if vectors.len() != wanted || wanted == 0 {
            return Err(DecodeError::Device {
                reason: format!("{} numbers were made, not {wanted}", vectors.len()),
            });
        }
        self.costs.observe(plan.size, took, now);
        self.counters
            .step(plan.keys.len(), plan.size, took, self.costs.parts());
        Counters::add(&self.counters.prompt_tokens, plan.size.prefill);
        self.groups.succeeded(plan.keys.iter().copied());
        for (key, vector) in plan
            .keys
            .iter()
            .zip(vectors.chunks_exact(self.limits.width))
        {
            let Some(place) = self.waiting.iter().position(|text| text.key == *key) else {
                continue;
            };
            let mut open = self.waiting.remove(place).open;
            let _ = open.token_at(now);
            if let Some(number) = vector.iter().find(|number| !number.is_finite()) {
                let reason = format!("the encoder made {number}, which is no number");
                self.count_failure(open, ModelError::Device(reason));
                continue;
            }
            Counters::add(&self.counters.answered, 1);
            open.done(match self.limits.labels.is_empty() {
                true => Made::Embedding(vector.to_vec()),
                false => Made::Labels(self.labels(vector)),
            });
        }
        Ok(())
    }

    /// The step failed; nothing of it has happened.
    pub(crate) fn failed(&mut self, plan: &EncodingPlan, error: &DecodeError) -> Verdict {
        Counters::add(&self.counters.failed_steps, 1);
        if error.is_fatal() {
            return Verdict::Reload;
        }
        let (culprit, verdict) = match error {
            DecodeError::Refused { sequence, .. } if *sequence < plan.keys.len() => {
                (Some(plan.keys[*sequence]), Verdict::GoesOn)
            }
            _ => self.groups.failed(plan.keys.clone()),
        };
        if let Some(culprit) = culprit {
            let reason = ModelError::Device(error.to_string());
            self.fail_where(|text| (text.key == culprit).then(|| reason.clone()));
        }
        verdict
    }

    /// The encoder is gone: the texts of its last step are tried once more, each alone, and fail if it is lost again
    /// ([`Open::lost`]).
    pub(crate) fn lost(&mut self, plan: &EncodingPlan, reason: &str) {
        let alone = plan.keys.len() == 1;
        let mut failed = Vec::new();
        for text in &mut self.waiting {
            if !plan.keys.contains(&text.key) {
                continue;
            }
            if text.open.lost(alone) {
                Counters::add(&self.counters.retried, 1);
            } else {
                failed.push(text.key);
            }
        }
        let error = ModelError::Device(reason.to_owned());
        self.fail_where(|text| failed.contains(&text.key).then(|| error.clone()));
        self.groups.apart(&plan.keys);
    }

    /// The encoder was loaded again. False if it is not the one it was.
    pub(crate) fn restored(&self, encoder: &dyn Encoder) -> bool {
        encoder.width() == self.limits.width && encoder.max_rows() >= self.limits.step_tokens
    }

    pub(crate) fn report(&self) {
        Counters::set(&self.counters.running, 0);
    }

    /// Softmax over the scores.
    fn labels(&self, scores: &[f32]) -> Vec<(String, f32)> {
        let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = scores
            .iter()
            .map(|score| f64::from(score - greatest).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let share = |weight: f64| (weight / total) as f32;
        self.limits
            .labels
            .iter()
            .cloned()
            .zip(weights.into_iter().map(share))
            .collect()
    }

    /// Ends the texts for which `why` has a reason, in the order of arrival.
    fn fail_where(&mut self, why: impl Fn(&Text) -> Option<ModelError>) {
        if !self.waiting.iter().any(|text| why(text).is_some()) {
            return;
        }
        let mut kept = Vec::with_capacity(self.waiting.len());
        for text in std::mem::take(&mut self.waiting) {
            match why(&text) {
                Some(error) => self.count_failure(text.open, error),
                None => kept.push(text),
            }
        }
        self.waiting = kept;
    }

    fn count_failure(&self, open: Open, error: ModelError) {
        self.counters.failure(open.is_beside(), &error);
        open.fail(error);
    }
}
