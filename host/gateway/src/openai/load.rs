//! Under load: what a route does step by step, in the order of the pipeline file, and what of it a request takes part in.
//!
//! A step is reached by the number of requests that wait, or by how long the first of them has; it brings those before it
//! with it. What cannot be done with a request is not done with it: a vector is never another model's, what has a form is
//! never cut, and a prompt that is too long for the smaller model stays with the larger.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::FunctionChoice;

use super::aside::aside;
use super::asking::{Asking, Question};
use super::cost::count;
use super::error::ApiError;
use super::route::{Bounds, Count, IsSilent, Route, TokenText};
use super::{Ready, Shared};
use crate::exchange::Asked;
use crate::idempotency::Begun;
use crate::requests::Load;

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// From so many waiting on.
    pub waiting: Option<usize>,
    /// From so long a wait of the first on.
    pub oldest: Option<Duration>,
    /// One of the route's other models answers, by its index.
    pub model: Option<usize>,
    /// Most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Requests are told to come again.
    pub refuse: bool,
}

/// A model that answers in the place of a route's own.
#[derive(Clone)]
pub struct OtherModel {
    /// Its name in the pipeline.
    pub name: String,
    /// What is checked before.
    pub bounds: Bounds,
    /// Counts prompts; none where only the model can.
    pub count: Option<Count>,
    /// Shows its tokens.
    pub token_text: Option<TokenText>,
    /// Whether it can go on with an answer that has begun.
    pub continues: bool,
    /// Whether it is silent; none where it is here.
    pub is_silent: Option<IsSilent>,
}

impl Step {
    fn is_reached(&self, load: Load) -> bool {
        self.waiting.is_some_and(|most| load.waiting >= most)
            || self.oldest.is_some_and(|most| load.oldest >= most)
    }
}

/// The steps that are reached: all up to the last one.
pub(crate) fn reached(steps: &[Step], load: Load) -> &[Step] {
    let last = steps.iter().rposition(|step| step.is_reached(load));
    last.map_or(&[], |last| &steps[..=last])
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// The last step that does something with it, counted from 1.
    pub(crate) step: Option<usize>,
    /// The other model that answers.
    pub(crate) model: Option<usize>,
    /// Most tokens of an answer, where that is less than what was asked for.
    pub(crate) most_tokens: Option<u32>,
}

impl Served {
    /// What was done with a request that an earlier process has asked with. Its step was counted there.
    pub(crate) fn of(begun: &Begun, route: &Route) -> Served {
        let others = &mut route.others.iter();
        Served {
            step: None,
            model: others.position(|other| begun.model.as_ref() == Some(&other.name)),
            most_tokens: begun.most_tokens,
        }
    }

    /// The models that may answer in the place of the route's own, the last step's first, with that step's number.
    pub(crate) fn models(steps: &[Step], asking: &Asking, route: &Route) -> Vec<(usize, usize)> {
        if !asking.endpoint.has_pieces() {
            return Vec::new();
        }
        let suits = |model: usize| {
            let other = route.others.get(model);
            let mut questions = asking.questions.iter();
            other.is_some_and(|other| questions.all(|question| question.suits(other)))
        };
        let numbered = steps.iter().enumerate().rev();
        numbered
            .filter_map(|(index, step)| Some((index + 1, step.model?)))
            .filter(|(_, model)| suits(*model))
            .collect()
    }

    /// This model answers.
    pub(crate) fn by(&mut self, (step, model): (usize, usize)) {
        self.model = Some(model);
        self.step = self.step.max(Some(step));
    }

    /// The answer is shortened, if it may be, by the steps that say so: the least of them counts.
    pub(crate) fn shorten(&mut self, steps: &[Step], asking: &Asking, route: &Route) {
        if !asking.endpoint.has_pieces() || !asking.questions.iter().all(Question::may_be_cut) {
            return;
        }
        let wanted = asking.questions.iter().map(|question| {
            let most = question.asking.parameters.max_tokens;
            most.unwrap_or(u32::MAX).min(route.bounds.answer_tokens)
        });
        let wanted = wanted.max().unwrap_or_default();
        for (index, step) in steps.iter().enumerate() {
            let less = self.most_tokens.unwrap_or(wanted);
            if let Some(most) = step.max_tokens.filter(|most| *most < less) {
                self.most_tokens = Some(most);
                self.step = self.step.max(Some(index + 1));
            }
        }
    }

    /// Has the records say so.
    pub(crate) fn apply(self, route: &Route, asking: &mut Asking) {
        let model = self.model.and_then(|model| route.others.get(model));
        for question in &mut asking.questions {
            question.asking.alternative = model.map(|model| model.name.clone());
            if let Some(most) = self.most_tokens {
                let wanted = &mut question.asking.parameters.max_tokens;
                *wanted = Some(wanted.map_or(most, |wanted| wanted.min(most)));
            }
        }
    }
}

impl Ready {
    /// Whether the answer is there or in the making, as it would be without load.
    pub(super) async fn is_there(
        &self,
        asked: &Asked,
        shared: Option<(&Shared, &str)>,
    ) -> Result<bool, ApiError> {
        let Some((shared, present)) = shared.filter(|_| !self.route.steps.is_empty()) else {
            return Ok(false);
        };
        let values = self.values(asked).await?;
        let key = self.shared_key(asked, &values, (shared, present));
        Ok(shared.answers.has(key))
    }

    /// Does with it what the steps say that are reached. Returns the tokens of its prompts, as the model that answers
    /// counts them.
    pub(super) async fn shed(&mut self, asked: &Asked) -> Result<Vec<u64>, ApiError> {
        let (inner, route) = (&self.openai.0, self.route.clone());
        let load = inner.requests.load(route.source);
        let steps = reached(&route.steps, load);
        if steps.iter().any(|step| step.refuse) {
            inner.shed.count(&route, None);
            let after = inner.requests.turn(route.source);
            return Err(ApiError::busy(load.waiting, after));
        }
        let prompts = self.count(asked, steps).await?;
        self.served.shorten(steps, &self.asking, &route);
        self.served.apply(&route, Arc::make_mut(&mut self.asking));
        Ok(prompts)
    }

    /// The tokens of its prompts. Of the models that may answer in these steps it is the last one's that can take them.
    pub(super) async fn count(
        &mut self,
        asked: &Asked,
        steps: &[Step],
    ) -> Result<Vec<u64>, ApiError> {
        let others = Served::models(steps, &self.asking, &self.route);
        let (route, asking) = (self.route.clone(), self.asking.clone());
        let counting = move || {
            for (step, model) in others {
                let Some(other) = route.others.get(model) else {
                    continue;
                };
                let most = other.bounds.context_tokens;
                // One that cannot take the prompt does not answer it.
                if let Ok(tokens) = count(other.count.as_ref(), most, &asking) {
                    return Ok((Some((step, model)), tokens));
                }
            }
            let most = route.bounds.context_tokens;
            Ok((None, count(route.count.as_ref(), most, &asking)?))
        };
        let counted = aside(&asked.body, self.patience.deadline(), counting).await?;
        let prompt = self.asking.endpoint.prompt();
        let (by, tokens) = counted.map_err(|error| ApiError::model(&error, prompt))?;
        if let Some(by) = by {
            self.served.by(by);
        }
        Ok(tokens)
    }
}

impl Question {
    /// Whether another model may answer it: numbers of tokens are those of one model, and not every server can be told to
    /// go on with an answer.
    fn suits(&self, other: &OtherModel) -> bool {
        self.input.is_none()
            && self.asking.parameters.logit_bias.is_none()
            && (other.continues || !self.asking.continues)
    }

    /// Whether a part of the answer is of use: half a JSON value or half a call is of none.
    fn may_be_cut(&self) -> bool {
        let calls = !self.asking.functions.is_empty()
            && self.asking.function_choice != FunctionChoice::None;
        self.asking.parameters.structure.is_none() && !calls
    }
}

/// How many requests each step has done something with, by source. A copy is the same.
#[derive(Clone, Debug, Default)]
pub struct Shed(Arc<Mutex<Counts>>);

/// By source, and step; the requests that were told to come again are behind the last.
type Counts = BTreeMap<(String, Option<usize>), u64>;

/// Requests that were told to come again.
const REFUSED: &str = "refused";

impl Shed {
    /// Knows the steps of a route from now on.
    pub(crate) fn add(&self, route: &Route) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = route.steps.iter().enumerate();
        let steps = steps.filter(|(_, step)| !step.refuse);
        for step in steps.map(|(index, _)| Some(index + 1)).chain([None]) {
            counts.entry((route.name.clone(), step)).or_default();
        }
    }

    /// One more; no step is a refusal.
    pub(crate) fn count(&self, route: &Route, step: Option<usize>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((route.name.clone(), step)).or_default() += 1;
    }

    /// All there are: source, step, and how many.
    pub fn all(&self) -> Vec<(String, String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = counts.iter().map(|((source, step), count)| {
            let step = step.map_or(REFUSED.to_owned(), |step| step.to_string());
            (source.clone(), step, *count)
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_reached_by_number_or_age_and_brings_those_before_it() {
        let waiting = |most| Step {
            waiting: Some(most),
            ..Step::default()
        };
        let oldest = Step {
            oldest: Some(Duration::from_secs(5)),
            ..waiting(20)
        };
        let steps = [waiting(10), oldest, waiting(30)];
        let reached = |waiting, seconds| {
            let load = Load {
                waiting,
                oldest: Duration::from_secs(seconds),
            };
            super::reached(&steps, load).len()
        };
        assert_eq!(reached(9, 4), 0);
        assert_eq!(reached(10, 4), 1);
        assert_eq!(reached(20, 4), 2);
        assert_eq!(reached(1, 5), 2);
        assert_eq!(reached(30, 0), 3);
    }
}
