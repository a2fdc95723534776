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
}

impl ConfigError {
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

/// A value for a message, of at most so many characters: what a file says may be as long as the file.
pub(crate) fn cut(value: &str, most: usize) -> String {
    match value.char_indices().nth(most) {
        None => value.to_owned(),
        Some((at, _)) => format!("{}...", &value[..at]),
    }
}
