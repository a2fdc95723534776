//! What a worker looks at now and then, as no record tells it: what its sources have unread, and whether its cuts are
//! behind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_contract::{Lag, Partition, Unread};
use tidegate_telemetry::{CutClock, Meters, PartitionLag, SourceMeters, SourcePart, UnreadNow};

use super::Worker;

/// How often.
const INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Watch {
    looked: Option<Instant>,
    /// By source, where it is told how far this worker is.
    parts: Vec<SourcePart>,
    clock: CutClock,
}

impl Watch {
    pub(super) fn new(meters: &Meters) -> Watch {
        Watch {
            looked: None,
            parts: meters.sources().iter().map(SourceMeters::part).collect(),
            clock: meters.cut_clock(),
        }
    }

    /// A cut holds that began so long ago: everything before that is in it.
    pub(super) fn cut_held(&self, meters: &Meters, ago: Duration) {
        self.clock.settled(meters.clock().saturating_sub(ago));
    }
}

impl Worker {
    /// Looks, if it is time.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if (self.watch.looked).is_some_and(|looked| now.duration_since(looked) < INTERVAL) {
            return;
        }
        self.watch.looked = Some(now);
        for (index, (source, part)) in self.sources.iter_mut().zip(&self.watch.parts).enumerate() {
            let tasks = self
                .tasks
                .values()
                .filter(|task| usize::from(task.partition.source) == index);
            let read = tasks.map(|task| (task.partition, task.event_time));
            part.tell(partitions(&source.lag(), read));
        }
        if self.committing.is_none() && !self.has_changes() {
            self.watch.clock.settled(self.output.meters.clock());
        }
    }
}

/// How far the worker is with the partitions of a source: with those that have a task, and with what the source knows of
/// others.
fn partitions(
    lags: &[Lag],
    read: impl Iterator<Item = (Partition, Option<i64>)>,
) -> Vec<PartitionLag> {
    let mut all: BTreeMap<u32, PartitionLag> = BTreeMap::new();
    for lag in lags {
        let (records, bytes) = match lag.unread {
            Unread::Records(records) => (Some(records), None),
            Unread::Bytes(bytes) => (None, Some(bytes)),
        };
        let unread = UnreadNow {
            records,
            bytes,
            known: lag.known,
        };
        all.entry(lag.partition).or_default().unread = Some(unread);
    }
    for (partition, event_time) in read {
        all.entry(partition.number).or_default().event_time = event_time;
    }
    all.into_values().collect()
}
