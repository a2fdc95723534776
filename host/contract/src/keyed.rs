//! A log of values by key: small things that outlive the process, each until a time of its own.

use std::fmt::Debug;
use std::io;

/// A value under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedValue {
    /// The key: a digest of whatever names it.
    pub key: [u8; 32],
    /// When it is forgotten, seconds since the Unix epoch.
    pub until: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// A change of what the log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyedChange {
    /// In the place of what its key had.
    Put(KeyedValue),
    /// Its value is forgotten.
    Remove([u8; 32]),
}

/// A log of values by key, in which the newest of each counts. Calls block for the time of a few writes and syncs.
pub trait KeyedLog: Send + Debug {
    /// Writes these changes, in their order. They outlive the process when this returns, and with `durable` the machine,
    /// too. After an error each of them may be there or not. What is to be forgotten by `now` (seconds since the Unix
    /// epoch) takes no room any longer. Returns what the log turned out to have lost of what it had before.
    fn write(
        &mut self,
        changes: &[KeyedChange],
        durable: bool,
        now: u64,
    ) -> Result<Option<KeyedLoss>, KeyedLogError>;
}

/// Values that a log had and that cannot be read any more. Whoever still knows them may write them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedLoss {
    /// Their keys.
    pub keys: Vec<[u8; 32]>,
    /// Where and why, for a person.
    pub why: String,
}

/// A log of values by key that cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyedLogError {
    /// It cannot be read.
    #[error("cannot read {place}: {why}")]
    Read {
        /// The file.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// It cannot be written.
    #[error("cannot write {place}: {why}")]
    Write {
        /// The file.
        place: String,
        /// What went wrong.
        why: String,
        /// What the disk said of it.
        kind: io::ErrorKind,
    },
    /// The value is longer than a log can count.
    #[error("a value of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Bytes of the value.
        bytes: usize,
        /// The limit.
        limit: u32,
    },
}
