//! What an answer must be, kept in step with its tokens.

use std::sync::Arc;

use tidegate_contract::{ModelError, Structure};
use tidegate_grammar::{Compiler, GrammarError, Matcher, Vocabulary};
use tidegate_text::Tokenizer;

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

/// One answer's matcher and the words of its masks.
#[derive(Clone)]
pub(crate) struct Constraint {
    matcher: Matcher,
    words: usize,
}

impl Constraint {
    /// A constraint on tokens below `vocabulary`.
    pub(crate) fn new(matcher: Matcher, vocabulary: usize) -> Constraint {
        Constraint {
            matcher,
            words: vocabulary.div_ceil(32),
        }
    }

    /// The tokens that may come next.
    pub(crate) fn mask(&mut self) -> Result<Arc<[u32]>, ModelError> {
        let mut mask = vec![0; self.words];
        self.matcher.mask(&mut mask).map_err(failed)?;
        Ok(mask.into())
    }

    /// Takes a token.
    pub(crate) fn accept(&mut self, token: u32) -> Result<(), ModelError> {
        self.matcher.accept(token).map_err(failed)
    }

    /// Takes a guessed token if it may come next and is no end; false if not, and nothing changed.
    pub(crate) fn guess(&mut self, token: u32) -> bool {
        self.matcher.accept(token).is_ok()
    }

    /// Forgets the last `tokens` tokens.
    pub(crate) fn rollback(&mut self, tokens: usize) -> Result<(), ModelError> {
        self.matcher.rollback(tokens).map_err(failed)
    }

    /// Whether the text can end here.
    pub(crate) fn may_end(&mut self) -> Result<bool, ModelError> {
        self.matcher.may_end().map_err(failed)
    }

    /// Whether the text can only end here.
    pub(crate) fn must_end(&self) -> bool {
        self.matcher.must_end()
    }
}

fn failed(error: GrammarError) -> ModelError {
    ModelError::parameter("structure", error, "a text that the structure allows")
}
