//! A request to send letters again, and what became of each.

use std::time::{Duration, Instant};

use tidegate_contract::LetterStore;
use tidegate_control::{SendResult, SendState};

/// How long sending takes at the most.
#[derive(Clone, Copy)]
pub(super) struct Time {
    /// Each letter, and letters that go to a topic together.
    pub(super) each: Duration,
    /// All of a request.
    pub(super) all: Duration,
}

/// Letters that are to be sent.
pub(super) struct Request<'r> {
    pub(super) store: &'r dyn LetterStore,
    /// Also where the private attributes of their records are lost.
    pub(super) without_private: bool,
    pub(super) each: Duration,
    pub(super) until: Instant,
}

impl Request<'_> {
    /// Until when the next of it is tried; the error where no time is left.
    pub(super) fn until_of_one(&self) -> Result<Instant, End> {
        let now = Instant::now();
        let over = "the time that one request has was over before; it is not sent, send it again";
        match now < self.until {
            true => Ok(self.until.min(now + self.each)),
            false => Err(End::new(SendState::Unreached, over)),
        }
    }
}

/// What became of a letter.
#[derive(Clone)]
pub(super) struct End {
    pub(super) state: SendState,
    pub(super) why: Option<String>,
    pub(super) without_private: bool,
}

impl End {
    pub(super) fn new(state: SendState, why: impl Into<String>) -> End {
        End {
            state,
            why: Some(why.into()),
            without_private: false,
        }
    }

    pub(super) fn sent() -> End {
        End {
            state: SendState::Sent,
            why: None,
            without_private: false,
        }
    }

    pub(super) fn result(self, id: &str) -> SendResult {
        SendResult {
            id: id.to_owned(),
            state: self.state,
            why: self.why,
            without_private: self.without_private,
        }
    }
}
