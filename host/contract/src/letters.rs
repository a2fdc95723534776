//! Dead letters where they were written, to be looked at again.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Instant;

/// A letter as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenLetter {
    /// Where it is: in a file the byte at which it begins; in a topic its partition and offset, `0.17`.
    pub place: String,
    /// Its bytes; none if they are more than can be looked at.
    pub bytes: Option<Vec<u8>>,
    /// How many it has.
    pub length: u64,
}

/// Where dead letters go, for whoever reads them. Only those that a cut has are there. Calls block, until a deadline.
pub trait LetterStore: Send + Sync + Debug {
    /// What it is, for a person: `file /srv/dead-letters.jsonl`.
    fn name(&self) -> String;

    /// Shows letters from the newest to the oldest: those before this cursor, or all. It ends when `look` breaks, at the
    /// deadline, and after so many bytes as one call reads. Returns the cursor to go on with, if there are older ones.
    fn newest(
        &self,
        before: Option<&str>,
        until: Instant,
        look: &mut dyn FnMut(WrittenLetter) -> ControlFlow<()>,
    ) -> Result<Option<String>, LetterError>;

    /// The letter at this place, if there is one.
    fn find(&self, place: &str, until: Instant) -> Result<Option<WrittenLetter>, LetterError>;
}

/// Dead letters that cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LetterError {
    /// The cursor is none of this store.
    #[error("{0:?} is no cursor of a page")]
    Cursor(String),
    /// They cannot be read.
    #[error("cannot read the dead letters in {place}: {why}")]
    Read {
        /// The file, or broker and topic.
        place: String,
        /// What went wrong.
        why: String,
    },
}
