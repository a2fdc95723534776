//! A lane at one handler, as a value: what it was given, what was let through of it, and how far the handler is.
//!
//! A handler may lose what it knows of a lane at any time: its instance is another's too. Then the lane is opened again and
//! given the same pieces anew; what is let through of them must be what was let through before, and goes no further a
//! second time.

use std::time::{Duration, Instant};

use tidegate_contract::{AnswerEnd, AnswerLane, OperatorError};

use super::{Halt, Handler};
use crate::task::Pause;

/// How often a lane is opened anew at once: what was lost with others, what is lost beside them, and by itself.
const LOSSES: u32 = 3;

/// See the module. It is bounded by the answer.
#[derive(Debug, Default)]
pub(crate) struct HandledLane {
    /// Its number with the handler, while it is open there.
    number: Option<u64>,
    /// All text that it was given, and where each piece of it ends.
    given: String,
    ends: Vec<usize>,
    /// Nothing comes after these.
    is_last: bool,
    /// How many pieces the handler has seen since the lane was opened, and whether it has seen that there are no more.
    seen: usize,
    has_ended: bool,
    /// What was let through, and how much of that has come again since the lane was opened.
    through: String,
    repeated: usize,
    /// How the handler has ended the answer.
    pub end: Option<AnswerEnd>,
    /// Instances that were lost under it since it last was as far as what it was given.
    losses: u32,
    /// Until it is tried again, which the handler cannot take now; others it may.
    pause: Option<Pause>,
}

impl HandledLane {
    /// The next text for the handler.
    pub(crate) fn give(&mut self, text: &str) {
        self.given.push_str(text);
        self.ends.push(self.given.len());
    }

    /// Nothing comes after what it was given.
    pub(crate) fn give_end(&mut self) {
        self.is_last = true;
    }

    /// Whether the handler will say no more of it.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended || self.end.is_some()
    }

    fn has_more(&self) -> bool {
        !self.is_over() && (self.seen < self.ends.len() || self.is_last)
    }

    /// Gives the handler the next piece. Returns what is let through that was not before; none if there is no piece. The
    /// turn of the answer may be over with it, and what it lets through waits for the next.
    pub(crate) fn step(
        &mut self,
        handler: &Handler,
        lane: &AnswerLane<'_>,
    ) -> Result<Option<String>, Halt> {
        let began = Instant::now();
        while self.has_more() {
            let error = match self.try_step(handler, lane) {
                Ok(through) => return through.map(Some),
                Err(error) => error,
            };
            self.forget();
            match error {
                Failed::Of(OperatorError::Lost { .. }) if self.losses < LOSSES => self.losses += 1,
                Failed::Of(error @ OperatorError::Poison { .. }) => {
                    return Err(Halt::Failed(error.to_string()));
                }
                Failed::Of(error @ (OperatorError::Failed { .. } | OperatorError::Lost { .. })) => {
                    return Err(Halt::Later(self.put_off(lane, &error, began.elapsed())));
                }
                Failed::Of(error) => return Err(Halt::Later(handler.put_off(&error))),
                Failed::NotYet(until) => return Err(Halt::Later(until)),
            }
        }
        Ok(None)
    }

    fn try_step(
        &mut self,
        handler: &Handler,
        lane: &AnswerLane<'_>,
    ) -> Result<Result<String, Halt>, Failed> {
        let own = self.pause.map(|pause| pause.until);
        let own = own.filter(|until| *until > Instant::now());
        if let Some(until) = own.or_else(|| handler.is_put_off()) {
            return Err(Failed::NotYet(until));
        }
        let number = match self.number {
            Some(number) => number,
            None => *self.number.insert(handler.open(lane).map_err(Failed::Of)?),
        };
        let is_last = self.seen == self.ends.len();
        let piece = match self.ends.get(self.seen) {
            Some(end) => {
                let from = self
                    .seen
                    .checked_sub(1)
                    .map_or(0, |before| self.ends[before]);
                &self.given[from..*end]
            }
            None => "",
        };
        let through = handler.step(number, piece, is_last).map_err(Failed::Of)?;
        match is_last {
            true => self.has_ended = true,
            false => self.seen += 1,
        }
        self.end = through.end;
        if self.seen == self.ends.len() {
            (self.losses, self.pause) = (0, None);
        }
        Ok(self.new_of(&through.text))
    }

    /// What of a text that is let through was not let through before.
    fn new_of(&mut self, text: &str) -> Result<String, Halt> {
        let before = &self.through[self.repeated..];
        let same = before.len().min(text.len());
        let is_all_there = same == before.len() || !self.is_over();
        if before.as_bytes()[..same] != text.as_bytes()[..same] || !is_all_there {
            return Err(Halt::Differs(
                "a handler of its tokens let something else through when it was given the text again".into(),
            ));
        }
        let new = text[same..].to_owned();
        self.through.push_str(&new);
        self.repeated += text.len();
        Ok(new)
    }

    /// The handler cannot take it now, though it may take others: whatever this one says holds nobody else up.
    fn put_off(&mut self, lane: &AnswerLane<'_>, error: &OperatorError, cost: Duration) -> Instant {
        if self.pause.is_none() {
            let record = lane.record;
            tracing::warn!(record, %error, "an answer waits for a handler of its tokens");
        }
        let pause = Pause::after(self.pause, cost);
        (self.pause, self.losses) = (Some(pause), 0);
        pause.until
    }

    /// Whether the handler could not take it when it was last given it.
    pub(crate) fn is_stuck(&self) -> bool {
        self.pause.is_some()
    }

    /// The handler knows nothing of it any more.
    fn forget(&mut self) {
        (self.number, self.seen, self.repeated) = (None, 0, 0);
    }

    /// The handler is done with it, or another takes its place, which is given everything anew.
    pub(crate) fn leave(&mut self, handler: &Handler) {
        if let Some(number) = self.number {
            handler.close(number);
        }
        self.forget();
        self.pause = None;
    }
}

/// Why a handler did not take a piece.
enum Failed {
    Of(OperatorError),
    /// It is not asked before then.
    NotYet(Instant),
}
