//! What can go wrong: with the vocabulary, with a structure, and while an answer follows it.

use std::time::Duration;

/// Why a vocabulary, a structure or a token was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// The vocabulary cannot be used.
    #[error("vocabulary: {0}")]
    Vocabulary(String),
    /// The structure is not what it should be, or asks for what cannot be.
    #[error("{kind}: {reason}")]
    Structure {
        /// What it should be: `JSON Schema`, `regular expression`, `choices` or `grammar`.
        kind: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
    /// The structure's text is too long.
    #[error("{kind} of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLong {
        /// What it is.
        kind: &'static str,
        /// Bytes of its text.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The structure takes too long to compile.
    #[error("{kind} is not compiled after {limit:?}")]
    TooSlow {
        /// What it is.
        kind: &'static str,
        /// The longest time.
        limit: Duration,
    },
    /// As many structures are being compiled as may be at once.
    #[error("{limit} structures are being compiled already")]
    Busy {
        /// The most at once.
        limit: usize,
    },
    /// The system has no thread to compile it on.
    #[error("no thread to compile the structure: {0}")]
    NoThread(String),
    /// A token cannot come at its place. The matcher is as it was.
    #[error("token {token} at {at} is not what the structure asks for")]
    Refused {
        /// The token.
        token: u32,
        /// How many tokens were accepted before it.
        at: usize,
    },
    /// No token of the vocabulary can follow, and the text may not end: the vocabulary has no tokens for some bytes.
    #[error("no token can follow the {at} before")]
    DeadEnd {
        /// How many tokens were accepted.
        at: usize,
    },
    /// More tokens were to be taken back than were accepted.
    #[error("{tokens} tokens cannot be taken back, {accepted} were accepted")]
    Rollback {
        /// How many were to be taken back.
        tokens: usize,
        /// How many were accepted.
        accepted: usize,
    },
    /// The mask has no room for the vocabulary.
    #[error("mask of {words} words is too short for a vocabulary of {needed} words")]
    Mask {
        /// Words of the mask.
        words: usize,
        /// Words of the vocabulary.
        needed: usize,
    },
    /// A limit was reached while the answer followed the structure.
    #[error("structure is too complex: {0}")]
    TooComplex(String),
}

/// Longest reason that is kept of the library's messages, in bytes.
const LONGEST_REASON: usize = 600;

/// The library's message without what only its authors can read.
pub(crate) fn reason(message: &str) -> String {
    let end = ["\n<state>", "\n<non-verbose", "\n<backtrace>"]
        .iter()
        .filter_map(|mark| message.find(mark))
        .min()
        .unwrap_or(message.len());
    let message = message[..end].trim_end();
    // It catches its own panics; for us they are one more way to refuse.
    let message = match message.strip_prefix("panic: ") {
        Some(said) => &format!("not understood: {said}"),
        None => message,
    };
    let kept = message.floor_char_boundary(LONGEST_REASON);
    if kept < message.len() {
        format!("{} ...", &message[..kept])
    } else {
        message.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_without_the_librarys_state() {
        assert_eq!(reason("no way\n<state>\nTokens: ..."), "no way");
        assert_eq!(
            reason("panic: x\n<backtrace>\n0: main"),
            "not understood: x"
        );
        let long = reason(&"é".repeat(1000));
        assert!(long.len() < 620 && long.ends_with("é ..."));
    }
}
