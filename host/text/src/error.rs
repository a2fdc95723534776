//! What can go wrong, by operation: loading the files, and making a prompt.

use std::path::PathBuf;

/// Why a tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file is missing or cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is larger than any tokenizer's.
    #[error("{}: {bytes} bytes exceed the limit of {limit} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size that is read, in bytes.
        limit: u64,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// One field of a file is wrong.
    #[error("{}: {field}: {reason}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The field.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The vocabulary of a GGUF file is wrong.
    #[error("{key}: {reason}")]
    Gguf {
        /// The key in the file.
        key: String,
        /// What is wrong with its value.
        reason: String,
    },
}

/// Why a tokenizer could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The library cannot write it as JSON.
    #[error("tokenizer cannot be written as JSON: {0}")]
    Form(String),
    /// A file cannot be written.
    #[error("{}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why text could not be made into tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The template itself refused the messages, by `raise_exception`.
    #[error("chat template refused the messages: {0}")]
    Refused(String),
    /// The template failed on the messages.
    #[error("chat template failed: {0}")]
    Template(String),
    /// The tokenizer failed on the text.
    #[error("tokenizer failed: {0}")]
    Encode(String),
    /// The tokenizer's post-processor does not say how two texts become one.
    #[error(
        "the tokenizer has no template for pairs of texts (a post_processor in tokenizer.json)"
    )]
    NoPairs,
}
