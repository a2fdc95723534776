//! Dead letters where they were written, to be looked at again, and what of them nobody may read.

use std::fmt::{self, Debug};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use tidegate_record::Pairs;

use crate::commit::EntryCipher;

/// Most bytes of the private attributes that a dead letter keeps.
pub const LETTER_PRIVATE: usize = 256 << 10;

/// Private attributes, opened: names and values.
pub type PrivateAttributes = Vec<(String, Option<Vec<u8>>)>;

/// What private attributes are sealed for: they can be moved to no other letter, and to no other value of this one.
#[derive(Clone, Copy, Debug)]
pub struct SealedFor<'a> {
    /// What says which letter it is, as [`letter_name`](SealedFor::letter_name) makes it.
    pub letter: &'a str,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
}

impl SealedFor<'_> {
    /// Which letter it is. `record` is the record's id as text, `at` the time of the letter.
    pub fn letter_name(pipeline: &str, record: &str, stage: &str, at: i64) -> String {
        let lengths = [pipeline.len(), record.len(), stage.len()];
        format!("{lengths:?} {pipeline}{record}{stage} {at}")
    }

    fn name(&self) -> Vec<u8> {
        let mut name = b"private attributes of a dead letter".to_vec();
        for part in [Some(self.letter.as_bytes()), self.key, self.value] {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            name.extend_from_slice(&length.to_le_bytes());
            name.extend_from_slice(part.unwrap_or_default());
        }
        name
    }
}

/// Seals private attributes with the key of the state, so that a letter can have them.
#[derive(Clone)]
pub struct LetterSeal(Arc<dyn EntryCipher>);

impl LetterSeal {
    /// With this key.
    pub fn new(cipher: Arc<dyn EntryCipher>) -> LetterSeal {
        LetterSeal(cipher)
    }

    /// Seals them. None if they are more than a letter keeps, or the system gives no randomness.
    pub fn seal(&self, letter: &SealedFor<'_>, attributes: Pairs<'_>) -> Option<Vec<u8>> {
        let block = attributes.as_bytes();
        if block.len() > LETTER_PRIVATE {
            return None;
        }
        let mut plain = attributes.number().to_le_bytes().to_vec();
        plain.extend_from_slice(block);
        self.0.seal(&letter.name(), &plain)
    }

    /// Opens what was sealed for this letter; none if it was with another key, or for another letter.
    pub fn open(&self, letter: &SealedFor<'_>, sealed: &[u8]) -> Option<PrivateAttributes> {
        let plain = self.0.open(&letter.name(), sealed)?;
        let (number, block) = plain.split_first_chunk()?;
        let pairs = Pairs::read(block, u16::from_le_bytes(*number))?;
        let owned = pairs.map(|pair| (pair.name.to_owned(), pair.value.map(<[u8]>::to_vec)));
        Some(owned.collect())
    }
}

impl Debug for LetterSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LetterSeal(..)")
    }
}

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
