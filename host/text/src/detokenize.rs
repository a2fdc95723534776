//! From tokens, one at a time, to text in whole characters.

mod stage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::Tokenizer;
pub(crate) use stage::Stage;
use stage::{Piece, take_text};

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
    decoding: Decoding,
    /// Tokens whose names are text here.
    shown: Vec<u32>,
}

/// What makes text of tokens.
#[derive(Debug, Clone)]
enum Decoding {
    /// The tokenizer's decoder.
    Decoder {
        stages: Vec<Stage>,
        /// Text before the first token that no stage has given out yet: what comes is without it.
        before: String,
    },
    /// The bytes that each token stands for; those of a character that is not whole yet.
    Bytes { pending: Vec<u8> },
}

impl Detokenizer {
    /// At the beginning of a text.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Detokenizer {
        let stages = tokenizer.stages.clone();
        Detokenizer {
            tokenizer,
            decoding: Decoding::Decoder {
                stages,
                before: String::new(),
            },
            shown: Vec::new(),
        }
    }

    /// The names of these tokens are text from here on, as they are: also those of special ones, which others are not.
    #[must_use]
    pub fn showing(mut self, tokens: &[u32]) -> Detokenizer {
        self.shown = tokens.to_vec();
        self
    }

    /// The name of a token that is shown: it is what ends the text that [`push`](Detokenizer::push) gives of it.
    pub fn shown(&self, token: u32) -> Option<String> {
        let is_shown = self.shown.contains(&token);
        is_shown.then(|| self.tokenizer.inner.id_to_token(token))?
    }

    /// Without the tokenizer's decoder: the text is the bytes that the tokens stand for ([`Tokenizer::token_bytes`]), as
    /// a structure was held against them. Nothing is taken away at its beginning; bytes that are no UTF-8 become U+FFFD.
    pub fn verbatim(tokenizer: Arc<Tokenizer>) -> Detokenizer {
        let pending = Vec::new();
        Detokenizer {
            tokenizer,
            decoding: Decoding::Bytes { pending },
            shown: Vec::new(),
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
        if let Decoding::Decoder { before, .. } = &mut detokenizer.decoding {
            *before = text;
        }
        detokenizer
    }

    /// Takes the next token and appends to `out` the text that became certain with it.
    pub fn push(&mut self, token: u32, out: &mut String) {
        if let Some(name) = self.shown(token) {
            // No character goes on behind it.
            self.finish(out);
            out.push_str(&name);
            return;
        }
        match &mut self.decoding {
            Decoding::Decoder { stages, before } => {
                // Special tokens and unknown ids are no elements at all.
                let Some(name) = self.tokenizer.text_token(token) else {
                    return;
                };
                let mut pieces = vec![Piece::element(name)];
                for stage in stages {
                    let mut next = Vec::with_capacity(pieces.len());
                    for piece in pieces {
                        stage.push(piece, &mut next);
                    }
                    pieces = next;
                }
                give(pieces, before, out);
            }
            Decoding::Bytes { pending } => {
                pending.extend(self.tokenizer.token_bytes(token).unwrap_or_default());
                take_text(pending, out);
            }
        }
    }

    /// The tokens have ended: appends what was undecided.
    pub fn finish(&mut self, out: &mut String) {
        match &mut self.decoding {
            Decoding::Decoder { stages, before } => {
                let mut pieces = Vec::new();
                for stage in stages {
                    let mut next = Vec::new();
                    for piece in pieces {
                        stage.push(piece, &mut next);
                    }
                    stage.finish(&mut next);
                    pieces = next;
                }
                give(pieces, before, out);
            }
            Decoding::Bytes { pending } => {
                out.push_str(&String::from_utf8_lossy(pending));
                pending.clear();
            }
        }
    }
}

/// What was undecided before the first token is left out where it comes now, as it was or as something else.
fn give(pieces: Vec<Piece>, before: &mut String, out: &mut String) {
    for Piece { text, .. } in pieces {
        let known = text
            .char_indices()
            .zip(before.chars())
            .find(|((_, given), known)| given != known)
            .map_or(text.len().min(before.len()), |((at, _), _)| at);
        let differs = known < text.len();
        out.push_str(&text[known..]);
        match differs {
            true => before.clear(),
            false => drop(before.drain(..known)),
        }
    }
}
