//! Requests that wait for a slot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_contract::{ModelError, Parameters, RequestId};

use super::reply::GuardedReply;
use super::stats::Shared;

/// A place in the queue, free again when dropped.
pub(super) struct Permit {
    shared: Arc<Shared>,
}

impl Permit {
    /// Takes a place; `None` if the queue is full.
    pub(super) fn take(shared: &Arc<Shared>) -> Option<Permit> {
        let more = |waiting: usize| (waiting < shared.queue).then_some(waiting + 1);
        shared
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .ok()?;
        Some(Permit {
            shared: Arc::clone(shared),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A request as the engine's thread gets it.
pub(super) struct Submission {
    pub(super) id: RequestId,
    pub(super) seed: u64,
    /// The prompt's tokens, or why there are none.
    pub(super) prompt: Result<Vec<u32>, ModelError>,
    pub(super) prefix: Vec<u32>,
    pub(super) parameters: Parameters,
    pub(super) class: u8,
    pub(super) deadline: Option<Instant>,
    pub(super) reply: GuardedReply,
    pub(super) submitted: Instant,
    /// Held until the request has a slot or has ended.
    pub(super) _permit: Permit,
}

/// Who goes first: the lower class, then the nearer deadline (all slacks are measured at the same moment, so the
/// nearest deadline is the least slack), then the earlier arrival. Without a deadline a request goes after those with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    class: u8,
    no_deadline: bool,
    deadline: Option<Instant>,
    arrival: u64,
}

impl Turn {
    pub(super) fn new(class: u8, deadline: Option<Instant>, arrival: u64) -> Turn {
        Turn {
            class,
            no_deadline: deadline.is_none(),
            deadline,
            arrival,
        }
    }
}

/// The waiting requests in order, found by deadline and by number as well.
#[derive(Default)]
pub(super) struct WaitingQueue {
    by_turn: BTreeMap<Turn, Submission>,
    by_deadline: BTreeSet<(Instant, Turn)>,
    by_id: HashMap<RequestId, Vec<Turn>>,
    arrivals: u64,
}

impl WaitingQueue {
    pub(super) fn push(&mut self, submission: Submission) {
        self.arrivals += 1;
        let turn = Turn::new(submission.class, submission.deadline, self.arrivals);
        if let Some(deadline) = submission.deadline {
            self.by_deadline.insert((deadline, turn));
        }
        self.by_id.entry(submission.id).or_default().push(turn);
        self.by_turn.insert(turn, submission);
    }

    /// The next request, with its turn.
    pub(super) fn pop(&mut self) -> Option<(Turn, Submission)> {
        let turn = *self.by_turn.first_key_value()?.0;
        self.remove(turn).map(|submission| (turn, submission))
    }

    /// Takes out the requests of this number.
    pub(super) fn cancel(&mut self, id: RequestId) -> Vec<Submission> {
        let turns = self.by_id.get(&id).cloned().unwrap_or_default();
        turns
            .into_iter()
            .filter_map(|turn| self.remove(turn))
            .collect()
    }

    /// Takes out the requests whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Submission> {
        let mut expired = Vec::new();
        while let Some((deadline, turn)) = self.by_deadline.first().copied() {
            if deadline > now {
                break;
            }
            expired.extend(self.remove(turn));
        }
        expired
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_turn.is_empty()
    }

    fn remove(&mut self, turn: Turn) -> Option<Submission> {
        let submission = self.by_turn.remove(&turn)?;
        if let Some(deadline) = submission.deadline {
            self.by_deadline.remove(&(deadline, turn));
        }
        if let Some(turns) = self.by_id.get_mut(&submission.id) {
            turns.retain(|other| *other != turn);
            if turns.is_empty() {
                self.by_id.remove(&submission.id);
            }
        }
        Some(submission)
    }
}
