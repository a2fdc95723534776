//! The name of an operator, and how languages write it.

use std::fmt;

/// Most bytes of a name.
const BYTES: usize = 64;

/// An operator's name: `redact-pii`. Lower-case words of letters and digits with a hyphen between them, the first of which
/// begins with a letter; at most 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has characters or hyphens where none may be.
    #[error(
        "{name:?} is no operator's name: write lower-case words with hyphens between, {right:?}"
    )]
    Form {
        /// The text.
        name: String,
        /// A name that is near to it.
        right: String,
    },
    /// It is too long.
    #[error("the name has {bytes} bytes, limit {BYTES}")]
    Long {
        /// How many it has.
        bytes: usize,
    },
}

impl Name {
    /// Takes a text for a name.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.len() > BYTES {
            return Err(NameError::Long { bytes: text.len() });
        }
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if text.split('-').all(word) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Ok(Name(text.to_owned()));
        }
        Err(NameError::Form {
            name: text.to_owned(),
            right: nearest(text),
        })
    }

    /// `redact-pii`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `redact_pii`, for a file of Python or a function.
    pub fn snake(&self) -> String {
        self.0.replace('-', "_")
    }

    /// `RedactPii`, for a type.
    pub fn camel(&self) -> String {
        let capital = |word: &str| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        self.0.split('-').map(capital).collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that somebody may have meant: `RedactPII 2` becomes `redact-pii-2`.
fn nearest(text: &str) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for letter in text.chars() {
        let is_word =
            letter.is_ascii_alphanumeric() && (!name.is_empty() || letter.is_alphabetic());
        let begins = !is_word || (letter.is_ascii_uppercase() && was_lower);
        if begins && !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if is_word {
            name.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    match name.trim_end_matches('-') {
        "" => "redact-pii".to_owned(),
        name => name.to_owned(),
    }
}
