//! Who sees an answer, and what has been seen of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_contract::{Listener, Piece};

use super::Place;
use crate::entry::Entry;
use crate::handlers::Halt;

/// See the module.
pub(crate) struct Seen {
    listener: Box<dyn Listener>,
    /// The attempt it listens to.
    pub attempt: u32,
    /// Digest of the model whose tokens it sees.
    pub model: Arc<str>,
    /// How many attempts of the entry had ended.
    pub ended: u32,
    /// What it has seen is the beginning of what comes.
    pub goes_on: bool,
    /// How many tokens of the first choice it takes to bring again what it has seen.
    tokens: usize,
    /// What it has seen of each lane.
    texts: BTreeMap<Place, String>,
    /// How much of that has come again, which is left out: of the lanes that it had seen when the answer began again.
    again: BTreeMap<Place, usize>,
}

impl Seen {
    pub(crate) fn new(
        listener: Box<dyn Listener>,
        attempt: u32,
        model: Arc<str>,
        ended: u32,
    ) -> Seen {
        Seen {
            listener,
            attempt,
            model,
            ended,
            goes_on: true,
            tokens: 0,
            texts: BTreeMap::new(),
            again: BTreeMap::new(),
        }
    }

    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// See [`Showing::begin_anew`](super::Showing::begin_anew).
    pub(super) fn begin_anew(&mut self) -> bool {
        if self.listener.has_shown() {
            return false;
        }
        self.goes_on &= self.texts.is_empty();
        true
    }

    /// The answer is made again from its beginning, and is to be the same as far as it was.
    pub(super) fn again(mut self) -> Seen {
        self.again = self.texts.keys().map(|place| (*place, 0)).collect();
        self
    }

    /// Whether what it has seen of an entry is the beginning of what comes when its model is asked now.
    pub(crate) fn continues(&self, entry: &Entry) -> bool {
        self.goes_on && self.ended == entry.attempt && self.model == entry.model
    }

    /// Whether it has seen anything.
    pub(super) fn has_seen(&self) -> bool {
        !self.texts.is_empty()
    }

    /// An error is that it does not go on what was seen.
    pub(super) fn piece(&mut self, piece: &Piece<'_>) -> Result<(), Halt> {
        let place = (piece.choice, piece.lane);
        // Only tokens of the first choice are kept. Whoever tells them makes the other choices again from their seeds.
        let index = match piece.choice {
            0 => piece.index as usize,
            _ => 0,
        };
        self.tokens = self.tokens.max(index + 1);
        let seen = self.texts.entry(place).or_default();
        let again = self.again.get_mut(&place);
        let is_begun = again.is_some();
        let rest = match &again {
            Some(again) => &seen[**again..],
            None => "",
        };
        let is_new = rest.is_empty();
        let same = rest.len().min(piece.text.len());
        if rest.as_bytes()[..same] != piece.text.as_bytes()[..same] {
            let why = "what comes is not what was shown before";
            return Err(Halt::Differs(why.to_owned()));
        }
        let new = &piece.text[same..];
        seen.push_str(new);
        if let Some(again) = again {
            *again += piece.text.len();
        }
        if is_new {
            self.listener.piece(&Piece {
                begins: piece.begins.filter(|_| !is_begun),
                ..piece.clone()
            });
        } else if !new.is_empty() {
            self.listener.piece(&Piece {
                text: new,
                begins: None,
                logprobs: &[],
                ..piece.clone()
            });
        }
        Ok(())
    }
}
