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

    /// The text without it: servers repeat keys in their errors.
    pub(crate) fn struck_from(&self, text: &str) -> String {
        match self.0.trim() {
            "" => text.to_owned(),
            secret => text.replace(secret, "***"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
