//! An answer as it is made: through the handlers of its stage's tokens, to whoever sees it.
//!
//! What the handlers let through is the answer: its whole text is put together from it. They run whether anyone sees the
//! answer or not. After a restart, or when a model was asked again, the model begins with the text of the tokens that are
//! there already; it goes through fresh handlers, and what a listener has seen of this attempt is left out.
//!
//! What is said is one text, whatever calls stand in it: its lane is open until its choice ends. What is thought, and the
//! arguments of a call, end where another lane of the choice has text. Then handlers let go of what they held back, and a
//! lane that has more to say after that is opened again. A handler that ends a choice ends all its lanes, and the others of
//! them let go as well.

mod seen;
mod through;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_contract::{Answer, AnswerEnd, Call, Choice, Finish, Lane, Made, Piece, TokenLogprob};

pub(crate) use self::seen::Seen;
use self::through::Through;
use crate::feeding::Fed;
use crate::handlers::Handler;
use crate::pieces::{OwnedPiece, Part, Pieces};

/// One lane of one choice.
type Place = (u32, Lane);

/// See the module.
pub(crate) struct Showing {
    /// Whom handlers are told that the answer is for.
    of: Of,
    pieces: Pieces,
    handlers: Vec<Arc<Handler>>,
    seen: Option<Seen>,
    fed: Option<Fed>,
    lanes: BTreeMap<Place, Through>,
    /// How choices were ended by a handler.
    ended: BTreeMap<u32, AnswerEnd>,
    /// Log-probabilities of what was let through as it came, by choice.
    logprobs: BTreeMap<u32, Vec<TokenLogprob>>,
    /// Choices of which something was changed.
    changed: BTreeSet<u32>,
    /// How many choices were asked for.
    choices: u32,
    /// Handlers have changed what the first choice says, or ended it.
    has_handled_first: bool,
}

/// What handlers are told of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Of {
    pub record: String,
    pub model: String,
    pub attributes: Vec<(String, Vec<u8>)>,
}

impl Showing {
    pub(crate) fn new(
        of: Of,
        choices: u32,
        handlers: Vec<Arc<Handler>>,
        seen: Option<Seen>,
        fed: Option<Fed>,
    ) -> Showing {
        Showing {
            of,
            pieces: Pieces::default(),
            handlers,
            seen: seen.map(Seen::again),
            fed,
            lanes: BTreeMap::new(),
            ended: BTreeMap::new(),
            logprobs: BTreeMap::new(),
            changed: BTreeSet::new(),
            choices: choices.max(1),
            has_handled_first: false,
        }
    }

    /// Where the engine puts what it makes.
    pub(crate) fn pieces(&self) -> Pieces {
        self.pieces.clone()
    }

    /// Who sees it.
    pub(crate) fn take_seen(&mut self) -> Option<Seen> {
        self.seen.take()
    }

    /// How many choices were asked for.
    pub(crate) fn choices(&self) -> u32 {
        self.choices
    }

    /// Whether handlers have changed what the first choice says, or ended it.
    pub(crate) fn has_handled_first(&self) -> bool {
        self.has_handled_first
    }

    /// How many tokens bring again what was seen of it. Feeds need none: they are told of the next attempt.
    pub(crate) fn shown_tokens(&self) -> usize {
        self.seen.as_ref().map_or(0, Seen::tokens)
    }

    /// What was seen of it counts no more, and another attempt is listened to; false if somebody was shown a part that
    /// cannot be taken back.
    pub(crate) fn begin_anew(&mut self) -> bool {
        self.seen.as_mut().is_none_or(Seen::begin_anew)
    }

    /// There will be no answer.
    pub(crate) fn lost(&mut self) {
        if let Some(fed) = self.fed.take() {
            fed.lost();
        }
    }

    /// The answer is whole, and goes on: feeds are told what they have not taken of it, and its end.
    pub(crate) fn end(&mut self, answer: &Answer) {
        let (Some(mut fed), Made::Choices(choices)) = (self.fed.take(), &answer.made) else {
            return;
        };
        let finishes: Vec<Finish> = choices.iter().map(|choice| choice.finish).collect();
        let mut lanes = Vec::with_capacity(self.lanes.len());
        for (place, through) in &self.lanes {
            fed.last_of_lane(&through.so_far(*place));
            let (choice, lane) = *place;
            lanes.push((choice, lane, through.text.chars().count() as u64));
        }
        fed.end(&finishes, &lanes);
    }

    /// Shows what has come. Returns whether handlers have ended the whole answer with it. An error is why a handler
    /// failed: nothing more can be shown.
    pub(crate) fn go_on(&mut self) -> Result<bool, String> {
        let before = self.is_ended();
        for part in self.pieces.take() {
            match part {
                Part::Piece(piece) => self.piece(&piece)?,
                Part::ChoiceEnded(choice) => self.close_lanes(choice)?,
            }
        }
        Ok(!before && self.is_ended())
    }

    /// Whether handlers have ended every choice.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.len() as u32 >= self.choices
    }

    /// The answer is there. Shows what is left of it, and returns what is let through.
    pub(crate) fn finish(&mut self, mut answer: Answer) -> Result<Answer, String> {
        self.go_on()?;
        // A vector, or labels, have no text to go through handlers.
        if let Made::Choices(choices) = &mut answer.made {
            for (number, choice) in choices.iter_mut().enumerate() {
                self.finish_choice(number as u32, choice)?;
            }
        }
        Ok(answer)
    }

    fn finish_choice(&mut self, number: u32, choice: &mut Choice) -> Result<(), String> {
        let last = choice.tokens.len().saturating_sub(1) as u32;
        let said = [
            (Lane::Reasoning, &choice.reasoning, None),
            (Lane::Content, &choice.text, None),
        ];
        let calls = choice.calls.iter().enumerate().map(|(at, call)| {
            let lane = Lane::Arguments(at as u32);
            (lane, &call.arguments, Some((&call.id, &call.name)))
        });
        for (lane, text, begins) in said.into_iter().chain(calls) {
            let made = self.lanes.get(&(number, lane)).map(|through| through.made);
            // What the model has not told piece by piece.
            let rest = text.get(made.unwrap_or_default()..).unwrap_or_default();
            if rest.is_empty() && (made.is_some() || begins.is_none()) {
                continue;
            }
            let begins = begins.filter(|_| made.is_none());
            self.piece(&OwnedPiece {
                choice: number,
                index: last,
                lane,
                text: rest.to_owned(),
                begins: begins.map(|(id, name)| (id.clone(), name.clone())),
                logprobs: Vec::new(),
            })?;
        }
        self.close_lanes(number)?;
        match self.ended.get(&number) {
            Some(AnswerEnd::Stop) => choice.finish = Finish::Stop,
            Some(AnswerEnd::Filtered) => choice.finish = Finish::Filtered,
            None => {}
        }
        if !self.handlers.is_empty() {
            self.let_through(number, choice);
        }
        Ok(())
    }

    /// A choice is what handlers let through of it.
    fn let_through(&mut self, number: u32, choice: &mut Choice) {
        let text = |lane| match self.lanes.get(&(number, lane)) {
            Some(through) => through.text.clone(),
            None => String::new(),
        };
        let said = text(Lane::Content);
        if number == 0 {
            self.has_handled_first = self.ended.contains_key(&number) || said != choice.text;
        }
        choice.text = said;
        choice.reasoning = text(Lane::Reasoning);
        let calls = self
            .lanes
            .range((number, Lane::Arguments(0))..=(number, Lane::Arguments(u32::MAX)));
        let calls = calls.filter_map(|(_, through)| {
            let (id, name) = through.call.clone()?;
            let arguments = through.text.clone();
            Some(Call {
                id,
                name,
                arguments,
            })
        });
        choice.calls = calls.collect();
        if self.changed.contains(&number) || self.ended.contains_key(&number) {
            choice.logprobs = self.logprobs.remove(&number).unwrap_or_default();
        }
    }

    fn piece(&mut self, piece: &OwnedPiece) -> Result<(), String> {
        let place = (piece.choice, piece.lane);
        self.close(piece.choice, |lane| {
            lane != piece.lane && lane != Lane::Content
        })?;
        if self.ended.contains_key(&piece.choice) {
            return Ok(());
        }
        let through = self.lanes.entry(place).or_default();
        through.open(&self.handlers, &self.of, place)?;
        through.made += piece.text.len();
        through.index = piece.index;
        if through.call.is_none() {
            through.call.clone_from(&piece.begins);
        }
        let (text, end) = through.step(&self.handlers, &piece.text, false)?;
        let is_same = text == piece.text;
        let logprobs = match is_same {
            true => piece.logprobs.as_slice(),
            false => &[],
        };
        if !self.handlers.is_empty() {
            if !is_same {
                self.changed.insert(piece.choice);
            }
            let kept = self.logprobs.entry(piece.choice).or_default();
            kept.extend_from_slice(logprobs);
        }
        let begins = piece.begins.as_ref();
        let begins = begins.map(|(id, name)| (id.as_str(), name.as_str()));
        self.show(place, &text, begins, logprobs);
        match end {
            None => Ok(()),
            Some(end) => self.end_choice(piece.choice, place, end),
        }
    }

    /// Lets go of what the open lanes of a choice hold back: of what is said last, as it goes on where the others have
    /// ended.
    fn close_lanes(&mut self, choice: u32) -> Result<(), String> {
        self.close(choice, |lane| lane != Lane::Content)?;
        self.close(choice, |_| true)
    }

    /// Lets go of what these open lanes of a choice hold back.
    fn close(&mut self, choice: u32, which: impl Fn(Lane) -> bool) -> Result<(), String> {
        let of_choice = (choice, Lane::Content)..=(choice, Lane::Arguments(u32::MAX));
        let open = self.lanes.range(of_choice);
        let open = open.filter(|((_, lane), through)| through.is_open && which(*lane));
        let open: Vec<Place> = open.map(|(place, _)| *place).collect();
        for place in open {
            let Some(through) = self.lanes.get_mut(&place) else {
                continue;
            };
            // Without handlers nothing is held back.
            let (text, end) = through.step(&self.handlers, "", true)?;
            through.close(&self.handlers);
            if !text.is_empty() {
                self.changed.insert(choice);
                self.show(place, &text, None, &[]);
            }
            if let Some(end) = end {
                self.ended.entry(choice).or_insert(end);
            }
        }
        Ok(())
    }

    /// A handler has ended a choice in this lane: nothing more is said of it.
    fn end_choice(&mut self, choice: u32, place: Place, end: AnswerEnd) -> Result<(), String> {
        self.ended.insert(choice, end);
        if let Some(through) = self.lanes.get_mut(&place) {
            through.close(&self.handlers);
        }
        // What the others have held back was said before.
        self.close_lanes(choice)
    }

    /// A text of a lane has been let through.
    fn show(
        &mut self,
        place: Place,
        text: &str,
        begins: Option<(&str, &str)>,
        logprobs: &[TokenLogprob],
    ) {
        let Some(through) = self.lanes.get_mut(&place) else {
            return;
        };
        through.text.push_str(text);
        if let Some(fed) = &mut self.fed {
            fed.lane(&through.so_far(place));
        }
        if let Some(seen) = &mut self.seen
            && (!text.is_empty() || begins.is_some() || !logprobs.is_empty())
        {
            let (choice, lane) = place;
            seen.piece(&Piece {
                choice,
                index: through.index,
                lane,
                text,
                begins,
                logprobs,
            });
        }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        for through in self.lanes.values_mut() {
            through.close(&self.handlers);
        }
    }
}

impl std::fmt::Debug for Showing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Showing")
            .field("of", &self.of.record)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}
