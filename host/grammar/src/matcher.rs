//! Follows one text through a structure.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::panic_utils::catch_unwind;

use crate::compiler::Compiled;
use crate::error::reason;
use crate::{GrammarError, Vocabulary};

/// One text on its way through a structure: which tokens may come next.
///
/// A copy goes its own way from there on.
#[derive(Clone)]
pub struct Matcher {
    compiled: Arc<Compiled>,
    vocabulary: Vocabulary,
    parser: TokenParser,
    /// The tokens accepted, an end token included.
    tokens: Vec<u32>,
    ended: bool,
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher")
            .field("accepted", &self.tokens.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Matcher {
    pub(crate) fn new(compiled: Arc<Compiled>, vocabulary: Vocabulary) -> Matcher {
        Matcher {
            parser: compiled.parser(),
            compiled,
            vocabulary,
            tokens: Vec::new(),
            ended: false,
        }
    }

    /// How many tokens were accepted, an end token included.
    pub fn accepted(&self) -> usize {
        self.tokens.len()
    }

    /// Whether an end token was accepted.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Writes which tokens may come next: bit `token % 32` of word `token / 32`. End tokens may come exactly where
    /// the text may end. All of `out` is written; what is beyond the vocabulary is never allowed.
    ///
    /// # Errors
    /// [`GrammarError::DeadEnd`] if no token can follow, [`GrammarError::TooComplex`] at a limit,
    /// [`GrammarError::Mask`] if `out` is shorter than [`Vocabulary::mask_words`].
    pub fn mask(&mut self, out: &mut [u32]) -> Result<(), GrammarError> {
        let needed = self.vocabulary.mask_words();
        if out.len() < needed {
            return Err(GrammarError::Mask {
                words: out.len(),
                needed,
            });
        }
        out.fill(0);
        let mut may_end = self.ended || self.complete();
        if !may_end {
            let at = self.tokens.len();
            let size = self.vocabulary.size();
            let ends = self.vocabulary.clone();
            self.guarded(|parser| match parser.compute_mask() {
                Ok(set) => {
                    for (word, bits) in out.iter_mut().zip(set.as_slice()) {
                        *word = *bits;
                    }
                    Ok(())
                }
                Err(_) if parser.stop_reason() == StopReason::NoExtensionBias => {
                    Err(Failure::Known(GrammarError::DeadEnd { at }))
                }
                Err(error) => Err(error.into()),
            })?;
            if !size.is_multiple_of(32) {
                out[needed - 1] &= (1 << (size % 32)) - 1;
            }
            may_end = ends.end_tokens().iter().any(|end| bit(out, *end));
        }
        if may_end {
            for end in self.vocabulary.end_tokens() {
                out[*end as usize / 32] |= 1 << (*end % 32);
            }
        }
        Ok(())
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// [`GrammarError::Refused`] if it cannot come here, and [`GrammarError::TooComplex`] at a limit.
    pub fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        let refused = GrammarError::Refused {
            token,
            at: self.tokens.len(),
        };
        if self.ended {
            return Err(refused);
        }
        if self.is_end(token) {
            if !self.may_end()? {
                return Err(refused);
            }
            self.ended = true;
            self.tokens.push(token);
            return Ok(());
        }
        if self.complete() || token as usize >= self.vocabulary.size() {
            return Err(refused);
        }
        let valid = if self.vocabulary.has_bytes(token) {
            self.guarded(|parser| Ok(parser.validate_tokens_raw(&[token])? == 1))?
        } else {
            // Only a grammar that names the token by its number allows it.
            let mut mask = vec![0; self.vocabulary.mask_words()];
            self.mask(&mut mask)?;
            bit(&mask, token)
        };
        if !valid {
            return Err(refused);
        }
        self.guarded(|parser| {
            parser.consume_token(token)?;
            parser.check_stop()?;
            Ok(())
        })?;
        self.tokens.push(token);
        Ok(())
    }

    /// How many of these tokens could be accepted one after another. Changes nothing.
    ///
    /// # Errors
    /// [`GrammarError::TooComplex`] at a limit.
    pub fn accepts(&mut self, tokens: &[u32]) -> Result<usize, GrammarError> {
        if self.ended {
            return Ok(0);
        }
        let plain = tokens
            .iter()
            .take_while(|token| self.vocabulary.has_bytes(**token))
            .count();
        let mut accepted = 0;
        if plain > 0 && !self.complete() {
            accepted = self.guarded(|parser| Ok(parser.validate_tokens_raw(&tokens[..plain])?))?;
        }
        if accepted < plain || accepted == tokens.len() {
            return Ok(accepted);
        }
        // What follows has no bytes: an end token, or one that a grammar names by its number.
        let mut ahead = self.clone();
        for token in &tokens[..accepted] {
            ahead.accept(*token)?;
        }
        for token in &tokens[accepted..] {
            match ahead.accept(*token) {
                Ok(()) => accepted += 1,
                Err(GrammarError::Refused { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(accepted)
    }

    /// Whether the text may end here: end tokens are allowed.
    ///
    /// # Errors
    /// [`GrammarError::TooComplex`] at a limit.
    pub fn may_end(&mut self) -> Result<bool, GrammarError> {
        if self.ended || self.complete() {
            return Ok(true);
        }
        self.guarded(|parser| Ok(parser.is_accepting()))
    }

    /// Whether the text is complete and nothing can be added: only end tokens are allowed.
    pub fn must_end(&self) -> bool {
        self.ended || self.complete()
    }

    /// Takes the last tokens back, as if they had not been accepted.
    ///
    /// # Errors
    /// [`GrammarError::Rollback`] if fewer were accepted; [`GrammarError::TooComplex`] after a failure.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), GrammarError> {
        let accepted = self.tokens.len();
        let Some(left) = accepted.checked_sub(tokens) else {
            return Err(GrammarError::Rollback { tokens, accepted });
        };
        if tokens == 0 {
            return Ok(());
        }
        let in_parser = tokens - usize::from(self.ended);
        let rolled = in_parser == 0
            || catch_unwind(AssertUnwindSafe(|| self.parser.rollback(in_parser))).is_ok();
        if rolled {
            self.tokens.truncate(left);
            self.ended = false;
            return Ok(());
        }
        // A grammar that counts tokens cannot go back: it starts again.
        let mut again = Matcher::new(Arc::clone(&self.compiled), self.vocabulary.clone());
        for token in &self.tokens[..left] {
            again.accept(*token)?;
        }
        *self = again;
        Ok(())
    }

    fn is_end(&self, token: u32) -> bool {
        self.vocabulary.end_tokens().binary_search(&token).is_ok()
    }

    /// The library has stopped because nothing can be added to the text.
    fn complete(&self) -> bool {
        self.parser.stop_reason() == StopReason::NoExtension
    }

    /// Runs the library on the parser: its errors and its panics are both answers, and end the matcher.
    fn guarded<T>(
        &mut self,
        run: impl FnOnce(&mut TokenParser) -> Result<T, Failure>,
    ) -> Result<T, GrammarError> {
        let parser = &mut self.parser;
        match catch_unwind(AssertUnwindSafe(|| Ok(run(parser)))) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(Failure::Known(error))) => Err(error),
            Ok(Err(Failure::Library(message))) => {
                self.compiled.give_up();
                Err(GrammarError::TooComplex(reason(&message)))
            }
            Err(error) => {
                self.compiled.give_up();
                Err(GrammarError::TooComplex(reason(&error.to_string())))
            }
        }
    }
}

/// What went wrong inside [`Matcher::guarded`].
enum Failure {
    Known(GrammarError),
    Library(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Library(error.to_string())
    }
}

fn bit(mask: &[u32], token: u32) -> bool {
    mask.get(token as usize / 32)
        .is_some_and(|word| word >> (token % 32) & 1 == 1)
}
