//! The newest records of an output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What an output keeps, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Most records.
    pub records: usize,
    /// Most bytes of records; also of one alone.
    pub bytes: usize,
    /// Most readers at once.
    pub readers: usize,
}

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        OutputLimits {
            records: 10_000,
            bytes: 16 << 20,
            readers: 256,
        }
    }
}

/// The newest records of an output, in memory. Offsets begin at 1.
#[derive(Debug)]
pub struct OutputLog {
    epoch: String,
    limits: OutputLimits,
    kept: Mutex<Kept>,
    end: watch::Sender<End>,
    readers: Arc<Semaphore>,
}

#[derive(Debug)]
struct Kept {
    records: VecDeque<Bytes>,
    bytes: usize,
    /// Offset of the first.
    first: u64,
}

/// How far an output has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) next: u64,
    pub(super) closed: bool,
}

/// Some records, in order.
#[derive(Debug)]
pub(super) struct Page {
    /// Offset of the first record that is there.
    pub(super) first: u64,
    pub(super) records: Vec<Bytes>,
}

impl OutputLog {
    /// An empty one, of an epoch that no other has. None if the system gives no random numbers.
    pub fn new(limits: OutputLimits) -> Option<Arc<OutputLog>> {
        let mut epoch = [0; 8];
        getrandom::fill(&mut epoch).ok()?;
        let kept = Kept {
            records: VecDeque::new(),
            bytes: 0,
            first: 1,
        };
        let end = End {
            next: 1,
            closed: false,
        };
        Some(Arc::new(OutputLog {
            epoch: epoch.iter().map(|byte| format!("{byte:02x}")).collect(),
            limits,
            kept: Mutex::new(kept),
            end: watch::Sender::new(end),
            readers: Arc::new(Semaphore::new(limits.readers)),
        }))
    }

    /// What ids begin with.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// What it keeps.
    pub fn limits(&self) -> OutputLimits {
        self.limits
    }

    /// There is no more to come: readers end once they have seen what is there.
    pub fn close(&self) {
        self.end.send_modify(|end| end.closed = true);
    }

    /// Shows these records, and lets go of the oldest.
    pub(super) fn publish(&self, records: impl IntoIterator<Item = Bytes>) {
        let mut kept = self.lock();
        for record in records {
            kept.bytes += record.len();
            kept.records.push_back(record);
            while kept.bytes > self.limits.bytes || kept.records.len() > self.limits.records {
                let Some(oldest) = kept.records.pop_front() else {
                    break;
                };
                kept.bytes -= oldest.len();
                kept.first += 1;
            }
        }
        let next = kept.first + kept.records.len() as u64;
        drop(kept);
        // Workers share an output: whoever publishes first may tell it last.
        self.end.send_modify(|end| end.next = end.next.max(next));
    }

    /// Offset of the oldest record that is kept, or of the next if there is none.
    pub(super) fn first(&self) -> u64 {
        self.lock().first
    }

    /// Tells how far it has come.
    pub(super) fn follow(&self) -> watch::Receiver<End> {
        self.end.subscribe()
    }

    /// A place for one more reader, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.readers.clone().try_acquire_owned().ok()
    }

    /// Records from this offset on, or from the oldest that is kept: up to so many bytes, and one in any case.
    pub(super) fn page(&self, from: u64, bytes: usize) -> Page {
        let kept = self.lock();
        let first = from.max(kept.first);
        let skipped = usize::try_from(first - kept.first).unwrap_or(usize::MAX);
        let mut left = Some(bytes);
        let records = kept.records.iter().skip(skipped).take_while(|record| {
            let more = left.is_some();
            left = left.and_then(|left| left.checked_sub(record.len()));
            more
        });
        Page {
            first,
            records: records.cloned().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
