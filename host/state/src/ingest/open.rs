//! Opening a log: what is there after whatever ended the last run.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use tidegate_contract::{AppendFile, FileLayer, InUse, IngestError};

use super::format::{HEADER, Header, LogId};
use super::keys::Keys;
use super::limits::IngestLimits;
use super::live::{Live, LiveSegments, Slots};
use super::log::{FileIngestLog, State, of_flaw, slot_path};
use super::segment::{Segment, Torn};
use super::write::Writer;

/// A log makes a further file only when all that it has are in use, so that behind its last there is none. Files that a
/// person took away are noticed by those that follow them, if there are no more than this between.
const GAP: usize = 1024;
/// How often a log is read that another process writes.
const READS: usize = 5;

pub(super) fn open(
    layer: Arc<dyn FileLayer>,
    directory: &Path,
    limits: IngestLimits,
    told: &dyn Fn(u64),
) -> Result<FileIngestLog, IngestError> {
    let error = |why: String| IngestError::Read {
        place: directory.display().to_string(),
        why,
    };
    let limits = limits.within().map_err(error)?;
    let lock = layer.open_append(&directory.join("lock"));
    let lock = lock.map_err(|failure| match InUse::of(&failure) {
        Some(by) => error(by.to_string()),
        None => write_error(directory, &failure),
    })?;
    let found = match Found::read(layer.as_ref(), directory, limits.keys, told)? {
        Some(found) => found,
        None => Found::new(directory, limits.keys)?,
    };
    let (found, writer) = found.written_anew(layer.as_ref(), directory)?;
    Ok(opened(layer, directory, limits, found, Ok((writer, lock))))
}

/// What is there, of which nothing is changed; none where none was ever written. Another process may write it meanwhile:
/// what it writes while the files are read may not fit together, and they are read again.
pub(super) fn read(
    layer: Arc<dyn FileLayer>,
    directory: &Path,
    limits: IngestLimits,
) -> Result<Option<FileIngestLog>, IngestError> {
    let mut tries = 0;
    let found = loop {
        tries += 1;
        match Found::read(layer.as_ref(), directory, limits.keys, &|_| {}) {
            Err(_) if tries < READS => {}
            found => break found?,
        }
    };
    let only = "it is only read here".to_owned();
    Ok(found.map(|found| opened(layer, directory, limits, found, Err(only))))
}

/// The log with what was found, and its writer with the lock; or why nothing is written.
fn opened(
    layer: Arc<dyn FileLayer>,
    directory: &Path,
    limits: IngestLimits,
    found: Found,
    writes: Result<(Writer, Box<dyn AppendFile>), String>,
) -> FileIngestLog {
    let (writer, lock, failed) = match writes {
        Ok((writer, lock)) => (Some(writer), Some(lock), None),
        Err(why) => (None, None, Some(why)),
    };
    let state = State {
        writer,
        failed,
        queue: VecDeque::new(),
        queued: 0,
        tickets: HashMap::new(),
        next_ticket: 0,
        keys: found.keys,
        under_way: HashSet::new(),
        live: found.live,
        active: found.active,
        cached: None,
        read_to: 0,
    };
    FileIngestLog {
        layer,
        directory: directory.to_path_buf(),
        limits,
        id: found.id,
        torn: found.torn,
        state: Mutex::new(state),
        changed: Condvar::new(),
        _lock: Mutex::new(lock),
    }
}

fn write_error(directory: &Path, failure: &io::Error) -> IngestError {
    IngestError::Write {
        place: directory.display().to_string(),
        why: failure.to_string(),
        kind: failure.kind(),
    }
}

/// Identity and offsets of the log in this directory, of which nothing is changed; none where none was ever written.
pub(super) fn look(
    layer: &dyn FileLayer,
    directory: &Path,
) -> Result<Option<(String, Range<u64>)>, IngestError> {
    let found = Found::read(layer, directory, 0, &|_| {})?;
    Ok(found.and_then(|found| Some((identity(&found.id), found.live.offsets()?))))
}

/// A log's id as a text.
pub(super) fn identity(id: &LogId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text can be a log's id.
pub(super) fn is_identity(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 2 * size_of::<LogId>() && text.bytes().all(is_digit)
}

/// What the files add up to.
struct Found {
    id: LogId,
    live: LiveSegments,
    /// Files there are, whether in use or not.
    files: usize,
    active: Segment,
    keys: Keys,
    /// What is torn at its end, for a person.
    torn: Option<String>,
}

impl Found {
    /// None where there is none.
    fn read(
        layer: &dyn FileLayer,
        directory: &Path,
        most: usize,
        told: &dyn Fn(u64),
    ) -> Result<Option<Found>, IngestError> {
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
        let (mut files, mut next, mut done) = (0, 0, 0);
        while next < files + GAP {
            let slot = next;
            next += 1;
            let path = slot_path(directory, slot);
            let Some(bytes) = read(&path)? else { continue };
            files = next;
            done += bytes.len() as u64;
            told(done);
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
            return Ok(None);
        };
        let id = active.header.id;
        if of_keys.is_some_and(|of| of != id) {
            return Err(damaged(&keys_path, "it is of another ingest log"));
        }
        let mut before: Option<Live> = None;
        let (mut all, mut cut_away) = (LiveSegments::default(), None);
        for (index, (live, torn, header)) in segments.iter().enumerate() {
            let path = slot_path(directory, live.slot);
            if header.id != id {
                return Err(damaged(&path, "it is of another ingest log"));
            }
            if let Some(Torn { at, bytes }) = torn {
                if index + 1 < segments.len() {
                    let flaw = (*at, "an entry is damaged in a segment that was whole");
                    return Err(damaged(&path, &of_flaw(flaw)));
                }
                cut_away = Some(format!(
                    "{bytes} bytes at byte {at} of {} are torn, as after a kill in the middle of a write, and are cut away: \
                     nobody was told that they are kept, unless the disk has damaged what was written last",
                    path.display()
                ));
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
            all.push(*live);
        }
        Ok(Some(Found {
            id,
            live: all,
            files,
            active,
            keys,
            torn: cut_away,
        }))
    }

    /// A log that was not there.
    fn new(directory: &Path, most: usize) -> Result<Found, IngestError> {
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
        let mut live = LiveSegments::default();
        live.push(Live {
            slot: 0,
            number: 1,
            first: 0,
            end: 0,
            length: HEADER as u64,
        });
        Ok(Found {
            id,
            live,
            files: 1,
            active: Segment::new(header),
            keys: Keys::new(most),
            torn: None,
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
        let mut slots = Slots::new(self.files, self.live.iter());
        let slot = self.live.iter().last().map_or(0, |live| live.slot);
        let mut file = replace(slot, &self.active.bytes)?;
        if !self.active.whole {
            let slot = slots.next();
            slots.take(slot);
            let header = Header {
                id: self.id,
                number: self.active.header.number + 1,
                first: self.active.end,
                group: self.active.group,
            };
            file = replace(slot, &header.write())?;
            self.active = Segment::new(header);
            self.live.push(Live {
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
            number: self.active.header.number,
            first: self.active.header.first,
            slots,
            to_begin: None,
        };
        Ok((self, writer))
    }
}
