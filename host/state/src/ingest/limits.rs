//! How much a log holds, and in how large pieces.

use std::time::Duration;

/// Smallest bound on the bytes of a log.
const LEAST_BYTES: u64 = 4096;
/// Bytes at which a segment is followed by the next at the latest: the last one is in memory, and so is one that is read.
const LARGEST_SEGMENT: u64 = 64 << 20;
/// Segments that a full log has, unless they would be larger than that.
const SEGMENTS: u64 = 512;
/// Least segments of a full log: what is let go of makes room before all of it is done.
const LEAST_SEGMENTS: u64 = 4;

/// What an ingest log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestLimits {
    /// Most bytes of records that wait, on disk.
    pub bytes: u64,
    /// Bytes at which a segment is followed by the next. More in a log of more than 512 such segments, but never more than
    /// 64 MiB, and at most `bytes / 4`.
    pub segment: u64,
    /// Idempotency keys that are remembered.
    pub keys: usize,
    /// How long a call waits for the disk.
    pub patience: Duration,
    /// Nothing stays of records that are done: the segment that is written goes with the others, and the keys with their
    /// batches. Who wants to know a key for longer keeps it elsewhere.
    pub forgets: bool,
}

impl Default for IngestLimits {
    fn default() -> IngestLimits {
        IngestLimits {
            bytes: 1 << 30,
            segment: 4 << 20,
            keys: 1 << 16,
            patience: Duration::from_secs(30),
            forgets: false,
        }
    }
}

impl IngestLimits {
    /// The same with the segments that such a log really has, or why there is none.
    pub(super) fn within(self) -> Result<IngestLimits, String> {
        if self.bytes < LEAST_BYTES {
            return Err(format!(
                "{} bytes is below the least size of an ingest log, {LEAST_BYTES} bytes",
                self.bytes
            ));
        }
        Ok(self.with_segments())
    }

    fn with_segments(self) -> IngestLimits {
        let segment = self.segment.max(self.bytes / SEGMENTS);
        let segment = segment
            .min(LARGEST_SEGMENT)
            .min(self.bytes / LEAST_SEGMENTS);
        IngestLimits { segment, ..self }
    }

    /// Bytes of the longest batch that such a log takes when it is empty. A segment beside it may be in use.
    pub fn longest_batch(&self) -> u64 {
        let limits = self.with_segments();
        limits.bytes - limits.segment
    }
}
