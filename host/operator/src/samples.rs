//! A few small batches of the running stream, on which a new version must answer before it is deployed.

use std::collections::VecDeque;
use std::sync::Mutex;

use tidegate_record::{Batch, BatchBuilder};

use crate::shared::lock;

/// Batches that are kept.
const KEPT: usize = 4;
/// Records of a batch that are kept.
const RECORDS: usize = 16;
/// A batch with longer records than this in bytes, together, is not kept.
const BYTES: usize = 64 << 10;
/// One batch of so many is looked at.
const EVERY: u64 = 1024;

/// See the module. Samples are only ever held in memory.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    ring: Mutex<VecDeque<Batch>>,
}

impl Samples {
    /// Offers the n-th batch of an instance, counted from 0, which has been answered without failure.
    pub(crate) fn offer(&self, n: u64, batch: &Batch) {
        if n.is_multiple_of(EVERY) {
            self.keep(batch);
        }
    }

    fn keep(&self, batch: &Batch) {
        let view = batch.view();
        let mut builder = BatchBuilder::default();
        for record in view.records().take(RECORDS) {
            if builder.push_record(&record).is_err() || builder.bytes() > BYTES {
                return;
            }
        }
        // Another instance that offers one at this moment is as good.
        if let Ok(mut ring) = self.ring.try_lock() {
            ring.truncate(KEPT - 1);
            ring.push_front(builder.finish(view.clock()));
        }
    }

    pub(crate) fn all(&self) -> Vec<Batch> {
        lock(&self.ring).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_record::NewRecord;

    use super::*;

    fn batch(records: usize, bytes: usize) -> Batch {
        let value = vec![b'x'; bytes];
        let mut builder = BatchBuilder::default();
        for _ in 0..records {
            let record = NewRecord {
                value: Some(&value),
                ..NewRecord::default()
            };
            builder.push(&record).unwrap();
        }
        builder.finish(7)
    }

    #[test]
    fn only_a_few_small_batches_are_kept() {
        let samples = Samples::default();
        for n in 0..10_000 {
            samples.offer(n, &batch(20, 10));
        }
        samples.offer(0, &batch(1, 100_000));
        let all = samples.all();
        assert_eq!(all.len(), KEPT);
        assert!(
            all.iter()
                .all(|batch| batch.len() == RECORDS && batch.view().clock() == 7)
        );
    }
}
