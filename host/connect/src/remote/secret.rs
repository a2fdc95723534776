//! What must not be read in a log.

use std::fmt;

/// A text that is never printed: a key, or the value of a header.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The text without it: servers repeat keys in their errors. What was cut off may end with a part of it.
    pub(crate) fn struck_from(&self, text: &str, is_cut: bool) -> String {
        let secret = self.0.trim();
        if secret.is_empty() {
            return text.to_owned();
        }
        let mut struck = text.replace(secret, "***");
        if is_cut {
            // Half a character at the end is no character of it.
            let whole = struck.trim_end_matches(char::REPLACEMENT_CHARACTER).len();
            struck.truncate(whole);
            let mut parts = secret.char_indices().rev().map(|(end, _)| &secret[..end]);
            let part = parts.find(|part| struck.ends_with(*part));
            struck.truncate(whole - part.map_or(0, str::len));
        }
        struck
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_struck_out_whole_and_where_a_text_was_cut_within_it() {
        let secret = Secret::new(" sk-12345\n");
        let struck = |text| secret.struck_from(text, false);
        assert_eq!(struck("sk-12345, and sk-12345"), "***, and ***");
        assert_eq!(struck("the task"), "the task");
        let cut = |text| secret.struck_from(text, true);
        assert_eq!(cut("no key sk-1234"), "no key ");
        assert_eq!(cut("no key s"), "no key ");
        assert_eq!(cut("no key \u{fffd}"), "no key ");
        assert_eq!(cut("no key sk-12345"), "no key ***");
        assert_eq!(Secret::new("").struck_from("as it was", true), "as it was");
    }
}
