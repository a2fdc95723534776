//! Reading a batch: the checked arena and the views into it.

use std::fmt;

use crate::layout::{
    BATCH_HEADER, BATCH_MAGIC, ENTRY, Fields, NO_TIME, NULL, u16_at, u32_at, u64_at,
};
use crate::pairs::Pairs;

/// Where a record comes from, and which piece of it this is. Unique in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordId {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// Partition of the source.
    pub partition: u32,
    /// Offset in the partition: a Kafka offset, or the byte at which a line of a file begins.
    pub offset: u64,
    /// 0 for a record as read; see [`crate::child_emit`] for the pieces of a split.
    pub emit: u32,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.source, self.partition, self.offset)?;
        if self.emit != 0 {
            write!(f, "/{}", self.emit)?;
        }
        Ok(())
    }
}

/// Why bytes are not a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The first four bytes are not those of this layout and version.
    Magic([u8; 4]),
    /// The arena is shorter than its header, or its stated length is not its length.
    Length {
        /// What the header states, in bytes.
        stated: usize,
        /// What is there, in bytes.
        found: usize,
    },
    /// The record table does not fit in the arena or is not aligned.
    Table {
        /// Stated offset of the table.
        offset: usize,
        /// Stated number of records.
        records: usize,
    },
    /// A field of a record lies outside the heap or is malformed.
    Field {
        /// Index of the record.
        record: usize,
        /// `key`, `value`, `headers` or `attributes`.
        field: &'static str,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::Magic(found) => {
                write!(
                    f,
                    "batch begins with {found:02x?}, expected {BATCH_MAGIC:02x?}"
                )
            }
            BatchError::Length { stated, found } => {
                write!(f, "batch states {stated} bytes but has {found}")
            }
            BatchError::Table { offset, records } => {
                write!(
                    f,
                    "record table of {records} entries at byte {offset} does not fit the batch"
                )
            }
            BatchError::Field { record, field } => {
                write!(
                    f,
                    "{field} of record {record} lies outside the batch or is malformed"
                )
            }
        }
    }
}

impl std::error::Error for BatchError {}

/// A checked batch that owns its arena.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Checks the bytes and takes them as a batch.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Batch, BatchError> {
        BatchView::parse(&bytes)?;
        Ok(Batch { bytes })
    }

    pub(crate) fn trusted(bytes: Vec<u8>) -> Batch {
        debug_assert!(BatchView::parse(&bytes).is_ok());
        Batch { bytes }
    }

    /// The view through which records are read.
    pub fn view(&self) -> BatchView<'_> {
        BatchView::trusted(&self.bytes)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The arena, as it goes to an operator or to disk.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The arena's memory, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.view().records()).finish()
    }
}

/// A checked batch in borrowed memory.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    bytes: &'a [u8],
    table: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Checks the bytes and views them as a batch.
    pub fn parse(bytes: &'a [u8]) -> Result<BatchView<'a>, BatchError> {
        let view = BatchView::parse_frame(bytes)?;
        let heap = &bytes[..bytes.len() - view.table.len()];
        for (index, entry) in view.table.chunks_exact(ENTRY).enumerate() {
            check_entry(heap, entry).map_err(|field| BatchError::Field {
                record: index,
                field,
            })?;
        }
        Ok(view)
    }

    /// Checks the header and the place of the table, and leaves the records as they are: for an operator, which gets
    /// batches that the host has checked. In a record that is malformed after all, fields look null or empty; nothing
    /// outside the bytes is ever read.
    pub fn parse_frame(bytes: &'a [u8]) -> Result<BatchView<'a>, BatchError> {
        let short = BatchError::Length {
            stated: BATCH_HEADER,
            found: bytes.len(),
        };
        let magic: [u8; 4] = bytes
            .get(..4)
            .and_then(|magic| magic.try_into().ok())
            .ok_or(short.clone())?;
        if magic != BATCH_MAGIC {
            return Err(BatchError::Magic(magic));
        }
        let header = |at| {
            u32_at(bytes, at)
                .map(|value| value as usize)
                .ok_or(short.clone())
        };
        let (stated, records, offset) = (header(4)?, header(8)?, header(12)?);
        u64_at(bytes, 16).ok_or(short)?;
        if stated != bytes.len() {
            return Err(BatchError::Length {
                stated,
                found: bytes.len(),
            });
        }
        let bad_table = BatchError::Table { offset, records };
        if offset < BATCH_HEADER || !offset.is_multiple_of(8) {
            return Err(bad_table);
        }
        let end = records
            .checked_mul(ENTRY)
            .and_then(|length| offset.checked_add(length));
        if end != Some(bytes.len()) {
            return Err(bad_table);
        }
        Ok(BatchView {
            bytes,
            table: &bytes[offset..],
        })
    }

    /// Views bytes that were checked before.
    fn trusted(bytes: &'a [u8]) -> BatchView<'a> {
        let offset = u32_at(bytes, 12).map_or(bytes.len(), |offset| offset as usize);
        BatchView {
            bytes,
            table: bytes.get(offset..).unwrap_or_default(),
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.table.len() / ENTRY
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The one clock value of the batch, microseconds since the Unix epoch.
    pub fn clock(&self) -> i64 {
        u64_at(self.bytes, 16).unwrap_or_default() as i64
    }

    /// The record at this index, or none past the end.
    pub fn get(&self, index: usize) -> Option<RecordView<'a>> {
        let at = index.checked_mul(ENTRY)?;
        let entry = self.table.get(at..at + ENTRY)?.first_chunk::<ENTRY>()?;
        Some(RecordView {
            bytes: self.bytes,
            entry,
        })
    }

    /// The records in order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = RecordView<'a>> + use<'a> {
        let bytes = self.bytes;
        let (entries, _) = self.table.as_chunks::<ENTRY>();
        entries.iter().map(move |entry| RecordView { bytes, entry })
    }

    /// The arena.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

fn check_entry(heap: &[u8], entry: &[u8]) -> Result<(), &'static str> {
    let block = |at: usize| -> Option<&[u8]> {
        let offset = u32_at(entry, at)? as usize;
        let length = u32_at(entry, at + 4)?;
        if length == NULL {
            return Some(&[]);
        }
        heap.get(offset..offset.checked_add(length as usize)?)
    };
    block(32).ok_or("key")?;
    block(40).ok_or("value")?;
    let headers = block(48).ok_or("headers")?;
    if !Pairs::check(headers, u16_at(entry, 26).unwrap_or_default()) {
        return Err("headers");
    }
    let attributes = block(56).ok_or("attributes")?;
    if !Pairs::check(attributes, u16_at(entry, 28).unwrap_or_default()) {
        return Err("attributes");
    }
    Ok(())
}

/// One record in a batch.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    entry: &'a [u8; ENTRY],
}

impl<'a> RecordView<'a> {
    fn u16(&self, at: usize) -> u16 {
        u16_at(self.entry, at).unwrap_or_default()
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.entry, at).unwrap_or_default()
    }

    fn u64(&self, at: usize) -> u64 {
        u64_at(self.entry, at).unwrap_or_default()
    }

    fn slice(&self, at: usize) -> Option<&'a [u8]> {
        let length = self.u32(at + 4);
        if length == NULL {
            return None;
        }
        let offset = self.u32(at) as usize;
        self.bytes.get(offset..offset + length as usize)
    }

    /// Where the record comes from.
    pub fn id(&self) -> RecordId {
        RecordId {
            source: self.u16(24),
            partition: self.u32(16),
            offset: self.u64(8),
            emit: self.u32(20),
        }
    }

    /// Event time, microseconds since the Unix epoch.
    pub fn event_time(&self) -> Option<i64> {
        let time = self.u64(0) as i64;
        (time != NO_TIME).then_some(time)
    }

    /// The fields this arena carries of the record.
    pub fn fields(&self) -> Fields {
        Fields::from_bits(self.u16(30))
    }

    /// The key, or none for null.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.slice(32)
    }

    /// The value, or none for null (a tombstone).
    pub fn value(&self) -> Option<&'a [u8]> {
        self.slice(40)
    }

    /// The headers, in order; a name may repeat.
    pub fn headers(&self) -> Pairs<'a> {
        Pairs::new(self.slice(48).unwrap_or_default(), self.u16(26))
    }

    /// The private attributes: seen by later operators, never by a sink.
    pub fn attributes(&self) -> Pairs<'a> {
        Pairs::new(self.slice(56).unwrap_or_default(), self.u16(28))
    }

    /// Bytes the record takes in an arena, its table entry included.
    pub fn size(&self) -> usize {
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        ENTRY
            + length(self.key())
            + length(self.value())
            + self.headers().as_bytes().len()
            + self.attributes().as_bytes().len()
    }

    /// Number of headers and of attributes.
    pub(crate) fn pair_counts(&self) -> (u16, u16) {
        (self.u16(26), self.u16(28))
    }

    /// The record as a sink may see it.
    pub fn public(self) -> PublicRecord<'a> {
        PublicRecord(self)
    }
}

impl fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8_lossy(b).into_owned());
        f.debug_struct("Record")
            .field("id", &self.id())
            .field("event_time", &self.event_time())
            .field("key", &text(self.key()))
            .field("value", &text(self.value()))
            .field("headers", &self.headers().collect::<Vec<_>>())
            .field(
                "attributes",
                &self.attributes().map(|pair| pair.name).collect::<Vec<_>>(),
            )
            .finish()
    }
}

/// A record without its private attributes: the only form in which records leave the pipeline.
///
/// ```compile_fail,E0599
/// # let batch = tidegate_record::BatchBuilder::default().finish(0);
/// for record in batch.view().records() {
///     let _ = record.public().attributes(); // there is no such method
/// }
/// ```
///
/// Nor is there a way to the record it was made of:
///
/// ```compile_fail,E0616
/// # let batch = tidegate_record::BatchBuilder::default().finish(0);
/// for record in batch.view().records() {
///     let _ = record.public().0; // private
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PublicRecord<'a>(RecordView<'a>);

impl<'a> PublicRecord<'a> {
    /// Where the record comes from.
    pub fn id(&self) -> RecordId {
        self.0.id()
    }

    /// Event time, microseconds since the Unix epoch.
    pub fn event_time(&self) -> Option<i64> {
        self.0.event_time()
    }

    /// The key, or none for null.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.0.key()
    }

    /// The value, or none for null.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.0.value()
    }

    /// The headers, in order.
    pub fn headers(&self) -> Pairs<'a> {
        self.0.headers()
    }
}
