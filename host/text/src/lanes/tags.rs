//! Where the tags stand that one token, or some, are for.

use std::ops::Range;

use super::{LaneParser, beginning_at_end};
use crate::{AnswerForm, Tag};

/// A tag, and where in its text the tokens stand that are for it alone.
#[derive(Debug, Clone)]
pub(super) struct OwnTag {
    pub(super) text: String,
    own: Vec<Range<usize>>,
}

impl OwnTag {
    fn of(tag: &Tag) -> OwnTag {
        OwnTag {
            text: tag.text().to_owned(),
            own: tag.own().into_iter().map(|(_, place)| place).collect(),
        }
    }

    fn and(mut self, behind: &str) -> OwnTag {
        self.text.push_str(behind);
        self
    }
}

/// Those of an answer.
#[derive(Debug, Clone)]
pub(super) struct Tags {
    pub(super) begins: OwnTag,
    pub(super) ends: OwnTag,
    pub(super) opens: Option<OwnTag>,
    pub(super) channels: Option<ChannelTags>,
}

/// Those of messages in channels.
#[derive(Debug, Clone)]
pub(super) struct ChannelTags {
    pub(super) channel: OwnTag,
    pub(super) message: OwnTag,
    pub(super) end: OwnTag,
    /// What begins a further message of the model.
    pub(super) next: OwnTag,
}

impl Tags {
    pub(super) fn of(form: &AnswerForm) -> Tags {
        Tags {
            begins: OwnTag::of(&form.reasoning.0),
            ends: OwnTag::of(&form.reasoning.1),
            opens: form.opens.as_ref().map(OwnTag::of),
            channels: form.channels.as_ref().map(|channels| ChannelTags {
                channel: OwnTag::of(&channels.channel),
                message: OwnTag::of(&channels.message),
                end: OwnTag::of(&channels.end),
                next: OwnTag::of(&channels.start).and("assistant"),
            }),
        }
    }
}

impl LaneParser {
    /// Whether so many bytes at a place of what is held, which read like the beginning of a tag, are it: every token that
    /// is for the tag alone is there, and no other token is whose name would be a part of it.
    pub(super) fn is_tag(&self, place: usize, tag: &OwnTag, length: usize) -> bool {
        let (from, to) = (self.at + place, self.at + place + length);
        let own = tag.own.iter().filter(|own| own.start < length);
        let wanted = own.map(|own| from + own.start..from + own.end);
        let there = (self.tokens.iter()).filter(|token| token.start < to && token.end > from);
        there.cloned().eq(wanted)
    }

    /// Where a tag stands first in what is held.
    pub(super) fn find_tag(&self, tag: &OwnTag) -> Option<Range<usize>> {
        let mut from = 0;
        while let Some(found) = self.held[from..].find(&tag.text) {
            let place = from + found;
            if self.is_tag(place, tag, tag.text.len()) {
                return Some(place..place + tag.text.len());
            }
            let first = self.held[place..].chars().next();
            from = place + first.map_or(1, char::len_utf8);
        }
        None
    }

    /// How many bytes at the end of what is held are a beginning of a tag and not all of it.
    pub(super) fn tag_begun(&self, tag: &OwnTag) -> usize {
        let mut length = beginning_at_end(&self.held, &tag.text);
        while length > 0 && !self.is_tag(self.held.len() - length, tag, length) {
            length = beginning_at_end(&self.held, &tag.text[..length]);
        }
        length
    }
}
