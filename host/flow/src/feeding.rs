//! An answer as it is made, to feeds of tokens.
//!
//! Each time a model is asked is an attempt of its own, with a number that is greater than all before it, in whichever
//! process those were, and it says its texts from their beginning: so nothing has to be known of what was sent before. What
//! a feed has no room for stays in the text, and goes with what comes after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_contract::{ChoiceEnd, Finish, Lane, TokenEvent, TokenFeed, TokenWhat};
use tidegate_record::RecordView;

use crate::entry::EntryId;

/// Numbers of attempts: microseconds since the Unix epoch, each greater than the last.
#[derive(Debug, Default)]
pub(crate) struct Attempts(AtomicU64);

impl Attempts {
    /// The next, which is greater than this one too: the clock may have been set back since.
    pub(crate) fn next(&self, after: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let least = (now.unwrap_or_default().as_micros() as u64).max(after.saturating_add(1));
        let taken = |last: u64| Some(least.max(last.saturating_add(1)));
        let last = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        least.max(last.unwrap_or_else(|last| last).saturating_add(1))
    }
}

/// Which answer it is, for readers: the stage and the record, and its number where the same one waits there more than once.
pub(crate) fn request(stage: &str, record: &RecordView<'_>, id: EntryId) -> String {
    match id.copy {
        0 => format!("{stage}/{}", record.id()),
        copy => format!("{stage}/{}+{copy}", record.id()),
    }
}

/// What feeds have been sent of one attempt.
pub(crate) struct Fed {
    request: String,
    key: Option<String>,
    attempt: u64,
    feeds: Vec<OfFeed>,
}

struct OfFeed {
    feed: Arc<dyn TokenFeed>,
    begun: bool,
    /// Nothing comes after what is sent now.
    is_last: bool,
    sent: BTreeMap<(u32, Lane), Sent>,
}

/// How far a lane has gone out.
#[derive(Clone, Copy, Default)]
struct Sent {
    bytes: usize,
    characters: u64,
}

/// A lane as it stands.
pub(crate) struct LaneSoFar<'a> {
    pub choice: u32,
    pub lane: Lane,
    pub index: u32,
    pub text: &'a str,
    pub call: Option<(&'a str, &'a str)>,
}

impl Fed {
    /// Of an attempt of which nothing is there yet. Feeds are told when something is: the model may not take the request.
    pub(crate) fn new(
        feeds: &[Arc<dyn TokenFeed>],
        request: String,
        key: Option<String>,
        attempt: u64,
    ) -> Fed {
        let of = |feed: &Arc<dyn TokenFeed>| OfFeed {
            feed: feed.clone(),
            begun: false,
            is_last: false,
            sent: BTreeMap::new(),
        };
        Fed {
            request,
            key,
            attempt,
            feeds: feeds.iter().map(of).collect(),
        }
    }

    /// Its number.
    pub(crate) fn attempt(&self) -> u64 {
        self.attempt
    }

    /// A lane has grown.
    pub(crate) fn lane(&mut self, lane: &LaneSoFar<'_>) {
        self.each(|of, event| of.begin(event) && of.lane(event, lane));
    }

    /// A lane is as long as it gets: what could not go out before goes now.
    pub(crate) fn last_of_lane(&mut self, lane: &LaneSoFar<'_>) {
        self.each(|of, event| {
            of.is_last = true;
            of.begin(event) && of.lane(event, lane)
        });
    }

    /// The answer is whole; its lanes have been told as they ended.
    pub(crate) fn end(self, finishes: &[Finish], lanes: &[(u32, Lane, u64)]) {
        let choices = finishes.iter().enumerate().map(|(choice, finish)| {
            let choice = choice as u32;
            let of = lanes.iter().filter(|(of, ..)| *of == choice);
            ChoiceEnd {
                choice,
                finish: *finish,
                lanes: of.map(|(_, lane, length)| (*lane, *length)).collect(),
            }
        });
        let choices: Vec<ChoiceEnd> = choices.collect();
        self.last(TokenWhat::End { choices: &choices });
    }

    /// There will be no answer.
    pub(crate) fn lost(self) {
        self.last(TokenWhat::Lost);
    }

    fn last(mut self, what: TokenWhat<'_>) {
        self.each(|of, event| {
            of.is_last = true;
            of.begin(event) && of.send(&TokenEvent { what, ..*event })
        });
    }

    fn each(&mut self, mut act: impl FnMut(&mut OfFeed, &TokenEvent<'_>) -> bool) {
        let event = TokenEvent {
            request: &self.request,
            key: self.key.as_deref(),
            attempt: self.attempt,
            what: TokenWhat::Reset { from: 0 },
        };
        for of in &mut self.feeds {
            act(of, &event);
        }
    }
}

impl OfFeed {
    fn send(&self, event: &TokenEvent<'_>) -> bool {
        match self.is_last {
            true => self.feed.send_last(event),
            false => self.feed.send(event),
        }
    }

    fn begin(&mut self, event: &TokenEvent<'_>) -> bool {
        self.begun = self.begun || self.send(event);
        self.begun
    }

    fn lane(&mut self, event: &TokenEvent<'_>, lane: &LaneSoFar<'_>) -> bool {
        let place = (lane.choice, lane.lane);
        let before = self.sent.get(&place).copied();
        let sent = before.unwrap_or_default();
        let text = lane.text.get(sent.bytes..).unwrap_or_default();
        let call = lane.call.filter(|_| before.is_none());
        if text.is_empty() && call.is_none() {
            return true;
        }
        let taken = self.send(&TokenEvent {
            what: TokenWhat::Text {
                choice: lane.choice,
                lane: lane.lane,
                at: sent.characters,
                index: lane.index,
                text,
                call,
            },
            ..*event
        });
        if taken {
            let sent = Sent {
                bytes: sent.bytes + text.len(),
                characters: sent.characters + text.chars().count() as u64,
            };
            self.sent.insert(place, sent);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_grow_whatever_the_clock_says() {
        let attempts = Attempts::default();
        let first = attempts.next(0);
        let second = attempts.next(0);
        assert!(second > first);
        let ahead = second + 1_000_000_000;
        assert!(attempts.next(ahead) > ahead);
        assert!(attempts.next(0) > ahead);
        // As numbers of JSON and JavaScript hold them, for two centuries.
        assert!(first < 1 << 53);
    }
}
