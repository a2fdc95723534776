//! Messages in channels, as they come: see [`Channels`](crate::Channels).

use tidegate_contract::Lane;

use super::calls::LONGEST_HEAD;
use super::object::{self, Depth};
use super::{After, LaneParser, State, beginning_at_end};
use crate::Channels;

/// What a function's name stands behind where a message is for it.
const FUNCTIONS: &str = "functions.";
/// What stands between two messages that are both content.
const BETWEEN: &str = "\n\n";

impl LaneParser {
    /// The head of a message: whom it is for, and the lane of its body.
    pub(super) fn header(&mut self, out: &mut Vec<super::Segment>) -> bool {
        let Some(channels) = self.form.channels.clone() else {
            self.state = State::Content;
            return true;
        };
        let tag = channels.message.text();
        let Some(at) = self.held.find(tag).filter(|at| *at <= LONGEST_HEAD) else {
            // One that is that long is none: all of it is content.
            let is_head = self.held.len() <= LONGEST_HEAD + tag.len();
            self.state = match is_head {
                true => State::Header,
                false => State::Message(Lane::Content),
            };
            return !is_head;
        };
        let head = Head::read(&self.held[..at], &channels);
        let body = at + tag.len();
        let function = head.function.filter(|name| self.names.contains(name));
        if let Some(name) = function {
            let arguments = object::space(&self.held, body);
            match self.held.as_bytes().get(arguments) {
                None => return false,
                Some(b'{') => {
                    self.skip(arguments);
                    self.begin(name, String::new(), self.at, out);
                    self.state = State::Arguments(Depth::default(), After::Between);
                }
                // To the letter, as whatever looks like a call and is none.
                Some(_) => self.state = State::Message(Lane::Content),
            }
            return true;
        }
        let lane = match (head.is_reasoning, head.is_for_somebody) {
            (true, _) => Lane::Reasoning,
            (false, false) => Lane::Content,
            (false, true) => {
                self.state = State::Message(Lane::Content);
                return true;
            }
        };
        self.skip(body);
        if lane == Lane::Content && !self.bare {
            out.push(super::Segment {
                lane,
                text: BETWEEN.into(),
                begins: None,
                from: self.at,
                to: self.at,
            });
        }
        self.state = State::Message(lane);
        true
    }

    /// The body of a message, up to what ends it.
    pub(super) fn message(&mut self, lane: Lane, out: &mut Vec<super::Segment>) -> bool {
        let Some(channels) = &self.form.channels else {
            self.state = State::Content;
            return true;
        };
        let tag = channels.end.text();
        let end = self.held.find(tag);
        let behind = end.map(|at| at + tag.len());
        let certain = end.unwrap_or(self.held.len() - beginning_at_end(&self.held, tag));
        self.give(lane, certain, out);
        if let Some(behind) = behind {
            self.skip(behind - certain);
            self.state = State::Between;
        }
        behind.is_some()
    }

    /// What stands between two messages is of no lane.
    pub(super) fn next_message(&mut self) -> bool {
        let start = self.form.channels.as_ref();
        let start = start.map_or_else(String::new, |channels| {
            format!("{}assistant", channels.start.text())
        });
        match self.held.find(&start) {
            Some(at) => {
                self.skip(at + start.len());
                self.state = State::Header;
                true
            }
            None => {
                let certain = self.held.len() - beginning_at_end(&self.held, &start);
                self.skip(certain);
                false
            }
        }
    }
}

/// What the head of a message says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// The function that it is for.
    function: Option<String>,
    /// Whether it is for somebody who is not the user.
    is_for_somebody: bool,
    is_reasoning: bool,
}

impl Head {
    fn read(text: &str, channels: &Channels) -> Head {
        let tag = channels.channel.text();
        let channel = text.split_once(tag).map_or("", |(_, behind)| behind);
        let channel = channel
            .split(|c: char| c.is_whitespace() || c == '<')
            .next();
        let to = text.split_once("to=").map(|(_, behind)| behind);
        let to = to.and_then(|behind| behind.split(|c: char| c.is_whitespace() || c == '<').next());
        Head {
            function: to.and_then(|to| Some(to.strip_prefix(FUNCTIONS)?.to_owned())),
            is_for_somebody: to.is_some(),
            is_reasoning: channel == Some("analysis"),
        }
    }
}
