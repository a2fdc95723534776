//! The tokens of a model, as the bytes they stand for.

use std::collections::BTreeSet;
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::GrammarError;
use crate::error::reason;

/// Token ids end below this: the trie keeps 24 bits of an id, all ones being none.
const LARGEST_SIZE: usize = (1 << 24) - 1;
/// Longest token, in bytes, that the trie can hold.
const LONGEST_TOKEN: usize = 1024;
/// Bytes of all tokens together; the trie numbers its nodes with 22 bits.
const MOST_BYTES: usize = (1 << 22) - 1;
/// A first byte that the library keeps for its own marks; no UTF-8 text has it.
const MARK: u8 = 0xff;
/// States that the automaton of a structure's terminals may have, of 1 to 2 KiB each.
pub(crate) const MOST_LEXER_STATES: usize = 20_000;

/// The tokens of one model: their bytes, and which of them end a text. Cheap to copy.
#[derive(Clone)]
pub struct Vocabulary {
    inner: Arc<Inner>,
}

struct Inner {
    factory: ParserFactory,
    size: usize,
    /// Ascending, at least one.
    ends: Vec<u32>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary")
            .field("size", &self.inner.size)
            .field("ends", &self.inner.ends)
            .finish()
    }
}

impl Vocabulary {
    /// Of the bytes of each token id; a token without bytes is special or unused and never allowed. The end tokens are
    /// allowed where a text may end, and only there, whatever bytes they have.
    ///
    /// Tokens may be parts of characters. So that every structure can be followed to its end, each byte of UTF-8 must
    /// be a token; a token that begins with byte 0xff never is part of a text and counts as unused.
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`] for no end token, one that is not in the vocabulary, or more or longer tokens than
    /// can be held.
    pub fn new(
        tokens: Vec<Option<Vec<u8>>>,
        end_tokens: &[u32],
    ) -> Result<Vocabulary, GrammarError> {
        let wrong = |reason: String| Err(GrammarError::Vocabulary(reason));
        let size = tokens.len();
        if size > LARGEST_SIZE {
            return wrong(format!("{size} tokens exceed the limit of {LARGEST_SIZE}"));
        }
        let ends: BTreeSet<u32> = end_tokens.iter().copied().collect();
        let ends: Vec<u32> = ends.into_iter().collect();
        let Some(first_end) = ends.first().copied() else {
            return wrong("no token ends a text".into());
        };
        if let Some(end) = ends.iter().find(|end| **end as usize >= size) {
            return wrong(format!(
                "end token {end} is not below the {size} tokens of the vocabulary"
            ));
        }
        let mut words = Vec::with_capacity(size);
        let mut bytes = 0;
        for (id, token) in tokens.into_iter().enumerate() {
            let word = match token {
                Some(word) if word.first() != Some(&MARK) && !ends.contains(&(id as u32)) => word,
                _ => Vec::new(),
            };
            if word.len() > LONGEST_TOKEN {
                let bytes = word.len();
                return wrong(format!(
                    "token {id} of {bytes} bytes exceeds the limit of {LONGEST_TOKEN} bytes"
                ));
            }
            bytes += word.len();
            words.push(word);
        }
        if bytes > MOST_BYTES {
            return wrong(format!(
                "tokens of {bytes} bytes together exceed the limit of {MOST_BYTES} bytes"
            ));
        }
        let factory = catch_unwind(std::panic::AssertUnwindSafe(|| {
            let trie = TokTrie::from(&TokRxInfo::new(size as u32, first_end), &words)
                .with_eos_tokens(&ends);
            // Not canonical: any tokens whose bytes fit are allowed, none is forced, so the model keeps its own way to
            // split a text into tokens and this crate needs no tokenizer.
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let mut factory = ParserFactory::new(
                &environment,
                InferenceCapabilities::default(),
                &SlicedBiasComputer::general_slices(),
            )?;
            factory.quiet();
            *factory.limits_mut() = ParserLimits {
                max_lexer_states: MOST_LEXER_STATES,
                verbose_errors: false,
                ..ParserLimits::default()
            };
            Ok(factory)
        }))
        .map_err(|e| GrammarError::Vocabulary(reason(&e.to_string())))?;
        Ok(Vocabulary {
            inner: Arc::new(Inner {
                factory,
                size,
                ends,
            }),
        })
    }

    /// Token ids: one more than the largest.
    pub fn size(&self) -> usize {
        self.inner.size
    }

    /// Words of a mask: a bit for each token.
    pub fn mask_words(&self) -> usize {
        self.inner.size.div_ceil(32)
    }

    /// The tokens that end a text, ascending.
    pub fn end_tokens(&self) -> &[u32] {
        &self.inner.ends
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.inner.factory
    }

    /// Whether a token stands for bytes of a text.
    pub(crate) fn has_bytes(&self, token: u32) -> bool {
        !self
            .inner
            .factory
            .tok_env()
            .tok_trie()
            .token(token)
            .is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(tokens: Vec<Option<Vec<u8>>>, ends: &[u32]) -> String {
        Vocabulary::new(tokens, ends).unwrap_err().to_string()
    }

    #[test]
    fn a_vocabulary_that_cannot_be_used_is_refused_with_the_reason() {
        assert_eq!(refusal(vec![None], &[]), "vocabulary: no token ends a text");
        assert_eq!(
            refusal(vec![None, None], &[0, 2]),
            "vocabulary: end token 2 is not below the 2 tokens of the vocabulary"
        );
        assert_eq!(
            refusal(vec![None, Some(vec![b'a'; 1025])], &[0]),
            "vocabulary: token 1 of 1025 bytes exceeds the limit of 1024 bytes"
        );
        let long = |id: u32| {
            let mut bytes = vec![b'a'; 1020];
            bytes.extend(id.to_be_bytes());
            Some(bytes)
        };
        assert_eq!(
            refusal((0..4200).map(long).collect(), &[0]),
            "vocabulary: tokens of 4299776 bytes together exceed the limit of 4194303 bytes"
        );
    }

    #[test]
    fn the_longest_tokens_and_empty_ones_fit() {
        let tokens = vec![
            None,
            Some(vec![b'a'; 1024]),
            Some(Vec::new()),
            Some(vec![0xff]),
        ];
        let vocabulary = Vocabulary::new(tokens, &[0]).unwrap();
        assert_eq!((vocabulary.size(), vocabulary.mask_words()), (4, 1));
        assert!(vocabulary.has_bytes(1));
        assert!(!vocabulary.has_bytes(2) && !vocabulary.has_bytes(3) && !vocabulary.has_bytes(9));
    }
}
