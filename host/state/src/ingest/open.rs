//! Opening a log: what is there after whatever ended the last run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use tidegate_contract::{FileLayer, InUse, IngestError};

use super::format::{HEADER, Header, LogId};
use super::keys::Keys;
use super::log::{FileIngestLog, IngestLimits, Live, MOST_SLOTS, State, of_flaw, slot_path};
use super::segment::Segment;
use super::write::Writer;

/// Smallest bound on the bytes of a log.
const LEAST_BYTES: u64 = 4096;

pub(super) fn open(
    layer: Arc<dyn FileLayer>,
    directory: &Path,
    limits: IngestLimits,
) -> Result<FileIngestLog, IngestError> {
    let error = |why: String| IngestError::Read {
        place: directory.display().to_string(),
        why,
    };
    let limits = within(limits).map_err(error)?;
    let lock = layer.open_append(&directory.join("lock"));
    let lock = lock.map_err(|failure| match InUse::of(&failure) {
        Some(by) => error(by.to_string()),
        None => write_error(directory, &failure),
    })?;
    let found = Found::read(layer.as_ref(), directory, limits.keys)?;
    let (found, writer) = found.written_anew(layer.as_ref(), directory)?;
    let Found {
        id,
        live,
        active,
        keys,
    } = found;
    let state = State {
        writer: Some(writer),
        failed: None,
        queue: VecDeque::new(),
        queued: 0,
        tickets: HashMap::new(),
        next_ticket: 0,
        keys,
        under_way: HashSet::new(),
        live,
        active,
        cached: None,
        read_to: 0,
    };
    Ok(FileIngestLog {
        layer,
        directory: directory.to_path_buf(),
        limits,
        id,
        state: Mutex::new(state),
        changed: Condvar::new(),
        _lock: Mutex::new(lock),
    })
}

fn write_error(directory: &Path, failure: &io::Error) -> IngestError {
    IngestError::Write {
        place: directory.display().to_string(),
        why: failure.to_string(),
        kind: failure.kind(),
    }
}

fn within(limits: IngestLimits) -> Result<IngestLimits, String> {
    if limits.bytes < LEAST_BYTES {
        return Err(format!(
            "{} bytes is below the least size of an ingest log, {LEAST_BYTES} bytes",
            limits.bytes
        ));
    }
    let segment = limits.segment.clamp(limits.bytes / 512, limits.bytes / 4);
    Ok(IngestLimits { segment, ..limits })
}

/// What the files add up to.
struct Found {
    id: LogId,
    live: VecDeque<Live>,
    active: Segment,
    keys: Keys,
}

impl Found {
    fn read(layer: &dyn FileLayer, directory: &Path, most: usize) -> Result<Found, IngestError> {
        let mut keys = Keys::new(most);
        let keys_path = directory.join("keys");
        let damaged = |path: &Path, why: &str| IngestError::Read {
            place: path.display().to_string(),
            why: why.into(),
        };
        let read = |path: &Path| {
            let bytes = layer.read(path);
            bytes.map_err(|failure| damaged(path, &failure.to_string()))
        };
        let of_keys = match read(&keys_path)? {
            Some(bytes) => Some(keys.read(&bytes).map_err(|why| damaged(&keys_path, why))?),
            None => None,
        };
        let mut segments = Vec::new();
        let mut active: Option<Segment> = None;
        for slot in 0..MOST_SLOTS {
            let path = slot_path(directory, slot);
            let Some(bytes) = read(&path)? else { continue };
            let segment = Segment::read(bytes);
            let (segment, torn) = segment.map_err(|flaw| damaged(&path, &of_flaw(flaw)))?;
            if segment.header.number == 0 {
                continue;
            }
            let live = Live {
                slot,
                number: segment.header.number,
                first: segment.header.first,
                end: segment.end,
                length: segment.bytes.len() as u64,
            };
            for (idempotency, first, count) in segment.keys() {
                keys.put(idempotency, first, count);
            }
            segments.push((live, torn, segment.header));
            if active
                .as_ref()
                .is_none_or(|last| last.header.number < live.number)
            {
                active = Some(segment);
            }
        }
        segments.sort_by_key(|(live, ..)| live.number);
        let Some(active) = active else {
            if of_keys.is_some() {
                let why = "its idempotency keys are there and its segments are not";
                return Err(damaged(directory, why));
            }
            return Found::new(directory, keys);
        };
        let id = active.header.id;
        if of_keys.is_some_and(|of| of != id) {
            return Err(damaged(&keys_path, "it is of another ingest log"));
        }
        let mut before: Option<Live> = None;
        for (index, (live, torn, header)) in segments.iter().enumerate() {
            let path = slot_path(directory, live.slot);
            if header.id != id {
                return Err(damaged(&path, "it is of another ingest log"));
            }
            if let (Some(at), true) = (torn, index + 1 < segments.len()) {
                let flaw = (*at, "an entry is damaged in a segment that was whole");
                return Err(damaged(&path, &of_flaw(flaw)));
            }
            if let Some(before) = before
                && (before.number + 1 != live.number || before.end != live.first)
            {
                let why = format!(
                    "segment {} at offset {} does not follow segment {}, which ends at offset {}",
                    live.number, live.first, before.number, before.end
                );
                return Err(damaged(&path, &why));
            }
            before = Some(*live);
        }
        Ok(Found {
            id,
            live: segments.iter().map(|(live, ..)| *live).collect(),
            active,
            keys,
        })
    }

    /// A log that was not there.
    fn new(directory: &Path, keys: Keys) -> Result<Found, IngestError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|failure| IngestError::Read {
            place: directory.display().to_string(),
            why: format!("the system gives no random numbers: {failure}"),
        })?;
        let header = Header {
            id,
            number: 1,
            first: 0,
            group: 0,
        };
        let live = Live {
            slot: 0,
            number: 1,
            first: 0,
            end: 0,
            length: HEADER as u64,
        };
        Ok(Found {
            id,
            live: VecDeque::from([live]),
            active: Segment::new(header),
            keys,
        })
    }

    /// What was read may be what the kernel keeps in memory of a write whose sync failed, and never was on the disk. So
    /// the last segment, which alone can be that, is written anew before anything is built on it. If it ends within a
    /// group the next one begins another segment, so that no later reader takes the two groups for one.
    fn written_anew(
        mut self,
        layer: &dyn FileLayer,
        directory: &Path,
    ) -> Result<(Found, Writer), IngestError> {
        let replace = |slot, bytes: &[u8]| {
            let replaced = layer.replace(&slot_path(directory, slot), bytes);
            replaced.map_err(|failure| write_error(directory, &failure))
        };
        let slot = self.live.back().map_or(0, |live| live.slot);
        let mut file = replace(slot, &self.active.bytes)?;
        if !self.active.whole {
            let used: HashSet<usize> = self.live.iter().map(|live| live.slot).collect();
            let slot = (0..MOST_SLOTS).find(|slot| !used.contains(slot));
            let slot = slot.ok_or_else(|| IngestError::Write {
                place: directory.display().to_string(),
                why: format!("all of its {MOST_SLOTS} segments are in use"),
                kind: io::ErrorKind::Other,
            })?;
            let header = Header {
                id: self.id,
                number: self.active.header.number + 1,
                first: self.active.end,
                group: self.active.group,
            };
            file = replace(slot, &header.write())?;
            self.active = Segment::new(header);
            self.live.push_back(Live {
                slot,
                number: header.number,
                first: header.first,
                end: header.first,
                length: HEADER as u64,
            });
        }
        let writer = Writer {
            file,
            length: self.active.bytes.len() as u64,
            group: self.active.group,
            next: self.active.end,
            to_begin: None,
        };
        Ok((self, writer))
    }
}
