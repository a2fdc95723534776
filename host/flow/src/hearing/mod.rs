//! Whose answer a caller is told.
//!
//! A caller is answered by the first piece of its record that comes to a sink of callers. What is told of a model with it
//! (the answer's calls, its finish, its tokens) is of the stage whose answer that piece brings: a piece carries the numbers
//! of its answers in private attributes, so that this is exact, whatever ways the other pieces went. Which of several on
//! its way goes before the others is told with the sink ([`Heard`]).
//!
//! An answer is shown as it is made where it is certain to be the one that is sent: what the pipeline alone decides is
//! decided once ([`Ways`]); beside it, no other piece of the record may be where it could still come to such a sink.
//!
//! Records are followed from when they multiply or a model has answered them until their last piece has ended.

mod ways;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::{Answer, CallerId, Partition};
use tidegate_record::RecordView;

use self::ways::Ways;
pub(crate) use self::ways::leading;
use crate::topology::{Heard, Target, Topology};

/// Where a piece of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Source,
    Stage(usize),
    Sink(usize),
}

impl From<Option<usize>> for At {
    fn from(stage: Option<usize>) -> At {
        stage.map_or(At::Source, At::Stage)
    }
}

impl From<Target> for At {
    fn from(target: Target) -> At {
        match target {
            Target::Stage(stage) => At::Stage(stage),
            Target::Sink(sink) => At::Sink(sink),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hearing {
    ways: Ways,
    records: HashMap<CallerId, Followed>,
    next: u64,
}

/// A record of a caller.
#[derive(Debug)]
struct Followed {
    /// Pieces that have not ended, and those of them that are where they may come to a sink of callers.
    pieces: i64,
    leading: i64,
    answers: Vec<Numbered>,
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    stage: usize,
    answer: Arc<Answer>,
}

impl Followed {
    /// One that has just been read.
    const ONE: Followed = Followed {
        pieces: 1,
        leading: 1,
        answers: Vec::new(),
    };
}

impl Hearing {
    pub(crate) fn new(topology: &Topology) -> Hearing {
        Hearing {
            ways: Ways::of(topology),
            records: HashMap::new(),
            // No earlier life gave these: an answer of one is nobody's.
            next: (crate::task::clock() as u64) << 8,
        }
    }

    /// Whether this sink answers callers.
    pub(crate) fn answers(&self, sink: usize) -> bool {
        self.ways.leads(At::Sink(sink)) > 0
    }

    /// Whether what this stage makes of a piece of a record is certain to be what the caller is answered with.
    pub(crate) fn is_heard(&self, stage: usize, caller: CallerId) -> bool {
        let others = self.records.get(&caller).is_some_and(|of| of.leading > 1);
        self.ways.last.get(stage) == Some(&true) && !others
    }

    /// A piece became so many where it is.
    pub(crate) fn multiplied(&mut self, caller: CallerId, at: At, pieces: usize) {
        let more = pieces as i64 - 1;
        self.change(caller, more, more * self.ways.leads(at));
    }

    /// A piece goes to all of these, at least one.
    pub(crate) fn sent(&mut self, caller: CallerId, from: At, targets: &[Target]) {
        let leads = targets
            .iter()
            .map(|target| self.ways.leads((*target).into()));
        let leading = leads.sum::<i64>() - self.ways.leads(from);
        self.change(caller, targets.len() as i64 - 1, leading);
    }

    /// A piece has ended there.
    pub(crate) fn ended(&mut self, caller: CallerId, at: At) {
        // The only one of a record that is not followed.
        if self.records.contains_key(&caller) {
            self.change(caller, -1, -self.ways.leads(at));
        }
    }

    /// A piece is in this stage since an earlier life.
    pub(crate) fn restored(&mut self, caller: CallerId, stage: usize) {
        let leading = self.ways.leads(At::Stage(stage));
        let none = Followed {
            pieces: 0,
            leading: 0,
            ..Followed::ONE
        };
        let followed = self.records.entry(caller).or_insert(none);
        followed.pieces += 1;
        followed.leading += leading;
    }

    fn change(&mut self, caller: CallerId, pieces: i64, leading: i64) {
        if (pieces, leading) == (0, 0) {
            return;
        }
        let followed = self.records.entry(caller).or_insert(Followed::ONE);
        followed.pieces += pieces;
        followed.leading += leading;
        if followed.pieces <= 0 {
            self.records.remove(&caller);
        }
    }

    /// A model has answered a piece of a record. Returns the number under which the piece is to bring the answer; none
    /// where it can bring it to nobody.
    pub(crate) fn answered(
        &mut self,
        caller: CallerId,
        stage: usize,
        answer: Arc<Answer>,
    ) -> Option<u64> {
        if self.ways.leads(At::Stage(stage)) == 0 {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let followed = self.records.entry(caller).or_insert(Followed::ONE);
        followed.answers.push(Numbered {
            number,
            stage,
            answer,
        });
        Some(number)
    }

    /// The answer that a record brings to this sink.
    pub(crate) fn brought(&self, record: &RecordView<'_>, sink: usize) -> Option<Arc<Answer>> {
        let followed = self.records.get(&CallerId::from(record.id()))?;
        let heard = self.ways.sinks.get(sink)?.as_deref()?;
        let carried = |heard: &Heard| {
            let name = self.ways.numbers.get(heard.stage)?.as_ref()?;
            let number = record.attributes().last(name)?.value?;
            let mut answers = followed.answers.iter();
            answers
                .find(|one| one.stage == heard.stage && number == one.number.to_string().as_bytes())
        };
        Some(heard.iter().find_map(carried)?.answer.clone())
    }

    /// A partition is read elsewhere.
    pub(crate) fn gone(&mut self, partition: Partition) {
        self.records.retain(|caller, _| {
            (caller.source, caller.partition) != (partition.source, partition.number)
        });
    }
}

#[cfg(test)]
mod tests;
