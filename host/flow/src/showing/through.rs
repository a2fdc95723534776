//! One lane of an answer on its way through the handlers.

use std::sync::Arc;

use tidegate_contract::{AnswerEnd, AnswerLane, Lane};

use super::{Of, Place};
use crate::feeding::LaneSoFar;
use crate::handlers::Handler;

/// What is let through of a lane.
#[derive(Debug, Default)]
pub(super) struct Through {
    /// Its number with each handler, while it is open.
    numbers: Vec<u64>,
    pub is_open: bool,
    /// Bytes that the model has made.
    pub made: usize,
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

    /// Opens it with each handler, unless it is.
    pub(super) fn open(
        &mut self,
        handlers: &[Arc<Handler>],
        of: &Of,
        (choice, lane): (u32, Lane),
    ) -> Result<(), String> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        for handler in handlers {
            let opened = handler.open(&AnswerLane {
                record: &of.record,
                model: &of.model,
                choice,
                lane,
                attributes: &of.attributes,
            });
            match opened {
                Ok(number) => self.numbers.push(number),
                Err(why) => {
                    self.close(handlers);
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// What the handlers let through of a text, and whether one of them ends the answer. With `last` nothing comes after
    /// it.
    pub(super) fn step(
        &self,
        handlers: &[Arc<Handler>],
        text: &str,
        last: bool,
    ) -> Result<(String, Option<AnswerEnd>), String> {
        let (mut text, mut end) = (text.to_owned(), None);
        for (handler, number) in handlers.iter().zip(&self.numbers) {
            // What comes after the end of one that is before it is nothing.
            let step = handler.step(*number, &text, last || end.is_some())?;
            text = step.text;
            end = end.or(step.end);
        }
        Ok((text, end))
    }

    /// The handlers are done with it.
    pub(super) fn close(&mut self, handlers: &[Arc<Handler>]) {
        self.is_open = false;
        for (handler, number) in handlers.iter().zip(self.numbers.drain(..)) {
            handler.close(number);
        }
    }
}
