//! Where records come from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_record::Batch;

use crate::commit::KeptPosition;

/// A partition of a source: one file, or one partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// Number of the partition in the source.
    pub number: u32,
}

impl Partition {
    /// What a source with this partition alone answers to whoever asks it something of `asked`: an error, if that is
    /// another one. `what` is what it reads: `ingest`.
    pub fn is_asked(self, asked: Partition, what: &str) -> Result<(), SourceError> {
        if asked == self {
            return Ok(());
        }
        Err(SourceError::Read {
            place: format!("source {} partition {}", asked.source, asked.number),
            why: format!(
                "{what} is partition {} of source {} only",
                self.number, self.source
            ),
        })
    }
}

/// Input that could not become a record: not UTF-8, not JSON, too long, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Where it is: a Kafka offset, or the byte at which its line begins.
    pub offset: u64,
    /// What is wrong, with the value and the limit.
    pub reason: String,
    /// Its key, if it came with one, cut to at most 64 KiB.
    pub key: Option<Vec<u8>>,
    /// The input, cut to at most 64 KiB.
    pub preview: Vec<u8>,
    /// The whole length of the input in bytes.
    pub length: u64,
    /// The headers it came with; none if they are no text or exceed 64 KiB.
    pub headers: Option<Vec<(String, Option<Vec<u8>>)>>,
    /// The time it came with, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// Private attributes that it had, and that are lost with it.
    pub private: u64,
}

/// A partition that is read here from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The partition.
    pub partition: Partition,
    /// Where it begins as far as the source knows, if it keeps positions by itself.
    pub kept: Option<KeptPosition>,
}

/// Everything of a partition before a position is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The partition.
    pub partition: Partition,
    /// The lowest position that is not done.
    pub position: u64,
    /// Whether something behind it was read and waits.
    pub waits: bool,
    /// What is kept with it, see [`Mark`](crate::Mark).
    pub metadata: String,
}

/// What a source has to say.
#[derive(Debug)]
pub enum SourceEvent {
    /// These partitions are now read here; a task is made for each. Sent before any record of theirs. An empty list says
    /// that there is none to wait for: others have read what was to be read.
    Assigned(Vec<Assigned>),
    /// These partitions are no longer read here. What is not committed when the call returns is lost to this worker
    /// and will be read again elsewhere.
    Revoked(Vec<Partition>),
    /// Records of one partition, in order, and what stood between them and could not become a record.
    Records {
        /// Their partition.
        partition: Partition,
        /// The records; may be empty if everything was rejected.
        batch: Batch,
        /// Input that could not become a record.
        rejected: Vec<Rejected>,
        /// The position after this batch: where reading goes on if everything before it is done.
        next: u64,
    },
    /// The partition is read to its end (of a bounded source, or of a topic as it stood at the start with
    /// `--until now`). Sent once.
    End(Partition),
    /// Nothing came within the wait.
    Idle,
}

/// What of a partition lies unread before a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Number of the partition.
    pub partition: u32,
    /// How much.
    pub unread: Unread,
    /// When the end was there that this is counted to.
    pub known: Instant,
}

/// So much lies unread, in what the source counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// So many records.
    Records(u64),
    /// So many bytes.
    Bytes(u64),
}

/// A worker's view of one source. It is polled by that worker's thread alone.
///
/// Implementations bound what they hold, and `poll` returns within `wait` (plus the time of one read).
pub trait Source: Send {
    /// The next event; `records` and `bytes` bound a batch (one record may exceed `bytes`).
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError>;

    /// Reading of an assigned partition goes on at this position. Called after `Assigned` when the cuts know
    /// better than the source. One whose positions nobody keeps is never told, and refuses.
    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        Err(SourceError::Position {
            place: format!("partition {}", partition.number),
            position,
            why: "what went by cannot be read again".into(),
        })
    }

    /// The partition gives no records until it is resumed; one that is paused between `Assigned` and the next poll gives
    /// none at all. That it has ended may be told meanwhile.
    fn pause(&mut self, partition: Partition) -> Result<(), SourceError>;

    /// The partition gives records again.
    fn resume(&mut self, partition: Partition) -> Result<(), SourceError>;

    /// What is done, to be kept. A source that keeps no positions does nothing. [`SourceError::NotYet`] is no end: the
    /// same is told again later, until the source's patience is over and it answers with another error.
    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        let _ = done;
        Ok(())
    }

    /// What lies unread in the partitions that are read here; those are left out of which it is not known. Asked now and
    /// then, whoever waits: it takes no longer than a read, and asks nobody outside.
    fn lag(&mut self) -> Vec<Lag> {
        Vec::new()
    }

    /// Called once before the first poll. A source whose records somebody waits for keeps `wake`, calls it from any thread
    /// whenever it has something while it is not being polled, and returns true: the worker may be waiting for something
    /// else. `wake` never blocks.
    fn wakes(&mut self, wake: Arc<dyn Fn() + Send + Sync>) -> bool {
        drop(wake);
        false
    }

    /// Called once before the worker ends, after the last commit.
    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

/// A source that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The input cannot be opened or read.
    #[error("cannot read {place}: {why}")]
    Read {
        /// File and byte, or broker, topic and partition.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// A stored position no longer fits the input, for example because the file was cut.
    #[error("{place} has no position {position}: {why}")]
    Position {
        /// File, or topic and partition.
        place: String,
        /// The position asked for.
        position: u64,
        /// What went wrong.
        why: String,
    },
    /// Positions are not committed, which time can mend.
    #[error("positions are not committed to {place} yet: {why}")]
    NotYet {
        /// Broker and group.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// Positions could not be committed.
    #[error("cannot commit positions to {place}: {why}")]
    Commit {
        /// Broker and group.
        place: String,
        /// What went wrong.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_one_partition_refuses_every_other_by_name() {
        let own = Partition {
            source: 2,
            number: 0,
        };
        assert!(own.is_asked(own, "ingest").is_ok());
        for (other, told) in [
            (Partition { number: 1, ..own }, "source 2 partition 1"),
            (Partition { source: 3, ..own }, "source 3 partition 0"),
        ] {
            let refused = own.is_asked(other, "ingest").unwrap_err().to_string();
            let why = "ingest is partition 0 of source 2 only";
            assert_eq!(refused, format!("cannot read {told}: {why}"));
        }
    }
}
