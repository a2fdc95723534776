//! The scheduler of one encoder: which texts go together next.
//!
//! As the scheduler of a decoder it has no thread and no clock. A text is done in one step; requests go in the order of
//! [`crate::order::QueueKey::rank`], with as many of their texts as a step has rows for. A request with several texts may
//! take several steps, and ends with the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, Made, ModelError, RequestId};
use tidegate_text::EncodedPair;

use crate::costs::{Beside, StepCosts, StepSize};
use crate::entities::Recognizing;
use crate::generator::{Groups, Verdict};
use crate::guard::guarded_request;
use crate::order::{Moment, Rank};
use crate::remaining::Remaining;
use crate::replicas::{Burden, Wanted};
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
    /// What the vectors are.
    pub(crate) output: EncoderOutput,
    /// Of each score; empty where vectors are made.
    pub(crate) labels: Vec<String>,
}

/// A request: one text, or several.
struct Texts {
    key: u64,
    open: Open,
    texts: Vec<EncodedPair>,
    recognizing: Option<Box<Recognizing>>,
    /// The vectors of the first of them, `[done, width]`, or of their tokens.
    made: Vec<f32>,
    /// Texts that are done.
    done: usize,
}

impl Texts {
    /// Those that are not done.
    fn left(&self) -> &[EncodedPair] {
        self.texts.get(self.done..).unwrap_or_default()
    }

    fn rows_left(&self) -> usize {
        self.left().iter().map(|text| text.tokens.len()).sum()
    }

    /// The next step with it alone, of so many rows at most.
    fn size(&self, most: usize) -> StepSize {
        StepSize::prompt(self.rows_left().min(most), 0)
    }

    /// One step with all its tokens.
    fn remaining(&self) -> Remaining {
        Remaining {
            rows: self.rows_left(),
            tokens: 1,
        }
    }
}

/// Everything of an encoder model but the encoder.
pub(crate) struct Encoding {
    limits: EncodingLimits,
    counters: Arc<Counters>,
    waiting: Vec<Texts>,
    costs: StepCosts,
    groups: Groups,
    /// Who is in the step that was begun and has not ended.
    in_step: Vec<u64>,
}

/// The next of the numbers of requests: the same in no two schedulers, as requests move among them.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A request on its way to the scheduler of another replica.
pub(crate) struct MovedTexts {
    texts: Texts,
    /// Whether it was to be tried apart from others.
    apart: bool,
}

impl MovedTexts {
    pub(crate) fn id(&self) -> RequestId {
        self.texts.open.id
    }

    /// What it asks for.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            rows: self.texts.rows_left() as u64,
            ..Wanted::default()
        }
    }

    /// It is of another replica from now on.
    pub(crate) fn burdens(&mut self, burden: Burden) {
        self.texts.open.goes_on(burden);
    }

    /// Ends it without an answer.
    pub(crate) fn fail(self, counters: &Counters, error: ModelError) {
        counters.failure(self.texts.open.counted_as(), &error);
        self.texts.open.fail(error);
    }
}

/// What a step has of a request.
#[derive(Debug)]
struct EncodingPart {
    key: u64,
    /// How many of its texts.
    texts: usize,
    /// Tokens of these.
    tokens: usize,
}

/// A step: requests by their keys.
#[derive(Debug)]
pub(crate) struct EncodingPlan {
    parts: Vec<EncodingPart>,
    size: StepSize,
}

impl EncodingPlan {
    fn keys(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.key).collect()
    }

    fn texts(&self) -> usize {
        self.parts.iter().map(|part| part.texts).sum()
    }

    /// The request that a text of the step belongs to.
    fn key_of(&self, text: usize) -> Option<u64> {
        let mut parts = self.parts.iter();
        let mut before = 0;
        let part = parts.find(|part| {
            before += part.texts;
            text < before
        });
        part.map(|part| part.key)
    }
}

impl Encoding {
    pub(crate) fn new(limits: EncodingLimits, counters: Arc<Counters>) -> Encoding {
        Encoding {
            limits,
            counters,
            waiting: Vec::new(),
            costs: StepCosts::default(),
            groups: Groups::default(),
            in_step: Vec::new(),
        }
    }

    /// Gives away all requests, in the order of arrival.
    pub(crate) fn give_away(&mut self) -> Vec<MovedTexts> {
        let apart = self.groups.take();
        let all = std::mem::take(&mut self.waiting).into_iter();
        let moved = all.map(|texts| MovedTexts {
            apart: apart.contains(&texts.key),
            texts,
        });
        moved.collect()
    }

    /// Gives away those of them that no step has had a part of, and that are not to be tried apart.
    pub(crate) fn give_away_unbegun(&mut self) -> Vec<MovedTexts> {
        let apart = self.groups.keys();
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (begun, unbegun): (Vec<Texts>, Vec<Texts>) =
            all.partition(|texts| texts.open.has_begun() || apart.contains(&texts.key));
        self.waiting = begun;
        let unbegun = unbegun.into_iter();
        unbegun
            .map(|texts| MovedTexts {
                apart: false,
                texts,
            })
            .collect()
    }

    /// Gives away all requests of a scheduler whose step has not ended, or whose thread has panicked: those that may go on, each
    /// of the step alone at first, and those that have been in too many steps like this.
    pub(crate) fn abandon(&mut self) -> (Vec<MovedTexts>, Vec<MovedTexts>) {
        let mut begun = std::mem::take(&mut self.in_step);
        begun.retain(|key| self.waiting.iter().any(|texts| texts.key == *key));
        let alone = begun.len() == 1;
        self.groups.apart(&begun);
        let mut failed = Vec::new();
        let mut moved = Vec::new();
        for mut texts in self.give_away() {
            let was_in = begun.contains(&texts.texts.key);
            if was_in && !texts.texts.open.lost(alone) {
                failed.push(texts);
                continue;
            }
            Counters::add(&self.counters.retried, usize::from(was_in));
            moved.push(texts);
        }
        (moved, failed)
    }

    /// Takes requests of another replica; those that its device was lost with are tried alone at first.
    pub(crate) fn take_over(&mut self, moved: Vec<MovedTexts>) {
        let apart = moved.iter().filter(|moved| moved.apart);
        let apart: Vec<u64> = apart.map(|moved| moved.texts.key).collect();
        self.waiting
            .extend(moved.into_iter().map(|moved| moved.texts));
        if !apart.is_empty() {
            self.groups.apart(&apart);
        }
    }

    pub(crate) fn submit(&mut self, submission: Submission) {
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        let (mut open, work) = Open::new(submission, key, 0);
        match work {
            Ok(Work::Encode { texts, recognizing }) => {
                open.prompt_tokens = texts.iter().map(|text| text.tokens.len()).sum();
                self.waiting.push(Texts {
                    key,
                    open,
                    texts,
                    recognizing,
                    made: Vec::new(),
                    done: 0,
                });
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
        let most = self.limits.step_tokens;
        let costs = std::mem::take(&mut self.costs);
        self.fail_where(|text| {
            let left = text.open.queue_key.deadline?.saturating_sub(now);
            let needed = costs.least(text.size(most), now)?;
            (needed > left).then_some(ModelError::Hopeless { left, needed })
        });
        self.costs = costs;
        let allowed = {
            let waiting = &self.waiting;
            let waits = |key| waiting.iter().any(|text: &Texts| text.key == key);
            self.groups.next(waits, waits)
        };
        let alone = Beside {
            answers: StepSize::default(),
            rows_per_step: self.limits.step_tokens,
        };
        let rank = |text: &Texts| {
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
            parts: Vec::new(),
            size: StepSize::default(),
        };
        let mut room = self.limits.texts.max(1);
        for (_, place) in order {
            let request = &mut self.waiting[place];
            let (mut taken, mut tokens) = (0, 0);
            for text in request.left() {
                let rows = text.tokens.len();
                if room == 0 || plan.size.rows() + rows > self.limits.step_tokens {
                    break;
                }
                plan.size = plan.size.with_prompt(rows, 0);
                room -= 1;
                taken += 1;
                tokens += rows;
            }
            let whole = taken == request.left().len();
            if taken > 0 {
                if let Some(waited) = request.open.steps_at(now) {
                    self.counters.queue_seconds.observe(waited);
                }
                plan.parts.push(EncodingPart {
                    key: request.key,
                    texts: taken,
                    tokens,
                });
            }
            if !whole {
                break;
            }
        }
        self.in_step = plan.keys();
        (!plan.parts.is_empty()).then_some(plan)
    }

    /// The next step with its texts, which are copied: whoever asked may go while it runs.
    pub(crate) fn plan_with_texts(
        &mut self,
        now: Moment,
    ) -> Option<(EncodingPlan, Vec<EncodedPair>)> {
        let plan = self.plan(now)?;
        let texts = |part: &EncodingPart| {
            let request = self.waiting.iter().find(|texts| texts.key == part.key);
            let left = request.map(Texts::left).unwrap_or_default();
            left.iter().take(part.texts).cloned()
        };
        let texts = plan.parts.iter().flat_map(texts).collect();
        Some((plan, texts))
    }

    /// Vectors of so many texts with so many tokens.
    fn rows(&self, texts: usize, tokens: usize) -> usize {
        match self.limits.output {
            EncoderOutput::TokenScores => tokens,
            _ => texts,
        }
    }

    /// Hands the vectors of a step, `[texts, width]` or `[tokens, width]`, to its requests; those whose texts are all done end.
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
        let wanted = self.rows(plan.texts(), plan.size.rows()) * self.limits.width;
        if vectors.len() != wanted || wanted == 0 {
            return Err(DecodeError::Device {
                reason: format!("{} numbers were made, not {wanted}", vectors.len()),
            });
        }
        let keys = plan.keys();
        if self.waiting.iter().any(|texts| keys.contains(&texts.key)) {
            // Else whoever was in it was taken away, as it did not end: what it took is no measure.
            self.costs.observe(plan.size, took, now);
        }
        self.counters
            .step(plan.texts(), plan.size, took, self.costs.parts());
        Counters::add(&self.counters.prompt_tokens, plan.size.prefill);
        self.groups.succeeded(plan.keys().into_iter());
        let mut rest = vectors;
        for part in &plan.parts {
            let rows = self.rows(part.texts, part.tokens);
            let (own, others) = rest.split_at(rows * self.limits.width);
            rest = others;
            let Some(place) = self.waiting.iter().position(|texts| texts.key == part.key) else {
                continue;
            };
            let request = &mut self.waiting[place];
            let number = own.iter().find(|number| !number.is_finite());
            request.made.extend(own);
            request.done += part.texts;
            if number.is_none() && !request.left().is_empty() {
                continue;
            }
            let Texts {
                mut open,
                made,
                recognizing,
                ..
            } = self.waiting.remove(place);
            let _ = open.token_at(now);
            if let Some(number) = number {
                let reason = format!("the encoder made {number}, which is no number");
                self.count_failure(open, ModelError::Device(reason));
                continue;
            }
            match guarded_request(|| self.made_of(made, recognizing.as_deref())) {
                Ok(made) => {
                    Counters::add(&self.counters.answered, 1);
                    open.done(made);
                }
                Err(panicked) => self.count_failure(open, panicked),
            }
        }
        // Not before: where this panics it is one of these that is to blame.
        self.in_step.clear();
        Ok(())
    }

    /// What is made of a request's numbers, `[texts, width]` or `[tokens, width]`.
    fn made_of(&self, numbers: Vec<f32>, recognizing: Option<&Recognizing>) -> Made {
        match self.limits.output {
            EncoderOutput::Embedding => Made::Embedding(numbers),
            EncoderOutput::Scores => Made::Labels(self.labels(&numbers)),
            EncoderOutput::TokenScores => Made::Entities(
                recognizing.map_or_else(Vec::new, |of| of.entities(&self.limits.labels, &numbers)),
            ),
            EncoderOutput::Relevance(scale) => {
                let scores = numbers.into_iter().map(|number| scale.of(number));
                Made::Relevance(scores.collect())
            }
        }
    }

    /// The step failed; nothing of it has happened.
    pub(crate) fn failed(&mut self, plan: &EncodingPlan, error: &DecodeError) -> Verdict {
        Counters::add(&self.counters.failed_steps, 1);
        self.in_step.clear();
        if error.is_fatal() {
            return Verdict::Reload;
        }
        let (culprit, verdict) = match error {
            DecodeError::Refused { sequence, .. } if *sequence < plan.texts() => {
                (plan.key_of(*sequence), Verdict::GoesOn)
            }
            _ => self.groups.failed(plan.keys()),
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
        let keys = plan.keys();
        let alone = keys.len() == 1;
        let mut failed = Vec::new();
        for text in &mut self.waiting {
            if !keys.contains(&text.key) {
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
        self.groups.apart(&keys);
    }

    /// The encoder was loaded again. False if it is not the one it was.
    pub(crate) fn restored(&self, encoder: &dyn Encoder) -> bool {
        encoder.width() == self.limits.width
            && encoder.output() == self.limits.output
            && encoder.max_rows() >= self.limits.step_tokens
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
    fn fail_where(&mut self, why: impl Fn(&Texts) -> Option<ModelError>) {
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
        self.counters.failure(open.counted_as(), &error);
        open.fail(error);
    }
}
