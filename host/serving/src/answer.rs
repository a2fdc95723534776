//! The text of an answer while it is made.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_contract::{Call, Choice, Finish, Lane, TokenLogprob};
use tidegate_text::{Detokenizer, LaneParser, Segment, StopStrings};

/// A part of an answer that is certain and not yet handed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnswerPiece {
    pub(crate) lane: Lane,
    pub(crate) text: String,
    /// The call that begins with it: id and name.
    pub(crate) begins: Option<(String, String)>,
    pub(crate) logprobs: Vec<TokenLogprob>,
}

/// Tokens in, certain text out: whole characters only, and nothing that may still become a stop string; in lanes, where
/// they are asked for.
pub(crate) struct AnswerText {
    detokenizer: Detokenizer,
    stop: StopStrings,
    /// All of it that is certain, as the model wrote it.
    text: String,
    /// What came before the content and is not certain.
    undecided: String,
    /// Tokens that were taken.
    tokens: u32,
    lanes: Option<Lanes>,
    /// Text that the tokens stand for, in bytes.
    decoded: usize,
    /// Log-probabilities of tokens, with where the text of each begins and ends, and its number among them.
    logprobs: VecDeque<(Range<usize>, usize, TokenLogprob)>,
    /// By that number: whether the token is of the content.
    said: Vec<bool>,
    /// Parts that were not handed on; none where nobody wants any.
    pieces: Option<Vec<AnswerPiece>>,
}

/// The lanes of an answer so far.
struct Lanes {
    parser: LaneParser,
    /// Tokens of the reasoning, once it has ended.
    reasoning_tokens: Option<u32>,
    content: String,
    reasoning: String,
    calls: Vec<Call>,
}

impl Lanes {
    fn take(&mut self, segment: &Segment) {
        if let Some((id, name)) = &segment.begins {
            self.calls.push(Call {
                id: id.clone(),
                name: name.clone(),
                arguments: String::new(),
            });
        }
        match segment.lane {
            Lane::Content => self.content.push_str(&segment.text),
            Lane::Reasoning => self.reasoning.push_str(&segment.text),
            Lane::Arguments(call) => {
                if let Some(call) = self.calls.get_mut(call as usize) {
                    call.arguments.push_str(&segment.text);
                }
            }
        }
    }
}

impl AnswerText {
    /// Of tokens that `detokenizer` is given from here on. `told`: somebody wants the parts of it as they are made.
    pub(crate) fn new(
        detokenizer: Detokenizer,
        stop: &[String],
        lanes: Option<LaneParser>,
        told: bool,
    ) -> AnswerText {
        AnswerText {
            detokenizer,
            stop: StopStrings::new(stop),
            text: String::new(),
            undecided: String::new(),
            tokens: 0,
            lanes: lanes.map(|parser| Lanes {
                parser,
                reasoning_tokens: None,
                content: String::new(),
                reasoning: String::new(),
                calls: Vec::new(),
            }),
            decoded: 0,
            logprobs: VecDeque::new(),
            said: Vec::new(),
            pieces: told.then(Vec::new),
        }
    }

    /// Takes a token; what ends the answer with it: a stop string that is complete, or the only call that is wanted.
    pub(crate) fn push(&mut self, token: u32, logprob: Option<TokenLogprob>) -> Option<Finish> {
        self.tokens += 1;
        let mut decoded = String::new();
        self.detokenizer.push(token, &mut decoded);
        let place = self.decoded..self.decoded + decoded.len();
        if let (Some(lanes), Some(name)) = (&mut self.lanes, self.detokenizer.shown(token)) {
            let begins = place.end.saturating_sub(name.len());
            lanes.parser.token_at(begins..place.end);
        }
        if let Some(logprob) = logprob {
            self.logprobs.push_back((place, self.said.len(), logprob));
            self.said.push(false);
        }
        if self.take(&decoded) {
            return Some(Finish::Stop);
        }
        let lanes = self.lanes.as_ref();
        lanes
            .is_some_and(|lanes| lanes.parser.is_complete())
            .then_some(Finish::Calls)
    }

    /// No more tokens come: what was undecided is text now; true if it completed a stop string.
    pub(crate) fn finish(&mut self) -> bool {
        let mut decoded = String::new();
        self.detokenizer.finish(&mut decoded);
        let mut stopped = self.take(&decoded);
        if let Some(lanes) = &mut self.lanes {
            let rest = lanes.parser.end_before();
            match lanes.parser.is_before_content() {
                // Reasoning that has not ended.
                true => self.text.push_str(&self.undecided),
                false => stopped |= self.take_content(&rest),
            }
            self.undecided.clear();
        }
        let from = self.text.len();
        self.stop.finish(&mut self.text);
        self.give(from);
        self.close_lanes();
        stopped
    }

    /// No more text comes: what could have become a tag is what it was before. Enough by itself where a stop string is complete:
    /// what tokens still stand for is behind it, and no part of the answer.
    pub(crate) fn close_lanes(&mut self) {
        let mut segments = Vec::new();
        if let Some(lanes) = &mut self.lanes {
            lanes.parser.finish(&mut segments);
        }
        self.add(segments);
    }

    fn take(&mut self, decoded: &str) -> bool {
        self.decoded += decoded.len();
        match &self.lanes {
            Some(lanes) if lanes.parser.is_before_content() => self.take_before(decoded),
            _ => self.take_content(decoded),
        }
    }

    /// Takes text before the content: no stop string is looked for in it.
    fn take_before(&mut self, decoded: &str) -> bool {
        let Some(lanes) = &mut self.lanes else {
            return false;
        };
        let mut segments = Vec::new();
        let rest = lanes.parser.push_before(decoded, &mut segments);
        let ended = !lanes.parser.is_before_content();
        if ended && lanes.parser.has_reasoned() {
            lanes.reasoning_tokens = Some(self.tokens);
        }
        let certain = lanes.parser.position().saturating_sub(self.text.len());
        self.undecided.push_str(decoded);
        let certain = certain.min(self.undecided.len());
        self.text.extend(self.undecided.drain(..certain));
        self.add(segments);
        if !ended {
            return false;
        }
        self.undecided.clear();
        self.take_content(&rest)
    }

    fn take_content(&mut self, decoded: &str) -> bool {
        let from = self.text.len();
        let stopped = self.stop.push(decoded, &mut self.text);
        self.give(from);
        stopped
    }

    /// What comes now is content that has a form: white space is part of it.
    pub(crate) fn content_begins(&mut self) {
        if let Some(lanes) = &mut self.lanes {
            lanes.parser.content_from(self.decoded);
        }
    }

    /// How many of its tokens are reasoning.
    pub(crate) fn reasoning_tokens(&self) -> u32 {
        match &self.lanes {
            Some(lanes) if lanes.parser.has_reasoned() => {
                lanes.reasoning_tokens.unwrap_or(self.tokens)
            }
            _ => 0,
        }
    }

    /// The text from a place on has become certain.
    fn give(&mut self, from: usize) {
        let text = &self.text[from..];
        if text.is_empty() {
            return;
        }
        let mut segments = Vec::new();
        match &mut self.lanes {
            Some(lanes) => lanes.parser.push(text, &mut segments),
            None if self.pieces.is_none() && self.logprobs.is_empty() => {}
            None => segments.push(Segment {
                lane: Lane::Content,
                text: text.to_owned(),
                begins: None,
                from,
                to: self.text.len(),
            }),
        }
        self.add(segments);
    }

    fn add(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            if let Some(lanes) = &mut self.lanes {
                lanes.take(&segment);
            }
            let logprobs = self.logprobs_of(&segment);
            // Taken out so that both can be changed.
            let Some(mut pieces) = self.pieces.take() else {
                continue;
            };
            match pieces.last_mut() {
                Some(last) if last.lane == segment.lane && segment.begins.is_none() => {
                    last.text.push_str(&segment.text);
                    last.logprobs.extend(logprobs);
                }
                _ => pieces.push(AnswerPiece {
                    lane: segment.lane,
                    text: segment.text,
                    begins: segment.begins,
                    logprobs,
                }),
            }
            self.pieces = Some(pieces);
        }
    }

    /// Of the tokens whose text begins in a segment, and of one that begins before it, in no lane, and ends in it. Those of
    /// what stands before it are dropped.
    fn logprobs_of(&mut self, segment: &Segment) -> Vec<TokenLogprob> {
        // One without text of its own is of a character that ends with a later token: it goes with that.
        let is_before =
            |place: &Range<usize>| place.start < segment.from && place.end <= segment.from;
        let before = (self.logprobs).partition_point(|(place, ..)| is_before(place));
        self.logprobs.drain(..before);
        let own = (self.logprobs).partition_point(|(place, ..)| place.start < segment.to);
        let said = &mut self.said;
        let own = self.logprobs.drain(..own).map(|(_, number, mut logprob)| {
            logprob.said = segment.lane == Lane::Content;
            if let Some(said) = said.get_mut(number) {
                *said = logprob.said;
            }
            logprob
        });
        own.collect()
    }

    /// The text that is certain, as the model wrote it.
    pub(crate) fn certain(&self) -> &str {
        &self.text
    }

    /// What became certain since it was asked last.
    pub(crate) fn take_pieces(&mut self) -> Vec<AnswerPiece> {
        self.pieces.as_mut().map_or(Vec::new(), std::mem::take)
    }

    /// Whether there are calls in it.
    pub(crate) fn calls(&self) -> bool {
        let lanes = self.lanes.as_ref();
        lanes.is_some_and(|lanes| !lanes.calls.is_empty())
    }

    /// The answer of these tokens, with the log-probabilities of those that were pushed with one.
    pub(crate) fn into_choice(
        self,
        tokens: Vec<u32>,
        finish: Finish,
        mut logprobs: Vec<TokenLogprob>,
    ) -> Choice {
        for (logprob, said) in logprobs.iter_mut().zip(&self.said) {
            logprob.said = *said;
        }
        let reasoning_tokens = self.reasoning_tokens();
        let (text, reasoning, calls) = match self.lanes {
            Some(lanes) => (lanes.content, lanes.reasoning, lanes.calls),
            None => (self.text, String::new(), Vec::new()),
        };
        Choice {
            text,
            reasoning,
            reasoning_tokens,
            calls,
            tokens,
            finish,
            logprobs,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_text::Tokenizer;

    use super::*;
    use crate::tests::support::{byte, with_special};

    const NAMES: [&str; 4] = ["</think>", "\n\n", " Yes", "\n\nNo"];

    /// The content of an answer behind thoughts that the prompt has opened, and the tokens that have log-probabilities there.
    fn told(tokens: &[u32]) -> (String, Vec<u32>) {
        let tokenizer = with_special("{# </think> #}", &NAMES);
        let shown: Vec<u32> = NAMES.iter().map(|name| named(&tokenizer, name)).collect();
        let detokenizer = Detokenizer::new(tokenizer.clone()).showing(&shown);
        let lanes = LaneParser::new(tokenizer.answer_form(), true, Vec::new(), true);
        let mut text = AnswerText::new(detokenizer, &[], Some(lanes), true);
        for token in tokens {
            let logprob = TokenLogprob {
                token: *token,
                logprob: -1.0,
                top: Vec::new(),
                said: false,
            };
            text.push(*token, Some(logprob));
        }
        text.finish();
        let (mut said, mut tokens) = (String::new(), Vec::new());
        for piece in text.take_pieces() {
            if piece.lane == Lane::Content {
                said.push_str(&piece.text);
                tokens.extend(piece.logprobs.iter().map(|each| each.token));
            }
        }
        (said, tokens)
    }

    fn named(tokenizer: &Tokenizer, name: &str) -> u32 {
        tokenizer.token_id(name).unwrap()
    }

    #[test]
    fn the_first_token_behind_thoughts_keeps_its_log_probability() {
        let tokenizer = with_special("{# </think> #}", &NAMES);
        let [ends, lines, yes, no] = NAMES.map(|name| named(&tokenizer, name));
        let [a, dot, space] = [b'a', b'.', b' '].map(byte);
        let [first, second] = [0xc3, 0xa9].map(byte);
        for (behind, said, wanted) in [
            (vec![yes, dot], "Yes.", vec![yes, dot]),
            (vec![lines, yes, dot], "Yes.", vec![yes, dot]),
            (vec![no, dot], "No.", vec![no, dot]),
            (vec![lines, space, a, space, a], "a a", vec![a, space, a]),
            (vec![first, second, dot], "é.", vec![first, second, dot]),
            (vec![lines, first, second], "é", vec![first, second]),
            (vec![a, lines, no], "a\n\n\n\nNo", vec![a, lines, no]),
        ] {
            let tokens = [vec![a, dot, ends], behind].concat();
            assert_eq!(told(&tokens), (said.to_owned(), wanted));
        }
    }
}
