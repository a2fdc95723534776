//! Answers by key: those that are made and those that are kept.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::key::Digest;
use super::making::Left;
use super::recording::Recording;
use super::shares::{self, Shares};

/// All that are known.
#[derive(Default)]
pub(super) struct Known {
    pub(super) by_key: HashMap<Digest, Entry>,
    /// Those that nobody makes.
    pub(super) shares: Shares,
    /// Number of the last entry.
    last: u64,
}

/// One of them.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) client: Digest,
    pub(super) body: Digest,
    pub(super) answer: Answer,
    /// When it is forgotten; none while it is made.
    pub(super) until: Option<Instant>,
}

/// What is under a key.
pub(super) enum Answer {
    /// In the making, or finished.
    Recorded(Arc<Recording>),
    /// An earlier process was making it.
    Left(Left),
}

impl Known {
    pub(super) fn entry(&mut self, client: Digest, body: Digest, answer: Answer) -> Entry {
        self.last += 1;
        Entry {
            number: self.last,
            client,
            body,
            answer,
            until: None,
        }
    }

    pub(super) fn put(&mut self, key: Digest, entry: Entry) {
        self.remove(key);
        self.by_key.insert(key, entry);
    }

    pub(super) fn remove(&mut self, key: Digest) {
        if let Some(entry) = self.by_key.remove(&key)
            && let Some(until) = entry.until
        {
            self.shares.remove((until, entry.number));
        }
    }

    /// An entry that nobody makes any more stays until then.
    pub(super) fn keep(&mut self, key: Digest, bytes: usize, until: Instant) {
        if let Some(entry) = self.by_key.get_mut(&key) {
            entry.until = Some(until);
            let kept = shares::Kept {
                key,
                client: entry.client,
                bytes,
            };
            self.shares.add((until, entry.number), kept);
        }
    }
}
