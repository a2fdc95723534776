//! Feeds of tokens: answers as they are made, for whoever reads along, beside the cuts.
//!
//! A feed promises nothing but order: what it is given it sends on at once or refuses, and it never holds up or ends a
//! run. What keeps readers right is in the events themselves. Every text names the attempt that it is of and the place in
//! its lane where it begins, an attempt begins its answer anew, and the end says how long each text is. So a reader that
//! was told twice skips, one that missed something knows it, and of two attempts the greater counts.

use crate::model::{Finish, Lane};

/// Something that happened to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenEvent<'a> {
    /// Which answer: the stage that asks, and the record. The same in every attempt and after every restart.
    pub request: &'a str,
    /// The record's key, where it is text.
    pub key: Option<&'a str>,
    /// Which attempt: microseconds since the Unix epoch when the model was asked, so that a later one is greater, also in
    /// another process. The committed answer names the one that it is of.
    pub attempt: u64,
    /// What happened.
    pub what: TokenWhat<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenWhat<'a> {
    /// The attempt begins. Whatever lower attempts sent of any text from this character on is void; 0 is everything.
    Reset {
        /// Characters that stay of each text.
        from: u64,
    },
    /// A part of a text.
    Text {
        /// Which of the answers that were asked for.
        choice: u32,
        /// Which text of it.
        lane: Lane,
        /// Characters (Unicode scalar values) of the lane's text before this part.
        at: u64,
        /// Index of the last token of it, counted from 0 in its choice.
        index: u32,
        /// The part.
        text: &'a str,
        /// Id and name of the call whose arguments begin with it.
        call: Option<(&'a str, &'a str)>,
    },
    /// The answer is whole, but not committed yet: an attempt may still follow, whose answer then counts.
    End {
        /// Each of the answers that were asked for.
        choices: &'a [ChoiceEnd],
    },
    /// The record ends without an answer.
    Lost,
}

/// How one of the answers ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceEnd {
    /// Which.
    pub choice: u32,
    /// Why.
    pub finish: Finish,
    /// Its texts, and how many characters each has.
    pub lanes: Vec<(Lane, u64)>,
}

/// Where tokens go beside the cuts. Called on the threads of workers: must not block.
pub trait TokenFeed: Send + Sync {
    /// Takes an event. Returns whether it did: what it has no room for now is offered again with what comes after it, and
    /// at last with the end.
    fn send(&self, event: &TokenEvent<'_>) -> bool;

    /// Takes one of the last events of an answer: what is left of its texts, and its end. Nothing comes after them that
    /// would take along what there was no room for, so that they go before other events.
    fn send_last(&self, event: &TokenEvent<'_>) -> bool {
        self.send(event)
    }
}
