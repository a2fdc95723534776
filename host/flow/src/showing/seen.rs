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
            bytes: BTreeMap::new(),
            skips: BTreeMap::new(),
        }
    }

    pub(super) fn has_shown(&self) -> bool {
        self.listener.has_shown()
    }

    /// The answer is made again from its beginning, and is the same as far as it was.
    pub(super) fn again(mut self) -> Seen {
        self.skips = self.bytes.clone();
        self
    }

    pub(super) fn piece(&mut self, piece: &Piece<'_>) {
        let place = (piece.choice, piece.lane);
        let skip = self.skips.get(&place).copied().unwrap_or_default();
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
