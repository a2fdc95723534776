//! Replies belong to others: they may panic, and must be answered all the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_contract::{Answer, ModelError, Piece, Reply};

use crate::answer::AnswerPiece;

/// A reply that is answered exactly once, with `Closed` if nobody else did, and whose panics end here.
pub(crate) struct GuardedReply {
    reply: Option<Box<dyn Reply>>,
    wants_pieces: bool,
}

impl GuardedReply {
    pub(crate) fn new(reply: Box<dyn Reply>) -> GuardedReply {
        let mut wants_pieces = false;
        guarded(|| wants_pieces = reply.wants_pieces());
        GuardedReply {
            reply: Some(reply),
            wants_pieces,
        }
    }

    /// Whether parts of answers are of any use.
    pub(crate) fn wants_pieces(&self) -> bool {
        self.wants_pieces
    }

    /// Hands on a token; false if the reply panicked.
    pub(crate) fn token(&mut self, index: u32, token: u32, text: &str) -> bool {
        match &mut self.reply {
            Some(reply) => guarded(|| reply.token(index, token, text)),
            None => true,
        }
    }

    /// Hands on parts of an answer that became certain with its token of this index; false if the reply panicked.
    pub(crate) fn pieces(&mut self, choice: u32, index: u32, pieces: &[AnswerPiece]) -> bool {
        let Some(reply) = &mut self.reply else {
            return true;
        };
        pieces.iter().all(|piece| {
            let begins = piece.begins.as_ref();
            let piece = Piece {
                choice,
                index,
                lane: piece.lane,
                text: &piece.text,
                begins: begins.map(|(id, name)| (id.as_str(), name.as_str())),
                logprobs: &piece.logprobs,
            };
            guarded(|| reply.piece(&piece))
        })
    }

    /// One of several answers has ended before the others; false if the reply panicked.
    pub(crate) fn choice_ended(&mut self, choice: u32) -> bool {
        match &mut self.reply {
            Some(reply) if self.wants_pieces => guarded(|| reply.choice_ended(choice)),
            _ => true,
        }
    }

    /// Ends the request.
    pub(crate) fn done(&mut self, result: Result<Answer, ModelError>) {
        if let Some(reply) = self.reply.take() {
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
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => true,
        Err(payload) => {
            let reason = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            tracing::error!(%reason, "a reply panicked; its request is cancelled");
            false
        }
    }
}
