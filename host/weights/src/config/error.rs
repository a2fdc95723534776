//! Why a model's configuration was not accepted.

/// Characters of a value in a message.
const LONGEST_VALUE: usize = 80;

/// Why a model's configuration was not accepted. The caller knows which file it stands in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A key is absent and has no default.
    #[error("key `{key}` is missing")]
    Missing {
        /// The key.
        key: String,
    },
    /// A key has a value that is not implemented.
    #[error("`{key}` is {value}, supported: {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be accepted.
        supported: String,
    },
    /// A key has a value that cannot be right.
    #[error("`{key}` is {value}, must be {limit}")]
    OutOfRange {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        limit: String,
    },
    /// It is in a file beside the configuration.
    #[error("{file}: {source}")]
    Beside {
        /// Where that lies from the configuration.
        file: &'static str,
        /// What is wrong there.
        source: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The same of a file beside the configuration.
    pub(crate) fn beside(self, file: &'static str) -> Self {
        ConfigError::Beside {
            file,
            source: Box::new(self),
        }
    }

    pub(crate) fn missing(key: impl Into<String>) -> Self {
        ConfigError::Missing { key: key.into() }
    }

    pub(crate) fn unsupported(
        key: impl Into<String>,
        value: impl ToString,
        supported: impl Into<String>,
    ) -> Self {
        ConfigError::Unsupported {
            key: key.into(),
            value: cut(&value.to_string(), LONGEST_VALUE),
            supported: supported.into(),
        }
    }

    pub(crate) fn out_of_range(
        key: impl Into<String>,
        value: impl ToString,
        limit: impl Into<String>,
    ) -> Self {
        ConfigError::OutOfRange {
            key: key.into(),
            value: cut(&value.to_string(), LONGEST_VALUE),
            limit: limit.into(),
        }
    }
}

/// A value for a message, in one line and of at most so many characters: what a file says may be as long as the file.
pub(crate) fn cut(value: &str, most: usize) -> String {
    let mut characters = value.chars();
    let mut text = String::new();
    for character in characters.by_ref().take(most) {
        match character.is_control() {
            true => text.extend(character.escape_default()),
            false => text.push(character),
        }
    }
    if characters.next().is_some() {
        text.push_str("...");
    }
    text
}
