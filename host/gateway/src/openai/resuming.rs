//! Requests that an earlier process has asked with: they go on as they were served then, whatever the load is now.

use std::sync::Arc;

use tidegate_contract::CallerId;

use super::asking::Asking;
use super::cost::{most_tokens, pieces};
use super::error::ApiError;
use super::load::Served;
use super::route::Route;
use super::{Options, Ready, run};
use crate::exchange::Asked;
use crate::idempotency::{Answers, Begun, Making};
use crate::requests::{Expected, Spending, Waiting};
use crate::traced::Trace;

/// What an earlier process was making is expected of the pipeline, which has not begun.
pub(super) fn expect(options: &Options) {
    let left = options.repeated.iter().flat_map(Answers::left);
    for (left, until) in left {
        let mut routes = options.routes.iter();
        let Some(route) = routes.find(|route| route.name == left.begun.route) else {
            continue;
        };
        options.requests.await_left(Expected {
            caller: caller(route, left.begun.offset),
            class: route.class,
            prompt: left.begun.prompt,
            pieces: left.begun.pieces,
            allowance: left.begun.allowance,
            patience: left.patience,
            until,
        });
    }
}

/// A record of a route, as the pipeline knows it.
fn caller(route: &Route, offset: u64) -> CallerId {
    CallerId {
        source: route.source,
        partition: 0,
        offset,
    }
}

/// A request that the pipeline has, as it was asked.
pub(super) struct Resumed {
    waiting: Waiting,
    spending: Arc<Spending>,
    served: Served,
    asking: Arc<Asking>,
    begun: Begun,
}

impl Ready {
    /// What the next process is told of it, but for its record.
    pub(super) fn begun(&self, id: &str, created: u64, prompts: &[u64]) -> Begun {
        let others = &self.route.others;
        let other = self.served.model.and_then(|model| others.get(model));
        Begun {
            route: self.route.name.clone(),
            offset: 0,
            pieces: pieces(&self.route, &self.asking),
            allowance: self.time,
            id: id.to_owned(),
            created,
            prompt: prompts.iter().sum(),
            model: other.map(|other| other.name.clone()),
            most_tokens: self.served.most_tokens,
        }
    }

    /// What an earlier process has asked with. None if it has not, and where the pipeline does not have it or could not
    /// answer it: that is asked as any other.
    pub(super) async fn resume(&self, asked: &Asked) -> Result<Option<Resumed>, ApiError> {
        let Some(left) = self.making.as_ref().and_then(Making::left) else {
            return Ok(None);
        };
        let (inner, begun) = (&self.openai.0, left.begun.clone());
        let served = Served::of(&begun, &self.route);
        let mut asking = self.asking.clone();
        served.apply(&self.route, Arc::make_mut(&mut asking));
        // Before it is taken: who cannot pay for it now can later.
        let tokens = begun
            .prompt
            .saturating_add(most_tokens(&self.route, &asking));
        let reserved = inner.admission.reserve(&asked.who, tokens);
        let reserved = reserved.map_err(|exceeded| ApiError::exceeded(&exceeded))?;
        let caller = caller(&self.route, begun.offset);
        let resumed = inner.requests.resume(caller, &self.patience).await;
        let resumed = resumed.map_err(|_| ApiError::deadline())?;
        left.take();
        Ok(resumed.map(|waiting| Resumed {
            spending: {
                let spending = waiting.paid_by(|used| reserved.settle(used));
                spending.is_of(&asked.who.name);
                spending
            },
            waiting,
            served,
            asking,
            begun,
        }))
    }

    /// Goes on with it.
    pub(super) fn goes_on(self, resumed: Resumed, trace: Option<Trace>) -> run::Job {
        let (id, created) = (resumed.begun.id, resumed.begun.created);
        let ready = Ready {
            served: resumed.served,
            asking: resumed.asking,
            ..self
        };
        run::Job {
            resumed: Some(resumed.waiting),
            trace,
            ..ready.job(id, created, resumed.spending)
        }
    }
}
