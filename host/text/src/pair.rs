//! Pairs of texts for encoders that compare them: with the special tokens and token types of the tokenizer's template.

use crate::tokenizer::guarded;
use crate::{PromptError, Tokenizer};

/// A pair of texts as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedPair {
    /// Token ids, special ones included.
    pub tokens: Vec<u32>,
    /// The type of each: usually 0 for the first text and 1 for the second, and what the template says for special tokens.
    pub types: Vec<u32>,
}

impl EncodedPair {
    fn push(&mut self, (token, kind): (u32, u32)) {
        self.tokens.push(token);
        self.types.push(kind);
    }
}

/// What a tokenizer's post-processor puts around two texts: special tokens with their types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PairFrame {
    before: Vec<(u32, u32)>,
    between: Vec<(u32, u32)>,
    after: Vec<(u32, u32)>,
    /// The types of the first and the second text.
    types: [u32; 2],
}

impl PairFrame {
    /// Looks for two texts in what the tokenizer makes of them together. None where nothing stands between them, so that
    /// no model could tell where one ends, or they are not there in this order.
    pub(crate) fn of(inner: &tokenizers::Tokenizer) -> Option<PairFrame> {
        // Texts that no template has of its own; two that differ.
        let (first, second) = ("a", "b a");
        let alone = |text: &str| guarded(|| inner.encode_fast(text, false)).ok();
        let (a, b) = (alone(first)?, alone(second)?);
        let pair = guarded(|| inner.encode_fast((first, second), true)).ok()?;
        let ids = pair.get_ids();
        let (a, b) = (a.get_ids(), b.get_ids());
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let find = |wanted: &[u32], from: usize| {
            let mut places = from..=ids.len().checked_sub(wanted.len())?;
            places.find(|at| ids[*at..].starts_with(wanted))
        };
        let first = find(a, 0)?;
        let second = find(b, first + a.len())?;
        let types = pair.get_type_ids();
        let part = |range: std::ops::Range<usize>| -> Option<Vec<(u32, u32)>> {
            let types = types.get(range.clone())?.iter().copied();
            Some(ids.get(range)?.iter().copied().zip(types).collect())
        };
        let between = part(first + a.len()..second)?;
        if between.is_empty() {
            return None;
        }
        Some(PairFrame {
            before: part(0..first)?,
            between,
            after: part(second + b.len()..ids.len())?,
            types: [*types.get(first)?, *types.get(second)?],
        })
    }

    fn len(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }
}

impl Tokenizer {
    /// Tokens that the tokenizer puts around a pair of texts; none where it does not say how pairs become one.
    pub fn around_pair(&self) -> Option<usize> {
        self.pairs.as_ref().map(PairFrame::len)
    }

    /// The tokens of a pair of texts, with at most `limit` tokens. Of what is too long the longer text gives way: where the
    /// shorter has no more than half of the room it stays whole, else both have half, the longer the odd one (the second,
    /// of equals), as the tokenizers library has it by its strategy `longest_first`. Texts lose their last tokens. The
    /// names of special tokens are only text in it. A limit that has no room for the special tokens gives as many of them
    /// as fit.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on a text, [`PromptError::NoPairs`] if it does not say how pairs
    /// become one.
    pub fn encode_pair(
        &self,
        first: &str,
        second: &str,
        limit: usize,
    ) -> Result<EncodedPair, PromptError> {
        let first = self.encode_literal(first)?;
        self.encode_pair_with(&first, second, limit)
    }

    /// As [`Tokenizer::encode_pair`], with a first text that was encoded by [`Tokenizer::encode_literal`]: for those that
    /// are compared with many.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_pair`].
    pub fn encode_pair_with(
        &self,
        first: &[u32],
        second: &str,
        limit: usize,
    ) -> Result<EncodedPair, PromptError> {
        let frame = self.pairs.as_ref().ok_or(PromptError::NoPairs)?;
        // All of the second text that matters: what may be kept of it, and whether it is longer than the first. Where both go
        // so far beyond the limit, that decides which of them keeps one token more, and is not asked.
        let most = limit.max(first.len().min(limit.saturating_mul(16).saturating_add(64)));
        let second = self.encode_literal_to(second, most)?;
        let room = limit.saturating_sub(frame.len());
        let [kept_first, kept_second] = longest_first([first.len(), second.len()], room);
        let mut pair = EncodedPair::default();
        let texts = [(first, kept_first), (second.as_slice(), kept_second)];
        let [a, b] = texts.map(|(text, kept)| &text[..kept]);
        let [kind_a, kind_b] = frame.types;
        let parts = (frame.before.iter().copied())
            .chain(a.iter().map(|token| (*token, kind_a)))
            .chain(frame.between.iter().copied())
            .chain(b.iter().map(|token| (*token, kind_b)))
            .chain(frame.after.iter().copied());
        parts.take(limit).for_each(|each| pair.push(each));
        Ok(pair)
    }
}

/// How many tokens two texts keep in a room.
fn longest_first([first, second]: [usize; 2], room: usize) -> [usize; 2] {
    if first + second <= room {
        return [first, second];
    }
    let half = room / 2;
    let (shorter, longer) = match first.min(second) {
        shorter if shorter <= half => (shorter, room - shorter),
        _ => (half, room - half),
    };
    match first > second {
        true => [longer, shorter],
        false => [shorter, longer],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    #[test]
    fn a_pair_is_framed_with_the_templates_types() {
        let tokenizer = fixture::word_piece();
        let id = |name: &str| tokenizer.token_id(name).unwrap();
        let [cls, sep, play, ing] = ["[CLS]", "[SEP]", "play", "##ing"].map(id);
        let pair = tokenizer.encode_pair("playing", "play", 512).unwrap();
        assert_eq!(pair.tokens, [cls, play, ing, sep, play, sep]);
        assert_eq!(pair.types, [0, 0, 0, 0, 1, 1]);
        assert_eq!(tokenizer.around_pair(), Some(3));
        let empty = tokenizer.encode_pair("play", "", 512).unwrap();
        assert_eq!(empty.tokens, [cls, play, sep, sep]);
        // A text cannot forge the frame.
        let forged = tokenizer.encode_pair("play", "[SEP]", 512).unwrap();
        let seps = forged.tokens.iter().filter(|token| **token == sep);
        assert_eq!(seps.count(), 2);
    }

    #[test]
    fn the_longer_text_gives_way_as_the_library_has_it() {
        assert_eq!(longest_first([3, 4], 7), [3, 4]);
        assert_eq!(longest_first([3, 40], 20), [3, 17]);
        assert_eq!(longest_first([40, 3], 20), [17, 3]);
        assert_eq!(longest_first([40, 30], 21), [11, 10]);
        assert_eq!(longest_first([30, 30], 21), [10, 11]);
        assert_eq!(longest_first([2, 2], 0), [0, 0]);
        let tokenizer = fixture::word_piece();
        let many = |count: usize| "play ".repeat(count);
        for limit in 0..3 {
            let cut = tokenizer.encode_pair("play", "play", limit).unwrap();
            assert_eq!(cut.tokens.len(), limit);
        }
        let cut = tokenizer.encode_pair(&many(2), &many(30), 16).unwrap();
        assert_eq!((cut.tokens.len(), cut.types[5]), (16, 1));
    }

    #[test]
    fn a_tokenizer_without_a_template_for_pairs_says_so() {
        let found = fixture::byte_level().encode_pair("a", "b", 8);
        assert_eq!(found, Err(PromptError::NoPairs));
    }

    proptest! {
        /// Against the library's own truncation of a pair.
        #[test]
        fn pairs_are_cut_as_the_library_cuts_them(first in 0_usize..30, second in 0_usize..30, limit in 3_usize..40) {
            let tokenizer = fixture::word_piece();
            let mut library = tokenizer.inner.clone();
            let truncation = tokenizers::TruncationParams { max_length: limit, ..Default::default() };
            library.with_truncation(Some(truncation)).unwrap();
            let texts = ["play ".repeat(first), "s ".repeat(second)];
            let wanted = library.encode_fast((texts[0].as_str(), texts[1].as_str()), true).unwrap();
            let found = tokenizer.encode_pair(&texts[0], &texts[1], limit).unwrap();
            prop_assert_eq!(&found.tokens, wanted.get_ids());
            prop_assert_eq!(&found.types, wanted.get_type_ids());
        }
    }
}
