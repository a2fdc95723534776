//! Parts of an answer on their way from the engine's thread to a worker.
//!
//! The engine's thread never waits: what it makes goes into a buffer of its request, and the worker is woken once for all
//! that is there. A buffer holds no more than the answer itself, whose tokens are bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{Lane, Piece, TokenLogprob};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedPiece {
    pub choice: u32,
    pub index: u32,
    pub lane: Lane,
    pub text: String,
    /// Id and name of the call that begins with it.
    pub begins: Option<(String, String)>,
    pub logprobs: Vec<TokenLogprob>,
}

/// Something that was made of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Piece(OwnedPiece),
    /// One of several answers has ended before the others.
    ChoiceEnded(u32),
}

/// What was made of a request and its worker has not seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(Arc<Mutex<Unseen>>);

#[derive(Debug, Default)]
struct Unseen {
    parts: Vec<Part>,
    /// The worker was woken, and has not looked since.
    woken: bool,
}

impl Pieces {
    fn lock(&self) -> MutexGuard<'_, Unseen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece. Returns whether the worker is to be woken.
    pub(crate) fn add(&self, piece: &Piece<'_>) -> bool {
        let mut unseen = self.lock();
        match unseen.parts.last_mut() {
            // One step of the handlers for both. What has log-probabilities stays by itself: they are left out where its
            // text is changed, and stay elsewhere.
            Some(Part::Piece(last))
                if (last.choice, last.lane) == (piece.choice, piece.lane)
                    && piece.begins.is_none()
                    && last.logprobs.is_empty()
                    && piece.logprobs.is_empty() =>
            {
                last.index = piece.index;
                last.text.push_str(piece.text);
            }
            _ => unseen.parts.push(Part::Piece(OwnedPiece {
                choice: piece.choice,
                index: piece.index,
                lane: piece.lane,
                text: piece.text.to_owned(),
                begins: (piece.begins).map(|(id, name)| (id.to_owned(), name.to_owned())),
                logprobs: piece.logprobs.to_vec(),
            })),
        }
        !std::mem::replace(&mut unseen.woken, true)
    }

    /// One of several answers has ended. Returns whether the worker is to be woken.
    pub(crate) fn end_choice(&self, choice: u32) -> bool {
        let mut unseen = self.lock();
        unseen.parts.push(Part::ChoiceEnded(choice));
        !std::mem::replace(&mut unseen.woken, true)
    }

    /// What the worker has not seen. It is woken again for what comes after.
    pub(crate) fn take(&self) -> Vec<Part> {
        let mut unseen = self.lock();
        unseen.woken = false;
        std::mem::take(&mut unseen.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lane: Lane, index: u32, text: &str) -> Piece<'_> {
        Piece {
            choice: 0,
            index,
            lane,
            text,
            begins: None,
            logprobs: &[],
        }
    }

    #[test]
    fn a_worker_is_woken_once_for_all_that_it_has_not_seen() {
        let pieces = Pieces::default();
        assert!(pieces.add(&piece(Lane::Content, 0, "a")));
        assert!(!pieces.add(&piece(Lane::Content, 1, "b")));
        assert!(!pieces.add(&piece(Lane::Reasoning, 2, "c")));
        let likely = [TokenLogprob {
            token: 1,
            logprob: -0.5,
            top: Vec::new(),
            said: true,
        }];
        let with = Piece {
            logprobs: &likely,
            ..piece(Lane::Reasoning, 3, "d")
        };
        assert!(!pieces.add(&with));
        assert!(!pieces.end_choice(0));
        let taken = pieces.take();
        let texts: Vec<_> = taken
            .iter()
            .map(|one| match one {
                Part::Piece(one) => (one.index, one.text.as_str()),
                Part::ChoiceEnded(choice) => (*choice, "ended"),
            })
            .collect();
        assert_eq!(texts, [(1, "ab"), (2, "c"), (3, "d"), (0, "ended")]);
        assert!(pieces.take().is_empty());
        assert!(pieces.add(&piece(Lane::Content, 4, "e")));
    }
}
