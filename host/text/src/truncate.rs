//! The longest beginning of a text that has at most so many tokens.

use crate::tokenizer::guarded;
use crate::{PromptError, Tokenizer};

/// Bytes of text a token has, to guess how much must be read.
const BYTES_PER_TOKEN: usize = 6;
/// Tokens before the border that are encoded again to see whether one more character is free.
const CONTEXT: usize = 16;
/// Characters beyond the border that are tried.
const REACH: usize = 32;

/// Times as much as is needed by that guess that is read to find a space, where words cannot be told apart without.
const MOST_READ: usize = 16;

/// A text's tokens and where each ends, in bytes.
struct Encoded {
    ends: Vec<usize>,
}

impl Tokenizer {
    /// The first tokens, at most `limit`, of a text in which the names of special tokens are only text: those that the whole
    /// text begins with. Reads no more of it than is needed for that, as far as its words have an end.
    pub(crate) fn encode_literal_to(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<Vec<u32>, PromptError> {
        Ok(self.encode_first(text, limit)?.0)
    }

    /// The same, with how many bytes of the text were read in the end.
    fn encode_first(&self, text: &str, limit: usize) -> Result<(Vec<u32>, usize), PromptError> {
        if limit == 0 {
            return Ok((Vec::new(), 0));
        }
        let first = limit
            .saturating_add(CONTEXT)
            .saturating_mul(BYTES_PER_TOKEN);
        let mut most = first;
        loop {
            let read = text.floor_char_boundary(most);
            // The last word may go on behind what is read, and have other tokens then.
            let words = match text[..read].rfind(char::is_whitespace) {
                _ if read == text.len() => read,
                Some(space) if space > 0 => space,
                _ => read,
            };
            let has_words = words < read || most >= first.saturating_mul(MOST_READ);
            let mut tokens = self.encode_literal(&text[..words])?;
            let is_certain = has_words && tokens.len() >= limit.saturating_add(CONTEXT);
            if read == text.len() || is_certain {
                tokens.truncate(limit);
                return Ok((tokens, read));
            }
            most = most.saturating_mul(2);
        }
    }

    /// The longest beginning of a text that has at most `limit` tokens, cut between characters. The names of special
    /// tokens are only text in it.
    ///
    /// The number of tokens is never above the limit. Tokens may join differently in a shorter text, so characters
    /// behind the border of the last token are tried too, up to the longest token of the vocabulary or
    /// 32 characters. Reads no more of the text than about twice what is kept.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn truncate<'a>(&self, text: &'a str, limit: usize) -> Result<&'a str, PromptError> {
        if limit == 0 {
            return Ok("");
        }
        let mut read = text.floor_char_boundary(
            limit
                .saturating_add(CONTEXT)
                .saturating_mul(BYTES_PER_TOKEN),
        );
        let encoded = loop {
            let encoded = self.encode_with_ends(&text[..read])?;
            if read == text.len() || encoded.ends.len() > limit.saturating_add(CONTEXT) {
                break encoded;
            }
            read = text.floor_char_boundary(read.saturating_mul(2));
        };
        if encoded.ends.len() <= limit {
            return Ok(text);
        }
        let mut cut = text.floor_char_boundary(encoded.ends[limit - 1]);
        // A character may be split over tokens, or the shorter text may have more: step back, faster and faster.
        let mut step = 1;
        while cut > 0 && self.count(&text[..cut])? > limit {
            cut = text[..cut]
                .char_indices()
                .rev()
                .nth(step - 1)
                .map_or(0, |(at, _)| at);
            step += step.div_ceil(4);
        }
        self.extended(text, cut, limit, &encoded)
    }

    /// Takes further characters while that costs no token.
    fn extended<'a>(
        &self,
        text: &'a str,
        cut: usize,
        limit: usize,
        encoded: &Encoded,
    ) -> Result<&'a str, PromptError> {
        let anchor = limit
            .checked_sub(CONTEXT)
            .map_or(0, |index| text.floor_char_boundary(encoded.ends[index]));
        let anchor = if anchor > cut { 0 } else { anchor };
        let free = limit.saturating_sub(self.count(&text[..cut])?);
        let tail = self.count(&text[anchor..cut])? + free;
        let mut ends: Vec<usize> = Vec::new();
        for c in text[cut..].chars().take(self.longest_token.min(REACH)) {
            ends.push(ends.last().copied().unwrap_or(cut) + c.len_utf8());
        }
        for end in ends.into_iter().rev() {
            // The tail is quick to count and decides nearly always; only what it promises is counted whole.
            if self.count(&text[anchor..end])? <= tail && self.count(&text[..end])? <= limit {
                return Ok(&text[..end]);
            }
        }
        Ok(&text[..cut])
    }

    fn encode_with_ends(&self, text: &str) -> Result<Encoded, PromptError> {
        let mut ends = Vec::new();
        let mut start = 0;
        for piece in self.literal_pieces(text)? {
            let encoded =
                guarded(|| self.inner.encode(piece, false)).map_err(PromptError::Encode)?;
            ends.extend(encoded.get_offsets().iter().map(|(_, end)| start + end));
            start += piece.len();
        }
        Ok(Encoded { ends })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fixture;

    #[test]
    fn no_more_of_a_text_is_read_than_its_first_tokens_need() {
        let tokenizer = fixture::word_piece();
        let long = "play ".repeat(1_000_000);
        let (found, read) = tokenizer.encode_first(&long, 40).unwrap();
        assert_eq!(found.len(), 40);
        assert!(read < 1000, "{read}");
    }

    /// Every beginning counted: what `truncate` promises, slowly.
    fn longest(text: &str, limit: usize) -> &str {
        let tokenizer = fixture::shared();
        let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        let fitting = ends.filter(|end| tokenizer.count(&text[..*end]).unwrap() <= limit);
        &text[..fitting.max().unwrap_or(0)]
    }

    #[test]
    fn a_character_is_never_cut() {
        let tokenizer = fixture::shared();
        // "€" is three tokens of a byte each.
        for (limit, kept) in [
            (0, ""),
            (1, "a"),
            (2, "a"),
            (3, "a"),
            (4, "a€"),
            (5, "a€b"),
            (6, "a€b"),
        ] {
            assert_eq!(tokenizer.truncate("a€b", limit).unwrap(), kept);
        }
    }

    #[test]
    fn a_longer_beginning_with_fewer_tokens_is_found() {
        let tokenizer = fixture::shared();
        // "hello" is one token, "hell" is he + ll: the border of the second token is not the end.
        assert_eq!(tokenizer.count("hello").unwrap(), 1);
        assert_eq!(tokenizer.truncate("hello hello", 1).unwrap(), "hello");
        assert_eq!(tokenizer.truncate("hellx", 1).unwrap(), longest("hellx", 1));
    }

    #[test]
    fn a_name_of_a_special_token_is_cut_as_text() {
        let tokenizer = fixture::shared();
        let kept = tokenizer.truncate("<|eos|><|eos|>", 5).unwrap();
        assert_eq!(kept, longest("<|eos|><|eos|>", 5));
        assert!(kept.len() < "<|eos|>".len());
    }

    #[test]
    fn a_long_text_is_cut_without_reading_it_all() {
        let tokenizer = fixture::shared();
        let text = "hello wörld ".repeat(100_000);
        let kept = tokenizer.truncate(&text, 100).unwrap();
        assert!(tokenizer.count(kept).unwrap() <= 100);
        assert!(tokenizer.count(&text[..kept.len() + 1]).unwrap() > 100);
        // One word without end, too.
        let text = "a".repeat(200_000);
        assert_eq!(tokenizer.truncate(&text, 1000).unwrap().len(), 1000);
    }

    proptest! {
        /// Of whatever text: words, long ones, white space, names of special tokens.
        #[test]
        fn the_first_tokens_are_those_of_the_whole_text(
            parts in proptest::collection::vec(prop_oneof![
                "[a-z]{1,9} ", "[a-zé ]{0,40}", "(play)?(ing)? {1,3}", "[a-c]{60,140} ", Just("<|user|> ".to_owned()),
                Just("日本語。".to_owned()), Just("\n\n".to_owned()),
            ], 0..400),
            limit in 0_usize..40,
            which in 0_usize..3,
        ) {
            let text = parts.concat();
            let tokenizer = [fixture::byte_level, fixture::byte_fallback, fixture::word_piece][which]();
            let mut wanted = tokenizer.encode_literal(&text).unwrap();
            wanted.truncate(limit);
            prop_assert_eq!(tokenizer.encode_literal_to(&text, limit).unwrap(), wanted);
        }

        #[test]
        fn it_is_the_longest_beginning_that_fits(text in "([helo wé€]|hello|<\\|eos\\|>|  ){0,16}", limit in 0usize..20) {
            let tokenizer = fixture::shared();
            prop_assert_eq!(tokenizer.truncate(&text, limit).unwrap(), longest(&text, limit));
        }
    }
}
