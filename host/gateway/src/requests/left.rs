//! Records that an earlier life of the process left in the pipeline, and whose caller may ask again.
//!
//! Before the pipeline begins it is known which are expected. The pipeline says which of them it has: those go on as if
//! somebody waited, and what is heard of them is kept for the one who does ask. The others are as good as never asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{CallerId, Terms};
use tokio::time::Instant;

use super::caller::Caller;
use super::{Patience, Requests, Waiting, lock};

/// A record that may be there.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Which.
    pub caller: CallerId,
    /// Its priority class.
    pub class: u8,
    /// Tokens of its prompt, as far as they are known.
    pub prompt: u64,
    /// Most pieces that are heard, if any are.
    pub pieces: Option<usize>,
    /// How long it may go on before somebody asks for it.
    pub allowance: Duration,
    /// How long those who ask for it wait.
    pub patience: Patience,
    /// It is let go of then.
    pub until: Instant,
}

/// Nobody waits any longer, and the pipeline has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pipeline has not begun")]
pub struct NotBegun;

/// What is known of one.
enum Known {
    /// The pipeline has not begun.
    Expected(Expected),
    /// It has it.
    There {
        waiting: Waiting,
        caller: Arc<Caller>,
        until: Instant,
    },
}

/// Those that nobody has asked for.
#[derive(Default)]
pub(super) struct Left(HashMap<CallerId, Known>);

impl Requests {
    /// Before the pipeline begins: this record may be left in it, and is wanted.
    pub fn await_left(&self, expected: Expected) {
        let mut left = lock(&self.0.left);
        left.0.insert(expected.caller, Known::Expected(expected));
    }

    /// What is heard of a record that was left: from its beginning, and what comes. None if the pipeline does not have
    /// it, or has no answer to it.
    ///
    /// # Errors
    /// It is not known yet, and nobody waits any longer. It stays expected.
    pub async fn resume(
        &self,
        id: CallerId,
        patience: &Patience,
    ) -> Result<Option<Waiting>, NotBegun> {
        let mut begun = self.0.begun.subscribe();
        loop {
            begun.mark_unchanged();
            {
                let mut left = lock(&self.0.left);
                match left.0.remove(&id) {
                    None => return Ok(None),
                    Some(Known::There {
                        waiting, caller, ..
                    }) => {
                        // From now on there is somebody who keeps it.
                        caller.patience.iter().for_each(Patience::is_kept);
                        return Ok((!caller.has_failed()).then_some(waiting));
                    }
                    Some(expected) => drop(left.0.insert(id, expected)),
                }
            }
            tokio::select! {
                () = patience.is_over() => return Err(NotBegun),
                changed = begun.changed() => changed.map_err(|_| NotBegun)?,
            }
        }
    }

    /// Lets go of those that nobody asked for in time, and of those without an answer when that of whoever might ask is
    /// over: in an operator's retry, say, nothing else would end them. What has an answer, or none for good, stays until
    /// it is asked for.
    pub fn forget_left(&self) {
        let now = Instant::now();
        let is_old = |known: &Known| match known {
            Known::Expected(expected) => expected.until <= now,
            Known::There { caller, until, .. } => {
                let is_late = |patience: &Patience| patience.deadline() <= now;
                let is_late = caller.patience.as_ref().is_some_and(is_late);
                *until <= now || (is_late && !caller.is_over())
            }
        };
        let mut left = lock(&self.0.left);
        let ids: Vec<CallerId> = left
            .0
            .iter()
            .filter(|(_, known)| is_old(known))
            .map(|(id, _)| *id)
            .collect();
        let old: Vec<Known> = ids.iter().filter_map(|id| left.0.remove(id)).collect();
        drop(left);
        // Dropped, they end in the pipeline.
        drop(old);
    }

    /// The pipeline has these records of a source, with so many pieces each. Returns those that are wanted.
    pub(super) fn begin_with(&self, source: u16, there: &[(CallerId, usize)]) -> Vec<CallerId> {
        let there: HashMap<CallerId, usize> = there.iter().copied().collect();
        let mut wanted = Vec::new();
        let mut left = lock(&self.0.left);
        for (id, known) in std::mem::take(&mut left.0) {
            let (Known::Expected(expected), true) = (&known, id.source == source) else {
                left.0.insert(id, known);
                continue;
            };
            let Some(pieces) = there.get(&id) else {
                continue;
            };
            expected.patience.lasts(Instant::now() + expected.allowance);
            let waiting = self.wait_left(id.source, expected.prompt);
            let mut waiting = waiting.patient(expected.patience.clone());
            let terms = Terms {
                deadline: None,
                class: expected.class,
            };
            let caller = waiting.take_on(id, terms, expected.pieces, *pieces);
            let until = expected.until;
            let known = Known::There {
                waiting,
                caller,
                until,
            };
            left.0.insert(id, known);
            wanted.push(id);
        }
        drop(left);
        self.0.begun.send_replace(());
        wanted
    }
}
