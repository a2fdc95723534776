//! A text that comes in pieces and may be JSON, whose strings may be JSON themselves.

mod string;

use std::borrow::Cow;

use self::string::Open;
use super::{MAX_DEPTH, quote};
use crate::LaneKind;

/// Most strings of JSON within each other that are told apart, as in `"{\"body\":\"{\\\"to\\\":...`. Each doubles the
/// backslashes, so there are few.
pub const MAX_NESTED: usize = 8;

/// What a character of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It ends a character of a text, as that reads: of one that is no JSON, or of a string, without its escapes.
    Text(char),
    /// It is part of an escape, whose character comes with the rest.
    Escape,
    /// It begins what may be JSON, as `[`: what comes decides. It is of a text, unless [`Mark::Decided`] comes first.
    Undecided(char),
    /// What was undecided is JSON.
    Decided,
    /// It stands between the texts of JSON: a quote, a bracket, a comma, space.
    Between,
    /// It is of a number of JSON, or of `true`, `false` or `null`.
    Word(char),
}

/// Reads a text as it comes, and knows what stands in which strings of JSON.
///
/// A text is JSON as long as it begins like an object or an array and goes on so; after its end another may begin. From
/// where it goes wrong it is no JSON. The text of a string is looked at in the same way.
///
/// ```
/// use tidegate_sdk::json::Nesting;
///
/// let mut read = Nesting::default();
/// read.saw(r#"{"body":"{\"to\":\""#);
/// assert_eq!(read.put("Joe \"Z\""), r#"Joe \\\"Z\\\""#);
/// ```
#[derive(Clone, Debug)]
pub struct Nesting {
    /// The text itself, and in it the strings that are open, each in the one before it; never empty.
    layers: Vec<Layer>,
    /// Whether it is written as JSON, whatever it looks like.
    is_arguments: bool,
}

/// One text: the whole, or that of a string that is open.
#[derive(Clone, Debug, Default)]
struct Layer {
    state: State,
    /// Brackets that are open: whether each is that of an object.
    open: Vec<bool>,
    /// Whether what has begun is JSON for certain.
    is_certain: bool,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing but space, since the beginning or since the end of a value.
    #[default]
    Start,
    /// A value comes, or the end of the array.
    Value,
    /// A member's name comes, or the end of the object.
    Name,
    Colon,
    /// A comma comes, or the end of what is open.
    Comma,
    Number,
    /// These characters come.
    Word(&'static str),
    String(Open),
    /// It is no JSON.
    Prose,
}

/// What a character outside of strings is.
enum Outside {
    Mark(Mark),
    /// The quote before a string.
    Opens,
}

impl Default for Nesting {
    /// A text that may be JSON.
    fn default() -> Nesting {
        Nesting {
            layers: vec![Layer::default()],
            is_arguments: false,
        }
    }
}

impl Nesting {
    /// The text of a lane: arguments are written as JSON, whatever they look like.
    pub fn of(kind: LaneKind) -> Nesting {
        Nesting {
            is_arguments: matches!(kind, LaneKind::Arguments(_)),
            ..Nesting::default()
        }
    }

    /// Reads the next text.
    pub fn saw(&mut self, text: &str) {
        for character in text.chars() {
            self.read(character, &mut |_| {});
        }
    }

    /// Reads the next character, and tells what it is. There may be several marks: one that goes on a half of a pair ends
    /// that too, as U+FFFD.
    pub fn read(&mut self, character: char, tell: &mut dyn FnMut(Mark)) {
        self.feed(0, character, tell);
    }

    fn feed(&mut self, at: usize, character: char, tell: &mut dyn FnMut(Mark)) {
        let Some(layer) = self.layers.get_mut(at) else {
            return tell(Mark::Text(character));
        };
        let State::String(open) = &mut layer.state else {
            let opens = match layer.outside(character, tell) {
                Outside::Mark(mark) => {
                    tell(mark);
                    false
                }
                Outside::Opens => {
                    tell(Mark::Between);
                    true
                }
            };
            if opens && self.layers.len() < MAX_NESTED {
                self.layers.push(Layer::default());
            }
            return;
        };
        let read = open.read(character);
        for text in read.texts.into_iter().flatten() {
            self.feed(at + 1, text, tell);
        }
        if read.closes {
            self.layers.truncate(at + 1);
            if let Some(layer) = self.layers.last_mut() {
                layer.closed();
            }
            tell(Mark::Between);
        } else if read.texts == [None; 3] {
            tell(Mark::Escape);
        }
    }

    /// How often a text that is put behind what was read has to be escaped.
    pub fn escapes(&self) -> usize {
        let strings = self.layers.iter();
        let strings = strings.take_while(|layer| matches!(layer.state, State::String(_)));
        match (strings.count(), &self.layers[0].state) {
            (0, State::Start | State::Prose) if self.is_arguments => 1,
            (strings, _) => strings,
        }
    }

    /// A text as it has to be put behind what was read, so that what is JSON stays so: escaped as often as strings are
    /// around it, and a string of its own where a value comes. It is not read itself: what comes goes on around it.
    pub fn put(&mut self, text: &str) -> String {
        match self.fill() {
            true => escape(&quote(text), self.escapes()).into_owned(),
            false => escape(text, self.escapes()).into_owned(),
        }
    }

    /// A number is put behind what was read, as it is.
    pub fn put_number(&mut self) {
        self.fill();
    }

    /// Something stands here. Returns whether it is a value of JSON by itself.
    fn fill(&mut self) -> bool {
        let Some(layer) = self.layers.last_mut() else {
            return false;
        };
        match layer.state {
            State::String(_) | State::Prose => false,
            State::Value => {
                layer.state = State::Comma;
                layer.is_certain
            }
            _ => {
                layer.state = State::Prose;
                false
            }
        }
    }
}

impl Layer {
    /// What a character is that stands in no string.
    fn outside(&mut self, character: char, tell: &mut dyn FnMut(Mark)) -> Outside {
        let text = Outside::Mark(Mark::Text(character));
        let is_space = matches!(character, ' ' | '\t' | '\n' | '\r');
        match self.state {
            State::Prose => return text,
            State::Start if is_space => return text,
            State::Number if matches!(character, '0'..='9' | '.' | 'e' | 'E' | '+' | '-') => {
                return Outside::Mark(self.word(character));
            }
            State::Word(rest) if rest.starts_with(character) => {
                self.state = State::Word(&rest[1..]);
                return Outside::Mark(self.word(character));
            }
            State::Number | State::Word("") => self.state = State::Comma,
            _ => {}
        }
        let was_certain = self.is_certain;
        let opens = character == '"';
        match (&self.state, character) {
            _ if is_space && !matches!(self.state, State::Word(_)) => {}
            (State::Start | State::Value, '{' | '[') if self.open.len() < MAX_DEPTH => {
                let is_object = character == '{';
                self.open.push(is_object);
                self.state = match is_object {
                    true => State::Name,
                    false => State::Value,
                };
            }
            (State::Value | State::Name, '"') => {
                let is_name = matches!(self.state, State::Name);
                self.state = State::String(Open::of(is_name));
                self.is_certain = true;
            }
            (State::Value, '0'..='9' | '-') => {
                self.state = State::Number;
                return Outside::Mark(self.word(character));
            }
            (State::Value, 't' | 'f' | 'n') => {
                self.state = State::Word(match character {
                    't' => "rue",
                    'f' => "alse",
                    _ => "ull",
                });
                return Outside::Mark(self.word(character));
            }
            (State::Colon, ':') => self.state = State::Value,
            (State::Comma, ',') => {
                self.state = match self.open.last() {
                    Some(true) => State::Name,
                    _ => State::Value,
                };
                self.is_certain = true;
            }
            (State::Value | State::Comma, ']') if self.open.last() == Some(&false) => {
                self.open.pop();
                self.ended();
            }
            (State::Name | State::Comma, '}') if self.open.last() == Some(&true) => {
                self.open.pop();
                self.ended();
            }
            _ => self.state = State::Prose,
        }
        if matches!(self.state, State::Prose) {
            return text;
        }
        if self.is_certain && !was_certain {
            tell(Mark::Decided);
        }
        match (opens, was_certain || self.is_certain) {
            (true, _) => Outside::Opens,
            (false, true) => Outside::Mark(Mark::Between),
            (false, false) => Outside::Mark(Mark::Undecided(character)),
        }
    }

    fn word(&self, character: char) -> Mark {
        match self.is_certain {
            true => Mark::Word(character),
            false => Mark::Undecided(character),
        }
    }

    /// The string that was open has ended.
    fn closed(&mut self) {
        match &self.state {
            State::String(open) if open.is_name => self.state = State::Colon,
            _ => self.ended(),
        }
    }

    /// A value has ended.
    fn ended(&mut self) {
        self.state = match (self.open.is_empty(), self.is_certain) {
            (false, _) => State::Comma,
            // Another may begin: lines of JSON.
            (true, true) => State::Start,
            // As in `[1]`, which is a note in a text, or the same without a string in it.
            (true, false) => State::Prose,
        };
        self.is_certain &= !self.open.is_empty();
    }
}

/// A text as it stands in so many strings of JSON, each within the next.
pub fn escape(text: &str, times: usize) -> Cow<'_, str> {
    let mut escaped = Cow::Borrowed(text);
    for _ in 0..times {
        let mut quoted = quote(&escaped);
        quoted.pop();
        quoted.remove(0);
        escaped = Cow::Owned(quoted);
    }
    escaped
}
