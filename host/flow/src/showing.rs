//! An answer as it is made: through the handlers of its stage's tokens, to whoever sees it.
//!
//! What the handlers let through is the answer: its whole text is put together from it. They run whether anyone sees the
//! answer or not. After a restart, or when a model was asked again, the model begins with the text of the tokens that are
//! there already; it goes through fresh handlers, and what a listener has seen of this attempt is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_contract::{
    Answer, AnswerEnd, AnswerLane, Call, Choice, Finish, Lane, Listener, Made, Piece, Timings,
    TokenLogprob,
};

use crate::feeding::{Fed, LaneSoFar};
use crate::handlers::Handler;
use crate::pieces::{OwnedPiece, Pieces};

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
    changed: BTreeMap<u32, bool>,
    /// How many choices were asked for.
    choices: u32,
}

/// What handlers are told of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Of {
    pub record: String,
    pub model: String,
    pub attributes: Vec<(String, Vec<u8>)>,
}

/// Who sees an answer, and how much of it has been seen.
pub(crate) struct Seen {
    listener: Box<dyn Listener>,
    /// The attempt it listens to.
    pub attempt: u32,
    /// Digest of the model whose tokens it sees.
    pub model: Arc<str>,
    /// How many attempts of the entry had ended.
    pub ended: u32,
    /// Bytes that it has seen of each lane.
    bytes: BTreeMap<Place, usize>,
    /// Bytes that are still to be left out: it has seen them.
    skips: BTreeMap<Place, usize>,
}

/// What is let through of a lane.
#[derive(Debug, Default)]
struct Through {
    /// Its number with each handler.
    numbers: Vec<u64>,
    /// Bytes that the model has made.
    made: usize,
    text: String,
    /// Id and name of the call.
    call: Option<(String, String)>,
    /// Index of its last token.
    index: u32,
}

impl Through {
    fn so_far(&self, choice: u32, lane: Lane) -> LaneSoFar<'_> {
        let call = self.call.as_ref();
        LaneSoFar {
            choice,
            lane,
            index: self.index,
            text: &self.text,
            call: call.map(|(id, name)| (id.as_str(), name.as_str())),
        }
    }
}

impl Seen {
    pub(crate) fn new(
        listener: Box<dyn Listener>,
        attempt: u32,
        model: Arc<str>,
        ended: u32,
    ) -> Seen {
        Seen {
            listener,
            attempt,
            model,
            ended,
            bytes: BTreeMap::new(),
            skips: BTreeMap::new(),
        }
    }

    /// The answer is made again from its beginning, and is the same as far as it was.
    fn again(mut self) -> Seen {
        self.skips = self.bytes.clone();
        self
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        let place = (piece.choice, piece.lane);
        let skip = self.skips.get(&place).copied().unwrap_or_default();
        let seen = self.bytes.entry(place).or_default();
        if skip == 0 {
            let begun = self.skips.contains_key(&place);
            *seen += piece.text.len();
            self.listener.piece(&Piece {
                begins: piece.begins.filter(|_| !begun),
                ..piece.clone()
            });
            return;
        }
        self.skips
            .insert(place, skip.saturating_sub(piece.text.len()));
        let rest = piece.text.get(skip..).unwrap_or_default();
        if !rest.is_empty() {
            *seen += rest.len();
            self.listener.piece(&Piece {
                text: rest,
                begins: None,
                logprobs: &[],
                ..piece.clone()
            });
        }
    }
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
            changed: BTreeMap::new(),
            choices: choices.max(1),
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
        for ((choice, lane), through) in &self.lanes {
            fed.lane(&through.so_far(*choice, *lane));
            lanes.push((*choice, *lane, through.text.chars().count() as u64));
        }
        fed.end(&finishes, &lanes);
    }

    /// Shows what has come. Returns whether handlers have ended the whole answer with it. An error is why a handler
    /// failed: nothing more can be shown.
    pub(crate) fn go_on(&mut self) -> Result<bool, String> {
        let before = self.is_ended();
        for piece in self.pieces.take() {
            self.piece(&piece, false)?;
        }
        Ok(!before && self.is_ended())
    }

    /// Whether handlers have ended every choice.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.len() as u32 >= self.choices
    }

    /// The answer is there; none where the model has none because it was ended here. Shows what is left of it, and
    /// returns what is let through.
    pub(crate) fn finish(
        &mut self,
        answer: Option<Answer>,
        tokens: Vec<u32>,
    ) -> Result<Answer, String> {
        self.go_on()?;
        let mut answer = answer.unwrap_or_else(|| self.without_model(tokens));
        // A vector, or labels, have no text to go through handlers.
        if let Made::Choices(choices) = &mut answer.made {
            for (number, choice) in choices.iter_mut().enumerate() {
                self.finish_choice(number as u32, choice)?;
            }
        }
        if let Some(seen) = &mut self.seen {
            seen.listener.answer(&answer);
        }
        Ok(answer)
    }

    /// What there is of an answer that was ended.
    fn without_model(&self, tokens: Vec<u32>) -> Answer {
        let choice = |number: u32| Choice {
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            tokens: if number == 0 {
                tokens.clone()
            } else {
                Vec::new()
            },
            finish: Finish::Filtered,
            logprobs: Vec::new(),
        };
        Answer {
            made: Made::Choices((0..self.choices).map(choice).collect()),
            prompt_tokens: 0,
            timings: Timings::default(),
        }
    }

    fn finish_choice(&mut self, number: u32, choice: &mut Choice) -> Result<(), String> {
        if !self.ended.contains_key(&number) {
            let last = choice.tokens.len().saturating_sub(1) as u32;
            let mut lanes = vec![
                (Lane::Reasoning, choice.reasoning.clone(), None),
                (Lane::Content, choice.text.clone(), None),
            ];
            for (at, call) in choice.calls.iter().enumerate() {
                let begins = (call.id.clone(), call.name.clone());
                let lane = Lane::Arguments(at as u32);
                lanes.push((lane, call.arguments.clone(), Some(begins)));
            }
            for (lane, text, begins) in lanes {
                let place = (number, lane);
                let made = self.lanes.get(&place).map(|through| through.made);
                // What the model has not told piece by piece.
                let rest = text.get(made.unwrap_or_default()..).unwrap_or_default();
                if made.is_none() && rest.is_empty() && begins.is_none() {
                    continue;
                }
                let piece = OwnedPiece {
                    choice: number,
                    index: last,
                    lane,
                    text: rest.to_owned(),
                    begins: begins.filter(|_| made.is_none()),
                    logprobs: Vec::new(),
                };
                self.piece(&piece, true)?;
                if self.ended.contains_key(&number) {
                    break;
                }
            }
        }
        match self.ended.get(&number) {
            Some(AnswerEnd::Stop) => choice.finish = Finish::Stop,
            Some(AnswerEnd::Filtered) => choice.finish = Finish::Filtered,
            None => {}
        }
        if self.handlers.is_empty() {
            return Ok(());
        }
        let text = |lane| match self.lanes.get(&(number, lane)) {
            Some(through) => through.text.clone(),
            None => String::new(),
        };
        choice.text = text(Lane::Content);
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
        if self.changed.contains_key(&number) || self.ended.contains_key(&number) {
            choice.logprobs = self.logprobs.remove(&number).unwrap_or_default();
        }
        Ok(())
    }

    /// Shows a piece; with `last` nothing comes after it in its lane.
    fn piece(&mut self, piece: &OwnedPiece, last: bool) -> Result<(), String> {
        if self.ended.contains_key(&piece.choice) {
            return Ok(());
        }
        let place = (piece.choice, piece.lane);
        self.open(place)?;
        let mut text = piece.text.clone();
        let mut end = None;
        if let Some(through) = self.lanes.get(&place) {
            for (handler, number) in self.handlers.iter().zip(&through.numbers) {
                let step = handler.step(*number, &text, last || end.is_some())?;
                text = step.text;
                end = end.or(step.end);
            }
        }
        let is_same = text == piece.text;
        let Some(through) = self.lanes.get_mut(&place) else {
            return Ok(());
        };
        through.made += piece.text.len();
        through.index = piece.index;
        through.text.push_str(&text);
        if through.call.is_none() {
            through.call.clone_from(&piece.begins);
        }
        if let Some(fed) = &mut self.fed {
            fed.lane(&through.so_far(piece.choice, piece.lane));
        }
        let logprobs = match is_same {
            true => piece.logprobs.as_slice(),
            false => &[],
        };
        if !self.handlers.is_empty() {
            if !is_same {
                self.changed.insert(piece.choice, true);
            }
            let kept = self.logprobs.entry(piece.choice).or_default();
            kept.extend_from_slice(logprobs);
        }
        let begins = piece.begins.as_ref();
        let begins = begins.map(|(id, name)| (id.as_str(), name.as_str()));
        if let Some(seen) = &mut self.seen
            && (!text.is_empty() || begins.is_some() || !logprobs.is_empty())
        {
            seen.piece(&Piece {
                choice: piece.choice,
                index: piece.index,
                lane: piece.lane,
                text: &text,
                begins,
                logprobs,
            });
        }
        if let Some(end) = end {
            self.ended.insert(piece.choice, end);
            self.close_choice(piece.choice);
        }
        Ok(())
    }

    fn open(&mut self, place: Place) -> Result<(), String> {
        if self.lanes.contains_key(&place) {
            return Ok(());
        }
        let (choice, lane) = place;
        let mut through = Through::default();
        for handler in &self.handlers {
            let opened = handler.open(&AnswerLane {
                record: &self.of.record,
                model: &self.of.model,
                choice,
                lane,
                attributes: &self.of.attributes,
            });
            match opened {
                Ok(number) => through.numbers.push(number),
                Err(why) => {
                    self.close(&through);
                    return Err(why);
                }
            }
        }
        self.lanes.insert(place, through);
        Ok(())
    }

    fn close(&self, through: &Through) {
        for (handler, number) in self.handlers.iter().zip(&through.numbers) {
            handler.close(*number);
        }
    }

    fn close_choice(&mut self, choice: u32) {
        let lanes = self.lanes.iter();
        for (_, through) in lanes.filter(|((of, _), _)| *of == choice) {
            self.close(through);
        }
        let lanes = self.lanes.iter_mut();
        for (_, through) in lanes.filter(|((of, _), _)| *of == choice) {
            through.numbers.clear();
        }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        for through in self.lanes.values() {
            self.close(through);
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
