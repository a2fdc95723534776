//! Callers: those outside who wait for what becomes of a record.

use std::sync::Arc;
use std::time::Instant;

use tidegate_record::RecordId;

use crate::ModelError;
use crate::model::{Answer, Piece};

/// A record as its source read it, whatever stages made of it since: all its pieces and copies have this in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// Partition of the source.
    pub partition: u32,
    /// Offset in the partition.
    pub offset: u64,
}

impl From<RecordId> for CallerId {
    fn from(id: RecordId) -> CallerId {
        CallerId {
            source: id.source,
            partition: id.partition,
            offset: id.offset,
        }
    }
}

/// How a caller wants to be served by models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When the answer is of no more use.
    pub deadline: Option<Instant>,
    /// Lower goes first.
    pub class: u8,
}

/// What became of one piece of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Became<'a> {
    /// It became so many, by a split or because several take an output: each of them ends by itself.
    Several(usize),
    /// An operator dropped it.
    Dropped {
        /// Which.
        stage: &'a str,
    },
    /// Nobody takes the output that it was sent to.
    Untaken {
        /// Whose output.
        stage: &'a str,
    },
    /// A sink took it.
    Written {
        /// Which.
        sink: &'a str,
    },
    /// It is a dead letter.
    Dead {
        /// Where.
        stage: &'a str,
        /// Why, in a sentence for a person.
        reason: &'a str,
        /// Why, where a model has no answer.
        error: Option<&'a ModelError>,
    },
}

impl Became<'_> {
    /// Whether the piece has ended with this.
    pub fn is_end(&self) -> bool {
        !matches!(self, Became::Several(_))
    }
}

/// Those who wait. Called on the threads of workers: must not block.
pub trait Callers: Send + Sync {
    /// How this one wants to be served; none if nobody waits for the record. The deadline may be later when it is asked for
    /// again: a request that has expired by then goes on.
    fn terms(&self, caller: CallerId) -> Option<Terms>;

    /// A model is asked for what this caller will be answered with, at this attempt: whoever is to see it as it is made.
    /// Only asked where no other answer can come in its place. An attempt that fails is followed by a higher one, which
    /// begins anew.
    fn listen(&self, caller: CallerId, attempt: u32) -> Option<Box<dyn Listener>>;

    /// The record that a sink is given next for this caller has this answer of a model; none if no model was heard on its
    /// way.
    fn brings(&self, caller: CallerId, answer: Option<Arc<Answer>>);

    /// The name of the key that this caller asks with; none where nobody needs one. Asked when the record has just been
    /// read, and known then also of one who has gone since.
    fn name(&self, caller: CallerId) -> Option<Arc<str>> {
        let _ = caller;
        None
    }

    /// What counts the tokens of this attempt as the model makes them: those whose text is held back, and those that
    /// nobody is shown, too. The first answer begins with so many tokens that were `made` before, and are not made anew.
    /// Dropped when the model has ended the request.
    fn tally(&self, caller: CallerId, attempt: u32, made: u32) -> Option<Arc<dyn Tally>> {
        let _ = (caller, attempt, made);
        None
    }

    /// The model of this name in the pipeline has begun to answer this caller: its first token is there. Called on the
    /// threads of models, before the token is heard; again with each attempt, and each stage that asks a model.
    fn begun(&self, caller: CallerId, model: &str);

    /// What became of the record, or of a piece of it.
    fn tell(&self, caller: CallerId, became: &Became<'_>);

    /// Callers that have gone since this was last asked: their requests are cancelled, and their records end here.
    fn take_gone(&self) -> Vec<CallerId>;

    /// A run begins, and this is what an earlier one left of a source: these records, and of each how many pieces have
    /// not ended. Returns those that are still wanted, by somebody who will ask again: they go on as if their callers
    /// were there. All others end here. Told of each partition once, also if nothing is left of it.
    fn left(&self, source: u16, left: &[(CallerId, usize)]) -> Vec<CallerId>;
}

/// Sees an answer as it is made, after the token handlers of its stage. Must not block.
pub trait Listener: Send {
    /// A part of it.
    fn piece(&mut self, piece: &Piece<'_>);

    /// Whether somebody was shown a part of it and cannot be told to forget it: a model that may say something else is
    /// not asked again.
    fn has_shown(&self) -> bool {
        false
    }
}

/// Counts what a model makes for a caller. Called on the engine's thread: must not block.
pub trait Tally: Send + Sync {
    /// A model has taken the request, and with it the prompt.
    fn asked(&self);

    /// The answer with this number, counted from 0, has so many tokens by now, with those that it begins with.
    fn made(&self, choice: u32, tokens: u32);
}
