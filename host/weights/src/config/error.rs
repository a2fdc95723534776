//! Why a model's configuration was not accepted.

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
            value: value.to_string(),
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
            value: value.to_string(),
            limit: limit.into(),
        }
    }
}
