//! From tokens, one at a time, to text in whole characters.

mod stage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::Tokenizer;
use stage::Piece;
pub(crate) use stage::Stage;

/// Decodes tokens as they come.
///
/// What it gives out is whole characters only, as soon as no later token can change them: at most three bytes wait for
/// the rest of their character, and where the tokenizer's decoder looks at what comes next (the end of a word, a
/// pattern of several characters), so much as it looks at. What a token costs does not depend on those before it.
///
/// The parts joined are what [`Tokenizer::decode`] gives for all tokens, with one difference. A byte-fallback decoder
/// takes all byte tokens in a row as one: if they are not UTF-8 it gives U+FFFD for each of them, also for those that
/// are whole characters, however long ago they came. Here those characters stay, and the other bytes are U+FFFD.
/// (After `Fuse` or `ByteFallback` a regular expression, and what `WordPiece` cleans, see a text by its parts. No
/// published tokenizer has them there.)
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    stages: Vec<Stage>,
    /// Text before the first token that no stage has given out yet: what comes is without it.
    before: String,
}

impl Detokenizer {
    /// At the beginning of a text.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Detokenizer {
        let stages = tokenizer.stages.clone();
        Detokenizer {
            tokenizer,
            stages,
            before: String::new(),
        }
    }

    /// In the middle of a text, after these tokens: what is pushed is decoded as what goes on after them. So the first
    /// word keeps the space that a decoder takes away at the beginning of a text.
    pub fn after(tokenizer: Arc<Tokenizer>, tokens: &[u32]) -> Detokenizer {
        let mut detokenizer = Detokenizer::new(tokenizer);
        let mut text = String::new();
        for token in tokens {
            detokenizer.push(*token, &mut text);
            text.clear();
        }
        detokenizer.clone().finish(&mut text);
        detokenizer.before = text;
        detokenizer
    }

    /// Takes the next token and appends to `out` the text that became certain with it.
    pub fn push(&mut self, token: u32, out: &mut String) {
        // Special tokens and unknown ids are no elements at all.
        let Some(name) = self.tokenizer.text_token(token) else {
            return;
        };
        let mut pieces = vec![Piece::element(name)];
        for stage in &mut self.stages {
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                stage.push(piece, &mut next);
            }
            pieces = next;
        }
        self.give(pieces, out);
    }

    /// The tokens have ended: appends what was undecided.
    pub fn finish(&mut self, out: &mut String) {
        let mut pieces = Vec::new();
        for stage in &mut self.stages {
            let mut next = Vec::new();
            for piece in pieces {
                stage.push(piece, &mut next);
            }
            stage.finish(&mut next);
            pieces = next;
        }
        self.give(pieces, out);
    }

    /// What was undecided before the first token is left out where it comes now, as it was or as something else.
    fn give(&mut self, pieces: Vec<Piece>, out: &mut String) {
        for Piece { text, .. } in pieces {
            let known = text
                .char_indices()
                .zip(self.before.chars())
                .find(|((_, given), known)| given != known)
                .map_or(text.len().min(self.before.len()), |((at, _), _)| at);
            let differs = known < text.len();
            out.push_str(&text[known..]);
            match differs {
                true => self.before.clear(),
                false => drop(self.before.drain(..known)),
            }
        }
    }
}
