//! A request whose answers are being made, and what of them its reply is yet to be told.

use tidegate_contract::{Choice, Finish, Made, ModelError};

use crate::answer::AnswerPiece;
use crate::request::Open;
use crate::sequence::Sequence;
use crate::stats::Counters;

/// What a reply is yet to be told.
pub(super) enum Untold {
    /// Of this answer, what became certain with its token of this index.
    Pieces(u32, u32, Vec<AnswerPiece>),
    /// Index, token, and the text that became certain with it.
    Token(u32, u32, String),
    /// One of several answers has ended before the others.
    Ended(u32),
}

/// A request whose answers are being made.
pub(crate) struct Generation {
    pub(super) open: Open,
    pub(super) choices: Vec<Option<Choice>>,
    /// In order.
    pub(super) untold: Vec<Untold>,
}

impl Generation {
    pub(super) fn new(open: Open) -> Generation {
        Generation {
            open,
            choices: Vec::new(),
            untold: Vec::new(),
        }
    }

    /// Keeps what became certain of an answer with its last token.
    pub(super) fn keep_pieces(&mut self, sequence: &mut Sequence) {
        let pieces = sequence.take_pieces();
        if !pieces.is_empty() {
            let index = sequence.made().saturating_sub(1) as u32;
            (self.untold).push(Untold::Pieces(sequence.choice, index, pieces));
        }
    }

    /// Keeps an answer that has ended, and what it held back.
    pub(super) fn complete(&mut self, mut sequence: Sequence, finish: Finish) {
        self.keep_pieces(&mut sequence);
        let number = sequence.choice;
        if let Some(place) = self.choices.get_mut(number as usize) {
            *place = Some(sequence.into_choice(finish));
        }
        if !self.is_complete() {
            self.untold.push(Untold::Ended(number));
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.choices.iter().all(Option::is_some)
    }

    /// Tells the reply what it was not told yet; false if it panicked, and is of no more use.
    pub(super) fn hand_on(&mut self) -> bool {
        let reply = &mut self.open.reply;
        self.untold.drain(..).all(|untold| match untold {
            Untold::Pieces(choice, index, pieces) => reply.pieces(choice, index, &pieces),
            Untold::Token(index, token, text) => reply.token(index, token, &text),
            Untold::Ended(choice) => reply.choice_ended(choice),
        })
    }

    /// Ends it with the answers it has.
    pub(crate) fn end(mut self, counters: &Counters) {
        if !self.hand_on() {
            return self.fail(counters, ModelError::Cancelled);
        }
        Counters::add(&counters.answered, 1);
        counters.add_lora(self.open.counted_as().1, |lora| &lora.answered, 1);
        let choices = self.choices.into_iter().flatten().collect();
        self.open.done(Made::Choices(choices));
    }

    /// Ends it without.
    pub(super) fn fail(mut self, counters: &Counters, error: ModelError) {
        // A reply that panics hears of its end all the same.
        let _ = self.hand_on();
        counters.failure(self.open.counted_as(), &error);
        self.open.fail(error);
    }
}
