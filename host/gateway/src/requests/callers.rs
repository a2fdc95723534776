//! The port by which `flow` tells callers.

use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{Answer, Became, CallerId, Callers, Listener, Tally, Terms};

use super::counting::Counting;
use super::listening::Listening;
use super::{Failure, Requests, lock};

impl Callers for Requests {
    fn terms(&self, caller: CallerId) -> Option<Terms> {
        self.caller(caller).map(|caller| caller.terms())
    }

    fn listen(&self, caller: CallerId, attempt: u32) -> Option<Box<dyn Listener>> {
        let listening = Listening::begin(self.caller(caller)?, attempt)?;
        Some(Box::new(listening))
    }

    fn name(&self, caller: CallerId) -> Option<Arc<str>> {
        let name = match self.caller(caller) {
            Some(caller) => caller.ways.spending.name(),
            None => {
                let gone = lock(&self.0.gone);
                let mut gone = gone.iter();
                gone.find(|(id, _)| *id == caller)?.1.clone()
            }
        };
        Some(name).filter(|name| !name.is_empty())
    }

    fn tally(&self, caller: CallerId, _: u32, made: u32) -> Option<Arc<dyn Tally>> {
        let counting = Counting::begin(self.caller(caller)?, made);
        Some(Arc::new(counting))
    }

    fn brings(&self, id: CallerId, answer: Option<Arc<Answer>>) {
        if let Some(caller) = self.caller(id) {
            if let Some(answer) = &answer {
                let spending = &caller.ways.spending;
                spending.prompt(caller.tag, u64::from(answer.prompt_tokens));
            }
            lock(&caller.state).answer = answer;
        }
    }

    fn begun(&self, id: CallerId, model: &str) {
        self.queue(id.source).line.leave(id.offset, Instant::now());
        if let Some(caller) = self.caller(id) {
            caller.waits_no_more();
            caller.begun(model);
        }
    }

    fn tell(&self, id: CallerId, became: &Became<'_>) {
        let Some(caller) = self.caller(id) else {
            return;
        };
        let why = {
            let mut state = lock(&caller.state);
            match became {
                Became::Several(0) => state.ended(Failure::NotAnswered),
                Became::Several(pieces) => {
                    state.left = state.left.saturating_add(pieces - 1);
                    None
                }
                Became::Dropped { stage } => state.ended(Failure::Dropped {
                    stage: (*stage).to_owned(),
                }),
                Became::Untaken { .. } | Became::Written { .. } => {
                    state.ended(Failure::NotAnswered)
                }
                Became::Dead {
                    stage,
                    reason,
                    error,
                } => state.ended(Failure::Dead {
                    stage: (*stage).to_owned(),
                    reason: (*reason).to_owned(),
                    error: error.cloned().map(Box::new),
                }),
            }
        };
        if let Some(why) = why {
            let why = caller.lacks(why, &self.0.options.answer);
            // Forgotten before it is told: who hears it may count on it.
            self.forget(id);
            caller.fail(why);
        }
    }

    fn take_gone(&self) -> Vec<CallerId> {
        let gone = std::mem::take(&mut *lock(&self.0.gone));
        gone.into_iter().map(|(id, _)| id).collect()
    }

    fn left(&self, source: u16, left: &[(CallerId, usize)]) -> Vec<CallerId> {
        self.begin_with(source, left)
    }
}
