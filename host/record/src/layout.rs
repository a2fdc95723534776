//! The byte layout of the packed arena, version 2, as the contract 1.0.0 has it. All integers are little-endian, and
//! offsets count from the first byte of the arena. The rules for readers in other languages, with golden arenas, stand
//! in `wit/README.md`. Version 1, of the contract 0.1.0, is in [`crate::version1`].
//!
//! # Batch
//!
//! ```text
//! offset size
//! 0      4    magic "TGB", then the version byte 2
//! 4      4    total length of the arena in bytes
//! 8      4    length of this header: 64 now, a multiple of 8; more means fields that came later
//! 12     4    flags, none yet
//! 16     4    number of records, n
//! 20     4    stride of the record table, s: 72 now, a multiple of 8; more means fields that came later
//! 24     4    offset of the record table, a multiple of 8
//! 28     4    number of sections
//! 32     4    offset of the section table, a multiple of 8; 0 without sections
//! 36     4    0
//! 40     8    batch clock, microseconds since the Unix epoch: the one time an operator sees for this batch
//! 48     16   random seed: the same in every batch of a slot
//! 64     ..   heap: keys, values, headers and attributes, in any order
//! table  sn   one entry for each record
//! ```
//!
//! # Table entry
//!
//! ```text
//! 0   8  event time, microseconds since the Unix epoch; the smallest i64 means none
//! 8   8  offset of the record in its partition
//! 16  8  emit: 0 for a record as read, more for the pieces of a split (see [`crate::child_emit`])
//! 24  4  partition
//! 28  2  source, an index into the pipeline's sources
//! 30  1  origin: 0 the record was read from a source, 1 a timer made it
//! 31  1  fields present in this arena (see [`Fields`]); a clear bit means "not copied in", not "null"
//! 32  2  number of headers
//! 34  2  number of private attributes
//! 36  4  0 in what an operator is given. In the host's own batches the place of a note (see below), counted from 1 and
//!        from the end of the record table; 0 for none
//! 40  8  key: offset, length; the length 0xFFFF_FFFF means null, whatever the offset
//! 48  8  value: the same
//! 56  8  headers: offset, length of the block
//! 64  8  attributes: offset, length of the block
//! ```
//!
//! A block of headers or attributes is a run of `name length u16, value length u32 (0xFFFF_FFFF is null), name, value`.
//!
//! Behind the record table of a batch of the host's own may be notes, of the host and for the host alone: `length u16`
//! and that many bytes each. No operator is given any, and no answer can name one; a record's goes with all that is made
//! of it.
//!
//! # Section table
//!
//! ```text
//! 0   4  kind; a reader that does not know a kind of 0x8000_0000 or more must refuse the arena, others it skips
//! 4   4  number of entries
//! 8   4  offset
//! 12  4  length
//! ```
//!
//! The same holds for flags: a reader that does not know one of the upper sixteen must refuse the arena.
//!
//! # Outcomes
//!
//! ```text
//! 0   4  magic "TGO", then the version byte 2
//! 4   4  total length in bytes
//! 8   4  length of this header: 40 now
//! 12  4  flags, none yet
//! 16  4  number of outcomes, n: that of the batch
//! 20  4  offset of the actions: n bytes, one for each record, in order
//! 24  4  offset of the payloads of the actions that have one, in order, without padding
//! 28  4  length of the payloads
//! 32  4  number of sections
//! 36  4  offset of the section table; 0 without sections
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
//! A patch is a mask byte (1 key, 2 value, 4 headers, 8 attributes, 16 event time; others must be clear) and, for each
//! bit in this order: key and value as length u32 (0xFFFF_FFFF is null) and bytes; headers and attributes as count u16
//! and that many changes `operation u8 (0 set, 1 add, 2 remove), name length u16, value length u32, name, value`; the
//! event time as i64, of which the smallest means none. What a patch does not mention stays as it was; a mask of 0
//! changes nothing. A `remove` has the value length 0xFFFF_FFFF.
//!
//! Section kind [`SAMPLES`], at most once: what the operator measured, by record; entries one after the other, without padding:
//!
//! ```text
//! 0   4  index of the record it belongs to: it counts if that record's outcome does
//! 4   2  index of the metric among those of `describe`, counted from 0
//! 6   2  number of labels: that of the metric
//! 8   8  an amount u64 for a counter, a value f64 for a gauge or a histogram
//! 16  .. the labels' values: length u16, bytes (UTF-8)
//! ```

/// First bytes of a batch arena; the last is the layout's version.
pub const BATCH_MAGIC: [u8; 4] = *b"TGB\x02";
/// First bytes of an outcomes arena; the last is the layout's version.
pub const OUTCOMES_MAGIC: [u8; 4] = *b"TGO\x02";
/// Bytes before the heap of a batch.
pub const BATCH_HEADER: usize = 64;
/// Bytes of one entry of the record table.
pub const ENTRY: usize = 72;
/// Bytes of the header of an outcomes arena.
pub const OUTCOMES_HEADER: usize = 40;
/// Bytes of one entry of a section table.
pub const SECTION: usize = 16;
/// The section of an answer that has samples of metrics.
pub const SAMPLES: u32 = 1;
/// A section of this kind or a larger one has to be understood, or the arena is refused.
pub const CRITICAL: u32 = 0x8000_0000;
/// Flags of which each has to be understood, or the arena is refused.
pub const CRITICAL_FLAGS: u32 = 0xffff_0000;
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
pub struct Fields(u8);

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
    pub const fn from_bits(bits: u8) -> Fields {
        Fields(bits & 15)
    }

    /// The bits of the set.
    pub const fn bits(self) -> u8 {
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

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let end = at.checked_add(2)?;
    Some(u16::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let end = at.checked_add(4)?;
    Some(u32::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let end = at.checked_add(8)?;
    Some(u64::from_le_bytes(bytes.get(at..end)?.try_into().ok()?))
}
