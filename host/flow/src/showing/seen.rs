//! Who sees an answer, and how much of it has been seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_contract::{Listener, Piece};

use super::Place;

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
    /// Bytes that it has seen of each lane.
    bytes: BTreeMap<Place, usize>,
    /// Bytes that are still to be left out: it has seen them.
    skips: BTreeMap<Place, usize>,
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
            bytes: BTreeMap::new(),
            skips: BTreeMap::new(),
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
        self.goes_on &= self.bytes.is_empty();
        true
    }

    /// The answer is made again from its beginning, and is the same as far as it was.
    pub(super) fn again(mut self) -> Seen {
        self.skips = self.bytes.clone();
        self
    }

    pub(super) fn piece(&mut self, piece: &Piece<'_>) {
        let place = (piece.choice, piece.lane);
        let skip = self.skips.get(&place).copied().unwrap_or_default();
        // Only tokens of the first choice are kept. Whoever tells them makes the other choices again from their seeds.
        let index = match piece.choice {
            0 => piece.index as usize,
            _ => 0,
        };
        self.tokens = self.tokens.max(index + 1);
        let seen = self.bytes.entry(place).or_default();
        if skip == 0 {
            let begun = self.skips.contains_key(&place);
            *seen += piece.text.len();
            self.listener.piece(&Piece {
                begins: piece.begins.filter(|_| !begun),
                ..piece.clone()
            });
            return;
        }
        self.skips
            .insert(place, skip.saturating_sub(piece.text.len()));
        let rest = piece.text.get(skip..).unwrap_or_default();
        if !rest.is_empty() {
            *seen += rest.len();
            self.listener.piece(&Piece {
                text: rest,
                begins: None,
                logprobs: &[],
                ..piece.clone()
            });
        }
    }
}
