//! Appending to the log, reading it, letting go.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{
    AppendFile, FileLayer, IdempotencyKey, IngestBatch, IngestError, IngestLog, Ingested,
    LoggedRecord,
};

use super::format::{self, ENTRY, LogId};
use super::keys::Keys;
use super::limits::IngestLimits;
use super::live::{Live, LiveSegments};
use super::open;
use super::segment::{Flaw, Segment};
use super::write::Writer;

/// Most bytes that one sync makes durable, one larger batch excepted.
const GROUP: usize = 8 << 20;

/// An ingest log in a directory of its own.
pub struct FileIngestLog {
    pub(super) layer: Arc<dyn FileLayer>,
    pub(super) directory: PathBuf,
    pub(super) limits: IngestLimits,
    pub(super) id: LogId,
    /// What was cut away when it was opened, for a person.
    pub(super) torn: Option<String>,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    /// Held as long as the log is open to be written: nobody else opens it.
    pub(super) _lock: Mutex<Option<Box<dyn AppendFile>>>,
}

/// A batch that waits for its sync.
pub(super) struct Pending {
    pub(super) ticket: u64,
    pub(super) payload: Vec<u8>,
    pub(super) count: u32,
    pub(super) idempotency: Option<IdempotencyKey>,
}

/// What became of a batch: its first offset, or why it is not kept.
pub(super) type Outcome = Result<u64, (String, io::ErrorKind)>;

pub(super) struct State {
    /// Whoever writes has it.
    pub(super) writer: Option<Writer>,
    /// Why an earlier write failed: what is on disk is then unknown, and nothing more is written.
    pub(super) failed: Option<String>,
    pub(super) queue: VecDeque<Pending>,
    /// Bytes in the queue, and of the group that is being written.
    pub(super) queued: u64,
    /// Those who wait for what becomes of their batch.
    pub(super) tickets: HashMap<u64, Option<Outcome>>,
    pub(super) next_ticket: u64,
    pub(super) keys: Keys,
    /// Keys of batches that wait for their sync.
    pub(super) under_way: HashSet<[u8; 32]>,
    pub(super) live: LiveSegments,
    /// The last one, as far as it is durable.
    pub(super) active: Segment,
    /// Another that was read last.
    pub(super) cached: Option<Arc<Segment>>,
    /// Where the last reader was.
    pub(super) read_to: u64,
}

impl State {
    pub(super) fn offsets(&self) -> Range<u64> {
        let begin = self.live.offsets().map(|held| held.start);
        begin.unwrap_or(self.active.end)..self.active.end
    }

    fn held(&self) -> u64 {
        self.live.bytes() + self.queued
    }
}

/// Bytes that a payload takes in the log.
pub(super) fn size(payload: &[u8]) -> u64 {
    (ENTRY + payload.len()) as u64
}

impl fmt::Debug for FileIngestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileIngestLog")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl FileIngestLog {
    /// Opens the log in this directory, or makes it. A torn write at its end is taken away.
    pub fn open(
        layer: Arc<dyn FileLayer>,
        directory: &Path,
        limits: IngestLimits,
    ) -> Result<FileIngestLog, IngestError> {
        open::open(layer, directory, limits, &|_| {})
    }

    /// The same. `told` is how many bytes are read.
    pub fn open_told(
        layer: Arc<dyn FileLayer>,
        directory: &Path,
        limits: IngestLimits,
        told: &dyn Fn(u64),
    ) -> Result<FileIngestLog, IngestError> {
        open::open(layer, directory, limits, told)
    }

    /// What the log in this directory has now, to be read alone: nothing is made, locked or changed, another process may
    /// write it, and what it writes later is not seen. None where none was ever written.
    pub fn read_only(
        layer: Arc<dyn FileLayer>,
        directory: &Path,
        limits: IngestLimits,
    ) -> Result<Option<FileIngestLog>, IngestError> {
        open::read(layer, directory, limits)
    }

    /// What was cut away at its end when it was opened, for a person: bytes of a batch that nobody was told is kept.
    pub fn torn(&self) -> Option<&str> {
        self.torn.as_deref()
    }

    /// Keys of the batches that begin at these offsets, in their order: key, first offset and number of records.
    pub(super) fn keys(&self, offsets: Range<u64>) -> Vec<([u8; 32], u64, u32)> {
        self.lock().keys.within(offsets)
    }

    /// Batches that wait for their sync.
    pub fn waiting(&self) -> usize {
        self.lock().tickets.len()
    }

    /// Bytes of records and batches that are held.
    pub fn held(&self) -> u64 {
        self.lock().held()
    }

    pub(super) fn slot(&self, slot: usize) -> PathBuf {
        slot_path(&self.directory, slot)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write_error(&self, why: impl Into<String>, kind: io::ErrorKind) -> IngestError {
        IngestError::Write {
            place: self.directory.display().to_string(),
            why: why.into(),
            kind,
        }
    }

    pub(super) fn check(&self, state: &State) -> Result<(), IngestError> {
        match &state.failed {
            None => Ok(()),
            Some(why) => Err(self.write_error(
                format!("an earlier write failed: {why}"),
                io::ErrorKind::Other,
            )),
        }
    }

    /// Waits until something changes, at most until the deadline.
    pub(super) fn wait_for_change<'s>(
        &self,
        state: MutexGuard<'s, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'s, State>, IngestError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(IngestError::Slow {
                seconds: self.limits.patience.as_secs(),
            });
        }
        let waited = self.changed.wait_timeout(state, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// What is known of this key, once no batch with it is under way.
    fn known<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        idempotency: &IdempotencyKey,
        deadline: Instant,
    ) -> Result<(MutexGuard<'s, State>, Option<Ingested>), IngestError> {
        while state.under_way.contains(&idempotency.key) {
            state = self.wait_for_change(state, deadline)?;
        }
        let known = match state.keys.get(&idempotency.key) {
            None => None,
            Some(known) if known.body != idempotency.body => return Err(IngestError::OtherBody),
            Some(known) => Some(Ingested {
                first: known.first,
                count: known.count,
                replayed: true,
            }),
        };
        Ok((state, known))
    }

    /// What became of this batch. Whoever waits writes, if nobody else does.
    fn settle<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        ticket: u64,
        deadline: Instant,
    ) -> Result<u64, IngestError> {
        loop {
            if let Some(outcome) = state.tickets.get_mut(&ticket).and_then(Option::take) {
                state.tickets.remove(&ticket);
                return outcome.map_err(|(why, kind)| self.write_error(why, kind));
            }
            state = match state.writer.take() {
                Some(writer) => self.lead(state, writer),
                None => match self.wait_for_change(state, deadline) {
                    Ok(state) => state,
                    Err(slow) => {
                        self.give_up(ticket);
                        return Err(slow);
                    }
                },
            };
        }
    }

    /// Nobody waits for this batch any more. If it was not taken to be written, it is not.
    fn give_up(&self, ticket: u64) {
        let mut state = self.lock();
        state.tickets.remove(&ticket);
        let at = state.queue.iter().position(|one| one.ticket == ticket);
        if let Some(pending) = at.and_then(|at| state.queue.remove(at)) {
            state.queued -= size(&pending.payload);
            if let Some(idempotency) = pending.idempotency {
                state.under_way.remove(&idempotency.key);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next group, out of the queue.
    pub(super) fn group(&self, state: &mut State) -> Vec<Pending> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.queue.front() {
            bytes += next.payload.len();
            if bytes > GROUP && !group.is_empty() {
                break;
            }
            group.extend(state.queue.pop_front());
        }
        group
    }

    /// A segment that is not written any more.
    fn sealed(&self, live: Live) -> Result<Segment, IngestError> {
        let path = self.slot(live.slot);
        let error = |why: String| IngestError::Read {
            place: path.display().to_string(),
            why,
        };
        let bytes = self.layer.read(&path);
        let bytes = bytes.map_err(|failure| error(failure.to_string()))?;
        let bytes = bytes.ok_or_else(|| error("it is not there".into()))?;
        let (segment, torn) = Segment::read(bytes).map_err(|flaw| error(of_flaw(flaw)))?;
        let found = &segment.header;
        if torn.is_some() || found.id != self.id || found.number != live.number {
            return Err(error("it is not as it was written".into()));
        }
        Ok(segment)
    }
}

pub(super) fn slot_path(directory: &Path, slot: usize) -> PathBuf {
    directory.join(format!("segment-{slot:04}"))
}

pub(super) fn of_flaw((at, why): Flaw) -> String {
    format!("{why} (byte {at})")
}

impl IngestLog for FileIngestLog {
    fn append(&self, batch: &IngestBatch) -> Result<Ingested, IngestError> {
        let deadline = Instant::now() + self.limits.patience;
        let refused = || IngestError::Records {
            records: batch.records.len(),
            limit: u32::MAX,
        };
        let count = u32::try_from(batch.records.len()).map_err(|_| refused())?;
        if count == 0 {
            return Err(refused());
        }
        let limit = self.limits.longest_batch();
        let too_large = |bytes| IngestError::TooLarge { bytes, limit };
        let payload = format::payload(batch).ok_or_else(|| too_large(u64::from(u32::MAX)))?;
        let bytes = size(&payload);
        if bytes > limit {
            return Err(too_large(bytes));
        }
        let mut state = self.lock();
        self.check(&state)?;
        if let Some(idempotency) = &batch.idempotency {
            let (locked, known) = self.known(state, idempotency, deadline)?;
            if let Some(known) = known {
                return Ok(known);
            }
            state = locked;
            self.check(&state)?;
        }
        let held = state.held();
        if held + bytes > self.limits.bytes {
            return Err(IngestError::Full {
                batch: bytes,
                held,
                limit: self.limits.bytes,
            });
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.tickets.insert(ticket, None);
        state.queued += bytes;
        let key = batch
            .idempotency
            .as_ref()
            .map(|idempotency| idempotency.key);
        state.under_way.extend(key);
        state.queue.push_back(Pending {
            ticket,
            payload,
            count,
            idempotency: batch.idempotency,
        });
        let first = self.settle(state, ticket, deadline)?;
        Ok(Ingested {
            first,
            count,
            replayed: false,
        })
    }

    fn kept(&self, key: &[u8; 32]) -> Option<Ingested> {
        let known = self.lock().keys.get(key)?;
        Some(Ingested {
            first: known.first,
            count: known.count,
            replayed: true,
        })
    }

    fn read(
        &self,
        from: u64,
        records: usize,
        bytes: usize,
    ) -> Result<Vec<LoggedRecord>, IngestError> {
        let mut state = self.lock();
        let held = state.offsets();
        let outside = |held| IngestError::Offset {
            place: self.directory.display().to_string(),
            offset: from,
            held,
        };
        if from < held.start || from > held.end {
            return Err(outside(held));
        }
        // Behind the last record, unless the last segment is an empty one.
        let Some((live, is_last)) = state.live.with(from) else {
            return Ok(Vec::new());
        };
        state.read_to = from;
        let cached = state.cached.clone();
        let taken = match cached.filter(|cached| cached.header.number == live.number) {
            _ if is_last => state.active.take(from, records, bytes),
            Some(cached) => {
                drop(state);
                cached.take(from, records, bytes)
            }
            None => {
                drop(state);
                let segment = Arc::new(self.sealed(live)?);
                self.lock().cached = Some(segment.clone());
                segment.take(from, records, bytes)
            }
        };
        taken.map_err(|flaw| IngestError::Read {
            place: self.slot(live.slot).display().to_string(),
            why: of_flaw(flaw),
        })
    }

    fn wait(&self, offset: u64, wait: Duration) -> bool {
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, wait, |state| state.active.end <= offset);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.active.end > offset
    }

    fn offsets(&self) -> Range<u64> {
        self.lock().offsets()
    }

    fn done(&self, offset: u64) -> Result<(), IngestError> {
        let deadline = Instant::now() + self.limits.patience;
        let mut state = self.lock();
        let held = state.offsets();
        if offset > held.end {
            return Err(IngestError::Offset {
                place: self.directory.display().to_string(),
                offset,
                held,
            });
        }
        loop {
            self.check(&state)?;
            if self.victims(&state, offset) == 0 {
                return Ok(());
            }
            match state.writer.take() {
                Some(writer) => return self.let_go(state, writer, offset),
                None => state = self.wait_for_change(state, deadline)?,
            }
        }
    }

    fn identity(&self) -> String {
        open::identity(&self.id)
    }
}
