//! A segment in memory: its bytes, and where each of its batches begins.

use tidegate_contract::{IdempotencyKey, LoggedRecord};

use super::format::{self, Batch, ENTRY, EntryHeader, HEADER, Header, LogId};

/// What a disk writes at once, at the least: of a write that was cut short each such piece is there or reads as zeros, since
/// the file had no bytes there before.
const SECTOR: usize = 512;

/// A flaw: at which byte, and what it is.
pub(super) type Flaw = (usize, &'static str);

/// What is left out at the end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// The whole entries of a segment file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
    /// First offset of each entry, and the byte at which its payload begins.
    entries: Vec<(u64, usize)>,
    /// Where the next record goes.
    pub(super) end: u64,
    /// Number of the last group.
    pub(super) group: u64,
    /// Whether the last entry ends its group.
    pub(super) whole: bool,
}

impl Segment {
    /// One without entries.
    pub(super) fn new(header: Header) -> Segment {
        Segment {
            bytes: header.write(),
            ..Segment::of(header, Vec::new())
        }
    }

    fn of(header: Header, bytes: Vec<u8>) -> Segment {
        Segment {
            bytes,
            entries: Vec::new(),
            end: header.first,
            group: header.group,
            whole: true,
            header,
        }
    }

    /// Reads a segment, and says what is torn at its end, which is left out. In every segment but the last one of
    /// its log that is damage: it was synced before the next was begun.
    pub(super) fn read(bytes: Vec<u8>) -> Result<(Segment, Option<Torn>), Flaw> {
        let header = Header::read(&bytes).map_err(|why| (0, why))?;
        let mut segment = Segment::of(header, bytes);
        let mut at = HEADER;
        while at < segment.bytes.len() {
            let Some(entry) = EntryHeader::read(&header.id, &segment.bytes[at..]) else {
                segment.is_torn(at)?;
                let bytes = segment.bytes.len() - at;
                segment.bytes.truncate(at);
                return Ok((segment, Some(Torn { at, bytes })));
            };
            segment.add(at, &entry)?;
            at += ENTRY + entry.length as usize;
        }
        Ok((segment, None))
    }

    /// Of the group that was being written when the process or the machine ended any sectors may be there, of a later one
    /// nothing. An entry that is not whole and lacks no sector, while later ones are there, was once whole.
    fn is_torn(&self, at: usize) -> Result<(), Flaw> {
        let unsynced = self.group + u64::from(self.whole);
        let is_later = |from: &usize| *from < self.bytes.len().saturating_sub(ENTRY);
        let mut later = (at + 1..).take_while(is_later).filter_map(|from| {
            let entry = EntryHeader::read(&self.header.id, &self.bytes[from..])?;
            Some((from, entry.group))
        });
        let damaged = Err((at, "an entry is damaged and later ones follow it"));
        match later.next() {
            None => Ok(()),
            Some((_, group)) if group > unsynced => damaged,
            Some((next, _)) if !self.lacks_sector(at, next) => damaged,
            Some(_) => match later.any(|(_, group)| group > unsynced) {
                true => damaged,
                false => Ok(()),
            },
        }
    }

    /// Whether a sector between these bytes reads as zeros, or what the first one has of them.
    fn lacks_sector(&self, from: usize, to: usize) -> bool {
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let boundary = from.next_multiple_of(SECTOR);
        let first = self.bytes[..to].get(from..boundary);
        let others = self.bytes[..to].get(boundary..).unwrap_or_default();
        first.is_some_and(|first| !first.is_empty() && is_zero(first))
            || others.chunks_exact(SECTOR).any(is_zero)
    }

    /// Adds the entry that begins at this byte.
    pub(super) fn add(&mut self, at: usize, entry: &EntryHeader) -> Result<Batch, Flaw> {
        let from = at + ENTRY;
        let payload = &self.bytes[from..from + entry.length as usize];
        let (batch, _) = Batch::read(payload).ok_or((at, "an entry is not valid"))?;
        if batch.first != self.end || batch.count == 0 {
            return Err((at, "an entry does not begin where the one before it ends"));
        }
        self.entries.push((batch.first, from));
        self.end += u64::from(batch.count);
        (self.group, self.whole) = (entry.group, entry.last);
        Ok(batch)
    }

    /// Appends what was written to the file.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), Flaw> {
        let mut at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        while at < self.bytes.len() {
            let damaged = (at, "an entry is not valid");
            let entry = EntryHeader::read(&self.header.id, &self.bytes[at..]).ok_or(damaged)?;
            self.add(at, &entry)?;
            at += ENTRY + entry.length as usize;
        }
        Ok(())
    }

    /// The idempotency keys of its batches.
    pub(super) fn keys(&self) -> impl Iterator<Item = (IdempotencyKey, u64, u32)> + '_ {
        self.entries.iter().filter_map(|(_, from)| {
            let (batch, _) = Batch::read(&self.bytes[*from..])?;
            Some((batch.idempotency?, batch.first, batch.count))
        })
    }

    /// Its records from this offset on, at most so many and of so many bytes; the first is taken at any size.
    pub(super) fn take(
        &self,
        from: u64,
        records: usize,
        bytes: usize,
    ) -> Result<Vec<LoggedRecord>, Flaw> {
        let mut out = Vec::new();
        let mut left = bytes;
        let begin = self.entries.partition_point(|(first, _)| *first <= from);
        for &(_, at) in &self.entries[begin.saturating_sub(1)..] {
            let invalid = (at, "a record is not valid");
            let (batch, mut rest) = Batch::read(&self.bytes[at..]).ok_or(invalid)?;
            for offset in batch.first..batch.first + u64::from(batch.count) {
                if offset < from {
                    rest.skip_record().ok_or(invalid)?;
                    continue;
                }
                let (record, size) = rest.record().ok_or(invalid)?;
                if !out.is_empty() && (out.len() >= records || size > left) {
                    return Ok(out);
                }
                left = left.saturating_sub(size);
                out.push(LoggedRecord { offset, record });
            }
        }
        Ok(out)
    }
}

/// An entry of a group, as it goes to the file.
pub(super) fn write_entry(id: &LogId, payload: &mut [u8], place: Place, out: &mut Vec<u8>) {
    format::place(payload, place.first);
    let header = EntryHeader {
        length: payload.len() as u32,
        crc: crc32fast::hash(payload),
        group: place.group,
        last: place.last,
    };
    header.write(id, out);
    out.extend_from_slice(payload);
}

/// Where an entry goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) first: u64,
    pub(super) group: u64,
    pub(super) last: bool,
}
