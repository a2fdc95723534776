//! Replies belong to others: they may panic, and must be answered all the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_contract::{Answer, ModelError, Piece, Reply};

/// A reply that is answered exactly once, with `Closed` if nobody else did, and whose panics end here.
pub(crate) struct GuardedReply(Option<Box<dyn Reply>>);

impl GuardedReply {
    pub(crate) fn new(reply: Box<dyn Reply>) -> GuardedReply {
        GuardedReply(Some(reply))
    }

    /// The trace that what is asked is part of.
    pub(crate) fn traceparent(&self) -> Option<String> {
        let mut traceparent = None;
        if let Some(reply) = &self.0 {
            guarded(|| traceparent = reply.traceparent());
        }
        traceparent
    }

    /// Hands on a part of an answer; false if the reply panicked.
    pub(crate) fn piece(&mut self, piece: &Piece<'_>) -> bool {
        match &mut self.0 {
            Some(reply) => guarded(|| reply.piece(piece)),
            None => true,
        }
    }

    /// One of several answers has ended before the others; false if the reply panicked.
    pub(crate) fn choice_ended(&mut self, choice: u32) -> bool {
        match &mut self.0 {
            Some(reply) => guarded(|| reply.choice_ended(choice)),
            None => true,
        }
    }

    /// Ends the request.
    pub(crate) fn done(&mut self, result: Result<Answer, ModelError>) {
        if let Some(reply) = self.0.take() {
            guarded(|| reply.done(result));
        }
    }
}

impl Drop for GuardedReply {
    fn drop(&mut self) {
        self.done(Err(ModelError::Closed));
    }
}

fn guarded(call: impl FnOnce()) -> bool {
    let panicked = catch_unwind(AssertUnwindSafe(call)).is_err();
    if panicked {
        tracing::error!("a reply panicked; its request is cancelled");
    }
    !panicked
}
