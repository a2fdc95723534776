//! Where the reasoning of an answer begins and ends, by its tokens.
//!
//! What [`LaneParser`](crate::LaneParser) finds in the text of an answer, this finds token by token, so that it is known
//! what may come next. Both look at the same units: the bytes of tokens, and tokens that are shown, each as a whole. So the
//! bytes of other tokens are no tag where the tokenizer has a token for it.

use std::sync::Arc;

use crate::{AnswerForm, PromptError, Tag, Tokenizer};

/// Where an answer is that has not come to its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReasoningPlace {
    /// At its beginning: so many units have come of what begins the reasoning, and of what opens an answer without. None
    /// where it cannot be that any more.
    Start {
        /// Of what begins the reasoning.
        begins: Option<u16>,
        /// Of what opens an answer.
        opens: Option<u16>,
    },
    /// In the reasoning, the last so many units of which are the beginning of what ends it.
    Inside(u16),
}

/// What a token does there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningStep {
    /// The answer has not come to its content.
    At(ReasoningPlace),
    /// The content comes next. The last so many units of the token stand behind what ends the reasoning, or opens the
    /// answer.
    Said {
        /// Units: bytes, as no tag ends in the middle of a token that is shown.
        rest: usize,
        /// Whether they are white space, as far as there are some.
        blank: bool,
    },
    /// There is no reasoning: what has come is content from the beginning.
    Content,
}

/// What begins and what ends the reasoning of a model, in its tokens.
#[derive(Debug)]
pub struct ReasoningMarks {
    tokenizer: Arc<Tokenizer>,
    begins: Vec<Unit>,
    ends: Vec<Unit>,
    /// `[ends]`: length of the longest proper border of its first bytes.
    failure: Vec<u16>,
    opens: Option<Vec<Unit>>,
    closing: Vec<u32>,
    shown: Vec<u32>,
}

/// A byte of a token; or a token that is shown, as a whole, which is 256 and its number.
pub type Unit = u32;

/// The unit of a token that is shown.
fn whole(token: u32) -> Unit {
    token.saturating_add(256)
}

fn units_of(tag: &Tag) -> Vec<Unit> {
    let text = tag.text().as_bytes();
    let (mut units, mut at) = (Vec::new(), 0);
    for (token, place) in tag.own() {
        let before = text.get(at..place.start).unwrap_or_default();
        units.extend(before.iter().map(|byte| Unit::from(*byte)));
        units.push(whole(token));
        at = place.end;
    }
    let behind = text.get(at..).unwrap_or_default();
    units.extend(behind.iter().map(|byte| Unit::from(*byte)));
    units
}

impl ReasoningMarks {
    /// Those of a model whose answers have this form.
    ///
    /// # Errors
    /// The tokenizer fails on what ends the reasoning.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        form: &AnswerForm,
    ) -> Result<ReasoningMarks, PromptError> {
        let (begins, ends) = &form.reasoning;
        let closing = match ends {
            Tag::Token(token, _) => vec![*token],
            Tag::Tokens { tokens, .. } => tokens.clone(),
            Tag::Text(text) => match tokenizer.token_id(text) {
                Some(token) => vec![token],
                None => tokenizer.encode_literal(text)?,
            },
        };
        let ends = units_of(ends);
        Ok(ReasoningMarks {
            begins: units_of(begins),
            failure: borders(&ends),
            ends,
            opens: form.opens.as_ref().map(units_of),
            closing,
            shown: form.shown.clone(),
            tokenizer,
        })
    }

    /// The tokens that end the reasoning.
    pub fn closing(&self) -> &[u32] {
        &self.closing
    }

    /// At the beginning of an answer.
    pub fn start(&self) -> ReasoningPlace {
        ReasoningPlace::Start {
            begins: Some(0),
            opens: self.opens.as_ref().map(|_| 0),
        }
    }

    /// Whether an answer without reasoning begins with a tag of its own.
    pub fn has_opening(&self) -> bool {
        self.opens.is_some()
    }

    /// All places where an answer may be before its content.
    pub fn places(&self) -> Vec<ReasoningPlace> {
        let opens = self.opens.as_deref().unwrap_or_default();
        let mut places = vec![self.start()];
        for length in 1..self.begins.len() {
            let both = opens.len() > length && opens[..length] == self.begins[..length];
            places.push(ReasoningPlace::Start {
                begins: Some(length as u16),
                opens: both.then_some(length as u16),
            });
        }
        for length in 1..opens.len() {
            if self.begins.get(..length) != Some(&opens[..length]) {
                places.push(ReasoningPlace::Start {
                    begins: None,
                    opens: Some(length as u16),
                });
            }
        }
        places.extend((0..self.ends.len()).map(|matched| ReasoningPlace::Inside(matched as u16)));
        places
    }

    /// The units of a token: none of a special token that has no meaning here.
    pub fn units(&self, token: u32) -> Vec<Unit> {
        if self.shown.contains(&token) {
            return vec![whole(token)];
        }
        let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
        bytes.into_iter().map(Unit::from).collect()
    }

    /// The units of what begins the reasoning and of what opens an answer without.
    pub fn beginning(&self) -> impl Iterator<Item = Unit> {
        let opens = self.opens.iter().flatten();
        self.begins.iter().chain(opens).copied()
    }

    /// The last unit of what ends the reasoning.
    pub fn last(&self) -> Option<Unit> {
        self.ends.last().copied()
    }

    /// What a token of these units does at a place.
    pub fn step(&self, place: ReasoningPlace, units: &[Unit]) -> ReasoningStep {
        match place {
            ReasoningPlace::Inside(matched) => self.inside(matched, units),
            ReasoningPlace::Start { begins, opens } => self.at_start(begins, opens, units),
        }
    }

    fn at_start(&self, begins: Option<u16>, opens: Option<u16>, units: &[Unit]) -> ReasoningStep {
        let fresh = begins == Some(0);
        let spaces = units.iter().take_while(|unit| fresh && is_space(**unit));
        let units = &units[spaces.count()..];
        let more = |mark: &[Unit], seen: Option<u16>| -> More {
            let Some(rest) = seen.and_then(|seen| mark.get(seen as usize..)) else {
                return More::No;
            };
            if units.len() < rest.len() {
                return match rest.starts_with(units) {
                    true => More::Part((mark.len() - rest.len() + units.len()) as u16),
                    false => More::No,
                };
            }
            match units.starts_with(rest) {
                true => More::Whole(rest.len()),
                false => More::No,
            }
        };
        let opening = self.opens.as_deref().unwrap_or_default();
        match (more(&self.begins, begins), more(opening, opens)) {
            (More::Whole(to), _) => self.inside(0, &units[to..]),
            (_, More::Whole(to)) => said(&units[to..]),
            (More::No, More::No) => ReasoningStep::Content,
            (begins, opens) => ReasoningStep::At(ReasoningPlace::Start {
                begins: begins.part(),
                opens: opens.part(),
            }),
        }
    }

    fn inside(&self, matched: u16, units: &[Unit]) -> ReasoningStep {
        let mut matched = matched;
        for (at, unit) in units.iter().enumerate() {
            while matched > 0 && self.ends[matched as usize] != *unit {
                matched = self.failure[matched as usize - 1];
            }
            if self.ends.get(matched as usize) == Some(unit) {
                matched += 1;
            }
            if matched as usize == self.ends.len() {
                return said(&units[at + 1..]);
            }
        }
        ReasoningStep::At(ReasoningPlace::Inside(matched))
    }
}

/// How much of a tag has come.
enum More {
    No,
    Part(u16),
    Whole(usize),
}

impl More {
    fn part(self) -> Option<u16> {
        match self {
            More::Part(length) => Some(length),
            More::No | More::Whole(_) => None,
        }
    }
}

fn said(rest: &[Unit]) -> ReasoningStep {
    ReasoningStep::Said {
        rest: rest.len(),
        blank: rest.iter().all(|unit| is_space(*unit)),
    }
}

/// What stands between reasoning, its tags and the content.
pub fn is_space(unit: Unit) -> bool {
    u8::try_from(unit).is_ok_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// Knuth, Morris and Pratt's failure function.
fn borders(text: &[Unit]) -> Vec<u16> {
    let mut borders = vec![0u16; text.len()];
    let mut border = 0u16;
    for at in 1..text.len() {
        while border > 0 && text[at] != text[border as usize] {
            border = borders[border as usize - 1];
        }
        if text[at] == text[border as usize] {
            border += 1;
        }
        borders[at] = border;
    }
    borders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_contract::Lane;

    use super::*;
    use crate::{LaneParser, fixture};

    fn marks() -> ReasoningMarks {
        let tokenizer = fixture::shared();
        let form = tokenizer.answer_form().clone();
        ReasoningMarks::new(tokenizer, &form).unwrap()
    }

    fn units(text: &str) -> Vec<Unit> {
        text.bytes().map(Unit::from).collect()
    }

    /// How many bytes of an answer, cut into these tokens, stand before its content, and whether there was reasoning; none
    /// where the content has not come.
    fn before(marks: &ReasoningMarks, thinks: bool, tokens: &[&str]) -> Option<(usize, bool)> {
        let mut place = if thinks {
            ReasoningPlace::Inside(0)
        } else {
            marks.start()
        };
        let mut bytes = 0;
        for token in tokens {
            bytes += token.len();
            match marks.step(place, &units(token)) {
                ReasoningStep::At(next) => {
                    assert!(marks.places().contains(&next), "{next:?}");
                    place = next;
                }
                ReasoningStep::Said { rest, .. } => return Some((bytes - rest, true)),
                ReasoningStep::Content => return Some((0, false)),
            }
        }
        None
    }

    /// Of a tokenizer that has a token for each tag.
    fn own_marks() -> ReasoningMarks {
        let tokenizer = Arc::new(fixture::with_added(&["<think>", "</think>"]));
        let form = tokenizer.answer_form().clone();
        ReasoningMarks::new(tokenizer, &form).unwrap()
    }

    #[test]
    fn only_the_token_of_a_tag_begins_and_ends_reasoning_where_there_is_one() {
        let marks = own_marks();
        let [begins, ends] = ["<think>", "</think>"].map(|name| {
            let token = marks.tokenizer.token_id(name).unwrap();
            marks.units(token)
        });
        assert_eq!((begins.len(), ends.len()), (1, 1));
        let inside = ReasoningPlace::Inside(0);
        assert_eq!(
            marks.step(marks.start(), &begins),
            ReasoningStep::At(inside)
        );
        assert_eq!(
            marks.step(inside, &units("</think>")),
            ReasoningStep::At(inside)
        );
        assert_eq!(marks.step(inside, &begins), ReasoningStep::At(inside));
        let said = ReasoningStep::Said {
            rest: 0,
            blank: true,
        };
        assert_eq!(marks.step(inside, &ends), said);
        for text in ["<think>", "<thi", "<"] {
            assert_eq!(
                marks.step(marks.start(), &units(text)),
                ReasoningStep::Content
            );
        }
    }

    #[test]
    fn reasoning_begins_and_ends_wherever_tokens_are_cut() {
        let marks = marks();
        for (tokens, wanted) in [
            (
                vec!["<think>", "a", "</think>", "\n\n", "b"],
                Some((16, true)),
            ),
            (
                vec!["\n", "<th", "ink>a<", "/thi", "nk>b"],
                Some((17, true)),
            ),
            (vec!["<<", "think>"], Some((0, false))),
            (vec!["Hello"], Some((0, false))),
            (vec!["<think>a</think", "</think>"], Some((23, true))),
            (vec!["<think>", "</thin"], None),
            (vec!["<thi"], None),
        ] {
            assert_eq!(before(&marks, false, &tokens), wanted, "{tokens:?}");
        }
        assert_eq!(before(&marks, true, &["a</think>b"]), Some((9, true)));
        assert_eq!(
            marks.step(ReasoningPlace::Inside(0), &units("</think>\n b")),
            ReasoningStep::Said {
                rest: 3,
                blank: false
            }
        );
        assert_eq!(
            marks.step(ReasoningPlace::Inside(2), &units("think>\n")),
            ReasoningStep::Said {
                rest: 1,
                blank: true
            }
        );
    }

    proptest! {
        /// By tokens as by text, where some are tags and others only read like them.
        #[test]
        fn content_begins_where_the_lanes_say_of_tags_that_are_tokens(
            parts in proptest::collection::vec(prop_oneof![
                Just(("<think>", true)), Just(("</think>", true)), Just(("<think>", false)), Just(("</think>", false)),
                Just(("<th", false)), Just(("ink>", false)), Just(("\n", false)), Just((" ", false)), Just(("a", false)),
            ], 0..12),
            thinks in any::<bool>(),
        ) {
            let marks = own_marks();
            let form = marks.tokenizer.answer_form().clone();
            let mut parser = LaneParser::new(&form, thinks, Vec::new(), true);
            let mut place = if thinks { ReasoningPlace::Inside(0) } else { marks.start() };
            let (mut segments, mut content, mut found, mut at) = (Vec::new(), None, None, 0);
            for (text, is_token) in &parts {
                let behind = at + text.len();
                if *is_token {
                    parser.token_at(at..behind);
                }
                if parser.is_before_content() {
                    parser.push_before(text, &mut segments);
                    if !parser.is_before_content() {
                        content = Some(parser.position());
                    }
                }
                if found.is_none() {
                    let units = match is_token {
                        true => marks.units(marks.tokenizer.token_id(text).unwrap()),
                        false => units(text),
                    };
                    match marks.step(place, &units) {
                        ReasoningStep::At(next) => place = next,
                        ReasoningStep::Said { rest, .. } => found = Some(behind - rest),
                        ReasoningStep::Content => found = Some(0),
                    }
                }
                at = behind;
            }
            prop_assert_eq!(content, found, "{:?}", parts);
        }

        /// By tokens as by text.
        #[test]
        fn content_begins_where_the_lanes_say(
            tokens in proptest::collection::vec(prop_oneof![
                Just("<think>"), Just("</think>"), Just("<th"), Just("ink>"), Just("</"), Just("think>"), Just("<"), Just("\n"),
                Just(" "), Just("a"), Just("é"),
            ], 0..12),
            thinks in any::<bool>(),
        ) {
            let marks = marks();
            let form = fixture::shared().answer_form().clone();
            let mut parser = LaneParser::new(&form, thinks, Vec::new(), true);
            let (mut segments, mut content) = (Vec::new(), None);
            for token in &tokens {
                if parser.is_before_content() {
                    let rest = parser.push_before(token, &mut segments);
                    if !parser.is_before_content() {
                        content = Some(parser.position());
                        let _ = rest;
                    }
                }
            }
            let found = before(&marks, thinks, &tokens);
            prop_assert_eq!(content, found.map(|(before, _)| before), "{:?}", tokens);
            prop_assert!(segments.iter().all(|segment| segment.lane == Lane::Reasoning));
        }
    }
}
