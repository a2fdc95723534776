//! Text that must stay text: where the name of a special token occurs in it, it is cut apart.

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

    /// The pieces of a text between its cuts.
    pub(crate) fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::with_capacity(1);
        let mut start = 0;
        for cut in self.cuts(text) {
            pieces.push(&text[start..cut]);
            start = cut;
        }
        pieces.push(&text[start..]);
        pieces
    }

    /// The text with `mark` at its cuts.
    pub(crate) fn marked(&self, text: &str, mark: char) -> String {
        self.pieces(text).join(mark.encode_utf8(&mut [0; 4]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> SpecialNames {
        SpecialNames::new(["<|eos|>", "<|user|>", "[CLS]", "é!", "x"].map(String::from))
    }

    #[test]
    fn names_are_cut_behind_their_first_character() {
        assert_eq!(names().pieces("a<|eos|>b"), ["a<", "|eos|>b"]);
        assert_eq!(
            names().pieces("<|user|><|eos|>"),
            ["<", "|user|><", "|eos|>"]
        );
        assert_eq!(names().pieces("[cls] é! x"), ["[", "cls] é", "! x"]);
        assert_eq!(names().pieces("<|eos|"), ["<|eos|"]);
        assert_eq!(names().pieces(""), [""]);
    }

    proptest! {
        #[test]
        fn no_piece_has_a_name_and_joined_they_are_the_text(text in "([<|eos>éx! ]|<\\|eos\\|>){0,24}") {
            let pieces = names().pieces(&text);
            prop_assert_eq!(pieces.concat(), text.as_str());
            for piece in pieces {
                prop_assert!(!piece.contains("<|eos|>") && !piece.contains("é!"));
            }
        }
    }
}
