//! What a remote model has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a server stands with those who ask it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is asked as usual.
    #[default]
    Closed,
    /// It is well, and has asked to be left alone for a while.
    Resting,
    /// It has failed, and is left alone.
    Open {
        /// For how long it has not been known to be well.
        since: Duration,
    },
    /// It has failed, and the next request tries it, or one does.
    HalfOpen {
        /// For how long it has not been known to be well.
        since: Duration,
        /// Whether one does: all others are refused meanwhile.
        probing: bool,
    },
}

/// What a remote model has done and is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteStats {
    /// Its name.
    pub name: String,
    /// Requests that were taken.
    pub asked: u64,
    /// Those with an answer.
    pub answered: u64,
    /// Those of the stream without one, for any reason but the two that follow.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Those of the stream whose deadline passed.
    pub expired: u64,
    /// Requests that were given back: the queue was full.
    pub refused: u64,
    /// Tries after a first one.
    pub retried: u64,
    /// Tries beside one that was slow.
    pub hedged: u64,
    /// Those of them that went on.
    pub hedge_wins: u64,
    /// How often the server was left alone.
    pub breaker_opened: u64,
    /// Whether it is now.
    pub breaker_open: bool,
    /// How it stands.
    pub standing: Standing,
    /// Requests that run or wait.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Tokens of prompts that were answered, by the server's count.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub tokens: u64,
    /// Of these, tokens of reasoning.
    pub reasoning_tokens: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub asked: AtomicU64,
    pub answered: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
    pub expired: AtomicU64,
    pub refused: AtomicU64,
    pub retried: AtomicU64,
    pub hedged: AtomicU64,
    pub hedge_wins: AtomicU64,
    pub prompt_tokens: AtomicU64,
    pub tokens: AtomicU64,
    pub reasoning_tokens: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn snapshot(&self) -> RemoteStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RemoteStats {
            asked: read(&self.asked),
            answered: read(&self.answered),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            expired: read(&self.expired),
            refused: read(&self.refused),
            retried: read(&self.retried),
            hedged: read(&self.hedged),
            hedge_wins: read(&self.hedge_wins),
            prompt_tokens: read(&self.prompt_tokens),
            tokens: read(&self.tokens),
            reasoning_tokens: read(&self.reasoning_tokens),
            ..RemoteStats::default()
        }
    }
}
