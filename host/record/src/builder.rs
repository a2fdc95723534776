//! Writing a batch.

use std::collections::HashMap;
use std::fmt;

use crate::batch::{Batch, RecordId, RecordView};
use crate::layout::{
    BATCH_HEADER, BATCH_MAGIC, ENTRY, Fields, MAX_ARENA, MAX_PIECES, NO_TIME, NULL,
};
use crate::pairs::{Pairs, write_pair};
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

/// A record split so often, or into so many pieces, that its pieces cannot be numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitTooDeep {
    /// Emit index of the record that was split.
    pub parent: u32,
    /// Index of the piece.
    pub piece: u32,
}

impl fmt::Display for SplitTooDeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "piece {} of the record with emit index {} cannot be numbered: the index has 32 bits, each split of a piece takes 12 bits and has at most {MAX_PIECES} pieces",
            self.piece, self.parent
        )
    }
}

impl std::error::Error for SplitTooDeep {}

/// Emit index of a split's piece (counted from 0): 12 bits for each level of splitting, so that ids stay unique and
/// are the same after a restart.
pub fn child_emit(parent: u32, piece: u32) -> Result<u32, SplitTooDeep> {
    let too_deep = SplitTooDeep { parent, piece };
    if piece >= MAX_PIECES {
        return Err(too_deep);
    }
    parent
        .checked_mul(MAX_PIECES + 1)
        .and_then(|base| base.checked_add(piece + 1))
        .ok_or(too_deep)
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
        self.arena.len() + self.table.len()
    }

    /// Adds a record.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), ArenaFull> {
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
        self.push_fields(record, record.fields())
    }

    /// Adds a copy of a record that carries only some fields.
    pub fn push_fields(
        &mut self,
        record: &RecordView<'_>,
        fields: Fields,
    ) -> Result<(), ArenaFull> {
        let key = if fields.contains(Fields::KEY) {
            record.key()
        } else {
            None
        };
        let value = if fields.contains(Fields::VALUE) {
            record.value()
        } else {
            None
        };
        let (mut counts, mut blocks) = (record.pair_counts(), (&[][..], &[][..]));
        if fields.contains(Fields::HEADERS) {
            blocks.0 = record.headers().as_bytes();
        } else {
            counts.0 = 0;
        }
        if fields.contains(Fields::ATTRIBUTES) {
            blocks.1 = record.attributes().as_bytes();
        } else {
            counts.1 = 0;
        }
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        self.reserve(size(key) + size(value) + blocks.0.len() + blocks.1.len())?;
        let spans = [
            self.field(key),
            self.field(value),
            self.field(Some(blocks.0)),
            self.field(Some(blocks.1)),
        ];
        self.entry(&Entry {
            id: record.id(),
            event_time: record.event_time(),
            fields: Fields::from_bits(fields.bits() & record.fields().bits()),
            counts,
            spans,
        });
        Ok(())
    }

    /// Adds a copy of a record with a patch applied, under this emit index.
    pub fn push_patched(
        &mut self,
        record: &RecordView<'_>,
        patch: &Patch<'_>,
        emit: u32,
    ) -> Result<(), ArenaFull> {
        let key = patch.key().unwrap_or(record.key());
        let value = patch.value().unwrap_or(record.value());
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        self.reserve(
            size(key)
                + size(value)
                + record.headers().as_bytes().len()
                + record.attributes().as_bytes().len()
                + patch.size(),
        )?;
        let key = self.field(key);
        let value = self.field(value);
        let (headers, header_count) =
            self.changed(record.headers(), record.pair_counts().0, patch.headers());
        let (attributes, attribute_count) = self.changed(
            record.attributes(),
            record.pair_counts().1,
            patch.attributes(),
        );
        self.entry(&Entry {
            id: RecordId {
                emit,
                ..record.id()
            },
            event_time: patch.event_time().unwrap_or(record.event_time()),
            fields: Fields::ALL,
            counts: (header_count, attribute_count),
            spans: [key, value, headers, attributes],
        });
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
        let total = self.arena.len() as u32;
        self.arena[..4].copy_from_slice(&BATCH_MAGIC);
        self.arena[4..8].copy_from_slice(&total.to_le_bytes());
        self.arena[8..12].copy_from_slice(&records.to_le_bytes());
        self.arena[12..16].copy_from_slice(&table.to_le_bytes());
        self.arena[16..24].copy_from_slice(&clock.to_le_bytes());
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

    /// Writes the pairs; past 65,535 the count has no room and the rest is left out.
    fn pairs(&mut self, pairs: &[(&str, Option<&[u8]>)]) -> ((u32, u32), u16) {
        let at = self.arena.len();
        let pairs = &pairs[..pairs.len().min(u16::MAX as usize)];
        for (name, value) in pairs {
            write_pair(&mut self.arena, name, *value);
        }
        (
            (at as u32, (self.arena.len() - at) as u32),
            pairs.len() as u16,
        )
    }

    /// Writes the pairs with the changes applied one after the other: a set or remove takes away all of its name that
    /// is there by then, a set or add appends.
    fn changed<'a>(
        &mut self,
        pairs: Pairs<'_>,
        count: u16,
        changes: impl Iterator<Item = Change<'a>> + Clone,
    ) -> ((u32, u32), u16) {
        let at = self.arena.len();
        let mut written = 0u16;
        if changes.clone().next().is_none() {
            self.arena.extend_from_slice(pairs.as_bytes());
            written = count;
        } else {
            let removals = Removals::of(changes.clone());
            for pair in pairs.filter(|pair| removals.last(pair.name).is_none()) {
                write_pair(&mut self.arena, pair.name, pair.value);
                written += 1;
            }
            for (index, change) in changes.enumerate() {
                if let Change::Set { name, value } | Change::Add { name, value } = change
                    && removals.last(name).is_none_or(|last| last <= index)
                    && written < u16::MAX
                {
                    write_pair(&mut self.arena, name, value);
                    written += 1;
                }
            }
        }
        ((at as u32, (self.arena.len() - at) as u32), written)
    }

    fn entry(&mut self, entry: &Entry) {
        let mut bytes = [0u8; ENTRY];
        bytes[0..8].copy_from_slice(&entry.event_time.unwrap_or(NO_TIME).to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.id.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&entry.id.partition.to_le_bytes());
        bytes[20..24].copy_from_slice(&entry.id.emit.to_le_bytes());
        bytes[24..26].copy_from_slice(&entry.id.source.to_le_bytes());
        bytes[26..28].copy_from_slice(&entry.counts.0.to_le_bytes());
        bytes[28..30].copy_from_slice(&entry.counts.1.to_le_bytes());
        bytes[30..32].copy_from_slice(&entry.fields.bits().to_le_bytes());
        for (index, (offset, length)) in entry.spans.iter().enumerate() {
            let at = 32 + 8 * index;
            bytes[at..at + 4].copy_from_slice(&offset.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        }
        self.table.extend_from_slice(&bytes);
    }
}

/// The last change that takes away a name: its index among the changes.
enum Removals<'a, I> {
    /// A few changes are read again for each name; this costs no allocation.
    Few(I),
    /// Many are indexed: an operator may send 65,535, and must not cost the host the square of that.
    Many(HashMap<&'a str, usize>),
}

impl<'a, I: Iterator<Item = Change<'a>> + Clone> Removals<'a, I> {
    const FEW: usize = 16;

    fn of(changes: I) -> Removals<'a, I> {
        if changes.clone().nth(Self::FEW).is_none() {
            Removals::Few(changes)
        } else {
            Removals::Many(removals(changes).collect())
        }
    }

    fn last(&self, name: &str) -> Option<usize> {
        match self {
            Removals::Few(changes) => removals(changes.clone())
                .filter(|(removed, _)| *removed == name)
                .map(|(_, index)| index)
                .last(),
            Removals::Many(index) => index.get(name).copied(),
        }
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

struct Entry {
    id: RecordId,
    event_time: Option<i64>,
    fields: Fields,
    counts: (u16, u16),
    /// Offset and length of key, value, headers, attributes.
    spans: [(u32, u32); 4],
}
