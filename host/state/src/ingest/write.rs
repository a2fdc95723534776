//! Writing: groups of batches, new segments, and files that are let go of.

use std::io;
use std::sync::{Arc, MutexGuard};

use tidegate_contract::{AppendFile, IngestError};

use super::format::Header;
use super::live::{Live, Slots};
use super::log::{FileIngestLog, Outcome, Pending, State, size};
use super::segment::{Place, Segment, write_entry};

/// The file that is written, and where it is.
pub(super) struct Writer {
    pub(super) file: Box<dyn AppendFile>,
    pub(super) length: u64,
    /// Number of the last group.
    pub(super) group: u64,
    /// Where the next record goes.
    pub(super) next: u64,
    /// Number of its segment, and where that begins.
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) slots: Slots,
    /// A segment was to be begun in this slot and the disk said no. Its file may be there or not: so nothing more is added
    /// to the segment before, and the next attempt is made in the same slot.
    pub(super) to_begin: Option<usize>,
}

/// A group that was tried.
struct Tried {
    /// The segment that was begun for it.
    begun: Option<(Live, Header)>,
    /// Where it goes.
    first: u64,
    /// What was written, or why not.
    written: Result<Vec<u8>, io::Error>,
    /// What is on disk is not known any more.
    lost: Option<String>,
}

/// Says that the log has failed unless whoever writes comes to an end.
struct Unfinished<'l>(Option<&'l FileIngestLog>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(log) = self.0 {
            log.lock().failed = Some("whoever wrote it panicked".into());
            log.changed.notify_all();
        }
    }
}

impl FileIngestLog {
    /// Writes the next group. Nobody else writes meanwhile, and nothing is locked while it does.
    pub(super) fn lead<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mut writer: Writer,
    ) -> MutexGuard<'s, State> {
        let mut group = self.group(&mut state);
        let refused = state.failed.clone();
        drop(state);
        let mut unfinished = Unfinished(Some(self));
        let tried = match refused {
            Some(why) => Tried {
                begun: None,
                first: writer.next,
                written: Err(io::Error::other(format!("an earlier write failed: {why}"))),
                lost: None,
            },
            None => self.try_group(&mut writer, &mut group),
        };
        unfinished.0 = None;
        let mut state = self.lock();
        self.publish(&mut state, writer, group, tried);
        self.changed.notify_all();
        state
    }

    fn try_group(&self, writer: &mut Writer, group: &mut [Pending]) -> Tried {
        let mut tried = Tried {
            begun: None,
            first: writer.next,
            written: Ok(Vec::new()),
            lost: None,
        };
        let bytes: u64 = group.iter().map(|one| size(&one.payload)).sum();
        let is_empty = writer.first == writer.next;
        let is_full = !is_empty && writer.length + bytes > self.limits.segment;
        if is_full || writer.to_begin.is_some() {
            match self.begin_segment(writer) {
                Ok(begun) => tried.begun = Some(begun),
                Err(error) => {
                    tried.written = Err(error);
                    return tried;
                }
            }
        }
        let mut out = Vec::with_capacity(bytes as usize);
        let (mut next, number) = (writer.next, writer.group + 1);
        let count = group.len();
        for (index, one) in group.iter_mut().enumerate() {
            let place = Place {
                first: next,
                group: number,
                last: index + 1 == count,
            };
            write_entry(&self.id, &mut one.payload, place, &mut out);
            next += u64::from(one.count);
        }
        match self.write(writer, &out) {
            Ok(()) => {
                writer.length += out.len() as u64;
                (writer.group, writer.next) = (number, next);
                tried.written = Ok(out);
            }
            Err((error, lost)) => {
                tried.lost = lost.then(|| error.to_string());
                tried.written = Err(error);
            }
        }
        tried
    }

    /// Appends and syncs. With an error: whether what is on disk is unknown now.
    fn write(&self, writer: &mut Writer, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
        let found = writer.file.length().map_err(|error| (error, true))?;
        if found != writer.length {
            let why = format!(
                "it has {found} bytes and this run left {}: something else writes it",
                writer.length
            );
            return Err((io::Error::other(why), true));
        }
        if let Err(error) = writer.file.append(bytes) {
            // Nothing was synced, so nothing can have gone wrong with what was before. A full disk is no end.
            let cut = writer.file.truncate(writer.length);
            return Err((error, cut.is_err()));
        }
        writer.file.sync().map_err(|error| (error, true))
    }

    /// A new segment, in a file that is not in use.
    fn begin_segment(&self, writer: &mut Writer) -> io::Result<(Live, Header)> {
        let slot = writer.to_begin.unwrap_or_else(|| writer.slots.next());
        let header = Header {
            id: self.id,
            number: writer.number + 1,
            first: writer.next,
            group: writer.group,
        };
        let bytes = header.write();
        writer.to_begin = Some(slot);
        writer.slots.take(slot);
        writer.file = self.layer.replace(&self.slot(slot), &bytes)?;
        writer.to_begin = None;
        writer.length = bytes.len() as u64;
        (writer.number, writer.first) = (header.number, header.first);
        let live = Live {
            slot,
            number: header.number,
            first: header.first,
            end: header.first,
            length: writer.length,
        };
        Ok((live, header))
    }

    /// Tells everybody what became of a group.
    fn publish(&self, state: &mut State, writer: Writer, group: Vec<Pending>, tried: Tried) {
        if let Some(begun) = tried.begun {
            begin(state, begun);
        }
        let outcome = tried.written.and_then(|bytes| {
            let extended = state.active.extend(&bytes);
            extended.map_err(|(_, why)| io::Error::other(why))
        });
        let length = state.active.bytes.len() as u64;
        state.live.grow(state.active.end, length);
        let mut next = tried.first;
        for one in group {
            state.queued -= size(&one.payload);
            let told: Outcome = match &outcome {
                Ok(()) => Ok(next),
                Err(error) => Err((error.to_string(), error.kind())),
            };
            if let Some(idempotency) = one.idempotency {
                state.under_way.remove(&idempotency.key);
                if told.is_ok() {
                    state.keys.put(idempotency, next, one.count);
                }
            }
            next += u64::from(one.count);
            if let Some(ticket) = state.tickets.get_mut(&one.ticket) {
                *ticket = Some(told);
            }
        }
        state.failed = state.failed.take().or(tried.lost);
        state.writer = Some(writer);
    }

    /// How many segments hold nothing but records before this offset. The one that is written is among them once it is
    /// as long as a segment gets, or as soon as there is a record in it, where nothing of them stays.
    pub(super) fn victims(&self, state: &State, offset: u64) -> usize {
        let last = state.live.len().saturating_sub(1);
        let goes = |(index, live): &(usize, &Live)| {
            live.end <= offset
                && (*index < last
                    || (live.first < live.end
                        && (self.limits.forgets || live.length >= self.limits.segment)))
        };
        state.live.iter().enumerate().take_while(goes).count()
    }

    /// Lets segments go: first the keys in them are kept elsewhere, unless they are to be forgotten.
    pub(super) fn let_go(
        &self,
        state: MutexGuard<'_, State>,
        mut writer: Writer,
        offset: u64,
    ) -> Result<(), IngestError> {
        let count = self.victims(&state, offset);
        let victims: Vec<Live> = state.live.iter().take(count).copied().collect();
        let is_all = count == state.live.len();
        let end = victims.last().map_or(0, |last| last.end);
        let keys = (!self.limits.forgets).then(|| state.keys.write(&self.id, end));
        drop(state);
        let mut unfinished = Unfinished(Some(self));
        let begun = match is_all {
            true => self.begin_segment(&mut writer).map(Some),
            false => Ok(None),
        };
        let mut freed = 0;
        let (begun, result) = match begun {
            Ok(begun) => (begun, self.free(&victims, keys.as_deref(), &mut freed)),
            Err(error) => (None, Err(error)),
        };
        unfinished.0 = None;
        let mut state = self.lock();
        if let Some(begun) = begun {
            begin(&mut state, begun);
        }
        // One of which it is not known whether it is gone is let go of again: keys in the file hold either way.
        state.live.let_go(freed);
        if let Some(gone) = victims[..freed].last().filter(|_| self.limits.forgets) {
            state.keys.forget(gone.end);
        }
        for gone in &victims[..freed] {
            writer.slots.give_back(gone.slot);
        }
        let result = result.map_err(|error| self.write_error(error.to_string(), error.kind()));
        state.writer = Some(writer);
        drop(state);
        self.changed.notify_all();
        result
    }

    fn free(&self, victims: &[Live], keys: Option<&[u8]>, freed: &mut usize) -> io::Result<()> {
        if let Some(keys) = keys {
            self.layer.replace(&self.directory.join("keys"), keys)?;
        }
        let empty = Header {
            id: self.id,
            number: 0,
            first: 0,
            group: 0,
        };
        for live in victims {
            self.layer.replace(&self.slot(live.slot), &empty.write())?;
            *freed += 1;
        }
        Ok(())
    }
}

/// The segment that was begun is the one that is written; the one before is kept for whoever reads it.
fn begin(state: &mut State, (live, header): (Live, Header)) {
    let before = std::mem::replace(&mut state.active, Segment::new(header));
    let is_read = |cached: &Arc<Segment>| cached.end <= state.read_to;
    if state.cached.as_ref().is_none_or(is_read) {
        state.cached = Some(Arc::new(before));
    }
    state.live.push(live);
}
