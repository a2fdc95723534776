//! What a task wants of its worker: kept beside it, so that a round asks only the tasks that want something.

use std::time::Instant;

use super::inbox::Inbox;
use super::{Task, limit_of, room_of};
use crate::topology::StageKind;
use crate::waiting::Waiting;

/// What a task wants of its worker, as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Records that wait in a stage, or before one.
    pub in_flight: usize,
    /// To be looked at in the next round: something has come to a stage, or a stage has to be looked at by itself.
    pub turn: bool,
    /// To be looked at from this time on.
    pub due: Option<Instant>,
    /// To give a model records.
    pub asks: bool,
    /// A cut would have something to say of it. Tokens that models have made since are not known here.
    pub changed: bool,
    /// Records that may be read for it.
    pub room: usize,
    /// To be paused, or resumed.
    pub turned: bool,
    /// Its partition has not ended.
    pub open: bool,
}

/// What waits in a stage of a task, and before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageLoad {
    /// Records that have come to it and are not taken.
    pub inbox: u64,
    /// Records that wait in it.
    pub waiting: u64,
    /// Most that may.
    pub limit: u64,
    /// Whether it takes no more, or was left with what it has not taken.
    pub full: bool,
}

impl Task {
    /// What waits in one of its stages.
    pub(crate) fn load(&self, stage: usize) -> StageLoad {
        let (inbox, waiting) = (&self.inboxes[stage], &self.waiting[stage]);
        let stage = &self.topology.stages[stage];
        StageLoad {
            inbox: inbox.len() as u64,
            waiting: waiting.len() as u64,
            limit: limit_of(stage) as u64,
            full: !inbox.is_empty() || room_of(stage, waiting) == 0,
        }
    }

    /// What it wants, as it stands.
    pub(crate) fn wants(&self) -> Wants {
        let stages = || self.topology.stages.iter().zip(&self.waiting);
        let operates = |kind: &StageKind| matches!(kind, StageKind::Operator(_));
        let again = |(stage, waiting): (&crate::topology::Stage, &Waiting)| {
            operates(&stage.kind) && waiting.has_first()
        };
        let asks = |(stage, waiting): (&crate::topology::Stage, &Waiting)| {
            !operates(&stage.kind) && waiting.next_ready(0).is_some()
        };
        let room = self.room();
        Wants {
            in_flight: self.in_flight(),
            turn: !self.inboxes.iter().all(Inbox::is_empty)
                || self.answers_held.contains(&true)
                || self.is_suspended()
                || stages().any(again),
            due: self.next_due(),
            asks: stages().any(asks),
            changed: self.has_changes(),
            room,
            turned: self.paused != (room == 0),
            open: !self.ended,
        }
    }
}
