//! What stays of batches that went through a log and are gone from it: under its key, where each was and when it came.
//!
//! It is a log of values by key of its own, in plain: there is nothing in it but digests, offsets and times, and whoever
//! only looks may not have the key of the state.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_contract::{FileLayer, IngestError, KeyedChange, KeyedLog, KeyedLogError, KeyedValue};

use crate::keyed::{FileKeyedLog, InPlain};

/// How long is waited for another who brings a batch of the same key.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing of it is forgotten with time.
const FOR_EVER: u64 = u64::MAX;
/// Bytes of a value: first offset (8), number of records (4), time (8).
const VALUE: usize = 20;

/// A batch that is kept, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Offset of its first record.
    pub first: u64,
    /// How many records it has.
    pub count: u32,
    /// When it came, microseconds since the Unix epoch.
    pub at: i64,
}

impl Passed {
    fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(VALUE);
        value.extend_from_slice(&self.first.to_le_bytes());
        value.extend_from_slice(&self.count.to_le_bytes());
        value.extend_from_slice(&self.at.to_le_bytes());
        value
    }

    fn read(value: &[u8]) -> Option<Passed> {
        let (first, rest) = value.split_first_chunk::<8>()?;
        let (count, at) = rest.split_first_chunk::<4>()?;
        Some(Passed {
            first: u64::from_le_bytes(*first),
            count: u32::from_le_bytes(*count),
            at: i64::from_le_bytes(at.try_into().ok()?),
        })
    }
}

/// The keys of all batches of some logs, of those that are gone and those that are still there.
pub struct PassedKeys {
    place: String,
    known: Mutex<Known>,
    freed: Condvar,
    /// Whether there was none when they were read.
    began_empty: bool,
    /// None where it is only read.
    log: Mutex<Option<FileKeyedLog>>,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<[u8; 32], Passed>,
    /// Keys whose batches are on their way into a log.
    under_way: HashSet<[u8; 32]>,
}

/// Keys that were read.
#[derive(Debug)]
pub struct OpenedKeys {
    /// The keys.
    pub keys: PassedKeys,
    /// What was lost of them, for a person.
    pub lost: Option<String>,
    /// What was cut away at the end of their file, for a person: a write that did not come to its end. No log has let go of
    /// a batch of these keys, and so nothing is lost.
    pub torn: Option<String>,
}

/// Whether a key has a batch.
pub(super) enum Begun<'k> {
    Known(Passed),
    /// It has none, and nobody else brings one meanwhile.
    Free(UnderWay<'k>),
}

/// A key whose batch is on its way.
pub(super) struct UnderWay<'k> {
    keys: &'k PassedKeys,
    key: [u8; 32],
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.keys.lock().under_way.remove(&self.key);
        self.keys.freed.notify_all();
    }
}

impl fmt::Debug for PassedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassedKeys")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl PassedKeys {
    /// Opens the file at this path, or makes it. What is damaged is put aside, and what can
    /// be read of it counts. Whoever opens it has the directory to itself.
    pub fn open(layer: Arc<dyn FileLayer>, path: &Path) -> Result<OpenedKeys, KeyedLogError> {
        let opened = FileKeyedLog::open(layer, path, Arc::new(InPlain), 0)?;
        let (torn, lost) = match opened.torn {
            true => (opened.lost, None),
            false => (None, opened.lost),
        };
        let keys = PassedKeys::with(path, Some(opened.log), opened.values);
        Ok(OpenedKeys { keys, lost, torn })
    }

    /// What the file has now, to be read alone: nothing is made or changed, and another process may write it.
    pub fn read_only(layer: &dyn FileLayer, path: &Path) -> Result<PassedKeys, KeyedLogError> {
        let values = FileKeyedLog::look(layer, path, &InPlain, 0)?;
        Ok(PassedKeys::with(path, None, values))
    }

    fn with(path: &Path, log: Option<FileKeyedLog>, values: Vec<KeyedValue>) -> PassedKeys {
        let values = values.into_iter();
        let by_key = values.filter_map(|one| Some((one.key, Passed::read(&one.value)?)));
        let by_key: HashMap<_, _> = by_key.collect();
        PassedKeys {
            began_empty: by_key.is_empty(),
            place: path.display().to_string(),
            known: Mutex::new(Known {
                by_key,
                under_way: HashSet::new(),
            }),
            freed: Condvar::new(),
            log: Mutex::new(log),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was none when they were read.
    pub(super) fn began_empty(&self) -> bool {
        self.began_empty
    }

    /// The batch of a key, if it has one.
    pub fn get(&self, key: &[u8; 32]) -> Option<Passed> {
        self.lock().by_key.get(key).copied()
    }

    /// How many keys have a batch.
    pub fn count(&self) -> usize {
        self.lock().by_key.len()
    }

    /// From now on a key has this batch, unless it has one.
    pub(super) fn learn(&self, key: [u8; 32], passed: Passed) {
        self.lock().by_key.entry(key).or_insert(passed);
    }

    /// The batch of a key; or the right to bring one, while others that want to wait.
    pub(super) fn begin(&self, key: [u8; 32]) -> Result<Begun<'_>, IngestError> {
        let is_under_way = |known: &mut Known| known.under_way.contains(&key);
        let waited = self
            .freed
            .wait_timeout_while(self.lock(), PATIENCE, is_under_way);
        let (mut known, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(IngestError::Slow {
                seconds: PATIENCE.as_secs(),
            });
        }
        if let Some(passed) = known.by_key.get(&key) {
            return Ok(Begun::Known(*passed));
        }
        known.under_way.insert(key);
        Ok(Begun::Free(UnderWay { keys: self, key }))
    }

    /// Keeps these, durable when this returns: whatever becomes of their batches.
    pub(super) fn keep(&self, keys: &[([u8; 32], Passed)]) -> Result<(), IngestError> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let log = log.as_mut().ok_or_else(|| IngestError::Write {
            place: self.place.clone(),
            why: "it is only read here".to_owned(),
            kind: io::ErrorKind::Other,
        })?;
        let put = |(key, passed): &([u8; 32], Passed)| {
            KeyedChange::Put(KeyedValue {
                key: *key,
                until: FOR_EVER,
                value: passed.value(),
            })
        };
        let changes: Vec<KeyedChange> = keys.iter().map(put).collect();
        let written = log.write(&changes, true, 0);
        if let Some(loss) = written.map_err(|error| self.write_error(&error))? {
            // Something else wrote the file. What it had is still known here.
            let again: Vec<KeyedChange> = {
                let known = self.lock();
                let lost = loss.keys.iter();
                lost.filter_map(|key| Some(put(&(*key, *known.by_key.get(key)?))))
                    .collect()
            };
            let written = log.write(&again, true, 0);
            written.map_err(|error| self.write_error(&error))?;
        }
        Ok(())
    }

    fn write_error(&self, error: &KeyedLogError) -> IngestError {
        let kind = match error {
            KeyedLogError::Write { kind, .. } => *kind,
            _ => io::ErrorKind::Other,
        };
        IngestError::Write {
            place: self.place.clone(),
            why: error.to_string(),
            kind,
        }
    }
}
