//! The reader: events in, answers out.

use std::collections::{BTreeMap, HashMap};

use super::event::OwnedEvent;
use super::state::{Answer, Change, Joined, State};

/// What a reader keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Most answers. Of one more, the one is forgotten that nothing was heard of for longest.
    pub answers: usize,
    /// Most bytes of one answer's texts; one that is longer has a gap.
    pub bytes: usize,
}

impl Default for ReaderLimits {
    fn default() -> ReaderLimits {
        ReaderLimits {
            answers: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// Puts answers together from their events. It does no input or output and has no clock.
///
/// Events of one answer may come more than once, in any order, and from attempts that were given up; whatever comes, the
/// reader ends with what the last attempt said, and tells whether that is all of it.
#[derive(Debug, Default)]
pub struct TokenReader {
    limits: ReaderLimits,
    answers: HashMap<String, (u64, Answer)>,
    /// By when something was last heard of them.
    heard: BTreeMap<u64, String>,
    clock: u64,
}

impl TokenReader {
    /// One that keeps no more than this.
    pub fn new(limits: ReaderLimits) -> TokenReader {
        TokenReader {
            limits,
            ..TokenReader::default()
        }
    }

    /// Takes an event. Returns what becomes of the texts that are shown of its answer.
    pub fn take(&mut self, event: &OwnedEvent) -> Vec<Change> {
        self.clock += 1;
        let new = (self.clock, Answer::default());
        let (heard, answer) = self.answers.entry(event.request.clone()).or_insert(new);
        self.heard.remove(heard);
        *heard = self.clock;
        self.heard.insert(self.clock, event.request.clone());
        let changes = answer.take(event, self.limits.bytes);
        while self.answers.len() > self.limits.answers.max(1) {
            let Some((_, oldest)) = self.heard.pop_first() else {
                break;
            };
            self.answers.remove(&oldest);
        }
        changes
    }

    /// How it stands with an answer; none of one of which nothing came, or that was forgotten.
    pub fn state(&self, request: &str) -> Option<State> {
        let (_, answer) = self.answers.get(request)?;
        Some(answer.state())
    }

    /// An answer, as far as it has come without a hole.
    pub fn answer(&self, request: &str) -> Option<Joined> {
        let (_, answer) = self.answers.get(request)?;
        answer.as_joined()
    }

    /// Answers that are kept.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        self.answers.keys().map(String::as_str)
    }

    /// The answer is committed, or of no more use.
    pub fn forget(&mut self, request: &str) {
        if let Some((heard, _)) = self.answers.remove(request) {
            self.heard.remove(&heard);
        }
    }
}
