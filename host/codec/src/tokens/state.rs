//! One answer, of which events come.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_contract::Lane;

use super::event::{OwnedChoiceEnd, OwnedEvent, OwnedWhat};
use super::text::Parts;

type Place = (u32, Lane);

/// What a text that is shown becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of which of the answers.
    pub choice: u32,
    /// Which text of it.
    pub lane: Lane,
    /// Characters of the shown text that stay; what is behind them goes. All of it stays, but where an attempt was replaced
    /// by one that says something else.
    pub keep: u64,
    /// What comes behind them.
    pub text: String,
}

/// How it stands with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being made.
    Open,
    /// Something of it is missing: it may still come late, or with a later attempt; if not, the committed answer has it.
    Gap,
    /// It is whole. A later attempt, if one comes, takes its place.
    Complete,
    /// The record ended without an answer.
    Lost,
}

/// An answer, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Which attempt this is.
    pub attempt: u64,
    /// Each of the answers that were asked for.
    pub choices: Vec<Choice>,
}

/// One of the answers that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub choice: u32,
    /// Why it ended, once it has.
    pub finish: Option<String>,
    /// Its texts.
    pub lanes: BTreeMap<Lane, String>,
    /// Id and name of each call, by its number.
    pub calls: BTreeMap<u32, (String, String)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Answer {
    attempts: BTreeMap<u64, Attempt>,
    /// What of lower attempts comes late is void.
    floor: u64,
    shown: BTreeMap<Place, String>,
    /// More came than may be kept.
    overflows: bool,
}

#[derive(Debug, Default)]
struct Attempt {
    reset: Option<u64>,
    lanes: BTreeMap<Place, Parts>,
    calls: BTreeMap<Place, (String, String)>,
    end: Option<Vec<OwnedChoiceEnd>>,
    lost: bool,
}

impl Attempt {
    /// The character from which on this attempt says a text. Before its reset has come, that is where its first part is.
    fn from(&self, place: Place) -> Option<u64> {
        let first = || self.lanes.get(&place).and_then(Parts::first);
        self.reset.or_else(first)
    }

    /// How long a text of it is, once that is known; one that is not named has nothing.
    fn length(&self, (choice, lane): Place) -> Option<u64> {
        let end = self.end.as_ref()?;
        let choice = end.iter().find(|end| end.choice == choice);
        let lanes = choice.map_or(&[][..], |choice| &choice.lanes);
        let named = lanes.iter().find(|(named, _)| *named == lane);
        Some(named.map_or(0, |(_, length)| *length))
    }
}

fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

impl Answer {
    /// An event has come; at most so many bytes of text are kept.
    pub(super) fn take(&mut self, event: &OwnedEvent, most: usize) -> Vec<Change> {
        if event.attempt < self.floor {
            return Vec::new();
        }
        let room = most.saturating_sub(self.bytes());
        let attempt = self.attempts.entry(event.attempt).or_default();
        let mut touched = BTreeSet::new();
        match &event.what {
            OwnedWhat::Reset { from } => attempt.reset = Some(*from),
            OwnedWhat::Text {
                choice,
                lane,
                at,
                text,
                call,
                ..
            } => {
                if text.len() > room {
                    self.overflows = true;
                    return Vec::new();
                }
                let place = (*choice, *lane);
                attempt.lanes.entry(place).or_default().add(*at, text);
                if let Some(call) = call {
                    attempt.calls.insert(place, call.clone());
                }
                touched.insert(place);
            }
            OwnedWhat::End { choices } => attempt.end = Some(choices.clone()),
            OwnedWhat::Lost => attempt.lost = true,
        }
        if attempt.reset == Some(0) {
            self.floor = event.attempt;
            self.attempts = self.attempts.split_off(&event.attempt);
        }
        if touched.is_empty() {
            touched = self.places();
        }
        let changes = touched.into_iter().filter_map(|place| self.show(place));
        changes.collect()
    }

    fn bytes(&self) -> usize {
        let attempts = self.attempts.values();
        let lanes = attempts.flat_map(|attempt| attempt.lanes.values());
        lanes.map(Parts::bytes).sum()
    }

    fn places(&self) -> BTreeSet<Place> {
        let attempts = self.attempts.values();
        let lanes = attempts.flat_map(|attempt| attempt.lanes.keys());
        lanes.chain(self.shown.keys()).copied().collect()
    }

    /// A text without a hole from its beginning, each character of it as the highest attempt has it that says it.
    fn joined(&self, place: Place) -> String {
        let mut layers = Vec::new();
        let mut limit = u64::MAX;
        for attempt in self.attempts.values().rev() {
            if let Some(from) = attempt.from(place).filter(|from| *from < limit) {
                layers.push((from, limit, attempt));
                limit = from;
            }
        }
        let (mut text, mut at) = (String::new(), 0);
        for (from, limit, attempt) in layers.into_iter().rev() {
            if at != from {
                break;
            }
            let parts = attempt.lanes.get(&place);
            let part = parts.map_or("", |parts| parts.from(at, limit));
            at += characters(part);
            text.push_str(part);
            if at < limit {
                break;
            }
        }
        text
    }

    /// What a text becomes for who is shown it. While a higher attempt says again what is there, it stays.
    fn show(&mut self, place: Place) -> Option<Change> {
        let new = self.joined(place);
        let (_, highest) = self.attempts.last_key_value()?;
        let whole = highest.length(place) == Some(characters(&new));
        let shown = self.shown.entry(place).or_default();
        if *shown == new || (shown.starts_with(&new) && !whole) {
            return None;
        }
        let same = |((_, a), b): &((usize, char), char)| a == b;
        let pairs = new.char_indices().zip(shown.chars()).take_while(same);
        let (keep, bytes) = pairs.fold((0, 0), |(keep, _), ((byte, character), _)| {
            (keep + 1, byte + character.len_utf8())
        });
        let text = new.get(bytes..).unwrap_or_default().to_owned();
        *shown = new;
        let (choice, lane) = place;
        Some(Change {
            choice,
            lane,
            keep,
            text,
        })
    }

    pub(super) fn state(&self) -> State {
        let Some((_, highest)) = self.attempts.last_key_value() else {
            return State::Open;
        };
        if highest.lost {
            return State::Lost;
        }
        let is_whole = |place: Place| {
            let length = characters(&self.joined(place));
            match highest.length(place) {
                Some(whole) => length == whole,
                None => {
                    let parts = highest.lanes.get(&place);
                    !parts.is_some_and(|parts| parts.reaches_beyond(length))
                }
            }
        };
        let ends = highest.end.iter().flatten();
        let named = ends.flat_map(|end| end.lanes.iter().map(|(lane, _)| (end.choice, *lane)));
        let own = highest.lanes.keys().copied();
        let whole = named.chain(own).all(is_whole) && !self.overflows;
        match (whole, highest.end.is_some()) {
            (true, true) => State::Complete,
            (true, false) => State::Open,
            (false, _) => State::Gap,
        }
    }

    pub(super) fn as_joined(&self) -> Option<Joined> {
        let (number, highest) = self.attempts.last_key_value()?;
        let mut choices: BTreeMap<u32, Choice> = BTreeMap::new();
        for end in highest.end.iter().flatten() {
            let choice = choices.entry(end.choice).or_default();
            choice.finish = Some(end.finish.clone());
            let empty = end.lanes.iter().map(|(lane, _)| (*lane, String::new()));
            choice.lanes.extend(empty);
        }
        for place in self.places() {
            let text = self.joined(place);
            if !text.is_empty() {
                let choice = choices.entry(place.0).or_default();
                choice.lanes.insert(place.1, text);
            }
        }
        for ((choice, lane), call) in &highest.calls {
            if let Lane::Arguments(number) = lane {
                let choice = choices.entry(*choice).or_default();
                choice.calls.insert(*number, call.clone());
            }
        }
        let choices = choices.into_iter();
        let choices = choices.map(|(number, choice)| Choice {
            choice: number,
            ..choice
        });
        Some(Joined {
            attempt: *number,
            choices: choices.collect(),
        })
    }
}
