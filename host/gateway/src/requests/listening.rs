//! Hearing an answer as it is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_contract::{Answer, Lane, Listener, Made, Piece};

use super::caller::Caller;
use super::{Failure, Heard, OwnedPiece, lock};

/// Texts by choice and lane.
pub type Lanes = BTreeMap<(u32, Lane), String>;

/// What was heard so far, whoever said it.
#[derive(Default)]
pub(super) struct Shown {
    lanes: Lanes,
    pieces: usize,
    /// The attempt that is heard, and how often one began.
    attempt: u32,
    begun: u64,
    done: bool,
}

impl Shown {
    pub(super) fn take(&mut self) -> Lanes {
        std::mem::take(&mut self.lanes)
    }
}

/// One attempt at an answer.
pub(super) struct Listening {
    caller: Arc<Caller>,
    number: u64,
    /// Bytes that this attempt has said. One that begins anew says again what was heard, which is passed over.
    said: BTreeMap<(u32, Lane), usize>,
}

impl Listening {
    /// One attempt is heard at a time: of the pieces of a split the first, until its answer is done or a later attempt
    /// takes its place.
    pub(super) fn begin(caller: Arc<Caller>, attempt: u32) -> Option<Listening> {
        let number = {
            let mut state = lock(&caller.state);
            if state.over {
                return None;
            }
            let shown = &mut state.shown;
            if !(shown.begun == 0 || shown.done || attempt > shown.attempt) {
                return None;
            }
            shown.attempt = attempt;
            shown.done = false;
            shown.begun += 1;
            shown.begun
        };
        Some(Listening {
            caller,
            number,
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
        let caller = self.caller.clone();
        let Some(most) = caller.pieces else {
            return;
        };
        let mut state = lock(&caller.state);
        if state.over || state.shown.begun != self.number {
            return;
        }
        let heard = match self.new_of(piece, &mut state.shown.lanes) {
            Ok(None) => return,
            Ok(Some(new)) if state.shown.pieces < most => Heard::Piece(new),
            // More pieces than an answer has tokens are as wrong as other ones.
            Ok(Some(_)) | Err(()) => {
                state.over = true;
                Heard::Failed(Failure::Contradicted)
            }
        };
        state.shown.pieces += 1;
        // Under the lock, so that nothing is said between.
        caller.say(heard);
    }

    fn answer(&mut self, answer: &Answer) {
        let mut state = lock(&self.caller.state);
        // What a later stage finds in a text is no answer in its place.
        let said = matches!(&state.answer, Some(said) if matches!(said.made, Made::Choices(_)));
        if said && matches!(answer.made, Made::Labels(_)) {
            return;
        }
        if state.shown.begun == self.number {
            state.answer = Some(answer.clone());
            state.shown.done = true;
        }
    }
}
