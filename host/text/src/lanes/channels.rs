//! Messages in channels, as they come: see [`Channels`](crate::Channels).

use tidegate_contract::Lane;

use super::calls::LONGEST_HEAD;
use super::object::{self, Depth};
use super::{After, LaneParser, State};

/// What a function's name stands behind where a message is for it.
const FUNCTIONS: &str = "functions.";
/// What stands between two messages that are both content.
const BETWEEN: &str = "\n\n";

impl LaneParser {
    /// The head of a message: whom it is for, and the lane of its body.
    pub(super) fn header(&mut self, out: &mut Vec<super::Segment>) -> bool {
        let Some(channels) = &self.tags.channels else {
            self.state = State::Content;
            return true;
        };
        let found = self.find_tag(&channels.message);
        let Some(tag) = found.filter(|tag| tag.start <= LONGEST_HEAD) else {
            // One that is that long is none: all of it is content.
            let is_head = self.held.len() <= LONGEST_HEAD + channels.message.text.len();
            self.state = match is_head {
                true => State::Header,
                false => State::Message(Lane::Content),
            };
            return !is_head;
        };
        let channel = self.find_tag(&channels.channel);
        let channel = channel.filter(|channel| channel.end <= tag.start);
        let channel = channel.map(|channel| &self.held[channel.end..tag.start]);
        let head = Head::read(&self.held[..tag.start], channel);
        let body = tag.end;
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
        let Some(channels) = &self.tags.channels else {
            self.state = State::Content;
            return true;
        };
        let end = self.find_tag(&channels.end);
        let behind = end.as_ref().map(|end| end.end);
        let begun = || self.held.len() - self.tag_begun(&channels.end);
        let certain = end.map_or_else(begun, |end| end.start);
        self.give(lane, certain, out);
        if let Some(behind) = behind {
            self.skip(behind - certain);
            self.state = State::Between;
        }
        behind.is_some()
    }

    /// What stands between two messages is of no lane.
    pub(super) fn next_message(&mut self) -> bool {
        let Some(channels) = &self.tags.channels else {
            self.state = State::Content;
            return true;
        };
        match self.find_tag(&channels.next) {
            Some(next) => {
                self.skip(next.end);
                self.state = State::Header;
                true
            }
            None => {
                let certain = self.held.len() - self.tag_begun(&channels.next);
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
    /// `text`: all of it. `channel`: what stands behind the tag of its channel, if it has one.
    fn read(text: &str, channel: Option<&str>) -> Head {
        let channel = channel.unwrap_or_default();
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
