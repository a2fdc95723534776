//! Text that must stay text: where the name of a special token occurs in it, it is cut apart.

use crate::tokenizer::guarded;
use crate::{PromptError, Tokenizer};

/// The names of a tokenizer's special tokens.
///
/// A tokenizer reads `<|eos|>` in a record as the token of that name, so that anyone who writes a record could end
/// a turn or speak as the system. Encoded in two pieces, cut behind the first character of the name, the same text is
/// plain text. A name of a single character cannot be cut and is left as it is; a tokenizer that puts a space before
/// its text may put one at the cut.
#[derive(Debug, Default)]
pub(crate) struct SpecialNames {
    names: Vec<String>,
    /// Whether a byte, in either case, begins a name.
    begins: Vec<bool>,
}

impl SpecialNames {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> SpecialNames {
        let names: Vec<String> = names
            .into_iter()
            .filter(|name| name.chars().nth(1).is_some())
            .collect();
        let mut begins = vec![false; 256];
        for name in &names {
            let first = name.as_bytes()[0];
            begins[usize::from(first.to_ascii_lowercase())] = true;
            begins[usize::from(first.to_ascii_uppercase())] = true;
        }
        SpecialNames { names, begins }
    }

    /// Where to cut a text so that no piece has a name in it: ascending byte positions between characters.
    /// Case is ignored, because a normalizer may ignore it.
    pub(crate) fn cuts(&self, text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let mut cuts = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            if !self
                .begins
                .get(usize::from(*byte))
                .copied()
                .unwrap_or(false)
            {
                continue;
            }
            let named = |name: &String| {
                bytes[at..]
                    .get(..name.len())
                    .is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
            };
            if self.names.iter().any(named) {
                let first = text[at..].chars().next().map_or(1, char::len_utf8);
                cuts.push(at + first);
            }
        }
        cuts
    }
}

impl Tokenizer {
    /// Whether the name of a special token stands in a text, of which [`Tokenizer::encode_text`] makes only text.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn names_special_tokens(&self, text: &str) -> Result<bool, PromptError> {
        Ok(self.literal_pieces(text)?.len() > 1)
    }

    /// The pieces of a text in which no special token is found, however the tokenizer normalizes them: full-width
    /// letters may be the name of a token to it.
    pub(crate) fn literal_pieces<'a>(&self, text: &'a str) -> Result<Vec<&'a str>, PromptError> {
        let mut left = pieces(text, &self.special_names.cuts(text));
        if self.normalized_special.is_empty() {
            return Ok(left);
        }
        left.reverse();
        let mut done = Vec::with_capacity(left.len());
        while let Some(piece) = left.pop() {
            match self.normalized_cuts(piece)?.as_slice() {
                [] => done.push(piece),
                cuts => left.extend(pieces(piece, cuts).into_iter().rev()),
            }
        }
        Ok(done)
    }

    /// Behind the first character of each special token that is found in a piece and has more than one.
    fn normalized_cuts(&self, piece: &str) -> Result<Vec<usize>, PromptError> {
        let encoded = guarded(|| self.inner.encode(piece, false)).map_err(PromptError::Encode)?;
        let places = encoded.get_ids().iter().zip(encoded.get_offsets());
        let special = places.filter(|(id, _)| self.normalized_special.contains(id));
        let cut = |(_, (begin, end)): (&u32, &(usize, usize))| {
            let first = piece.get(*begin..*end)?.chars().next()?;
            let cut = begin + first.len_utf8();
            (cut < *end).then_some(cut)
        };
        Ok(special.filter_map(cut).collect())
    }
}

/// The pieces of a text between cuts.
fn pieces<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut pieces = Vec::with_capacity(cuts.len() + 1);
    let mut start = 0;
    for cut in cuts {
        pieces.push(&text[start..*cut]);
        start = *cut;
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ChatMessage;

    fn names() -> SpecialNames {
        SpecialNames::new(["<|eos|>", "<|user|>", "[CLS]", "é!", "x"].map(String::from))
    }

    #[test]
    fn names_are_cut_behind_their_first_character() {
        for (text, wanted) in [
            ("a<|eos|>b", &["a<", "|eos|>b"][..]),
            ("<|user|><|eos|>", &["<", "|user|><", "|eos|>"]),
            ("[cls] é! x", &["[", "cls] é", "! x"]),
            ("<|eos|", &["<|eos|"]),
            ("", &[""]),
        ] {
            assert_eq!(pieces(text, &names().cuts(text)), wanted);
        }
    }

    /// A tokenizer that reads full-width letters as plain ones, before it looks for `<eos>` but not for `<sep>`.
    fn normalizing() -> Tokenizer {
        let added = |id: u32, name: &str, normalized: bool| {
            json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": normalized, "special": true})
        };
        let mut vocabulary = json!({"<eos>": 0, "<sep>": 1, "<unk>": 2});
        for (name, id) in "<>eosp ".chars().zip(3..) {
            vocabulary[name.to_string()] = json!(id);
        }
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [added(0, "<eos>", true), added(1, "<sep>", false), added(2, "<unk>", true)],
            "normalizer": {"type": "NFKC"}, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocabulary, "merges": []},
        });
        Tokenizer::from_parts(tokenizer.to_string().as_bytes(), None, None).unwrap()
    }

    #[test]
    fn a_name_that_only_the_normalizer_makes_is_text_too() {
        let tokenizer = normalizing();
        assert_eq!(tokenizer.encode("＜eos＞").unwrap(), [0]);
        let text = [3, 5, 6, 7, 4];
        for name in ["<eos>", "＜eos＞", "<ｅos>", "＜ｅｏｓ＞"] {
            assert_eq!(tokenizer.encode_literal(name).unwrap(), text, "{name}");
            assert_eq!(tokenizer.count(name).unwrap(), 5, "{name}");
            assert_eq!(tokenizer.truncate(name, 5).unwrap(), name);
            let message = ChatMessage {
                role: "user",
                content: &format!("{name} {name}"),
            };
            let ids = tokenizer.encode_chat(&[message]).unwrap();
            assert!(!ids.contains(&0), "{name}: {ids:?}");
        }
        assert_eq!(
            tokenizer.encode_literal("＜sep＞").unwrap(),
            [3, 7, 5, 8, 4]
        );
        // What the tokenizer does not know stays one unknown token.
        assert_eq!(tokenizer.encode_literal("漢字").unwrap(), [2]);
        let many = "＜eos＞".repeat(2000);
        assert_eq!(tokenizer.encode_literal(&many).unwrap(), text.repeat(2000));
    }

    proptest! {
        #[test]
        fn no_piece_has_a_name_and_joined_they_are_the_text(text in "([<|eos>éx! ]|<\\|eos\\|>){0,24}") {
            let pieces = pieces(&text, &names().cuts(&text));
            prop_assert_eq!(pieces.concat(), text.as_str());
            for piece in pieces {
                prop_assert!(!piece.contains("<|eos|>") && !piece.contains("é!"));
            }
        }
    }
}
