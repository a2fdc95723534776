//! Calls in an answer, as they come.

use tidegate_contract::Lane;

use super::ids::{characters, of_call};
use super::object::{self, Depth, Object};
use super::{After, LaneParser, Segment, State};
use crate::CallForm;

/// Longest text before the arguments of a call, in bytes: what is longer is content.
pub(super) const LONGEST_HEAD: usize = 16 << 10;

impl LaneParser {
    /// The object of a call at a place of what is held.
    pub(super) fn head(&mut self, object: usize, out: &mut Vec<Segment>) -> bool {
        match object::read(&self.held[object..]) {
            Object::Open if self.held.len() <= LONGEST_HEAD => false,
            Object::Arguments { name, at } if self.names.contains(&name) => {
                self.skip(object + at);
                self.begin(name, String::new(), self.at, out);
                self.state = State::Arguments(Depth::default(), After::Rest);
                true
            }
            Object::Whole {
                name,
                arguments,
                end,
            } if self.names.contains(&name) => {
                let to = self.at + object + end;
                self.begin(name, arguments, to, out);
                self.skip(object + end);
                self.call_ended();
                true
            }
            _ => self.no_call(object, out),
        }
    }

    /// A name and, behind a tag, its arguments.
    pub(super) fn named_head(&mut self, begins: usize, out: &mut Vec<Segment>) -> bool {
        const ARGUMENTS: &str = "[ARGS]";
        let Some((before, behind)) = self.held[begins..].split_once(ARGUMENTS) else {
            return match self.held.len() <= LONGEST_HEAD {
                true => false,
                false => self.no_call(begins, out),
            };
        };
        let name = before.split("[CALL_ID]").next().unwrap_or_default().trim();
        if !self.names.iter().any(|known| known == name) {
            return self.no_call(begins, out);
        }
        let object = object::space(behind, 0);
        match behind.as_bytes().get(object) {
            None => return false,
            Some(b'{') => {}
            Some(_) => return self.no_call(begins, out),
        }
        let name = name.to_owned();
        self.skip(begins + before.len() + ARGUMENTS.len() + object);
        self.begin(name, String::new(), self.at, out);
        self.state = State::Arguments(Depth::default(), After::Between);
        true
    }

    /// What was taken for a call is content: up to where it might have begun, so that another may come behind.
    fn no_call(&mut self, tried: usize, out: &mut Vec<Segment>) -> bool {
        self.fresh = false;
        self.bare = false;
        self.state = State::Content;
        self.give(Lane::Content, tried, out);
        true
    }

    pub(super) fn arguments(
        &mut self,
        mut depth: Depth,
        after: After,
        out: &mut Vec<Segment>,
    ) -> bool {
        let end = depth.end(self.held.as_bytes());
        let lane = Lane::Arguments(self.calls.saturating_sub(1));
        self.give(lane, end.unwrap_or(self.held.len()), out);
        match (end, after) {
            (None, _) => self.state = State::Arguments(depth, after),
            (Some(_), After::Rest) => self.state = State::Rest(Depth::inside()),
            (Some(_), After::Between) => self.call_ended(),
        }
        end.is_some()
    }

    pub(super) fn call_ended(&mut self) {
        self.complete = self.calls >= self.most;
        self.fresh = true;
        self.state = if self.complete {
            State::Done
        } else {
            State::Between
        };
    }

    /// Behind a call: another, or what ends them.
    pub(super) fn between(&mut self) -> bool {
        let begins = object::space(&self.held, 0);
        self.skip(begins);
        let Some(first) = self.held.chars().next() else {
            return false;
        };
        match (self.form.calls, first) {
            (CallForm::Tagged, _) => {
                let tag = self.form.call.1.text();
                if self.held.starts_with(tag) {
                    self.skip(tag.len());
                } else if tag.starts_with(self.held.as_str()) {
                    return false;
                }
                self.state = State::Content;
            }
            (CallForm::Bare, ';' | ',') => self.skip(1),
            (CallForm::Bare, _) => self.state = State::Content,
            (CallForm::List, ',') => self.state = State::Head(1),
            (CallForm::List, ']') => {
                self.skip(1);
                self.state = State::Content;
            }
            (CallForm::List, _) => self.state = State::Content,
            (CallForm::Channels, _) => return self.next_message(),
        }
        true
    }

    pub(super) fn begin(
        &mut self,
        name: String,
        arguments: String,
        to: usize,
        out: &mut Vec<Segment>,
    ) {
        let id = format!("call_{}", characters(of_call(self.seed, self.calls), 24));
        out.push(Segment {
            lane: Lane::Arguments(self.calls),
            text: arguments,
            begins: Some((id, name)),
            from: self.at,
            to,
        });
        self.calls += 1;
    }
}
