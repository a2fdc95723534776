//! From tokens, one at a time, to text in whole characters.

use std::sync::Arc;

use crate::Tokenizer;
use crate::tokenizer::guarded;

/// Tokens after which undecided text is given out as it is: a character has at most four bytes.
const LONGEST_UNDECIDED: usize = 16;

/// Decodes tokens as they come.
///
/// What it gives out is whole characters only. For a byte-level tokenizer the parts joined are exactly the text of
/// all tokens; for others they are it too, unless the tokenizer's decoder changes the text of earlier tokens by later
/// ones (a byte-fallback decoder does so for bytes that are no UTF-8).
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Bytes that may still become a character.
    Bytes(Vec<u8>),
    /// All tokens; the text of those before `read` is out, those from `prefix` are decoded together with new ones.
    Window {
        ids: Vec<u32>,
        prefix: usize,
        read: usize,
        emitted: String,
    },
}

impl Detokenizer {
    /// At the beginning of a text.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Detokenizer {
        let state = match tokenizer.byte_level {
            true => State::Bytes(Vec::new()),
            false => State::Window {
                ids: Vec::new(),
                prefix: 0,
                read: 0,
                emitted: String::new(),
            },
        };
        Detokenizer { tokenizer, state }
    }

    /// Takes the next token and appends to `out` the text that became certain with it.
    pub fn push(&mut self, token: u32, out: &mut String) {
        match &mut self.state {
            State::Bytes(pending) => {
                pending.extend_from_slice(self.tokenizer.bytes.get(token));
                drain_characters(pending, out);
            }
            State::Window {
                ids,
                prefix,
                read,
                emitted,
            } => {
                ids.push(token);
                let before = decode(&self.tokenizer, &ids[*prefix..*read]);
                let after = decode(&self.tokenizer, &ids[*prefix..]);
                let undecided = after.ends_with(char::REPLACEMENT_CHARACTER)
                    && ids.len() - *read < LONGEST_UNDECIDED;
                let Some(new) = after.strip_prefix(&before) else {
                    return;
                };
                if new.is_empty() || undecided {
                    return;
                }
                out.push_str(new);
                emitted.push_str(new);
                *prefix = *read;
                *read = ids.len();
            }
        }
    }

    /// The tokens have ended: appends what was undecided.
    pub fn finish(&mut self, out: &mut String) {
        match &mut self.state {
            State::Bytes(pending) => {
                out.push_str(&String::from_utf8_lossy(pending));
                pending.clear();
            }
            State::Window {
                ids,
                prefix,
                read,
                emitted,
            } => {
                let whole = decode(&self.tokenizer, ids);
                let before = decode(&self.tokenizer, &ids[*prefix..*read]);
                let after = decode(&self.tokenizer, &ids[*prefix..]);
                let rest = whole
                    .strip_prefix(emitted.as_str())
                    .or_else(|| after.strip_prefix(&before))
                    .unwrap_or("");
                out.push_str(rest);
                emitted.push_str(rest);
                *prefix = ids.len();
                *read = ids.len();
            }
        }
    }
}

fn decode(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    guarded(|| tokenizer.inner.decode(ids, true)).unwrap_or_default()
}

/// Moves whole characters out, each ill-formed sequence as one U+FFFD as `String::from_utf8_lossy` does; an
/// unfinished character stays.
fn drain_characters(pending: &mut Vec<u8>, out: &mut String) {
    let mut done = 0;
    loop {
        match std::str::from_utf8(&pending[done..]) {
            Ok(text) => {
                out.push_str(text);
                done = pending.len();
                break;
            }
            Err(error) => {
                let valid = done + error.valid_up_to();
                out.push_str(&String::from_utf8_lossy(&pending[done..valid]));
                done = valid;
                match error.error_len() {
                    Some(length) => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        done += length;
                    }
                    None => break,
                }
            }
        }
    }
    pending.drain(..done);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    fn stream(tokenizer: &Arc<Tokenizer>, ids: &[u32]) -> Vec<String> {
        let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
        let mut parts = Vec::new();
        for id in ids {
            let mut out = String::new();
            detokenizer.push(*id, &mut out);
            parts.push(out);
        }
        let mut out = String::new();
        detokenizer.finish(&mut out);
        parts.push(out);
        parts
    }

    #[test]
    fn a_character_comes_with_its_last_byte() {
        let tokenizer = Arc::new(fixture::byte_level());
        let ids: Vec<u32> = "é€".bytes().map(fixture::byte_token).collect();
        assert_eq!(stream(&tokenizer, &ids), ["", "é", "", "", "€", ""]);
    }

    #[test]
    fn half_a_character_at_the_end_is_one_replacement() {
        let tokenizer = Arc::new(fixture::byte_level());
        let ids = [0xe2, 0x82].map(fixture::byte_token);
        assert_eq!(stream(&tokenizer, &ids), ["", "", "\u{fffd}"]);
    }

    #[test]
    fn special_and_unknown_tokens_have_no_text() {
        let tokenizer = Arc::new(fixture::byte_level());
        let eos = tokenizer.eos().unwrap();
        assert_eq!(
            stream(
                &tokenizer,
                &[fixture::byte_token(b'a'), eos, 999_999, u32::MAX]
            )
            .concat(),
            "a"
        );
    }

    proptest! {
        #[test]
        fn parts_of_any_tokens_joined_are_the_whole_decode(ids in proptest::collection::vec(0u32..270, 0..64)) {
            let tokenizer = fixture::shared();
            prop_assert_eq!(stream(&tokenizer, &ids).concat(), tokenizer.decode(&ids).unwrap());
        }

        #[test]
        fn text_survives_any_split_over_tokens(text in "\\PC{0,24}") {
            let tokenizer = fixture::shared();
            let by_bytes: Vec<u32> = text.bytes().map(fixture::byte_token).collect();
            prop_assert_eq!(stream(&tokenizer, &by_bytes).concat(), text.as_str());
            let by_tokens = tokenizer.encode_literal(&text).unwrap();
            prop_assert_eq!(stream(&tokenizer, &by_tokens).concat(), text.as_str());
        }

        #[test]
        fn a_sentencepiece_tokenizer_streams_its_decode(text in "[ab é€]{0,16}") {
            let tokenizer = fixture::shared_byte_fallback();
            let ids = tokenizer.encode(&text).unwrap();
            let parts = stream(&tokenizer, &ids);
            let half = parts.iter().any(|part| part.contains(char::REPLACEMENT_CHARACTER));
            prop_assert!(!half);
            prop_assert_eq!(parts.concat(), tokenizer.decode(&ids).unwrap());
        }
    }
}
