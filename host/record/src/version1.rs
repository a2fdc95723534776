//! The packed arena of the contract 0.1.0, for operators and commit logs from before 1.0.0.
//!
//! # Batch
//!
//! ```text
//! offset size
//! 0      4    magic "TGB", then the version byte 1
//! 4      4    total length of the arena in bytes
//! 8      4    number of records, n
//! 12     4    offset of the record table, a multiple of 8
//! 16     8    batch clock, microseconds since the Unix epoch
//! 24     ..   heap: keys, values, headers and attributes, in any order
//! table  64n  one entry for each record
//! ```
//!
//! # Table entry
//!
//! ```text
//! 0   8  event time, microseconds since the Unix epoch; the smallest i64 means none
//! 8   8  offset of the record in its partition
//! 16  4  partition
//! 20  4  emit index: of more than 32 bits the lower ones
//! 24  2  source, an index into the pipeline's sources
//! 26  2  number of headers
//! 28  2  number of private attributes
//! 30  2  fields present
//! 32  8  key: offset, length
//! 40  8  value: offset, length
//! 48  8  headers: offset, length of the block
//! 56  8  attributes: offset, length of the block
//! ```
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
//! Actions and payloads are those of version 2.

use crate::batch::{Batch, BatchError, Origin, RecordId};
use crate::builder::{BatchBuilder, Entry, Parts};
use crate::layout::{Fields, NO_TIME, NULL, u16_at, u32_at, u64_at};
use crate::pairs::Pairs;

pub(crate) const BATCH_MAGIC: [u8; 4] = *b"TGB\x01";
pub(crate) const OUTCOMES_MAGIC: [u8; 4] = *b"TGO\x01";
pub(crate) const BATCH_HEADER: usize = 24;
pub(crate) const ENTRY: usize = 64;
pub(crate) const OUTCOMES_HEADER: usize = 16;

pub(crate) fn header(total: u32, records: u32, table: u32, clock: i64) -> [u8; BATCH_HEADER] {
    let mut header = [0; BATCH_HEADER];
    header[..4].copy_from_slice(&BATCH_MAGIC);
    header[4..8].copy_from_slice(&total.to_le_bytes());
    header[8..12].copy_from_slice(&records.to_le_bytes());
    header[12..16].copy_from_slice(&table.to_le_bytes());
    header[16..].copy_from_slice(&clock.to_le_bytes());
    header
}

pub(crate) fn entry(entry: &Entry) -> [u8; ENTRY] {
    let mut bytes = [0u8; ENTRY];
    bytes[0..8].copy_from_slice(&entry.event_time.unwrap_or(NO_TIME).to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.id.offset.to_le_bytes());
    bytes[16..20].copy_from_slice(&entry.id.partition.to_le_bytes());
    bytes[20..24].copy_from_slice(&(entry.id.emit as u32).to_le_bytes());
    bytes[24..26].copy_from_slice(&entry.id.source.to_le_bytes());
    bytes[26..28].copy_from_slice(&entry.counts.0.to_le_bytes());
    bytes[28..30].copy_from_slice(&entry.counts.1.to_le_bytes());
    bytes[30] = entry.fields.bits();
    for (span, (offset, length)) in bytes[32..].chunks_exact_mut(8).zip(entry.spans) {
        span[..4].copy_from_slice(&offset.to_le_bytes());
        span[4..].copy_from_slice(&length.to_le_bytes());
    }
    bytes
}

/// Reads a batch of this layout into one of the present.
pub(crate) fn read(bytes: &[u8]) -> Result<Batch, BatchError> {
    let header = |at| u32_at(bytes, at).map_or(0, |value| value as usize);
    let (stated, records, offset) = (header(4), header(8), header(12));
    if stated != bytes.len() || bytes.len() < BATCH_HEADER {
        return Err(BatchError::Length {
            stated,
            found: bytes.len(),
        });
    }
    let end = records
        .checked_mul(ENTRY)
        .and_then(|length| offset.checked_add(length));
    let table = match bytes.get(offset..) {
        Some(table) if offset >= BATCH_HEADER && end == Some(bytes.len()) => table,
        _ => return Err(BatchError::Table { offset, records }),
    };
    let heap = &bytes[..offset];
    let mut builder = BatchBuilder::default();
    for (record, entry) in table.chunks_exact(ENTRY).enumerate() {
        let parts = parts(heap, entry).map_err(|field| BatchError::Field { record, field })?;
        builder
            .push_parts(&parts)
            .map_err(|full| BatchError::Length {
                stated: full.needed,
                found: bytes.len(),
            })?;
    }
    let clock = u64_at(bytes, 16).unwrap_or_default() as i64;
    Ok(builder.finish(clock))
}

fn parts<'a>(heap: &'a [u8], entry: &[u8]) -> Result<Parts<'a>, &'static str> {
    let span = |at: usize| -> Option<Option<&'a [u8]>> {
        let (offset, length) = (u32_at(entry, at)? as usize, u32_at(entry, at + 4)?);
        if length == NULL {
            return Some(None);
        }
        Some(Some(
            heap.get(offset..offset.checked_add(length as usize)?)?,
        ))
    };
    let pairs = |at: usize, count: usize, field| -> Result<(&'a [u8], u16), &'static str> {
        let count = u16_at(entry, count).unwrap_or_default();
        let block = span(at).ok_or(field)?.unwrap_or_default();
        match Pairs::check(block, count) {
            true => Ok((block, count)),
            false => Err(field),
        }
    };
    let number = |at| u64_at(entry, at).unwrap_or_default();
    let half = |at| u32_at(entry, at).unwrap_or_default();
    let time = number(0) as i64;
    let (headers, header_count) = pairs(48, 26, "headers")?;
    let (attributes, attribute_count) = pairs(56, 28, "attributes")?;
    Ok(Parts {
        id: RecordId {
            origin: Origin::Source,
            source: u16_at(entry, 24).unwrap_or_default(),
            partition: half(16),
            offset: number(8),
            emit: u64::from(half(20)),
        },
        event_time: (time != NO_TIME).then_some(time),
        fields: Fields::from_bits(entry[30]),
        key: span(32).ok_or("key")?,
        value: span(40).ok_or("value")?,
        headers,
        attributes,
        counts: (header_count, attribute_count),
    })
}
