//! A slot's handlers of tokens: many lanes in one instance, which is none of those that answer batches.
//!
//! What loses the instance (a trap, a deadline, a refused allocation, a bad answer) ends every lane that is open, and
//! counts as a loss of the slot. So does what `step` says is its failure, which counts as none. The next lane that is
//! opened gets a fresh instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{AnswerLane, OperatorError, Through, TokenHandler};

use crate::failure::Failure;
use crate::guest::Guest;
use crate::limits::size;
use crate::revision::Revision;
use crate::spares::{Spares, Started};
use crate::world::tokens::WitPiece;

/// Most lanes that are open at the same time.
const LANES: usize = 4096;

/// See the module.
pub(crate) struct Tokens {
    revision: Arc<Revision>,
    /// None after a failure, until a lane is opened.
    started: Option<Started>,
    lanes: HashMap<u64, Progress>,
    /// Why the lanes are over that were open before.
    over: Option<OperatorError>,
}

/// How far a lane is.
#[derive(Default)]
struct Progress {
    /// Bytes that were let through.
    through: usize,
    /// Whether its last piece was given, or the answer ended.
    is_done: bool,
}

impl Tokens {
    pub(crate) fn new(revision: Arc<Revision>) -> Result<Tokens, OperatorError> {
        if !revision.description.handles_tokens {
            return Err(OperatorError::Unfit {
                component: revision.component.label().to_owned(),
                why: "it handles no tokens under its configuration".to_owned(),
            });
        }
        let mut tokens = Tokens {
            revision,
            started: None,
            lanes: HashMap::new(),
            over: None,
        };
        tokens.check_tripped()?;
        tokens.started = Some(Started::new(&tokens.revision)?);
        Ok(tokens)
    }

    fn check_tripped(&self) -> Result<(), OperatorError> {
        match self.revision.tally.tripped() {
            Some(why) => Err(OperatorError::Tripped {
                component: self.component(),
                why: why.to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn component(&self) -> String {
        self.revision.component.label().to_owned()
    }

    fn failed(&self, why: String) -> OperatorError {
        OperatorError::Failed {
            component: self.component(),
            why,
        }
    }

    /// One call of the guest. An error is not taken to heart yet.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&Revision, &mut Guest) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(Started { guest, held }) = &mut self.started else {
            return Err(Failure::answer("there is no instance"));
        };
        let began = Instant::now();
        let called = call(&self.revision, guest);
        self.revision.meters.on_call(began.elapsed());
        held.set(guest.memory());
        called
    }

    /// What was said in words, or the loss of the instance: then its lanes are over.
    fn blame(&mut self, failure: Failure) -> OperatorError {
        match failure.class {
            Some(_) => self.failed(failure.reason),
            None => self.lose(failure),
        }
    }

    fn lose(&mut self, failure: Failure) -> OperatorError {
        let revision = &self.revision;
        revision.meters.on_lost();
        if !failure.is_crowded {
            revision.tally.on_lost();
        }
        tracing::warn!(
            target: "tidegate::operator",
            slot = revision.context.shared.name,
            lanes = self.lanes.len(),
            "an instance that handles tokens was lost: {}",
            failure.text()
        );
        let error = OperatorError::Lost {
            component: self.component(),
            why: failure.reason,
        };
        self.end_all(&error);
        error
    }

    fn end_all(&mut self, error: &OperatorError) {
        self.started = None;
        self.lanes.clear();
        self.over = Some(error.clone());
    }
}

impl TokenHandler for Tokens {
    fn open(&mut self, number: u64, lane: &AnswerLane<'_>) -> Result<(), OperatorError> {
        self.check_tripped()?;
        if self.lanes.contains_key(&number) {
            return Err(self.failed(format!("lane {number} is open already")));
        }
        if self.lanes.len() >= LANES {
            return Err(self.failed(format!("{LANES} lanes are open, limit {LANES}")));
        }
        if self.started.is_none() {
            self.started = Some(Spares::restart(&self.revision)?);
        }
        self.call(|revision, guest| guest.open_lane(revision, number, lane))
            .map_err(|failure| self.blame(failure))?;
        self.lanes.insert(number, Progress::default());
        Ok(())
    }

    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        let through = match self.lanes.get(&number) {
            Some(lane) if !lane.is_done => lane.through,
            Some(_) => return Err(self.failed(format!("lane {number} has ended"))),
            None => {
                let closed = || self.failed(format!("lane {number} is not open"));
                return Err(self.over.clone().unwrap_or_else(closed));
            }
        };
        let piece = WitPiece {
            lane: number,
            text,
            last,
        };
        self.revision.meters.on_token_step();
        let limit = self.revision.context.limits.output;
        let answer = self
            .call(|revision, guest| guest.step_lane(revision, piece))
            .and_then(|answer| match through + answer.text.len() > limit {
                true => Err(Failure::answer(&format!(
                    "output: it lets {} of a lane through, limit {}",
                    size(through + answer.text.len()),
                    size(limit)
                ))),
                false => Ok(answer),
            });
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => {
                let is_said = failure.class.is_some();
                let error = self.blame(failure);
                if is_said {
                    self.end_all(&error);
                }
                return Err(error);
            }
        };
        if let Some(lane) = self.lanes.get_mut(&number) {
            lane.through += answer.text.len();
            lane.is_done = last || answer.end.is_some();
        }
        Ok(answer)
    }

    fn close(&mut self, number: u64) {
        if self.lanes.remove(&number).is_some()
            && let Err(failure) = self.call(|revision, guest| guest.close_lane(revision, number))
        {
            // Whoever has a lane open is told at its next step.
            self.lose(failure);
        }
    }
}
