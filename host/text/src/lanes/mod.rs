//! Reasoning and calls, taken out of the text of an answer as it comes.
//!
//! Reasoning is what stands between its tags at the beginning of an answer. A call is what has the form of one
//! ([`CallForm`]) and names a function that was given: it begins when its name is known and its arguments have begun, and
//! from there its arguments are given on as they come. What looks like a call and is none (another form, a name that is
//! not known, an object without a name, one that has not come as far as its arguments) is content, to the letter. White
//! space beside a tag belongs to no lane.

mod calls;
mod channels;
mod ids;
mod object;
mod tags;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_contract::{Lane, MOST_CALLS};

use crate::{AnswerForm, CallForm};
pub(crate) use ids::characters;
use object::Depth;
use tags::{OwnTag, Tags};

/// A part of an answer in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The lane.
    pub lane: Lane,
    /// Its text.
    pub text: String,
    /// The call that begins with it: id and name.
    pub begins: Option<(String, String)>,
    /// Where in the text of the answer it stands, in bytes.
    pub from: usize,
    /// And where it ends.
    pub to: usize,
}

/// Where in an answer the text is.
#[derive(Debug, Clone, Copy)]
enum State {
    /// At its beginning.
    Start,
    Reasoning,
    Content,
    /// Where the object of a call may begin; `Some` is where in the held text it does.
    Head(usize),
    /// `name[ARGS]`; where in the held text the name begins.
    NamedHead(usize),
    /// In the arguments of the last call.
    Arguments(Depth, After),
    /// Behind them, in its object.
    Rest(Depth),
    /// Behind its object.
    Between,
    /// Before the body of a message in a channel.
    Header,
    /// In it.
    Message(Lane),
    /// No more is wanted.
    Done,
}

/// What comes behind the arguments.
#[derive(Debug, Clone, Copy)]
enum After {
    Rest,
    Between,
}

/// Takes an answer apart.
#[derive(Debug, Clone)]
pub struct LaneParser {
    form: AnswerForm,
    tags: Tags,
    /// Where in the answer the names of tokens stand that are shown, of those that are not behind it.
    tokens: VecDeque<Range<usize>>,
    names: Vec<String>,
    /// Most calls.
    most: u32,
    seed: u64,
    state: State,
    /// What is not decided.
    held: String,
    /// Where in the answer `held` begins.
    at: usize,
    /// White space that comes now belongs to no lane.
    fresh: bool,
    /// Reasoning has begun.
    reasoned: bool,
    /// Where content begins for certain, if that is known.
    content_from: Option<usize>,
    /// Nothing but white space and calls has come as content.
    bare: bool,
    calls: u32,
    /// All calls have come.
    complete: bool,
}

impl LaneParser {
    /// At the beginning of an answer. `thinks`: inside the reasoning, which the prompt has opened. `names`: the functions
    /// that may be called. `several`: whether it may call more than one, [`MOST_CALLS`] at most. Nothing comes after the
    /// last that may.
    pub fn new(form: &AnswerForm, thinks: bool, names: Vec<String>, several: bool) -> LaneParser {
        LaneParser {
            tags: Tags::of(form),
            form: form.clone(),
            tokens: VecDeque::new(),
            names,
            most: if several { MOST_CALLS as u32 } else { 1 },
            seed: 0,
            state: if thinks {
                State::Reasoning
            } else {
                State::Start
            },
            held: String::new(),
            at: 0,
            fresh: thinks,
            reasoned: thinks,
            content_from: None,
            bare: true,
            calls: 0,
            complete: false,
        }
    }

    /// The ids of calls come from this number.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> LaneParser {
        self.seed = seed;
        self
    }

    /// Behind the beginning of the answer, which has this reasoning and this text: no reasoning comes behind text, and
    /// white space behind reasoning that has begun is part of it.
    #[must_use]
    pub fn behind(mut self, reasoning: &str, text: &str) -> LaneParser {
        match self.state {
            State::Start if !text.is_empty() => {
                self.state = match self.form.channels {
                    Some(_) => State::Message(Lane::Content),
                    None => State::Content,
                };
                self.bare = text.trim().is_empty();
            }
            State::Reasoning => self.fresh = reasoning.is_empty(),
            _ => {}
        }
        self
    }

    /// What the ids of calls come from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Without reasoning: what looks like it is content.
    #[must_use]
    pub fn without_reasoning(mut self) -> LaneParser {
        if let State::Start = self.state {
            self.state = self.before_content();
        }
        self
    }

    /// The text of the answer between these places, in bytes, is the name of one token that is shown. Told before that
    /// text is, and in its order.
    pub fn token_at(&mut self, place: Range<usize>) {
        self.tokens.push_back(place);
    }

    /// Whether what comes next is, or may be, reasoning or what begins it: then it is for
    /// [`push_before`](LaneParser::push_before).
    pub fn is_before_content(&self) -> bool {
        matches!(self.state, State::Start | State::Reasoning)
    }

    /// Whether there was reasoning.
    pub fn has_reasoned(&self) -> bool {
        self.reasoned
    }

    /// Takes text that stands before the content, as far as it does, and appends what is decided with it. What is not
    /// taken is content's: it is not looked at yet, and is for [`push`](LaneParser::push).
    pub fn push_before(&mut self, text: &str, out: &mut Vec<Segment>) -> String {
        self.held.push_str(text);
        while self.is_before_content() && self.step(out) {}
        match self.is_before_content() {
            true => String::new(),
            false => std::mem::take(&mut self.held),
        }
    }

    /// No more text comes: what was held for the beginning of reasoning is content's, and is given back. Reasoning that has
    /// not ended stays for [`finish`](LaneParser::finish).
    pub fn end_before(&mut self) -> String {
        match self.state {
            State::Start => {
                self.state = self.before_content();
                std::mem::take(&mut self.held)
            }
            _ => String::new(),
        }
    }

    /// White space behind the reasoning that stands before this place of the answer's text, in bytes, belongs to no lane;
    /// from there on all of it is content's: it is a text that has a form.
    pub fn content_from(&mut self, place: usize) {
        self.content_from = Some(place);
    }

    /// How much of the text of the answer is decided, in bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether the last call that may come has come.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How many calls have begun.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// Takes text and appends what is decided with it.
    pub fn push(&mut self, text: &str, out: &mut Vec<Segment>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// The answer has ended: what is undecided is what it was before.
    pub fn finish(&mut self, out: &mut Vec<Segment>) {
        match self.state {
            State::Start | State::Content => {
                self.skip_fresh();
                self.give(Lane::Content, self.held.len(), out);
            }
            State::Head(_) | State::NamedHead(_) | State::Header => {
                self.give(Lane::Content, self.held.len(), out);
            }
            State::Message(lane) => self.give(lane, self.held.len(), out),
            State::Reasoning => {
                self.skip_fresh();
                self.give(Lane::Reasoning, self.held.len(), out);
            }
            State::Arguments(..) | State::Rest(_) | State::Between | State::Done => {}
        }
        self.state = State::Done;
    }

    /// One step; false if more text is needed for the next.
    fn step(&mut self, out: &mut Vec<Segment>) -> bool {
        match self.state {
            State::Start => self.start(),
            State::Reasoning => self.reasoning(out),
            State::Content => self.content(out),
            State::Head(object) => self.head(object, out),
            State::NamedHead(name) => self.named_head(name, out),
            State::Arguments(depth, after) => self.arguments(depth, after, out),
            State::Rest(mut depth) => {
                let end = depth.end(self.held.as_bytes());
                self.skip(end.unwrap_or(self.held.len()));
                match end {
                    Some(_) => self.call_ended(),
                    None => self.state = State::Rest(depth),
                }
                end.is_some()
            }
            State::Between => self.between(),
            State::Header => self.header(out),
            State::Message(lane) => self.message(lane, out),
            State::Done => {
                self.skip(self.held.len());
                false
            }
        }
    }

    fn start(&mut self) -> bool {
        let begins = object::space(&self.held, 0);
        let rest = &self.held[begins..];
        let is_here =
            |tag: &OwnTag| rest.starts_with(&tag.text) && self.is_tag(begins, tag, tag.text.len());
        let may_come =
            |tag: &OwnTag| tag.text.starts_with(rest) && self.is_tag(begins, tag, rest.len());
        let (tag, opens) = (&self.tags.begins, self.tags.opens.as_ref());
        if is_here(tag) {
            let behind = begins + tag.text.len();
            self.skip(behind);
            self.fresh = true;
            self.reasoned = true;
            self.state = State::Reasoning;
            return true;
        }
        if let Some(opens) = opens.filter(|opens| is_here(opens)) {
            let behind = begins + opens.text.len();
            self.skip(behind);
            self.state = State::Content;
            return true;
        }
        if may_come(tag) || opens.is_some_and(may_come) {
            return false;
        }
        self.state = self.before_content();
        true
    }

    /// Where content begins: in channels, its message has a head.
    fn before_content(&self) -> State {
        match self.form.channels {
            Some(_) => State::Header,
            None => State::Content,
        }
    }

    fn reasoning(&mut self, out: &mut Vec<Segment>) -> bool {
        if !self.skip_fresh() {
            return false;
        }
        if let Some(place) = self.find_tag(&self.tags.ends) {
            let behind = place.end;
            let before = self.held[..place.start].trim_end().len();
            self.give(Lane::Reasoning, before, out);
            self.skip(behind - before);
            self.fresh = true;
            self.state = self.before_content();
            return true;
        }
        let certain = self.held.len() - self.tag_begun(&self.tags.ends);
        self.give(Lane::Reasoning, self.held[..certain].trim_end().len(), out);
        false
    }

    fn content(&mut self, out: &mut Vec<Segment>) -> bool {
        if !self.skip_fresh() {
            return false;
        }
        if self.names.is_empty() {
            self.give(Lane::Content, self.held.len(), out);
            return false;
        }
        let begins = object::space(&self.held, 0);
        if self.form.calls == CallForm::Bare && self.bare && self.held[begins..].starts_with('{') {
            self.state = State::Head(begins);
            return true;
        }
        let tag = self.form.call.0.text().to_owned();
        if let Some(at) = self.held.find(&tag) {
            let before = self.held[..at].trim_end().len();
            let behind = at + tag.len() - before;
            self.give(Lane::Content, before, out);
            if self.form.calls != CallForm::List {
                self.state = State::Head(behind);
                return true;
            }
            let object = object::space(&self.held, behind);
            match self.held.as_bytes().get(object) {
                // What it is is not known yet: the tag is found again.
                None => return false,
                Some(b'[') => self.state = State::Head(object + 1),
                Some(_) => self.state = State::NamedHead(object),
            }
            return true;
        }
        let certain = self.held.len() - beginning_at_end(&self.held, &tag);
        self.give(Lane::Content, self.held[..certain].trim_end().len(), out);
        false
    }

    /// Drops white space where it belongs to no lane; false if there is nothing else.
    fn skip_fresh(&mut self) -> bool {
        if self.fresh {
            let space = object::space(&self.held, 0);
            let behind = self
                .content_from
                .filter(|_| matches!(self.state, State::Content));
            let most = behind.map_or(usize::MAX, |from| from.saturating_sub(self.at));
            self.skip(space.min(most));
            self.fresh = self.held.is_empty() && space < most;
        }
        !self.fresh
    }

    fn skip(&mut self, length: usize) {
        self.held.drain(..length);
        self.pass(length);
    }

    fn pass(&mut self, length: usize) {
        self.at += length;
        while self
            .tokens
            .front()
            .is_some_and(|token| token.end <= self.at)
        {
            self.tokens.pop_front();
        }
    }

    fn give(&mut self, lane: Lane, length: usize, out: &mut Vec<Segment>) {
        if length == 0 {
            return;
        }
        let from = self.at;
        let text: String = self.held.drain(..length).collect();
        self.pass(length);
        self.bare &= lane != Lane::Content || text.trim().is_empty();
        out.push(Segment {
            lane,
            text,
            begins: None,
            from,
            to: self.at,
        });
    }
}

/// How many bytes at the end of `text` are a beginning of `tag` and not all of it.
fn beginning_at_end(text: &str, tag: &str) -> usize {
    let mut lengths = tag.char_indices().map(|(at, _)| at).rev();
    lengths
        .find(|length| *length > 0 && text.ends_with(&tag[..*length]))
        .unwrap_or(0)
}
