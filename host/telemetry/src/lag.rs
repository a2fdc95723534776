//! How far a source is behind: told by each worker for the partitions that it reads, put together when somebody looks.
//!
//! A figure ends with its owner: what a worker told is gone when the worker is, and what it told long ago is not known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// What is known counts for so long: three times as long as brokers are left unasked.
const FRESH: Duration = Duration::from_secs(30);

/// How far a worker is with one partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartitionLag {
    /// What lies unread; none if that is not known.
    pub unread: Option<UnreadNow>,
    /// Event time of the record that was read last, microseconds since 1970, if it has one.
    pub event_time: Option<i64>,
}

/// What lies unread in a partition, as of a moment.
#[derive(Clone, Copy, Debug)]
pub struct UnreadNow {
    /// Records, where the source counts them.
    pub records: Option<u64>,
    /// Bytes, where it counts those.
    pub bytes: Option<u64>,
    /// The moment.
    pub known: Instant,
}

impl PartitionLag {
    fn fresh(&self, now: Instant) -> Option<UnreadNow> {
        let is_fresh = |unread: &UnreadNow| now.saturating_duration_since(unread.known) <= FRESH;
        self.unread.filter(is_fresh)
    }

    fn is_all_read(&self, now: Instant) -> bool {
        let unread = self.fresh(now);
        unread.is_some_and(|unread| [unread.records, unread.bytes].contains(&Some(0)))
    }
}

/// None before anything was told.
type Told = Mutex<Option<Vec<PartitionLag>>>;

/// What one worker tells of a source. It is dropped with the worker.
#[derive(Debug)]
pub struct SourcePart(Arc<Told>);

impl SourcePart {
    /// How far the worker is with all partitions that it reads of the source.
    pub fn tell(&self, partitions: Vec<PartitionLag>) {
        *lock(&self.0) = Some(partitions);
    }
}

/// What all workers tell of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceParts(Mutex<Vec<Weak<Told>>>);

impl SourceParts {
    pub(crate) fn part(&self) -> SourcePart {
        let part = Arc::default();
        lock(&self.0).push(Arc::downgrade(&part));
        SourcePart(part)
    }

    /// All partitions that are read; none unless every worker has told.
    pub(crate) fn told(&self) -> Option<Vec<PartitionLag>> {
        let mut parts = lock(&self.0);
        parts.retain(|part| part.strong_count() > 0);
        let mut all = Vec::new();
        for part in parts.iter().filter_map(Weak::upgrade) {
            all.extend(lock(&part).as_ref()?);
        }
        Some(all)
    }
}

/// What lies unread in all of them together, if it is known of every one; none where there is none.
pub(crate) fn unread(
    partitions: &[PartitionLag],
    now: Instant,
    of: fn(&UnreadNow) -> Option<u64>,
) -> Option<u64> {
    let each = partitions.iter().map(|one| of(&one.fresh(now)?));
    let sum = each.sum::<Option<u64>>();
    sum.filter(|_| !partitions.is_empty())
}

/// How far the partition is behind that is most: by the age of what was read of it last, and not at all where nothing lies
/// unread. None where records do not say when they arose. `time` is now, microseconds since 1970.
pub(crate) fn behind(partitions: &[PartitionLag], now: Instant, time: i64) -> Option<Duration> {
    let of = |one: &PartitionLag| {
        let age = time.saturating_sub(one.event_time?);
        Some(match one.is_all_read(now) {
            true => Duration::ZERO,
            false => Duration::from_micros(u64::try_from(age).unwrap_or(0)),
        })
    };
    partitions.iter().filter_map(of).max()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is whole before anything can panic.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn bytes(bytes: u64, known: Instant) -> PartitionLag {
        let unread = UnreadNow {
            records: None,
            bytes: Some(bytes),
            known,
        };
        PartitionLag {
            unread: Some(unread),
            event_time: None,
        }
    }

    fn read(event_time: i64, lag: PartitionLag) -> PartitionLag {
        PartitionLag {
            event_time: Some(event_time),
            ..lag
        }
    }

    #[test]
    fn what_lies_unread_is_known_if_every_worker_knows_its_part_lately() {
        let now = Instant::now();
        let parts = SourceParts::default();
        let sum = |later: u64| {
            let told = parts.told()?;
            unread(&told, now + Duration::from_secs(later), |part| part.bytes)
        };
        assert_eq!(sum(0), None, "nobody reads it");
        let (one, other) = (parts.part(), parts.part());
        one.tell(vec![bytes(5, now), bytes(2, now)]);
        assert_eq!(sum(0), None, "the other has told nothing");
        other.tell(vec![bytes(0, now)]);
        assert_eq!(sum(0), Some(7));
        one.tell(vec![bytes(0, now)]);
        assert_eq!(sum(0), Some(0));
        one.tell(vec![bytes(9, now)]);
        assert_eq!(
            sum(0),
            Some(9),
            "what comes after everything was read lies unread"
        );
        assert_eq!(sum(60), None, "too long ago");
        other.tell(vec![PartitionLag::default()]);
        assert_eq!(sum(0), None, "a pipe tells nothing");
        drop(other);
        assert_eq!(sum(0), Some(9), "who ended has nothing");
        let told = parts.told().unwrap();
        assert_eq!(
            unread(&told, now, |part| part.records),
            None,
            "bytes are no records"
        );
    }

    #[test]
    fn a_source_is_behind_as_its_last_partition_is_whichever_was_read_last() {
        let now = Instant::now();
        let behind = |partitions: &[PartitionLag]| {
            let behind = behind(partitions, now, 10 * HOUR)?;
            Some(behind.as_secs() / 3600)
        };
        let (some, none) = (bytes(5, now), bytes(0, now));
        assert_eq!(behind(&[some, none]), None, "no record says when it arose");
        let current = read(10 * HOUR, some);
        assert_eq!(behind(&[read(8 * HOUR, some), current]), Some(2));
        assert_eq!(behind(&[current, read(8 * HOUR, some)]), Some(2));
        assert_eq!(
            behind(&[read(3 * HOUR, none), current]),
            Some(0),
            "read to its end"
        );
        assert_eq!(behind(&[read(3 * HOUR, none), some]), Some(0));
        let unknown = PartitionLag::default();
        assert_eq!(behind(&[read(9 * HOUR, unknown)]), Some(1), "a pipe");
        let Some(long_ago) = now.checked_sub(Duration::from_secs(60)) else {
            return;
        };
        let old = bytes(0, long_ago);
        assert_eq!(
            behind(&[read(9 * HOUR, old)]),
            Some(1),
            "more may have come"
        );
    }
}
