//! What is counted at the two ends of a pipeline, and of its cuts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::meters::Counter;
use crate::metrics::{Exposition, Gauge, table};

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
    /// Records that lie unread before all workers.
    pub unread_records: Known,
    /// Bytes that do.
    pub unread_bytes: Known,
    /// Event time of the record that was read last, microseconds since 1970; 0 if none had any.
    event_time: AtomicI64,
}

/// A number that several know a part of, once one does.
#[derive(Debug, Default)]
pub struct Known {
    number: Gauge,
    is_known: AtomicBool,
}

impl Known {
    /// One knew this much of it before, and knows this much now.
    pub fn change(&self, before: Option<u64>, now: Option<u64>) {
        self.number
            .change(before.unwrap_or_default(), now.unwrap_or_default());
        if now.is_some() {
            self.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// What is known.
    pub fn get(&self) -> Option<u64> {
        let known = self.is_known.load(Ordering::Relaxed);
        known.then(|| self.number.get())
    }
}

impl SourceMeters {
    pub(crate) fn new(name: &str) -> SourceMeters {
        SourceMeters {
            name: name.to_owned(),
            records: Counter::default(),
            rejected: Counter::default(),
            bytes: Counter::default(),
            unread_records: Known::default(),
            unread_bytes: Known::default(),
            event_time: AtomicI64::new(0),
        }
    }

    /// Event time of the record that was read last, if it has one; microseconds since 1970.
    pub fn read_of(&self, event_time: Option<i64>) {
        if let Some(time) = event_time {
            self.event_time.store(time, Ordering::Relaxed);
        }
    }

    /// How far the source is behind: nothing once all of it is read, else the age of what was read last, if records say
    /// when they arose.
    pub fn behind(&self) -> Option<Duration> {
        let unread = [self.unread_records.get(), self.unread_bytes.get()];
        let time = self.event_time.load(Ordering::Relaxed);
        if time == 0 {
            return None;
        }
        if unread.contains(&Some(0)) {
            return Some(Duration::ZERO);
        }
        let age = microseconds_now().saturating_sub(time);
        Some(Duration::from_micros(u64::try_from(age).unwrap_or(0)))
    }

    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        let name = [self.name.as_str()];
        exposition.add(&table::SOURCE_RECORDS, &name, self.records.get());
        exposition.add(&table::SOURCE_REJECTED, &name, self.rejected.get());
        exposition.add(&table::SOURCE_BYTES, &name, self.bytes.get());
        if let Some(records) = self.unread_records.get() {
            exposition.add(&table::SOURCE_LAG_RECORDS, &name, records);
        }
        if let Some(bytes) = self.unread_bytes.get() {
            exposition.add(&table::SOURCE_LAG_BYTES, &name, bytes);
        }
        if let Some(behind) = self.behind() {
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
    fn a_source_is_behind_by_the_age_of_what_was_read_until_all_of_it_is() {
        let source = SourceMeters::new("in");
        assert_eq!(source.behind(), None, "no record says when it arose");
        source.read_of(Some(microseconds_now() - 3_600_000_000));
        source.unread_records.change(None, Some(5));
        let behind = source.behind().unwrap();
        assert!(behind >= Duration::from_secs(3600), "{behind:?}");
        // Two workers, each with partitions of its own.
        source.unread_records.change(None, Some(2));
        source.unread_records.change(Some(5), Some(0));
        assert_eq!(source.unread_records.get(), Some(2));
        assert!(source.behind().unwrap() > Duration::ZERO);
        source.unread_records.change(Some(2), Some(0));
        assert_eq!(source.behind(), Some(Duration::ZERO));
    }

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
