//! What an answer must be, kept in step with its tokens.

use std::sync::Arc;

use tidegate_contract::{ModelError, Structure};
use tidegate_grammar::{Compiler, GrammarError, Matcher, Vocabulary};
use tidegate_text::Tokenizer;

use crate::thoughts::{self, Belongs, Next, Thinking};

/// Most bytes of a structure that are repeated in an error.
const SHOWN: usize = 80;

/// A compiler for a model's tokens.
pub(crate) fn compiler(
    tokenizer: &Tokenizer,
    vocabulary: usize,
    end_tokens: &[u32],
) -> Result<Compiler, GrammarError> {
    let tokens = (0..vocabulary as u32)
        .map(|token| tokenizer.token_bytes(token))
        .collect();
    Vocabulary::new(tokens, end_tokens).map(Compiler::new)
}

/// A matcher for a structure, at the beginning of its text.
pub(crate) fn matcher(compiler: &Compiler, structure: &Structure) -> Result<Matcher, ModelError> {
    compiler.matcher(structure).map_err(|error| {
        let text = match structure {
            Structure::JsonSchema(text) | Structure::Regex(text) | Structure::Grammar(text) => {
                text.clone()
            }
            Structure::Choice(texts) => format!("{texts:?}"),
        };
        let mut shown = text[..text.floor_char_boundary(SHOWN)].to_owned();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        ModelError::parameter(
            "structure",
            shown,
            format!("one that can be compiled: {error}"),
        )
    })
}

/// What one answer must be: its structure, and how long it may think before it.
#[derive(Clone)]
pub(crate) struct Constraint {
    matcher: Option<Matcher>,
    thinking: Option<Thinking>,
    /// Tokens that are content if what comes next makes them so; the matcher has not seen them.
    undecided: Vec<u32>,
    /// How to go back from each guess.
    before: Vec<Before>,
    words: usize,
}

/// What was before a guess.
#[derive(Clone)]
struct Before {
    thinking: Option<Thinking>,
    undecided: Vec<u32>,
    /// Tokens that the matcher took with it.
    matched: usize,
}

impl Constraint {
    /// A constraint on tokens below `vocabulary`.
    pub(crate) fn new(
        matcher: Option<Matcher>,
        thinking: Option<Thinking>,
        vocabulary: usize,
    ) -> Constraint {
        Constraint {
            matcher,
            thinking,
            undecided: Vec::new(),
            before: Vec::new(),
            words: vocabulary.div_ceil(32),
        }
    }

    /// The tokens that may come next; none where any may.
    pub(crate) fn mask(&mut self) -> Result<Option<Arc<[u32]>>, ModelError> {
        let next = self
            .thinking
            .as_ref()
            .map_or(Next::Structure, Thinking::next);
        let empty = || vec![0; self.words];
        match next {
            Next::Free => Ok(None),
            Next::Only(token) => Ok(Some(thoughts::with_tokens(empty(), &[token]))),
            Next::Mask(mask) => Ok(Some(mask)),
            Next::Structure => match &mut self.matcher {
                Some(matcher) => structure_mask(matcher, self.words).map(|mask| Some(mask.into())),
                None => Ok(None),
            },
            Next::Also(tokens, may_begin) => {
                let Some(matcher) = &mut self.matcher else {
                    return Ok(None);
                };
                let mask = match (may_begin, self.undecided.is_empty()) {
                    (false, _) => Ok(empty()),
                    (true, true) => structure_mask(matcher, self.words),
                    (true, false) => {
                        let mut ahead = matcher.clone();
                        let mut undecided = self.undecided.iter();
                        match undecided.all(|token| ahead.accept(*token).is_ok()) {
                            true => structure_mask(&mut ahead, self.words),
                            false => Ok(empty()),
                        }
                    }
                };
                match mask {
                    Ok(mask) => Ok(Some(thoughts::with_tokens(mask, &tokens))),
                    Err(_) if !tokens.is_empty() => {
                        Ok(Some(thoughts::with_tokens(empty(), &tokens)))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Takes a token.
    pub(crate) fn accept(&mut self, token: u32) -> Result<(), ModelError> {
        self.before.clear();
        self.step(token).map(drop)
    }

    /// Takes a guessed token if it may come next and is no end; false if not, and nothing changed.
    pub(crate) fn guess(&mut self, token: u32) -> bool {
        let thinking = self.thinking.clone();
        let undecided = self.undecided.clone();
        let Ok(matched) = self.step(token) else {
            return false;
        };
        self.before.push(Before {
            thinking,
            undecided,
            matched,
        });
        true
    }

    /// Takes a token; how many the matcher took with it. After an error nothing has changed.
    fn step(&mut self, token: u32) -> Result<usize, ModelError> {
        let Some(thinking) = &mut self.thinking else {
            return self.content(&[token]);
        };
        let was = thinking.clone();
        let belongs = thinking.take(token)?;
        match belongs {
            Belongs::Before => {
                self.undecided.clear();
                Ok(0)
            }
            Belongs::Space => {
                let begins = self.matcher.as_mut().map(|matcher| matcher.accept(token));
                match begins {
                    Some(Ok(())) => {
                        thinking.begin();
                        Ok(1)
                    }
                    _ => Ok(0),
                }
            }
            Belongs::Undecided => {
                self.undecided.push(token);
                Ok(0)
            }
            Belongs::Content => {
                let mut tokens = std::mem::take(&mut self.undecided);
                tokens.push(token);
                let taken = self.content(&tokens);
                if taken.is_err() {
                    tokens.pop();
                    self.undecided = tokens;
                    self.thinking = Some(was);
                }
                taken
            }
        }
    }

    fn content(&mut self, tokens: &[u32]) -> Result<usize, ModelError> {
        let Some(matcher) = &mut self.matcher else {
            return Ok(0);
        };
        for (taken, token) in tokens.iter().enumerate() {
            if let Err(error) = matcher.accept(*token) {
                matcher.rollback(taken).map_err(failed)?;
                return Err(failed(error));
            }
        }
        Ok(tokens.len())
    }

    /// Forgets the last `tokens` guesses.
    pub(crate) fn rollback(&mut self, tokens: usize) -> Result<(), ModelError> {
        let mut matched = 0;
        for _ in 0..tokens {
            let Some(before) = self.before.pop() else {
                let error = "more guesses than were made are to be forgotten".to_owned();
                return Err(ModelError::Device(error));
            };
            matched += before.matched;
            self.thinking = before.thinking;
            self.undecided = before.undecided;
        }
        match &mut self.matcher {
            Some(matcher) => matcher.rollback(matched).map_err(failed),
            None => Ok(()),
        }
    }

    /// Whether the answer has come to its content, where that has a form.
    pub(crate) fn holds(&self) -> bool {
        self.matcher.is_some() && self.thinking.as_ref().is_none_or(Thinking::is_said)
    }

    /// Whether the text can end here, and has its form.
    pub(crate) fn may_end(&mut self) -> Result<bool, ModelError> {
        let begins = self.thinking.as_ref().is_none_or(Thinking::may_begin);
        match &mut self.matcher {
            Some(matcher) if begins && self.undecided.is_empty() => {
                matcher.may_end().map_err(failed)
            }
            _ => Ok(false),
        }
    }

    /// Whether the text can only end here.
    pub(crate) fn must_end(&self) -> bool {
        self.holds() && self.matcher.as_ref().is_some_and(Matcher::must_end)
    }
}

fn structure_mask(matcher: &mut Matcher, words: usize) -> Result<Vec<u32>, ModelError> {
    let mut mask = vec![0; words];
    matcher.mask(&mut mask).map_err(failed)?;
    Ok(mask)
}

fn failed(error: GrammarError) -> ModelError {
    ModelError::parameter("structure", error, "a text that the structure allows")
}
