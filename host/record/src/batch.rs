//! Reading a batch: the checked arena and the views into it.

use std::fmt;

use crate::layout::{
    BATCH_HEADER, BATCH_MAGIC, CRITICAL, CRITICAL_FLAGS, ENTRY, Fields, MAX_ARENA, NO_TIME, NULL,
    SECTION, u16_at, u32_at, u64_at,
};
use crate::pairs::Pairs;
use crate::version1;

/// What made a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Origin {
    /// It was read from a source.
    #[default]
    Source = 0,
    /// A timer of an operator made it.
    Timer = 1,
}

impl Origin {
    #[inline]
    fn from_byte(byte: u8) -> Option<Origin> {
        match byte {
            0 => Some(Origin::Source),
            1 => Some(Origin::Timer),
            _ => None,
        }
    }
}

/// Where a record comes from, and which piece of it this is. Unique in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordId {
    /// What made it.
    pub origin: Origin,
    /// Index of the source in the pipeline.
    pub source: u16,
    /// Partition of the source.
    pub partition: u32,
    /// Offset in the partition: a Kafka offset, or the byte at which a line of a file begins.
    pub offset: u64,
    /// 0 for a record as read; see [`crate::child_emit`] for the pieces of a split.
    pub emit: u64,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin == Origin::Timer {
            write!(f, "timer/")?;
        }
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
        /// `key`, `value`, `headers`, `attributes`, `origin` or `note`.
        field: &'static str,
    },
    /// It has a flag or a section that must be understood, and is not.
    Unknown {
        /// `flag` or `section`.
        what: &'static str,
        /// The flags, or the section's kind.
        bits: u32,
    },
    /// A section lies outside the arena, or the section table does.
    Section {
        /// Index of the section.
        section: usize,
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
            BatchError::Unknown { what, bits } => {
                write!(
                    f,
                    "batch has the {what} {bits:#010x}, which must be known and is not"
                )
            }
            BatchError::Section { section } => {
                write!(f, "section {section} lies outside the batch")
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
    /// Checks the bytes and takes them as a batch. A batch of layout 1, as older commit logs have it, becomes one of
    /// this layout.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Batch, BatchError> {
        if bytes.starts_with(&version1::BATCH_MAGIC) {
            return version1::read(&bytes);
        }
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

    /// The arena, as it goes to disk; what an operator is given is an [`Excerpt`](crate::Excerpt) of it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// With these notes for some of its records, by index, in place of those they have. One that there is no room for, or no
    /// record, is left out.
    #[must_use]
    pub fn noted<N: AsRef<[u8]>>(mut self, notes: impl IntoIterator<Item = (usize, N)>) -> Batch {
        let view = self.view();
        let (table, stride, records) = (view.table_at, view.stride, view.len());
        for (index, note) in notes {
            if index < records {
                let behind = table + records * stride;
                let place = write_note(&mut self.bytes, behind, note.as_ref());
                let at = table + index * stride + NOTE;
                self.bytes[at..at + 4].copy_from_slice(&place.to_le_bytes());
            }
        }
        let total = self.bytes.len() as u32;
        self.bytes[4..8].copy_from_slice(&total.to_le_bytes());
        self
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

/// Where an entry has the place of its note.
const NOTE: usize = 36;

/// Appends a note to what ends with the notes of an arena, which begin at `behind`. Its place; 0 if there is no room.
pub(crate) fn write_note(arena: &mut Vec<u8>, behind: usize, note: &[u8]) -> u32 {
    let Ok(length) = u16::try_from(note.len()) else {
        return 0;
    };
    if arena.len() + 2 + note.len() > MAX_ARENA {
        return 0;
    }
    let place = arena.len() - behind + 1;
    arena.extend_from_slice(&length.to_le_bytes());
    arena.extend_from_slice(note);
    place as u32
}

/// The note at a place among an arena's notes.
fn note_at(notes: &[u8], place: u32) -> Option<&[u8]> {
    let at = (place as usize).checked_sub(1)?;
    let length = usize::from(u16_at(notes, at)?);
    notes.get(at + 2..at + 2 + length)
}

/// A checked batch in borrowed memory.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    bytes: &'a [u8],
    table: &'a [u8],
    /// Where the table begins.
    table_at: usize,
    /// Bytes of an entry: [`ENTRY`] or more.
    stride: usize,
}

impl<'a> BatchView<'a> {
    /// Checks the bytes and views them as a batch.
    pub fn parse(bytes: &'a [u8]) -> Result<BatchView<'a>, BatchError> {
        let view = BatchView::parse_frame(bytes)?;
        let table = u32_at(bytes, 24).map_or(0, |offset| offset as usize);
        let heap = bytes.get(..table).unwrap_or_default();
        let notes = view.notes();
        for (index, entry) in view.table.chunks_exact(view.stride).enumerate() {
            check_entry(heap, notes, entry).map_err(|field| BatchError::Field {
                record: index,
                field,
            })?;
        }
        Ok(view)
    }

    /// Checks the header, the sections and the place of the table, and leaves the records as they are: for an operator,
    /// which gets batches that the host has checked. In a record that is malformed after all, fields look null or empty;
    /// nothing outside the bytes is ever read.
    pub fn parse_frame(bytes: &'a [u8]) -> Result<BatchView<'a>, BatchError> {
        let short = BatchError::Length {
            stated: BATCH_HEADER,
            found: bytes.len(),
        };
        let Some(header) = bytes.first_chunk::<BATCH_HEADER>() else {
            return Err(match bytes.first_chunk::<4>() {
                Some(magic) if *magic != BATCH_MAGIC => BatchError::Magic(*magic),
                _ => short,
            });
        };
        let magic = [header[0], header[1], header[2], header[3]];
        if magic != BATCH_MAGIC {
            return Err(BatchError::Magic(magic));
        }
        let at = |at| u32_at(header, at).unwrap_or_default();
        let (stated, own) = (at(4) as usize, at(8) as usize);
        if stated != bytes.len() {
            return Err(BatchError::Length {
                stated,
                found: bytes.len(),
            });
        }
        let flags = at(12);
        if flags & CRITICAL_FLAGS != 0 {
            return Err(BatchError::Unknown {
                what: "flag",
                bits: flags,
            });
        }
        let (records, stride, offset) = (at(16) as usize, at(20) as usize, at(24) as usize);
        let bad_table = BatchError::Table { offset, records };
        if own < BATCH_HEADER || stride < ENTRY || offset < own {
            return Err(bad_table);
        }
        if !(own | stride | offset).is_multiple_of(8) {
            return Err(bad_table);
        }
        let end = records
            .checked_mul(stride)
            .and_then(|length| offset.checked_add(length));
        let table = end
            .and_then(|end| bytes.get(offset..end))
            .ok_or(bad_table)?;
        sections(bytes, at(28) as usize, at(32) as usize)?;
        Ok(BatchView {
            bytes,
            table,
            table_at: offset,
            stride,
        })
    }

    /// Views bytes that were checked before.
    fn trusted(bytes: &'a [u8]) -> BatchView<'a> {
        let header = |at| u32_at(bytes, at).map_or(0, |value| value as usize);
        let (records, stride, offset) = (header(16), header(20), header(24));
        BatchView {
            bytes,
            table: bytes
                .get(offset..offset + records * stride)
                .unwrap_or_default(),
            table_at: offset,
            stride: stride.max(ENTRY),
        }
    }

    /// What lies behind the table.
    fn notes(&self) -> &'a [u8] {
        self.bytes.get(self.end()..).unwrap_or_default()
    }

    /// Where the table ends: so far an arena goes that has no notes.
    pub(crate) fn end(&self) -> usize {
        self.table_at + self.table.len()
    }

    /// Where the table begins, and the bytes of an entry.
    pub(crate) fn table(&self) -> (usize, usize) {
        (self.table_at, self.stride)
    }

    /// Whether a record of it may have a note.
    #[inline]
    pub fn has_notes(&self) -> bool {
        self.end() < self.bytes.len()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.table.len() / self.stride
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The one clock value of the batch, microseconds since the Unix epoch.
    pub fn clock(&self) -> i64 {
        u64_at(self.bytes, 40).unwrap_or_default() as i64
    }

    /// The random seed: the same in every batch of a slot, so that what is drawn from it and a record's id is the same
    /// whenever the record comes.
    pub fn seed(&self) -> [u8; 16] {
        let seed = self.bytes.get(48..).and_then(|rest| rest.first_chunk());
        seed.copied().unwrap_or_default()
    }

    /// The record at this index, or none past the end.
    pub fn get(&self, index: usize) -> Option<RecordView<'a>> {
        let at = index.checked_mul(self.stride)?;
        let entry = self.table.get(at..)?.first_chunk::<ENTRY>()?;
        Some(RecordView {
            bytes: self.bytes,
            entry,
        })
    }

    /// The records in order.
    #[inline]
    pub fn records(&self) -> impl ExactSizeIterator<Item = RecordView<'a>> + use<'a> {
        let bytes = self.bytes;
        // An entry is never shorter: see `parse_frame`.
        let none = &[0; ENTRY];
        self.table
            .chunks_exact(self.stride)
            .map(move |entry| RecordView {
                bytes,
                entry: entry.first_chunk().unwrap_or(none),
            })
    }

    /// The arena.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Looks whether the sections lie within the arena, and whether one of them must be known: none is yet.
fn sections(bytes: &[u8], count: usize, offset: usize) -> Result<(), BatchError> {
    for section in 0..count {
        let outside = BatchError::Section { section };
        let entry = section
            .checked_mul(SECTION)
            .and_then(|at| at.checked_add(offset))
            .and_then(|at| bytes.get(at..)?.first_chunk::<SECTION>())
            .ok_or(outside.clone())?;
        let field = |at| u32_at(entry, at).unwrap_or_default();
        let (kind, start, length) = (field(0), field(8) as usize, field(12) as usize);
        if kind >= CRITICAL {
            return Err(BatchError::Unknown {
                what: "section",
                bits: kind,
            });
        }
        if start
            .checked_add(length)
            .is_none_or(|end| end > bytes.len())
        {
            return Err(outside);
        }
    }
    Ok(())
}

fn check_entry(heap: &[u8], notes: &[u8], entry: &[u8]) -> Result<(), &'static str> {
    let block = |at: usize| -> Option<&[u8]> {
        let offset = u32_at(entry, at)? as usize;
        let length = u32_at(entry, at + 4)?;
        if length == NULL {
            return Some(&[]);
        }
        heap.get(offset..offset.checked_add(length as usize)?)
    };
    let origin = entry.get(30).copied().and_then(Origin::from_byte);
    origin.ok_or("origin")?;
    block(40).ok_or("key")?;
    block(48).ok_or("value")?;
    let headers = block(56).ok_or("headers")?;
    if !Pairs::check(headers, u16_at(entry, 32).unwrap_or_default()) {
        return Err("headers");
    }
    let attributes = block(64).ok_or("attributes")?;
    if !Pairs::check(attributes, u16_at(entry, 34).unwrap_or_default()) {
        return Err("attributes");
    }
    match u32_at(entry, NOTE) {
        Some(0) => Ok(()),
        place => note_at(notes, place.unwrap_or_default())
            .map(drop)
            .ok_or("note"),
    }
}

/// One record in a batch.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    entry: &'a [u8; ENTRY],
}

impl<'a> RecordView<'a> {
    #[inline]
    fn u16(&self, at: usize) -> u16 {
        u16_at(self.entry, at).unwrap_or_default()
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        u32_at(self.entry, at).unwrap_or_default()
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        u64_at(self.entry, at).unwrap_or_default()
    }

    #[inline]
    fn slice(&self, at: usize) -> Option<&'a [u8]> {
        let length = self.u32(at + 4);
        if length == NULL {
            return None;
        }
        let offset = self.u32(at) as usize;
        self.bytes.get(offset..offset.checked_add(length as usize)?)
    }

    /// Where the record comes from.
    #[inline]
    pub fn id(&self) -> RecordId {
        RecordId {
            origin: Origin::from_byte(self.entry[30]).unwrap_or_default(),
            source: self.u16(28),
            partition: self.u32(24),
            offset: self.offset(),
            emit: self.u64(16),
        }
    }

    /// Its offset alone: what is looked at of every record.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.u64(8)
    }

    /// Event time, microseconds since the Unix epoch.
    #[inline]
    pub fn event_time(&self) -> Option<i64> {
        let time = self.u64(0) as i64;
        (time != NO_TIME).then_some(time)
    }

    /// The fields this arena carries of the record.
    #[inline]
    pub fn fields(&self) -> Fields {
        Fields::from_bits(self.entry[31])
    }

    /// The key, or none for null.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.slice(40)
    }

    /// The value, or none for null (a tombstone).
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.slice(48)
    }

    /// The headers, in order; a name may repeat.
    #[inline]
    pub fn headers(&self) -> Pairs<'a> {
        Pairs::new(self.slice(56).unwrap_or_default(), self.u16(32))
    }

    /// The private attributes: seen by later operators, never by a sink.
    #[inline]
    pub fn attributes(&self) -> Pairs<'a> {
        Pairs::new(self.slice(64).unwrap_or_default(), self.u16(34))
    }

    /// What the host has noted with it. No operator is given it, and no sink.
    #[inline]
    pub fn note(&self) -> Option<&'a [u8]> {
        match self.u32(NOTE) {
            0 => None,
            place => self.noted_at(place),
        }
    }

    #[cold]
    fn noted_at(&self, place: u32) -> Option<&'a [u8]> {
        note_at(BatchView::trusted(self.bytes).notes(), place)
    }

    /// Whether its fields lie within the arena: one that does not looks null or empty. Those of a batch that was checked do.
    pub fn is_within(&self) -> bool {
        let mut spans = [40, 48, 56, 64].into_iter();
        spans.all(|span| self.u32(span + 4) == NULL || self.slice(span).is_some())
    }

    /// Bytes the record takes in an arena, its table entry included.
    pub fn size(&self) -> usize {
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        ENTRY
            + length(self.key())
            + length(self.value())
            + self.headers().as_bytes().len()
            + self.attributes().as_bytes().len()
            + self.note().map_or(0, |note| 2 + note.len())
    }

    /// Number of headers and of attributes.
    #[inline]
    pub(crate) fn pair_counts(&self) -> (u16, u16) {
        (self.u16(32), self.u16(34))
    }

    /// Writes these fields to a heap of this layout, from `at` on, and the entry with their places there; the other fields
    /// are null or empty, and nowhere. Returns where the next record's begin. What else the entry has is copied as it lies
    /// there: to put it together again costs more than all the rest.
    #[inline]
    pub(crate) fn write(
        &self,
        fields: Fields,
        heap: &mut [u8],
        mut at: usize,
        place: &mut [u8],
    ) -> usize {
        let Some(place) = place.first_chunk_mut::<ENTRY>() else {
            return at;
        };
        *place = *self.entry;
        place[31] &= fields.bits();
        place[NOTE..NOTE + 4].fill(0);
        // A field, where its span is, the length of nothing, and where its count is.
        let spans = [
            (Fields::KEY, 40, NULL, None),
            (Fields::VALUE, 48, NULL, None),
            (Fields::HEADERS, 56, 0, Some(32)),
            (Fields::ATTRIBUTES, 64, 0, Some(34)),
        ];
        for (field, span, nothing, count) in spans {
            let mut found = (0, nothing);
            if fields.contains(field) {
                found.0 = at as u32;
                if let Some(bytes) = self.slice(span) {
                    heap[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                    found.1 = bytes.len() as u32;
                }
            } else if let Some(count) = count {
                place[count..count + 2].fill(0);
            }
            let both = u64::from(found.1) << 32 | u64::from(found.0);
            place[span..span + 8].copy_from_slice(&both.to_le_bytes());
        }
        at
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
