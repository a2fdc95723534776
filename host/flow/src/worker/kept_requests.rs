//! Requests that models have for records that will come again: after a cut that came to nothing they are not made a
//! second time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidegate_contract::{Answer, ModelError, Partition};

use crate::entry::{By, Entry, EntryId, State, Tokens};
use crate::showing::Showing;

/// A record that has not come again by then has another way now, or none.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which record a request was made for: its partition, the stage, and the record there.
pub(super) type Identity = (Partition, usize, EntryId);

/// See the module. Their number is bounded by that of the requests of a worker.
#[derive(Default)]
pub(super) struct KeptRequests {
    requests: HashMap<Identity, KeptRequest>,
    identities: HashMap<u64, Identity>,
    /// None of them has waited for longer than since then.
    since: Option<Instant>,
}

/// A request that goes on without a record.
pub(super) struct KeptRequest {
    pub request: u64,
    pub question: String,
    /// Digest of the model.
    pub model: String,
    pub tokens: Tokens,
    /// The answer as it is made.
    pub showing: Option<Box<Showing>>,
    /// Who made the answer.
    pub by: By,
    /// The attempt as feeds of tokens know it.
    pub fed: u64,
    /// The answer, if it is there.
    pub answer: Option<Result<Answer, ModelError>>,
    since: Instant,
}

impl KeptRequests {
    /// The record of an entry will come again. What a model has of it, or has answered, stays; returns whether it has.
    ///
    /// `question` is what was asked, as [`canonical`](crate::asked::canonical) has it.
    pub(super) fn keep(
        &mut self,
        partition: Partition,
        stage: usize,
        entry: Entry,
        question: impl FnOnce(&Entry) -> String,
    ) -> bool {
        if matches!(entry.state, State::Queued | State::Delayed(_)) {
            return false;
        }
        let question = question(&entry);
        let (request, answer) = match entry.state {
            State::Submitted(request) => (request, None),
            State::Answered(answer) => (0, Some(Ok(*answer))),
            State::Queued | State::Delayed(_) => return false,
        };
        let identity = (partition, stage, entry.id);
        if answer.is_none() {
            self.identities.insert(request, identity);
        }
        let kept = KeptRequest {
            request,
            question,
            model: entry.model.to_string(),
            tokens: entry.tokens,
            showing: entry.showing,
            by: entry.by,
            fed: entry.fed,
            answer,
            since: Instant::now(),
        };
        self.since.get_or_insert(kept.since);
        self.requests.insert(identity, kept);
        true
    }

    /// The answer to a request has come, which may be one of these.
    pub(super) fn answered(&mut self, request: u64, result: Result<Answer, ModelError>) {
        let identity = self.identities.remove(&request);
        if let Some(kept) = identity.and_then(|identity| self.requests.get_mut(&identity)) {
            // Not that of an earlier request for the same record.
            if kept.request == request {
                kept.answer = Some(result);
            }
        }
    }

    /// Takes the request for a record that has come again, if it asks the same of the same model. One that does not is
    /// to be cancelled.
    pub(super) fn take(
        &mut self,
        identity: &Identity,
        question: impl FnOnce() -> String,
        model: &str,
    ) -> Option<Result<KeptRequest, u64>> {
        if self.requests.is_empty() {
            return None;
        }
        let kept = self.requests.remove(identity)?;
        self.identities.remove(&kept.request);
        // An answer that refused is asked again.
        let refused = matches!(kept.answer, Some(Err(_)));
        if refused || kept.question != question() || kept.model != model {
            return Some(Err(kept.request));
        }
        Some(Ok(kept))
    }

    /// The requests whose records have not come again for too long, by stage.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<(usize, u64)> {
        let mut expired = Vec::new();
        let waits = |since: Instant| now.saturating_duration_since(since) < PATIENCE;
        if self.since.is_none_or(waits) {
            return expired;
        }
        self.requests.retain(|(_, stage, _), kept| {
            let stays = waits(kept.since);
            if !stays {
                self.identities.remove(&kept.request);
                if kept.answer.is_none() {
                    expired.push((*stage, kept.request));
                }
            }
            stays
        });
        self.since = self.requests.values().map(|kept| kept.since).min();
        expired
    }

    /// The partition is read elsewhere: its requests, by stage.
    pub(super) fn gone(&mut self, partition: Partition) -> Vec<(usize, u64)> {
        let mut gone = Vec::new();
        self.requests.retain(|(of, stage, _), kept| {
            if *of == partition {
                self.identities.remove(&kept.request);
                gone.push((*stage, kept.request));
            }
            *of != partition
        });
        gone
    }
}
