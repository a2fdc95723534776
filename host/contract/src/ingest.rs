//! The ingest log: records that clients handed over, kept until the pipeline is done with them.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// A record as a client handed it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestRecord {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers: name and value.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its event time, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
}

/// What tells a repeated batch from a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Digest of the key and of all it is valid for: who asks, and which source.
    pub key: [u8; 32],
    /// Digest of what came with it. The same key with something else is a mistake of the client.
    pub body: [u8; 32],
}

/// Records that are kept together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestBatch {
    /// The records, at least one.
    pub records: Vec<IngestRecord>,
    /// What makes a repetition known.
    pub idempotency: Option<IdempotencyKey>,
}

/// A batch that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// Offset of its first record.
    pub first: u64,
    /// How many records it has.
    pub count: u32,
    /// It was kept before, under the same idempotency key, and is not kept again.
    pub replayed: bool,
}

/// A record with its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Its offset: records are counted from 0, without a gap.
    pub offset: u64,
    /// The record.
    pub record: IngestRecord,
}

/// A log of records of one source. Calls block, at most for the time of a few writes and syncs or until a deadline of the
/// log's own: not to be made on a thread that serves others.
pub trait IngestLog: Send + Sync + Debug {
    /// Keeps the batch: durable when this returns, and not before. After an error it may be kept or not, but not twice
    /// under one idempotency key.
    fn append(&self, batch: &IngestBatch) -> Result<Ingested, IngestError>;

    /// The batch that is kept under this key, if one is known to be.
    fn kept(&self, key: &[u8; 32]) -> Option<Ingested> {
        let _ = key;
        None
    }

    /// Records from this offset on, in order; at most so many, and of so many bytes (one record may exceed them). None if
    /// the log ends there.
    fn read(
        &self,
        from: u64,
        records: usize,
        bytes: usize,
    ) -> Result<Vec<LoggedRecord>, IngestError>;

    /// Waits until there is a record at this offset. Returns whether there is.
    fn wait(&self, offset: u64, wait: Duration) -> bool;

    /// Offsets that can be read. The end is where the next record goes.
    fn offsets(&self) -> Range<u64>;

    /// Records before this offset are read no more. What only they are in is let go of.
    fn done(&self, offset: u64) -> Result<(), IngestError>;

    /// What tells this log from another one of the same name.
    fn identity(&self) -> String;
}

/// An ingest log that cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// There is no room until the pipeline is done with more.
    #[error("batch of {batch} bytes does not fit: {held} of {limit} bytes wait in the ingest log")]
    Full {
        /// Bytes of the batch.
        batch: u64,
        /// Bytes that wait.
        held: u64,
        /// The limit.
        limit: u64,
    },
    /// The batch alone exceeds what the log takes.
    #[error("batch of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Bytes of the batch.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The batch has no records, or more than can be counted.
    #[error("batch of {records} records is not between 1 and {limit}")]
    Records {
        /// Records of the batch.
        records: usize,
        /// The limit.
        limit: u32,
    },
    /// The idempotency key came with something else before.
    #[error("the idempotency key was used with another body")]
    OtherBody,
    /// The disk did not answer. The batch may be kept or not.
    #[error("the ingest log did not answer for {seconds} seconds; the batch may be kept or not")]
    Slow {
        /// How long.
        seconds: u64,
    },
    /// There is nothing at this offset.
    #[error("the ingest log {place} has no offset {offset}: it has {} to {}", held.start, held.end)]
    Offset {
        /// The log.
        place: String,
        /// The offset asked for.
        offset: u64,
        /// What it has.
        held: Range<u64>,
    },
    /// The log cannot be read.
    #[error("cannot read the ingest log {place}: {why}")]
    Read {
        /// The file.
        place: String,
        /// What went wrong, and at which byte.
        why: String,
    },
    /// The log cannot be written.
    #[error("cannot write the ingest log {place}: {why}")]
    Write {
        /// The file.
        place: String,
        /// What went wrong.
        why: String,
        /// What the disk said of it.
        kind: io::ErrorKind,
    },
}
