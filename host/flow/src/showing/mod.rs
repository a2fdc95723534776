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
//!
//! An answer goes through its handlers for a turn, part by part; what is left waits for the next one. So does everything
//! while a handler cannot go on, the end of the request too.

mod ending;
mod seen;
mod through;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{Answer, AnswerEnd, Finish, Lane, Made, Piece, TokenLogprob};

pub(crate) use self::ending::Finished;
use self::ending::Stands;
pub(crate) use self::seen::Seen;
use self::through::Through;
use crate::entry::Entry;
use crate::feeding::Fed;
use crate::handlers::{Halt, Handler};
use crate::pieces::{OwnedPiece, Part, Pieces};
use crate::topology::Topology;
use crate::versions::{Versions, described};

/// After so long an answer waits for its next turn: its worker looks after everything else first.
const TURN: Duration = Duration::from_millis(100);

/// One lane of one choice.
type Place = (u32, Lane);

/// See the module.
pub(crate) struct Showing {
    /// Whom handlers are told that the answer is for.
    of: Of,
    pieces: Pieces,
    /// Parts that have not gone through, and whether the first of them was begun.
    rest: VecDeque<Part>,
    is_begun: bool,
    /// How the request stands.
    stands: Stands,
    handlers: Vec<Arc<Handler>>,
    seen: Option<Seen>,
    fed: Option<Fed>,
    lanes: BTreeMap<Place, Through>,
    /// How choices were ended by a handler.
    ended: BTreeMap<u32, AnswerEnd>,
    /// Whether the model is to be told that handlers have ended every choice.
    is_told: bool,
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
            rest: VecDeque::new(),
            is_begun: false,
            stands: Stands::Open,
            handlers,
            seen: seen.map(Seen::again),
            fed,
            lanes: BTreeMap::new(),
            ended: BTreeMap::new(),
            is_told: false,
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

    /// The handlers that it keeps when its model is asked anew: what somebody has seen of it is theirs.
    pub(crate) fn kept_handlers(&self, entry: &Entry) -> Option<&[Arc<Handler>]> {
        let seen = self.seen.as_ref()?;
        (seen.continues(entry) && seen.has_seen()).then_some(&self.handlers)
    }

    /// Those of its handlers that could not go on with it when they were last asked.
    pub(crate) fn stuck(&self) -> Vec<Arc<Handler>> {
        let is_stuck = |(at, handler): &(usize, &Arc<Handler>)| {
            handler.is_stuck() || self.lanes.values().any(|through| through.is_stuck(*at))
        };
        let stuck = self.handlers.iter().enumerate().filter(is_stuck);
        stuck.map(|(_, handler)| handler.clone()).collect()
    }

    /// Its stage's handler is another now, and is given what the one before was given.
    pub(crate) fn goes_to(&mut self, handler: &Arc<Handler>) {
        for (at, of) in self.handlers.iter_mut().enumerate() {
            if of.stage == handler.stage && of.generation != handler.generation {
                for through in self.lanes.values_mut() {
                    through.leave(at, of);
                }
                *of = handler.clone();
            }
        }
    }

    /// The versions that its text goes through.
    pub(crate) fn handled_by(&self, topology: &Topology) -> Versions {
        let handlers = self.handlers.iter();
        handlers
            .filter_map(|handler| {
                let stage = topology.stages.get(handler.stage)?;
                Some(described(&stage.name, &handler.version))
            })
            .collect()
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

    /// Shows what has come, for a turn. An error is why not all of it.
    pub(crate) fn go_on(&mut self) -> Result<(), Halt> {
        let until = Instant::now() + TURN;
        self.rest.extend(self.pieces.take());
        while let Some(part) = self.rest.pop_front() {
            let went = match &part {
                Part::Piece(piece) => self.piece(piece, until),
                Part::ChoiceEnded(choice) => self.close_lanes(*choice, until),
            };
            if let Err(halt) = went {
                self.rest.push_front(part);
                return Err(halt);
            }
            self.is_begun = false;
        }
        Ok(())
    }

    /// Whether handlers have ended every choice since this was last asked.
    pub(crate) fn has_just_ended(&mut self) -> bool {
        self.is_ended() && !std::mem::replace(&mut self.is_told, true)
    }

    /// Whether handlers have ended every choice.
    fn is_ended(&self) -> bool {
        self.ended.len() as u32 >= self.choices
    }

    fn piece(&mut self, piece: &OwnedPiece, until: Instant) -> Result<(), Halt> {
        let place = (piece.choice, piece.lane);
        self.close(piece.choice, until, |lane| {
            lane != piece.lane && lane != Lane::Content
        })?;
        if self.ended.contains_key(&piece.choice) {
            return self.close_lanes(piece.choice, until);
        }
        let through = self.lanes.entry(place).or_default();
        if !std::mem::replace(&mut self.is_begun, true) {
            through.open(self.handlers.len());
            through.made += piece.text.len();
            through.index = piece.index;
            if through.call.is_none() {
                through.call.clone_from(&piece.begins);
            }
            through.give(&piece.text);
        }
        let (text, end) = through.go_on(&self.handlers, &self.of, place, until)?;
        let is_same = text == piece.text;
        let logprobs = match is_same {
            true => piece.logprobs.as_slice(),
            false => &[],
        };
        if !self.handlers.is_empty() {
            if !is_same {
                self.changed.insert(piece.choice);
            }
            // What is kept is what was said: of a part of it nobody could tell where the reasoning ends.
            if place.1 != Lane::Reasoning {
                let kept = self.logprobs.entry(piece.choice).or_default();
                kept.extend_from_slice(logprobs);
            }
        }
        let begins = piece.begins.as_ref();
        let begins = begins.map(|(id, name)| (id.as_str(), name.as_str()));
        self.show(place, &text, begins, logprobs)?;
        match end {
            None => Ok(()),
            Some(end) => self.end_choice(piece.choice, place, end, until),
        }
    }

    /// Lets go of what the open lanes of a choice hold back: of what is said last, as it goes on where the others have
    /// ended.
    fn close_lanes(&mut self, choice: u32, until: Instant) -> Result<(), Halt> {
        self.close(choice, until, |lane| lane != Lane::Content)?;
        self.close(choice, until, |_| true)
    }

    /// Lets go of what these open lanes of a choice hold back.
    fn close(
        &mut self,
        choice: u32,
        until: Instant,
        which: impl Fn(Lane) -> bool,
    ) -> Result<(), Halt> {
        let of_choice = (choice, Lane::Content)..=(choice, Lane::Arguments(u32::MAX));
        let open = self.lanes.range(of_choice);
        let open = open.filter(|((_, lane), through)| through.is_open && which(*lane));
        let open: Vec<Place> = open.map(|(place, _)| *place).collect();
        for place in open {
            let Some(through) = self.lanes.get_mut(&place) else {
                continue;
            };
            // Without handlers nothing is held back.
            through.give_end();
            let (text, end) = through.go_on(&self.handlers, &self.of, place, until)?;
            through.close(&self.handlers);
            if !text.is_empty() {
                self.changed.insert(choice);
                self.show(place, &text, None, &[])?;
            }
            if let Some(end) = end {
                self.ended.entry(choice).or_insert(end);
            }
        }
        Ok(())
    }

    /// A handler has ended a choice in this lane: nothing more is said of it.
    fn end_choice(
        &mut self,
        choice: u32,
        place: Place,
        end: AnswerEnd,
        until: Instant,
    ) -> Result<(), Halt> {
        self.ended.insert(choice, end);
        if let Some(through) = self.lanes.get_mut(&place) {
            through.close(&self.handlers);
        }
        // What the others have held back was said before.
        self.close_lanes(choice, until)
    }

    /// A text of a lane has been let through.
    fn show(
        &mut self,
        place: Place,
        text: &str,
        begins: Option<(&str, &str)>,
        logprobs: &[TokenLogprob],
    ) -> Result<(), Halt> {
        let Some(through) = self.lanes.get_mut(&place) else {
            return Ok(());
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
            })?;
        }
        Ok(())
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
