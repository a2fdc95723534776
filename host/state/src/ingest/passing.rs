//! A log through which batches pass: what is done is gone from it, and its keys stay.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_contract::{
    FileLayer, IngestBatch, IngestError, IngestLog, IngestRecord, Ingested, LoggedRecord, TaskImage,
};

use super::limits::IngestLimits;
use super::log::FileIngestLog;
use super::open::is_identity;
use super::passed::{Begun, Passed, PassedKeys};

/// When a record came, microseconds since the Unix epoch, as it says itself.
pub type TimeOf = fn(&IngestRecord) -> Option<i64>;

/// An ingest log of batches with keys. Each key has one batch, for ever: as long as the batch is in the log, that knows
/// the key; before it is let go of, its key is durable in [`PassedKeys`].
pub struct PassingLog {
    log: FileIngestLog,
    keys: Arc<PassedKeys>,
    time_of: TimeOf,
    /// Keys of batches before this offset are durable.
    kept_to: Mutex<u64>,
    /// It has let go of batches, and nothing is left of their keys.
    has_lost_keys: bool,
}

impl fmt::Debug for PassingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PassingLog").field(&self.log).finish()
    }
}

impl PassingLog {
    /// Opens the log in this directory, or makes it. A torn write at its end is taken away. `told` is how many bytes are
    /// read.
    pub fn open(
        layer: Arc<dyn FileLayer>,
        directory: &Path,
        limits: IngestLimits,
        (keys, time_of): (Arc<PassedKeys>, TimeOf),
        told: &dyn Fn(u64),
    ) -> Result<PassingLog, IngestError> {
        let limits = forgetful(limits);
        let log = FileIngestLog::open_told(layer, directory, limits, told)?;
        let passing = PassingLog::over(log, keys, time_of);
        passing.learn(|first, count| passing.found(first, count))?;
        Ok(passing)
    }

    /// What the log in this directory has now, to be read alone, see [`FileIngestLog::read_only`]. `keys` are asked for
    /// after it is read: what is let go of meanwhile is in them.
    pub fn read_only<E: From<IngestError>>(
        layer: Arc<dyn FileLayer>,
        directory: &Path,
        limits: IngestLimits,
        keys: impl FnOnce() -> Result<Arc<PassedKeys>, E>,
        time_of: TimeOf,
    ) -> Result<Option<PassingLog>, E> {
        let log = FileIngestLog::read_only(layer, directory, forgetful(limits))?;
        let Some(log) = log else {
            return Ok(None);
        };
        let passing = PassingLog::over(log, keys()?, time_of);
        // Whoever writes it may let go of it just now.
        passing.learn(|first, count| Ok(passing.found_or_gone(first, count)))?;
        Ok(Some(passing))
    }

    fn over(log: FileIngestLog, keys: Arc<PassedKeys>, time_of: TimeOf) -> PassingLog {
        let held = log.offsets();
        PassingLog {
            has_lost_keys: held.start > 0 && keys.began_empty(),
            log,
            keys,
            time_of,
            kept_to: Mutex::new(held.end),
        }
    }

    /// Takes the keys of the batches that the log has, which are found so.
    fn learn(
        &self,
        found: impl Fn(u64, u32) -> Result<Passed, IngestError>,
    ) -> Result<(), IngestError> {
        let held = self.log.offsets();
        let mut kept_to = held.end;
        for (key, first, count) in self.log.keys(held) {
            if self.keys.get(&key).is_none() {
                kept_to = kept_to.min(first);
                self.keys.learn(key, found(first, count)?);
            }
        }
        *self.kept_to() = kept_to;
        Ok(())
    }

    fn kept_to(&self) -> std::sync::MutexGuard<'_, u64> {
        self.kept_to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch at this offset of the log.
    fn found(&self, first: u64, count: u32) -> Result<Passed, IngestError> {
        let records = self.log.read(first, 1, 0)?;
        let record = records.first().map(|logged| &logged.record);
        let at = record.and_then(self.time_of).unwrap_or_default();
        Ok(Passed { first, count, at })
    }

    /// The same. Its time is not known where it cannot be read: that it is there, or was, is.
    fn found_or_gone(&self, first: u64, count: u32) -> Passed {
        let gone = Passed {
            first,
            count,
            at: 0,
        };
        self.found(first, count).unwrap_or(gone)
    }

    /// Whether it has let go of batches of which no key is left: the file of keys was taken away.
    pub fn has_lost_keys(&self) -> bool {
        self.has_lost_keys
    }

    /// What is gone of it, for a person, as a cut knows its task: it is another log than the cut's, or ends before the
    /// position that the cut has. A task that was no log's says nothing.
    pub fn gone(&self, image: &TaskImage) -> Option<String> {
        let position = image.position.unwrap_or_default();
        if !is_identity(&image.identity) {
            return None;
        }
        if image.identity != self.identity() {
            return Some(format!(
                "the log that the last cut knows, which was read up to {position}, is gone, and another is in its place"
            ));
        }
        let end = self.offsets().end;
        (end < position).then(|| {
            format!("the log ends at {end}, and the last cut has read it up to {position}")
        })
    }

    /// The keys of what passed through it, and through others.
    pub fn keys(&self) -> &Arc<PassedKeys> {
        &self.keys
    }

    /// What was cut away at its end when it was opened, for a person: bytes of a batch that nobody was told is kept.
    pub fn torn(&self) -> Option<&str> {
        self.log.torn()
    }

    /// The batch of a key, if there is or was one.
    pub fn passed(&self, key: &[u8; 32]) -> Option<Passed> {
        self.keys.get(key).or_else(|| {
            let kept = self.log.kept(key)?;
            Some(self.found_or_gone(kept.first, kept.count))
        })
    }
}

fn forgetful(limits: IngestLimits) -> IngestLimits {
    IngestLimits {
        forgets: true,
        ..limits
    }
}

impl IngestLog for PassingLog {
    fn append(&self, batch: &IngestBatch) -> Result<Ingested, IngestError> {
        let Some(idempotency) = &batch.idempotency else {
            return self.log.append(batch);
        };
        let _under_way = match self.keys.begin(idempotency.key)? {
            Begun::Known(passed) => {
                return Ok(Ingested {
                    first: passed.first,
                    count: passed.count,
                    replayed: true,
                });
            }
            Begun::Free(under_way) => under_way,
        };
        let kept = self.log.append(batch)?;
        let at = batch.records.first().and_then(self.time_of);
        let passed = Passed {
            first: kept.first,
            count: kept.count,
            at: at.unwrap_or_default(),
        };
        self.keys.learn(idempotency.key, passed);
        Ok(kept)
    }

    fn kept(&self, key: &[u8; 32]) -> Option<Ingested> {
        let passed = self.passed(key)?;
        Some(Ingested {
            first: passed.first,
            count: passed.count,
            replayed: true,
        })
    }

    fn read(
        &self,
        from: u64,
        records: usize,
        bytes: usize,
    ) -> Result<Vec<LoggedRecord>, IngestError> {
        self.log.read(from, records, bytes)
    }

    fn wait(&self, offset: u64, wait: Duration) -> bool {
        self.log.wait(offset, wait)
    }

    fn offsets(&self) -> Range<u64> {
        self.log.offsets()
    }

    fn done(&self, offset: u64) -> Result<(), IngestError> {
        let mut kept_to = self.kept_to();
        if *kept_to < offset {
            let mut keys = Vec::new();
            for (key, first, count) in self.log.keys(*kept_to..offset) {
                // Whoever brings it may not have said so yet.
                let passed = match self.keys.get(&key) {
                    Some(passed) => passed,
                    None => self.found(first, count)?,
                };
                self.keys.learn(key, passed);
                keys.push((key, passed));
            }
            self.keys.keep(&keys)?;
            *kept_to = offset.min(self.log.offsets().end);
        }
        drop(kept_to);
        self.log.done(offset)
    }

    fn identity(&self) -> String {
        self.log.identity()
    }
}
