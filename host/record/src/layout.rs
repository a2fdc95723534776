//! The byte layout of the packed arena, version 1. All integers are little-endian.
//!
//! # Batch
//!
//! ```text
//! offset size
//! 0      4    magic "TGB", then the version byte 1
//! 4      4    total length of the arena in bytes
//! 8      4    number of records, n
//! 12     4    offset of the record table, a multiple of 8
//! 16     8    batch clock, microseconds since the Unix epoch: the one time an operator sees for this batch
//! 24     ..   heap: keys, values, headers and attributes, in any order
//! table  64n  one entry for each record
//! ```
//!
//! # Table entry (64 bytes)
//!
//! ```text
//! 0   8  event time, microseconds since the Unix epoch; the smallest i64 means none
//! 8   8  offset of the record in its partition
//! 16  4  partition
//! 20  4  emit index: 0 for a record as read, more for the pieces of a split
//! 24  2  source, an index into the pipeline's sources
//! 26  2  number of headers
//! 28  2  number of private attributes
//! 30  2  fields present in this arena (see [`Fields`]); a clear bit means "not copied in", not "null"
//! 32  8  key: offset, length; the length 0xFFFF_FFFF means null
//! 40  8  value: offset, length; the same
//! 48  8  headers: offset, length of the block
//! 56  8  attributes: offset, length of the block
//! ```
//!
//! A block of headers or attributes is a run of `name length u16, value length u32 (0xFFFF_FFFF is null), name, value`.
//!
//! # Outcomes
//!
//! ```text
//! 0   4  magic "TGO", then the version byte 1
//! 4   4  total length in bytes
//! 8   4  number of outcomes, n: that of the batch
//! 12  4  offset of the payloads
//! 16  n  one action byte for each record, in order
//! ..     payloads of the actions that have one, in order, without padding
//! ```
//!
//! | action | code | payload |
//! |---|---|---|
//! | pass | 0 | none |
//! | drop | 1 | none |
//! | replace | 2 | a patch |
//! | split | 3 | count u32, then that many of: output u16, patch |
//! | route | 4 | output u16, patch |
//! | retry | 5 | delay in milliseconds u32, reason length u32, reason |
//! | dead-letter | 6 | reason length u32, reason |
//!
//! Output 0 is the stage's main output; output k is the k-th named output of `describe`, counted from 1.
//!
//! A patch is a mask byte (1 key, 2 value, 4 headers, 8 attributes, 16 event time) and, for each bit in this order:
//! key and value as length u32 (0xFFFF_FFFF is null) and bytes; headers and attributes as count u16 and that many
//! changes `operation u8 (0 set, 1 add, 2 remove), name length u16, value length u32, name, value`; the event time as
//! i64. What a patch does not mention stays as it was.

/// First bytes of a batch arena; the last is the layout's version.
pub const BATCH_MAGIC: [u8; 4] = *b"TGB\x01";
/// First bytes of an outcomes arena; the last is the layout's version.
pub const OUTCOMES_MAGIC: [u8; 4] = *b"TGO\x01";
/// Bytes before the heap of a batch.
pub const BATCH_HEADER: usize = 24;
/// Bytes of one entry of the record table.
pub const ENTRY: usize = 64;
/// Bytes before the action codes of an outcomes arena.
pub const OUTCOMES_HEADER: usize = 16;
/// The length that stands for null.
pub const NULL: u32 = u32::MAX;
/// The event time that stands for none.
pub const NO_TIME: i64 = i64::MIN;
/// The largest arena this crate writes, in bytes (1 GiB); offsets stay far from the 32-bit border.
pub const MAX_ARENA: usize = 1 << 30;
/// The most pieces one record can be split into.
pub const MAX_PIECES: u32 = 4095;

/// A set of record fields: what an arena carries, or what an operator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u16);

impl Fields {
    /// No field: event time and record id are always there.
    pub const NONE: Fields = Fields(0);
    /// The key.
    pub const KEY: Fields = Fields(1);
    /// The value.
    pub const VALUE: Fields = Fields(2);
    /// The headers.
    pub const HEADERS: Fields = Fields(4);
    /// The private attributes.
    pub const ATTRIBUTES: Fields = Fields(8);
    /// Every field.
    pub const ALL: Fields = Fields(15);

    /// The set with these bits; unknown bits are ignored.
    pub const fn from_bits(bits: u16) -> Fields {
        Fields(bits & 15)
    }

    /// The bits of the set.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Both sets together.
    pub const fn and(self, other: Fields) -> Fields {
        Fields(self.0 | other.0)
    }

    /// Whether every field of `other` is in this set.
    pub const fn contains(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// The field of this name: `key`, `value`, `headers` or `attributes`.
    pub fn named(name: &str) -> Option<Fields> {
        match name {
            "key" => Some(Fields::KEY),
            "value" => Some(Fields::VALUE),
            "headers" => Some(Fields::HEADERS),
            "attributes" => Some(Fields::ATTRIBUTES),
            _ => None,
        }
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let end = at.checked_add(2)?;
    Some(u16::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let end = at.checked_add(4)?;
    Some(u32::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let end = at.checked_add(8)?;
    Some(u64::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}
