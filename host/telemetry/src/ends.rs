//! What is counted at the two ends of a pipeline, and of its cuts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::lag::{SourcePart, SourceParts, behind, unread};
use crate::meters::Counter;
use crate::metrics::{Exposition, table};

/// The counters of one source.
#[derive(Debug)]
pub struct SourceMeters {
    /// Its name.
    pub name: String,
    /// Records that were decoded.
    pub records: Counter,
    /// Input that could not become a record.
    pub rejected: Counter,
    /// Bytes of the batches that were read, as they are in memory.
    pub bytes: Counter,
    /// How far its workers are.
    parts: SourceParts,
}

/// How far a source is behind, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLag {
    /// Records that lie unread.
    pub records: Option<u64>,
    /// Bytes that do.
    pub bytes: Option<u64>,
    /// By the event times of its records.
    pub behind: Option<Duration>,
}

impl SourceMeters {
    pub(crate) fn new(name: &str) -> SourceMeters {
        SourceMeters {
            name: name.to_owned(),
            records: Counter::default(),
            rejected: Counter::default(),
            bytes: Counter::default(),
            parts: SourceParts::default(),
        }
    }

    /// For one worker, to tell how far it is.
    pub fn part(&self) -> SourcePart {
        self.parts.part()
    }

    /// How far its workers are together.
    pub fn lag(&self) -> SourceLag {
        let Some(told) = self.parts.told() else {
            return SourceLag::default();
        };
        let now = Instant::now();
        SourceLag {
            records: unread(&told, now, |part| part.records),
            bytes: unread(&told, now, |part| part.bytes),
            behind: behind(&told, now, microseconds_now()),
        }
    }

    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let name = [self.name.as_str()];
        exposition.add(&table::SOURCE_RECORDS, &name, self.records.get());
        exposition.add(&table::SOURCE_REJECTED, &name, self.rejected.get());
        exposition.add(&table::SOURCE_BYTES, &name, self.bytes.get());
        let lag = self.lag();
        if let Some(records) = lag.records {
            exposition.add(&table::SOURCE_LAG_RECORDS, &name, records);
        }
        if let Some(bytes) = lag.bytes {
            exposition.add(&table::SOURCE_LAG_BYTES, &name, bytes);
        }
        if let Some(behind) = lag.behind {
            exposition.add(&table::SOURCE_LAG_SECONDS, &name, behind);
        }
    }
}

/// The counters of one sink.
#[derive(Debug)]
pub struct SinkMeters {
    /// Its name.
    pub name: String,
    /// Records that were written.
    pub records: Counter,
    /// Bytes of them.
    pub bytes: Counter,
    /// Records that it refused.
    pub failed: Counter,
}

impl SinkMeters {
    pub(crate) fn new(name: &str) -> SinkMeters {
        SinkMeters {
            name: name.to_owned(),
            records: Counter::default(),
            bytes: Counter::default(),
            failed: Counter::default(),
        }
    }

    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let name = [self.name.as_str()];
        exposition.add(&table::SINK_RECORDS, &name, self.records.get());
        exposition.add(&table::SINK_BYTES, &name, self.bytes.get());
        exposition.add(&table::SINK_FAILED, &name, self.failed.get());
    }
}

/// Until when everything that a worker did is in cuts that hold. It tells that now and then; when it ends there is nothing
/// to tell.
#[derive(Debug)]
pub struct CutClock(Arc<AtomicU64>);

/// What [`CutClock`] tells, for whoever looks.
#[derive(Debug)]
pub(crate) struct Settled(Arc<AtomicU64>);

const NOBODY: u64 = u64::MAX;

impl CutClock {
    pub(crate) fn new(now: Duration) -> (CutClock, Settled) {
        let until = Arc::new(AtomicU64::new(milliseconds(now)));
        (CutClock(until.clone()), Settled(until))
    }

    /// Everything until then is.
    pub fn settled(&self, until: Duration) {
        self.0.fetch_max(milliseconds(until), Ordering::Relaxed);
    }
}

impl Drop for CutClock {
    fn drop(&mut self) {
        self.0.store(NOBODY, Ordering::Relaxed);
    }
}

impl Settled {
    /// How old the oldest is that may not be.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let until = self.0.load(Ordering::Relaxed);
        (until != NOBODY).then(|| now.saturating_sub(Duration::from_millis(until)))
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NOBODY - 1)
}

/// Microseconds since 1970.
pub(crate) fn microseconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_cut_has_ages_until_its_worker_has_ended() {
        let (clock, settled) = CutClock::new(Duration::from_secs(1));
        let age = || settled.age(Duration::from_secs(9));
        assert_eq!(age(), Some(Duration::from_secs(8)));
        clock.settled(Duration::from_secs(7));
        clock.settled(Duration::from_secs(5));
        assert_eq!(age(), Some(Duration::from_secs(2)));
        drop(clock);
        assert_eq!(age(), None);
    }
}
