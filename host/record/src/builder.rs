//! Writing a batch.

use std::collections::HashMap;
use std::fmt;

use crate::batch::{Batch, RecordId, RecordView, write_note};
use crate::layout::{
    BATCH_HEADER, BATCH_MAGIC, ENTRY, Fields, MAX_ARENA, MAX_PIECES, NO_TIME, NULL,
};
use crate::pairs::{MAX_NAME, MAX_PAIRS, Pairs, write_pair};
use crate::patch::{Change, Patch};

/// A record that would make the arena larger than [`MAX_ARENA`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaFull {
    /// Bytes the arena would need.
    pub needed: usize,
}

impl fmt::Display for ArenaFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "batch of {} bytes exceeds the limit of {MAX_ARENA} bytes",
            self.needed
        )
    }
}

impl std::error::Error for ArenaFull {}

/// A record that cannot be written as it is. Nothing of it is left out instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRefused {
    /// The arena would be too large.
    ArenaFull(ArenaFull),
    /// It has more headers or private attributes than can be counted.
    Pairs {
        /// Which: "headers" or "attributes".
        field: &'static str,
        /// How many.
        count: usize,
    },
    /// A header or private attribute has a name that is too long.
    Name {
        /// Which: "headers" or "attributes".
        field: &'static str,
        /// Bytes of the name.
        bytes: usize,
    },
}

impl fmt::Display for RecordRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordRefused::ArenaFull(full) => full.fmt(f),
            RecordRefused::Pairs { field, count } => {
                write!(
                    f,
                    "record with {count} {field} exceeds the limit of {MAX_PAIRS}"
                )
            }
            RecordRefused::Name { field, bytes } => write!(
                f,
                "name of {bytes} bytes among the {field} of a record exceeds the limit of {MAX_NAME} bytes"
            ),
        }
    }
}

impl std::error::Error for RecordRefused {}

impl From<ArenaFull> for RecordRefused {
    fn from(full: ArenaFull) -> RecordRefused {
        RecordRefused::ArenaFull(full)
    }
}

/// Emit of a split's piece (counted from 0), of which a record has fewer than [`MAX_PIECES`]: 12 bits for each level of
/// splitting as long as these fit into 63 bits, and from then on the highest bit and a hash of the way. So ids stay
/// unique, are the same after a restart, and no depth exhausts them.
pub fn child_emit(parent: u64, piece: u32) -> u64 {
    const HASHED: u64 = 1 << 63;
    let piece = u64::from(piece) + 1;
    let base = u64::from(MAX_PIECES) + 1;
    let path = parent
        .checked_mul(base)
        .and_then(|path| path.checked_add(piece))
        .filter(|path| *path < HASHED);
    path.unwrap_or_else(|| {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), twice.
        // The parent is mixed before the piece is added, or two parents that differ by a multiple of the constant would
        // have pieces with one id.
        let mut hash = 0u64;
        for part in [parent, piece] {
            hash = hash.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            hash ^= hash >> 31;
        }
        hash | HASHED
    })
}

/// What a record is made of when it enters a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// Where it comes from.
    pub id: RecordId,
    /// Event time, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// The key, or none for null.
    pub key: Option<&'a [u8]>,
    /// The value, or none for null.
    pub value: Option<&'a [u8]>,
    /// Headers: name and value.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Private attributes: name and value.
    pub attributes: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Collects records into one arena.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    arena: Vec<u8>,
    table: Vec<u8>,
    /// What comes behind the table.
    notes: Vec<u8>,
}

impl Default for BatchBuilder {
    fn default() -> BatchBuilder {
        BatchBuilder::new(Vec::new())
    }
}

impl BatchBuilder {
    /// An empty builder that writes into this memory (for example that of a batch that is done).
    pub fn new(mut arena: Vec<u8>) -> BatchBuilder {
        arena.clear();
        arena.resize(BATCH_HEADER, 0);
        BatchBuilder {
            arena,
            table: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Number of records so far.
    pub fn len(&self) -> usize {
        self.table.len() / ENTRY
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of the arena so far, its table included.
    pub fn bytes(&self) -> usize {
        self.arena.len() + self.table.len() + self.notes.len()
    }

    /// Notes something with the record that was added last: of the host, and for the host alone. What there is no room for is
    /// left out.
    pub fn note(&mut self, note: &[u8]) {
        let Some(entry) = self.table.last_chunk_mut::<ENTRY>() else {
            return;
        };
        let place = write_note(&mut self.notes, 0, note);
        entry[36..40].copy_from_slice(&place.to_le_bytes());
    }

    /// Adds a record, or nothing of it.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), RecordRefused> {
        fits("headers", record.headers)?;
        fits("attributes", record.attributes)?;
        let pairs = |pairs: &[(&str, Option<&[u8]>)]| {
            pairs
                .iter()
                .map(|(n, v)| 6 + n.len() + v.map_or(0, <[u8]>::len))
                .sum::<usize>()
        };
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        self.reserve(
            size(record.key)
                + size(record.value)
                + pairs(record.headers)
                + pairs(record.attributes),
        )?;
        let key = self.field(record.key);
        let value = self.field(record.value);
        let (headers, header_count) = self.pairs(record.headers);
        let (attributes, attribute_count) = self.pairs(record.attributes);
        self.entry(&Entry {
            id: record.id,
            event_time: record.event_time,
            fields: Fields::ALL,
            counts: (header_count, attribute_count),
            spans: [key, value, headers, attributes],
        });
        Ok(())
    }

    /// Adds a copy of a record, as it is.
    pub fn push_record(&mut self, record: &RecordView<'_>) -> Result<(), ArenaFull> {
        let note = record.note();
        self.reserve(note.map_or(0, |note| note.len() + 2))?;
        self.push_parts(&Parts::of(record, record.fields()))?;
        if let Some(note) = note {
            self.note(note);
        }
        Ok(())
    }

    pub(crate) fn push_parts(&mut self, parts: &Parts<'_>) -> Result<(), ArenaFull> {
        self.reserve(parts.heap())?;
        let spans = [
            self.field(parts.key),
            self.field(parts.value),
            self.field(Some(parts.headers)),
            self.field(Some(parts.attributes)),
        ];
        self.entry(&parts.entry(spans));
        Ok(())
    }

    /// Adds a copy of a record with a patch applied, under this emit, or nothing of it.
    pub fn push_patched(
        &mut self,
        record: &RecordView<'_>,
        patch: &Patch<'_>,
        emit: u64,
    ) -> Result<(), RecordRefused> {
        let key = patch.key().unwrap_or(record.key());
        let value = patch.value().unwrap_or(record.value());
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        self.reserve(
            size(key)
                + size(value)
                + record.headers().as_bytes().len()
                + record.attributes().as_bytes().len()
                + record.note().map_or(0, |note| note.len() + 2)
                + patch.size(),
        )?;
        let start = self.arena.len();
        let key = self.field(key);
        let value = self.field(value);
        let counts = record.pair_counts();
        let (headers, header_count) = self.changed(record.headers(), counts.0, patch.headers());
        let (attributes, attribute_count) =
            self.changed(record.attributes(), counts.1, patch.attributes());
        let count =
            |field, count| u16::try_from(count).map_err(|_| RecordRefused::Pairs { field, count });
        let counts = count("headers", header_count)
            .and_then(|headers| Ok((headers, count("attributes", attribute_count)?)))
            .inspect_err(|_| self.arena.truncate(start))?;
        self.entry(&Entry {
            id: RecordId {
                emit,
                ..record.id()
            },
            event_time: patch.event_time().unwrap_or(record.event_time()),
            fields: Fields::ALL,
            counts,
            spans: [key, value, headers, attributes],
        });
        if let Some(note) = record.note() {
            self.note(note);
        }
        Ok(())
    }

    /// Closes the arena; `clock` is the one time (microseconds since the Unix epoch) an operator will see.
    pub fn finish(mut self, clock: i64) -> Batch {
        while !self.arena.len().is_multiple_of(8) {
            self.arena.push(0);
        }
        let table = self.arena.len() as u32;
        let records = self.len() as u32;
        self.arena.extend_from_slice(&self.table);
        self.arena.extend_from_slice(&self.notes);
        let total = self.arena.len() as u32;
        let header = header(total, records, table, clock);
        self.arena[..BATCH_HEADER].copy_from_slice(&header);
        Batch::trusted(self.arena)
    }

    fn reserve(&self, payload: usize) -> Result<(), ArenaFull> {
        let needed = self
            .bytes()
            .saturating_add(payload)
            .saturating_add(ENTRY + 8);
        if needed > MAX_ARENA {
            Err(ArenaFull { needed })
        } else {
            Ok(())
        }
    }

    fn field(&mut self, bytes: Option<&[u8]>) -> (u32, u32) {
        let at = self.arena.len() as u32;
        match bytes {
            None => (at, NULL),
            Some(bytes) => {
                self.arena.extend_from_slice(bytes);
                (at, bytes.len() as u32)
            }
        }
    }

    /// Writes the pairs, of which there are no more than can be counted.
    fn pairs(&mut self, pairs: &[(&str, Option<&[u8]>)]) -> ((u32, u32), u16) {
        let at = self.arena.len();
        for (name, value) in pairs {
            write_pair(&mut self.arena, name, *value);
        }
        (
            (at as u32, (self.arena.len() - at) as u32),
            pairs.len() as u16,
        )
    }

    /// Writes the pairs with the changes applied one after the other: a set or remove takes away all of its name that
    /// is there by then, a set or add appends. Says how many there are then, which may be more than can be counted.
    fn changed<'a>(
        &mut self,
        pairs: Pairs<'_>,
        count: u16,
        changes: impl Iterator<Item = Change<'a>> + Clone,
    ) -> ((u32, u32), usize) {
        let at = self.arena.len();
        let mut written = 0;
        if changes.clone().next().is_none() {
            self.arena.extend_from_slice(pairs.as_bytes());
            written = usize::from(count);
        } else {
            let removals = Removals::of(changes.clone());
            for pair in pairs.filter(|pair| removals.last(pair.name).is_none()) {
                write_pair(&mut self.arena, pair.name, pair.value);
                written += 1;
            }
            for (index, change) in changes.enumerate() {
                if let Change::Set { name, value } | Change::Add { name, value } = change
                    && removals.last(name).is_none_or(|last| last <= index)
                {
                    write_pair(&mut self.arena, name, value);
                    written += 1;
                }
            }
        }
        ((at as u32, (self.arena.len() - at) as u32), written)
    }

    fn entry(&mut self, entry: &Entry) {
        self.table.extend_from_slice(&entry.bytes());
    }
}

/// Whether pairs can be written as they are.
fn fits(field: &'static str, pairs: &[(&str, Option<&[u8]>)]) -> Result<(), RecordRefused> {
    let count = pairs.len();
    if count > MAX_PAIRS {
        return Err(RecordRefused::Pairs { field, count });
    }
    match pairs.iter().find(|(name, _)| name.len() > MAX_NAME) {
        Some((name, _)) => Err(RecordRefused::Name {
            field,
            bytes: name.len(),
        }),
        None => Ok(()),
    }
}

/// The last change that takes away a name: its index among the changes. They are decoded once, not for each pair: a
/// record may have 65,535 pairs, and each change a name of 65,535 bytes to validate.
struct Removals<'a> {
    /// The first ones lie on the stack: as long as there are no others, this costs no allocation.
    first: [Option<(&'a str, usize)>; FEW],
    /// The others are indexed: an operator may send 65,535, and must not cost the host the square of that.
    others: HashMap<&'a str, usize>,
}

/// Changes that are compared with a pair one after the other.
const FEW: usize = 16;

impl<'a> Removals<'a> {
    fn of(changes: impl Iterator<Item = Change<'a>>) -> Removals<'a> {
        let mut removals = removals(changes);
        let first = std::array::from_fn(|_| removals.next());
        let others = removals.collect();
        Removals { first, others }
    }

    fn last(&self, name: &str) -> Option<usize> {
        if let Some(index) = self.others.get(name) {
            return Some(*index);
        }
        let mut last = self.first.iter().rev().flatten();
        let (_, index) = last.find(|(removed, _)| *removed == name)?;
        Some(*index)
    }
}

fn removals<'a>(
    changes: impl Iterator<Item = Change<'a>>,
) -> impl Iterator<Item = (&'a str, usize)> {
    changes
        .enumerate()
        .filter_map(|(index, change)| match change {
            Change::Set { name, .. } | Change::Remove { name } => Some((name, index)),
            Change::Add { .. } => None,
        })
}

/// What a record has of some fields, as it lies in its arena.
pub(crate) struct Parts<'a> {
    pub(crate) id: RecordId,
    pub(crate) event_time: Option<i64>,
    pub(crate) fields: Fields,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [u8],
    pub(crate) attributes: &'a [u8],
    /// Number of headers and of attributes.
    pub(crate) counts: (u16, u16),
}

impl<'a> Parts<'a> {
    #[inline]
    pub(crate) fn of(record: &RecordView<'a>, fields: Fields) -> Parts<'a> {
        let (headers, attributes) = record.pair_counts();
        let mut parts = Parts {
            id: record.id(),
            event_time: record.event_time(),
            fields: Fields::from_bits(fields.bits() & record.fields().bits()),
            key: None,
            value: None,
            headers: &[],
            attributes: &[],
            counts: (0, 0),
        };
        if fields.contains(Fields::KEY) {
            parts.key = record.key();
        }
        if fields.contains(Fields::VALUE) {
            parts.value = record.value();
        }
        if fields.contains(Fields::HEADERS) {
            parts.headers = record.headers().as_bytes();
            parts.counts.0 = headers;
        }
        if fields.contains(Fields::ATTRIBUTES) {
            parts.attributes = record.attributes().as_bytes();
            parts.counts.1 = attributes;
        }
        parts
    }

    /// The entry of a record whose fields lie at these places.
    pub(crate) fn entry(&self, spans: [(u32, u32); 4]) -> Entry {
        Entry {
            id: self.id,
            event_time: self.event_time,
            fields: self.fields,
            counts: self.counts,
            spans,
        }
    }

    /// Bytes they take in the heap of an arena.
    #[inline]
    pub(crate) fn heap(&self) -> usize {
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        size(self.key) + size(self.value) + self.headers.len() + self.attributes.len()
    }
}

/// An entry of the record table.
pub(crate) struct Entry {
    pub(crate) id: RecordId,
    pub(crate) event_time: Option<i64>,
    pub(crate) fields: Fields,
    pub(crate) counts: (u16, u16),
    /// Offset and length of key, value, headers, attributes.
    pub(crate) spans: [(u32, u32); 4],
}

impl Entry {
    pub(crate) fn bytes(&self) -> [u8; ENTRY] {
        let mut bytes = [0u8; ENTRY];
        bytes[0..8].copy_from_slice(&self.event_time.unwrap_or(NO_TIME).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.emit.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.id.partition.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.id.source.to_le_bytes());
        bytes[30] = self.id.origin as u8;
        bytes[31] = self.fields.bits();
        bytes[32..34].copy_from_slice(&self.counts.0.to_le_bytes());
        bytes[34..36].copy_from_slice(&self.counts.1.to_le_bytes());
        for (span, (offset, length)) in bytes[40..].chunks_exact_mut(8).zip(self.spans) {
            span[..4].copy_from_slice(&offset.to_le_bytes());
            span[4..].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }
}

/// The header of a batch that has no sections.
pub(crate) fn header(total: u32, records: u32, table: u32, clock: i64) -> [u8; BATCH_HEADER] {
    let mut header = [0; BATCH_HEADER];
    header[..4].copy_from_slice(&BATCH_MAGIC);
    let fields = [
        (4, total),
        (8, BATCH_HEADER as u32),
        (16, records),
        (20, ENTRY as u32),
        (24, table),
    ];
    for (at, value) in fields {
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    header[40..48].copy_from_slice(&clock.to_le_bytes());
    header
}
