//! One lane of an answer on its way through the handlers.

use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{AnswerEnd, AnswerLane};

use super::{Of, Place};
use crate::feeding::LaneSoFar;
use crate::handlers::{Halt, HandledLane, Handler};

/// What is let through of a lane.
#[derive(Debug, Default)]
pub(super) struct Through {
    /// It at each handler, while it is open.
    handled: Vec<HandledLane>,
    pub is_open: bool,
    /// Bytes that the model has made.
    pub made: usize,
    /// What the last handler has let through, and nobody has been shown.
    fresh: String,
    pub text: String,
    /// Id and name of the call.
    pub call: Option<(String, String)>,
    /// Index of its last token.
    pub index: u32,
}

impl Through {
    pub(super) fn so_far(&self, (choice, lane): Place) -> LaneSoFar<'_> {
        let call = self.call.as_ref();
        LaneSoFar {
            choice,
            lane,
            index: self.index,
            text: &self.text,
            call: call.map(|(id, name)| (id.as_str(), name.as_str())),
        }
    }

    /// Gives it to so many handlers, unless it is with them.
    pub(super) fn open(&mut self, handlers: usize) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.handled.resize_with(handlers, HandledLane::default);
        }
    }

    /// The next text for the first handler.
    pub(super) fn give(&mut self, text: &str) {
        match self.handled.first_mut() {
            Some(first) => first.give(text),
            None => self.fresh.push_str(text),
        }
    }

    /// Nothing comes after it.
    pub(super) fn give_end(&mut self) {
        if let Some(first) = self.handled.first_mut() {
            first.give_end();
        }
    }

    /// Has the handlers see what they were given, as far as the turn goes. Returns what they have let through together,
    /// and whether one of them ends the answer.
    pub(super) fn go_on(
        &mut self,
        handlers: &[Arc<Handler>],
        of: &Of,
        (choice, lane): Place,
        until: Instant,
    ) -> Result<(String, Option<AnswerEnd>), Halt> {
        let lane = AnswerLane {
            record: &of.record,
            model: &of.model,
            choice,
            lane,
            attributes: &of.attributes,
        };
        let mut rest = self.handled.as_mut_slice();
        let mut handlers = handlers.iter();
        while let (Some((handled, after)), Some(handler)) =
            (rest.split_first_mut(), handlers.next())
        {
            while let Some(text) = handled.step(handler, &lane)? {
                match after.first_mut() {
                    Some(_) if text.is_empty() => {}
                    Some(next) => next.give(&text),
                    None => self.fresh.push_str(&text),
                }
                if Instant::now() >= until {
                    return Err(Halt::Turn);
                }
            }
            if let Some(next) = after.first_mut()
                && handled.is_over()
            {
                // What comes after the end of one that is before it is nothing.
                next.give_end();
            }
            rest = after;
        }
        let end = self.handled.iter().find_map(|handled| handled.end);
        Ok((std::mem::take(&mut self.fresh), end))
    }

    /// Whether the handler at this place could not go on with it when it was last asked.
    pub(super) fn is_stuck(&self, at: usize) -> bool {
        self.handled.get(at).is_some_and(HandledLane::is_stuck)
    }

    /// Another handler takes the place of this one: it is given everything anew.
    pub(super) fn leave(&mut self, at: usize, handler: &Handler) {
        if let Some(handled) = self.handled.get_mut(at) {
            handled.leave(handler);
        }
    }

    /// The handlers are done with it.
    pub(super) fn close(&mut self, handlers: &[Arc<Handler>]) {
        self.is_open = false;
        for (handler, mut handled) in handlers.iter().zip(self.handled.drain(..)) {
            handled.leave(handler);
        }
    }
}
