//! Thoughts before an answer that must have a form, or that may have so many tokens: what may come next before the answer
//! has come to its content.
//!
//! Thoughts are free: a structure begins to hold where they have ended. All that is needed for it is made once for a model,
//! from the units of its tokens.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_contract::ModelError;
use tidegate_text::{
    AnswerForm, ReasoningMarks, ReasoningPlace, ReasoningStep, Tokenizer, Unit, is_space,
};

/// Most white space between thoughts and an answer with a form, in bytes.
const MOST_SPACE: usize = 4;

/// How thoughts begin and end in the tokens of a model.
#[derive(Debug)]
pub(crate) struct Thoughts {
    marks: ReasoningMarks,
    end_tokens: Vec<u32>,
    vocabulary: usize,
    /// By place at the beginning of an answer: tokens that go on with what begins thoughts, or opens an answer.
    beginning: HashMap<ReasoningPlace, Vec<u32>>,
    /// By how much of what ends thoughts has come: the tokens that may come next in them, where a form follows: none that
    /// ends the answer, and none that ends the thoughts and goes on with other text.
    inside: Vec<Arc<[u32]>>,
    /// Tokens that are white space, each with its bytes.
    spaces: Vec<(u32, usize)>,
}

impl Thoughts {
    pub(crate) fn new(
        tokenizer: &Arc<Tokenizer>,
        form: &AnswerForm,
        vocabulary: usize,
        end_tokens: &[u32],
    ) -> Result<Thoughts, String> {
        let marks =
            ReasoningMarks::new(Arc::clone(tokenizer), form).map_err(|error| error.to_string())?;
        if marks.closing().is_empty() {
            return Err("the tokenizer has no tokens for what ends the reasoning".into());
        }
        let places = marks.places();
        let starts = || {
            places
                .iter()
                .filter(|place| matches!(place, ReasoningPlace::Start { .. }))
        };
        let ends = places.len() - starts().count();
        let mut beginning: HashMap<ReasoningPlace, Vec<u32>> =
            starts().map(|place| (*place, Vec::new())).collect();
        let mut free = vec![u32::MAX; vocabulary.div_ceil(32)];
        if let (Some(last), more @ 1..) = (free.last_mut(), vocabulary % 32) {
            *last = (1 << more) - 1;
        }
        for token in end_tokens {
            clear(&mut free, *token);
        }
        // Most tokens go on with no tag, and end none: that is seen at a glance.
        let last = marks.last();
        let of_tags: Vec<Unit> = marks.beginning().collect();
        let mut inside = vec![None; ends];
        let mut spaces = Vec::new();
        for token in 0..vocabulary as u32 {
            let units = marks.units(token);
            if units.is_empty() || end_tokens.contains(&token) {
                continue;
            }
            let is_plain = |unit: &Unit| [b' ', b'\n'].map(Unit::from).contains(unit);
            if units.iter().all(is_plain) {
                spaces.push((token, units.len()));
            }
            // The first one that is none of the white space before a tag, or such a space within one.
            let first = units.iter().find(|unit| !is_space(**unit));
            let goes_on = of_tags.contains(first.or(units.first()).unwrap_or(&0));
            for (place, tokens) in beginning.iter_mut().filter(|_| goes_on) {
                let fits = match marks.step(*place, &units) {
                    ReasoningStep::Content => false,
                    // White space before an answer goes on with nothing.
                    ReasoningStep::At(next) => next != *place,
                    ReasoningStep::Said { rest, blank } => blank && rest <= MOST_SPACE,
                };
                if fits {
                    tokens.push(token);
                }
            }
            let ends = units.iter().any(|unit| Some(*unit) == last);
            for (matched, mask) in inside.iter_mut().enumerate().filter(|_| ends) {
                let place = ReasoningPlace::Inside(matched as u16);
                if let ReasoningStep::Said { rest, blank } = marks.step(place, &units)
                    && (!blank || rest > MOST_SPACE)
                {
                    clear(mask.get_or_insert_with(|| free.clone()), token);
                }
            }
        }
        let free: Arc<[u32]> = free.into();
        let inside = inside.into_iter();
        Ok(Thoughts {
            inside: inside
                .map(|mask| mask.map_or_else(|| Arc::clone(&free), Arc::from))
                .collect(),
            marks,
            end_tokens: end_tokens.to_vec(),
            vocabulary,
            beginning,
            spaces,
        })
    }
}

impl Thoughts {
    /// Of the tokens that end thoughts, how many have come where so many units of what ends them have: none where those
    /// are no whole tokens of it.
    fn closed(&self, matched: usize) -> usize {
        let mut units = 0;
        let ends = self.marks.closing().iter().map(|token| {
            units += self.marks.units(*token).len();
            units
        });
        let ended = ends.take_while(|units| *units <= matched);
        match ended.enumerate().last() {
            Some((last, units)) if units == matched => last + 1,
            _ => 0,
        }
    }
}

fn clear(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word &= !(1 << (token % 32));
    }
}

fn set(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word |= 1 << (token % 32);
    }
}

/// Where an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before its content; so many tokens of thoughts have come.
    Before(ReasoningPlace, u32),
    /// Thoughts are at their limit: so many tokens of what ends them have come.
    Closing(usize),
    /// Thoughts have ended, and so much white space has come behind them.
    Between(usize),
    /// At its content.
    Said,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// To what stands before the content.
    Before,
    /// The same, unless the content can begin with it: white space behind thoughts.
    Space,
    /// It may be content, which is known with a later one.
    Undecided,
    /// To the content, with all that were undecided.
    Content,
}

/// What may come next.
pub(crate) enum Next {
    /// Anything.
    Free,
    /// What the structure allows.
    Structure,
    /// This one token.
    Only(u32),
    /// These.
    Mask(Arc<[u32]>),
    /// What the structure allows behind the tokens that are undecided, if it can begin here at all, and these tokens.
    Also(Vec<u32>, bool),
}

/// One answer on its way to its content. Small: a copy is a place to come back to.
#[derive(Clone, Debug)]
pub(crate) struct Thinking {
    thoughts: Arc<Thoughts>,
    /// Most tokens of thoughts.
    most: Option<u32>,
    /// Whether the content has a form.
    has_form: bool,
    phase: Phase,
}

impl Thinking {
    /// An answer at its beginning, or, where the prompt has begun them, in its thoughts.
    pub(crate) fn new(
        thoughts: Arc<Thoughts>,
        inside: bool,
        most: Option<u32>,
        has_form: bool,
    ) -> Thinking {
        let place = match inside {
            true => ReasoningPlace::Inside(0),
            false => thoughts.marks.start(),
        };
        let mut thinking = Thinking {
            thoughts,
            most,
            has_form,
            phase: Phase::Said,
        };
        thinking.phase = thinking.before(place, 0);
        thinking
    }

    fn before(&self, place: ReasoningPlace, made: u32) -> Phase {
        match (place, self.most) {
            (ReasoningPlace::Inside(matched), Some(most)) if made >= most => {
                Phase::Closing(self.thoughts.closed(matched as usize))
            }
            _ => Phase::Before(place, made),
        }
    }

    /// Whether the content has been reached, and the structure holds.
    pub(crate) fn is_said(&self) -> bool {
        self.phase == Phase::Said
    }

    /// Whether the structure may begin here, or has begun, with nothing undecided.
    pub(crate) fn may_begin(&self) -> bool {
        match self.phase {
            Phase::Said | Phase::Between(_) => true,
            Phase::Before(place, _) => {
                place == self.thoughts.marks.start() && !self.thoughts.marks.has_opening()
            }
            Phase::Closing(_) => false,
        }
    }

    /// The content has begun.
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::Said;
    }

    /// What may come next.
    pub(crate) fn next(&self) -> Next {
        let thoughts = &self.thoughts;
        match self.phase {
            Phase::Said => Next::Structure,
            Phase::Closing(at) => match thoughts.marks.closing().get(at) {
                Some(token) => Next::Only(*token),
                None => Next::Structure,
            },
            _ if !self.has_form => Next::Free,
            Phase::Between(had) => {
                let spaces = thoughts.spaces.iter();
                let fits = spaces.filter(|(_, bytes)| had + bytes <= MOST_SPACE);
                Next::Also(fits.map(|(token, _)| *token).collect(), true)
            }
            Phase::Before(ReasoningPlace::Inside(matched), _) => {
                match thoughts.inside.get(matched as usize) {
                    Some(mask) => Next::Mask(Arc::clone(mask)),
                    None => Next::Free,
                }
            }
            Phase::Before(place, _) => {
                let tokens = thoughts.beginning.get(&place).cloned();
                Next::Also(tokens.unwrap_or_default(), !thoughts.marks.has_opening())
            }
        }
    }

    /// Takes a token; says what it belongs to.
    ///
    /// # Errors
    /// It cannot come here. Nothing has changed.
    pub(crate) fn take(&mut self, token: u32) -> Result<Belongs, ModelError> {
        let thoughts = Arc::clone(&self.thoughts);
        let is_end = thoughts.end_tokens.contains(&token);
        match self.phase {
            Phase::Said => Ok(Belongs::Content),
            Phase::Closing(at) => {
                let closing = thoughts.marks.closing();
                if closing.get(at) != Some(&token) {
                    return Err(refused(token));
                }
                self.phase = match at + 1 == closing.len() {
                    true => self.behind(0),
                    false => Phase::Closing(at + 1),
                };
                Ok(Belongs::Before)
            }
            Phase::Between(had) => {
                let spaces = thoughts
                    .spaces
                    .binary_search_by_key(&token, |(token, _)| *token);
                let bytes = spaces.ok().map(|index| thoughts.spaces[index].1);
                match bytes.filter(|bytes| had + bytes <= MOST_SPACE) {
                    Some(bytes) => {
                        self.phase = Phase::Between(had + bytes);
                        Ok(Belongs::Space)
                    }
                    None => {
                        self.phase = Phase::Said;
                        Ok(Belongs::Content)
                    }
                }
            }
            Phase::Before(place, made) => {
                let is_start = matches!(place, ReasoningPlace::Start { .. });
                if is_end || token as usize >= thoughts.vocabulary {
                    return match (self.has_form, is_start) {
                        (true, false) => Err(refused(token)),
                        (true, true) => self.says(&thoughts, token),
                        (false, _) => Ok(Belongs::Before),
                    };
                }
                let units = thoughts.marks.units(token);
                match thoughts.marks.step(place, &units) {
                    ReasoningStep::At(next @ ReasoningPlace::Inside(_)) => {
                        let made = if is_start { 0 } else { made + 1 };
                        self.phase = self.before(next, made);
                        Ok(Belongs::Before)
                    }
                    // White space before an answer that has a form is of the form.
                    ReasoningStep::At(next) if self.has_form && next == place => {
                        match units.is_empty() {
                            true => Err(refused(token)),
                            false => self.says(&thoughts, token),
                        }
                    }
                    ReasoningStep::At(next) => {
                        self.phase = Phase::Before(next, made);
                        Ok(Belongs::Undecided)
                    }
                    ReasoningStep::Said { rest, blank } => {
                        if self.has_form && (!blank || rest > MOST_SPACE) {
                            return Err(refused(token));
                        }
                        self.phase = self.behind(rest);
                        Ok(Belongs::Before)
                    }
                    ReasoningStep::Content => self.says(&thoughts, token),
                }
            }
        }
    }

    /// The token is content, from the beginning of the answer on.
    fn says(&mut self, thoughts: &Thoughts, token: u32) -> Result<Belongs, ModelError> {
        if self.has_form && thoughts.marks.has_opening() {
            return Err(refused(token));
        }
        self.phase = Phase::Said;
        Ok(Belongs::Content)
    }

    fn behind(&self, spaces: usize) -> Phase {
        match self.has_form {
            true => Phase::Between(spaces),
            false => Phase::Said,
        }
    }
}

/// A mask of so many words with these tokens.
pub(crate) fn with_tokens(mut mask: Vec<u32>, tokens: &[u32]) -> Arc<[u32]> {
    for token in tokens {
        set(&mut mask, *token);
    }
    mask.into()
}

fn refused(token: u32) -> ModelError {
    let limit = "one that may stand there in or behind the reasoning";
    ModelError::parameter("reasoning", format!("token {token}"), limit)
}
