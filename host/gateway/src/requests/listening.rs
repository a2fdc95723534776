//! Hearing an answer as it is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_contract::{Lane, Listener, Piece};

use super::caller::Caller;
use super::{Failure, Heard, OwnedPiece, lock};

/// Texts by choice and lane.
pub type Lanes = BTreeMap<(u32, Lane), String>;

/// What was heard so far, whoever said it.
#[derive(Default)]
pub(super) struct Shown {
    lanes: Lanes,
    pieces: usize,
    /// The attempt that is heard.
    attempt: u32,
}

impl Shown {
    pub(super) fn take(&mut self) -> Lanes {
        std::mem::take(&mut self.lanes)
    }
}

/// One attempt at an answer.
pub(super) struct Listening {
    caller: Arc<Caller>,
    /// Most pieces that are heard.
    most: usize,
    attempt: u32,
    /// Bytes that this attempt has said. One that begins anew says again what was heard, which is passed over.
    said: BTreeMap<(u32, Lane), usize>,
}

impl Listening {
    /// One attempt is heard at a time: a later one takes the place of those before it. None where nobody wants to hear.
    pub(super) fn begin(caller: Arc<Caller>, attempt: u32) -> Option<Listening> {
        let most = caller.pieces?;
        {
            let mut state = lock(&caller.state);
            if state.over || attempt <= state.shown.attempt {
                return None;
            }
            state.shown.attempt = attempt;
        }
        Some(Listening {
            caller,
            most,
            attempt,
            said: BTreeMap::new(),
        })
    }

    /// What is new of a piece; an error if it contradicts what was heard.
    fn new_of(&mut self, piece: &Piece<'_>, lanes: &mut Lanes) -> Result<Option<OwnedPiece>, ()> {
        let key = (piece.choice, piece.lane);
        let begins = piece.begins.filter(|_| !lanes.contains_key(&key));
        let heard = lanes.entry(key).or_default();
        let said = self.said.entry(key).or_default();
        let again = heard.len().saturating_sub(*said).min(piece.text.len());
        let old = heard.as_bytes().get(*said..*said + again);
        if old != piece.text.as_bytes().get(..again) {
            return Err(());
        }
        *said += piece.text.len();
        let Some(text) = piece.text.get(again..) else {
            return Err(());
        };
        heard.push_str(text);
        // A piece that was heard whole is old, with its log-probabilities.
        let old = again > 0 && text.is_empty();
        if begins.is_none() && text.is_empty() && (old || piece.logprobs.is_empty()) {
            return Ok(None);
        }
        Ok(Some(OwnedPiece {
            choice: piece.choice,
            index: piece.index,
            lane: piece.lane,
            text: text.to_owned(),
            begins: begins.map(|(id, name)| (id.to_owned(), name.to_owned())),
            logprobs: piece.logprobs.to_vec(),
        }))
    }
}

impl Listener for Listening {
    fn piece(&mut self, piece: &Piece<'_>) {
        let (caller, most) = (self.caller.clone(), self.most);
        let mut state = lock(&caller.state);
        if state.over || state.shown.attempt != self.attempt {
            return;
        }
        let heard = match self.new_of(piece, &mut state.shown.lanes) {
            Ok(None) => return,
            Ok(Some(new)) if state.shown.pieces < most => Heard::Piece(new),
            // More pieces than an answer has tokens are as wrong as other ones.
            Ok(Some(_)) | Err(()) => {
                (state.over, state.failed) = (true, true);
                Heard::Failed(Failure::Contradicted)
            }
        };
        state.shown.pieces += 1;
        // Under the lock, so that nothing is said between.
        caller.say(heard);
    }

    fn has_shown(&self) -> bool {
        lock(&self.caller.state).shown.pieces > 0
    }
}
