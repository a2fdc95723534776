//! A slot's handlers of tokens: many lanes in one instance, which is none of those that answer batches.
//!
//! What a handler says in words, it says of one lane. What loses the instance (a trap, a deadline, a refused allocation, a
//! bad answer) is a verdict on a lane only where the instance has seen no other: what an instance remembers is no answer's
//! fault. Otherwise all lanes are gone without one, and are opened again in a fresh instance: the first by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{AnswerLane, Lane, OperatorError, Through, TokenHandler};

use crate::failure::{Class, Failure};
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
    /// None after a loss, until a lane is opened.
    started: Option<Started>,
    lanes: HashMap<u64, Progress>,
    /// Which lanes the instance has seen.
    seen: Seen,
    /// Whether the breaker has counted the search that is under way, which has found nothing so far.
    counted: bool,
    /// Why the last instance was lost.
    lost: Option<String>,
}

/// How far a lane is.
#[derive(Default)]
struct Progress {
    /// Bytes that were let through.
    through: usize,
    /// Whether its last piece was given, or the answer ended.
    is_done: bool,
}

/// Which lanes an instance has seen since it was started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    One(u64),
    Several,
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
            seen: Seen::Nothing,
            counted: false,
            lost: None,
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

    /// The instance is about to see a lane.
    fn sees(&mut self, number: u64) {
        self.seen = match self.seen {
            Seen::Nothing => Seen::One(number),
            Seen::One(one) if one == number => self.seen,
            Seen::One(_) | Seen::Several => {
                // What was searched for lets others go on beside it: the search is over.
                self.counted = false;
                Seen::Several
            }
        };
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

    /// What a call for a lane failed of, as whoever has the lane is told.
    fn blame(&mut self, number: u64, failure: Failure) -> OperatorError {
        match failure.class {
            Some(Class::Permanent) => {
                self.close(number);
                self.verdict(failure.reason)
            }
            // The same text may go through later.
            Some(Class::Transient | Class::BadConfiguration) => {
                self.close(number);
                self.failed(failure.reason)
            }
            None => {
                let is_verdict = self.seen == Seen::One(number) && !failure.is_crowded;
                let is_new =
                    failure.is_crowded || !std::mem::replace(&mut self.counted, !is_verdict);
                let why = failure.reason.clone();
                self.lose(&failure, is_new);
                if let Err(tripped) = self.check_tripped() {
                    // Whatever it was in: the slot does not ask this revision any more, so the lane waits for another.
                    return tripped;
                }
                match is_verdict {
                    true => self.verdict(why),
                    false => self.gone(why),
                }
            }
        }
    }

    /// A lane has failed by itself: one answer that the revision has no text for.
    fn verdict(&self, why: String) -> OperatorError {
        self.revision.meters.on_failed();
        self.revision.tally.on_failed();
        OperatorError::Poison {
            component: self.component(),
            why,
        }
    }

    fn gone(&self, why: String) -> OperatorError {
        OperatorError::Lost {
            component: self.component(),
            why,
        }
    }

    /// The instance is lost, and its lanes with it. `is_new` is whether that is one more for the breaker, which counts a
    /// search once; what got no memory because others had it is nobody's fault.
    fn lose(&mut self, failure: &Failure, is_new: bool) {
        let revision = &self.revision;
        revision.meters.on_lost();
        if is_new && !failure.is_crowded {
            revision.tally.on_lost();
        }
        tracing::warn!(
            target: "tidegate::operator",
            slot = revision.context.shared.name,
            lanes = self.lanes.len(),
            "an instance that handles tokens was lost: {}",
            failure.text()
        );
        self.lost = Some(failure.reason.clone());
        self.end_all();
    }

    fn end_all(&mut self) {
        self.started = None;
        self.seen = Seen::Nothing;
        self.lanes.clear();
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
        self.sees(number);
        self.call(|revision, guest| guest.open_lane(revision, number, lane))
            .map_err(|failure| self.blame(number, failure))?;
        self.lanes.insert(number, Progress::default());
        Ok(())
    }

    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        if let Err(tripped) = self.check_tripped() {
            // It answers nothing more, and needs no instance.
            self.end_all();
            return Err(tripped);
        }
        let through = match self.lanes.get(&number) {
            Some(lane) if !lane.is_done => lane.through,
            Some(_) => return Err(self.failed(format!("lane {number} has ended"))),
            None => {
                let never = || format!("lane {number} is not open");
                return Err(self.gone(self.lost.clone().unwrap_or_else(never)));
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
            })
            .map_err(|failure| self.blame(number, failure))?;
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
            // The answer has all of its text. Whoever has another lane open finds it gone at its next step.
            self.lose(&failure, true);
        }
    }
}

/// Whether a handler gets through a lane without text, before its version is switched to. What it says in words is its own
/// matter: it knows nothing of an answer like this.
pub(crate) fn try_out(revision: &Revision) -> Result<(), OperatorError> {
    let Started { mut guest, .. } = Started::new(revision)?;
    let (number, lane) = (
        1,
        AnswerLane {
            record: "a trial before a deployment",
            model: "",
            choice: 0,
            lane: Lane::Content,
            attributes: &[],
        },
    );
    let last = WitPiece {
        lane: number,
        text: "",
        last: true,
    };
    let tried = guest
        .open_lane(revision, number, &lane)
        .and_then(|()| guest.step_lane(revision, last))
        .and_then(|_| guest.close_lane(revision, number));
    match tried {
        Err(failure) if failure.class.is_none() => Err(OperatorError::Unfit {
            component: revision.component.label().to_owned(),
            why: format!(
                "it does not handle a text without tokens: {}",
                failure.text()
            ),
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}
