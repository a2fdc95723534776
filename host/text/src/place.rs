//! Where the tokens of a text stand in it: for models that say something of each.

use crate::tokenizer::guarded;
use crate::{PromptError, Tokenizer};

/// The part of a text that a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPlace {
    /// Bytes before it; between characters.
    pub start: usize,
    /// Bytes up to its end, at least `start`; between characters. Tokens that are parts of one character have all of it.
    pub end: usize,
    /// Whether a word begins with it. Where the vocabulary marks pieces that continue a word (`##ing`) that is what all
    /// others do; else it is what follows white space, has some, or is the first of the text. What the vocabulary does not
    /// have begins one in any case.
    pub begins_word: bool,
}

/// A text as tokens with their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedText {
    /// Token ids, with the special tokens that the tokenizer puts around a text.
    pub tokens: Vec<u32>,
    /// Of each; none of those around the text.
    pub places: Vec<Option<TokenPlace>>,
}

impl Tokenizer {
    /// As [`Tokenizer::encode_text_to`], with the places of the tokens.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode_places(&self, text: &str, limit: usize) -> Result<PlacedText, PromptError> {
        let around = self.frame.before.len() + self.frame.after.len();
        let room = limit.saturating_sub(around);
        let before = self.frame.before.iter().map(|token| (*token, None));
        let mut placed: Vec<(u32, Option<TokenPlace>)> = before.collect();
        let mut begin = 0;
        let mut inner = Vec::new();
        for piece in self.literal_pieces(text)? {
            let encoded =
                guarded(|| self.inner.encode(piece, false)).map_err(PromptError::Encode)?;
            let offsets = encoded.get_offsets().iter();
            for (token, (start, end)) in encoded.get_ids().iter().zip(offsets) {
                let place = self.place(text, *token, begin + start..begin + end);
                inner.push((*token, Some(place)));
            }
            begin += piece.len();
        }
        inner.truncate(room);
        placed.append(&mut inner);
        placed.extend(self.frame.after.iter().map(|token| (*token, None)));
        placed.truncate(limit);
        let (tokens, places) = placed.into_iter().unzip();
        Ok(PlacedText { tokens, places })
    }

    /// The place of a token that the tokenizer says stands for these bytes.
    fn place(&self, text: &str, token: u32, bytes: std::ops::Range<usize>) -> TokenPlace {
        let end = text.ceil_char_boundary(bytes.end);
        let start = text.floor_char_boundary(bytes.start.min(end));
        let begins_word = match &self.continues {
            _ if Some(token) == self.unknown => true,
            Some(mark) => {
                let name = self.inner.id_to_token(token);
                name.is_none_or(|name| !name.starts_with(mark))
            }
            None => {
                let ahead = text[start..].chars().next();
                let behind = text[..start].chars().next_back();
                let spaces = [ahead, behind].into_iter().flatten();
                start == 0 || spaces.into_iter().any(char::is_whitespace)
            }
        };
        TokenPlace {
            start,
            end,
            begins_word,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    /// The parts of a text that its tokens stand for, those that begin a word with a `|` before them.
    fn parts(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let placed = tokenizer.encode_places(text, 64).unwrap();
        assert_eq!(placed.tokens, tokenizer.encode_text_to(text, 64).unwrap());
        let places = placed.places.iter().flatten();
        places
            .map(|place| {
                let begins = if place.begins_word { "|" } else { "" };
                format!("{begins}{}", &text[place.start..place.end])
            })
            .collect()
    }

    #[test]
    fn tokens_stand_where_their_text_does_whatever_it_is_normalized_to() {
        let tokenizer = fixture::word_piece();
        assert_eq!(
            parts(&tokenizer, "PLAYING, plÃy"),
            ["|PLAY", "ING", "|,", "|plÃy"]
        );
        let placed = tokenizer.encode_places("play", 64).unwrap();
        let [first, .., last] = placed.places.as_slice() else {
            panic!("{placed:?}");
        };
        assert_eq!((first, last), (&None, &None));
        // Of bytes each has its whole character.
        let bytes = fixture::byte_level();
        let text = "a 😀é";
        let found = bytes.encode_places(text, 64).unwrap();
        for place in found.places.iter().flatten() {
            let part = &text[place.start..place.end];
            assert!(["a", " ", " 😀", "😀", "é"].contains(&part), "{part:?}");
        }
    }

    #[test]
    fn what_follows_white_space_begins_a_word_where_the_vocabulary_marks_none() {
        let found = parts(&fixture::byte_level(), "ab\tcd e");
        let words: Vec<&String> = found.iter().filter(|part| part.starts_with('|')).collect();
        assert_eq!(
            words.len(),
            found.iter().filter(|p| p.starts_with('|')).count()
        );
        assert!(found[0].starts_with('|'), "{found:?}");
        assert!(found.iter().any(|part| part == "b"), "{found:?}");
        assert!(found.iter().any(|part| part == "|c"), "{found:?}");
    }

    #[test]
    fn the_name_of_a_special_token_is_text_with_its_own_place() {
        let tokenizer = fixture::word_piece();
        let text = "play [SEP] play";
        let placed = tokenizer.encode_places(text, 64).unwrap();
        let places: Vec<TokenPlace> = placed.places.iter().copied().flatten().collect();
        let last = places[places.len() - 1];
        assert_eq!((last.start, last.end), (11, 15));
        let inside = places.iter().filter(|p| p.start >= 5 && p.end <= 10);
        assert!(inside.count() >= 2, "{places:?}");
    }

    proptest! {
        #[test]
        fn places_are_in_order_and_between_characters(text in "[a-dé漢😀 ́\\[\\]SEPplay]{0,24}", limit in 0_usize..30) {
            for tokenizer in [fixture::word_piece(), fixture::byte_level(), fixture::byte_fallback()] {
                let placed = tokenizer.encode_places(&text, limit).unwrap();
                prop_assert_eq!(&placed.tokens, &tokenizer.encode_text_to(&text, limit).unwrap());
                prop_assert_eq!(placed.tokens.len(), placed.places.len());
                let mut at = 0;
                for place in placed.places.iter().flatten() {
                    prop_assert!(text.get(place.start..place.end).is_some());
                    prop_assert!(place.start >= at, "{:?}", placed.places);
                    at = place.start;
                }
            }
        }
    }
}
