//! Changes to one record: as they lie in an answer, and how they are written.

use crate::RecordRefused;
use crate::layout::{NO_TIME, NULL};
use crate::pairs::{MAX_NAME, MAX_PAIRS, write_pair};
use crate::reader::{Malformed, Reader};

const SET: u8 = 0;
const ADD: u8 = 1;
const REMOVE: u8 = 2;

const KEY: u8 = 1;
const VALUE: u8 = 2;
const HEADERS: u8 = 4;
const ATTRIBUTES: u8 = 8;
const EVENT_TIME: u8 = 16;

/// A change to headers or attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Replace every pair of this name by one.
    Set {
        /// The name.
        name: &'a str,
        /// The value, or none for null.
        value: Option<&'a [u8]>,
    },
    /// Append a pair; others of the name stay.
    Add {
        /// The name.
        name: &'a str,
        /// The value, or none for null.
        value: Option<&'a [u8]>,
    },
    /// Remove every pair of this name.
    Remove {
        /// The name.
        name: &'a str,
    },
}

/// Changes to a record, as they lie in an answer. What it does not mention stays.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    bytes: &'a [u8],
    key: Option<Option<&'a [u8]>>,
    value: Option<Option<&'a [u8]>>,
    headers: (u16, &'a [u8]),
    attributes: (u16, &'a [u8]),
    event_time: Option<i64>,
}

impl<'a> Patch<'a> {
    /// The patch that changes nothing.
    pub const NOTHING: Patch<'static> = Patch {
        bytes: &[],
        key: None,
        value: None,
        headers: (0, &[]),
        attributes: (0, &[]),
        event_time: None,
    };

    /// The new key, if it changes; none inside means null.
    pub fn key(&self) -> Option<Option<&'a [u8]>> {
        self.key
    }

    /// The new value, if it changes; none inside means null.
    pub fn value(&self) -> Option<Option<&'a [u8]>> {
        self.value
    }

    /// The new event time, if it changes; none inside means that it has none.
    pub fn event_time(&self) -> Option<Option<i64>> {
        self.event_time
            .map(|time| Some(time).filter(|time| *time != NO_TIME))
    }

    /// Changes to the headers.
    pub fn headers(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        Changes::new(self.headers)
    }

    /// Changes to the private attributes.
    pub fn attributes(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        Changes::new(self.attributes)
    }

    /// Bytes the patch has in the answer.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Reads bytes that hold one patch and nothing else, as [`PatchBuilder::write`] writes it.
    pub fn parse(bytes: &'a [u8]) -> Result<Patch<'a>, Malformed> {
        let mut reader = Reader::new(bytes, 0);
        let patch = Patch::read(&mut reader)?;
        match reader.is_at_end() {
            true => Ok(patch),
            false => Err(reader.fault("bytes after the patch")),
        }
    }

    /// Reads a patch; what follows it is left to be read.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Patch<'a>, Malformed> {
        let start = reader.at;
        let mask = reader.u8()?;
        if mask & !(KEY | VALUE | HEADERS | ATTRIBUTES | EVENT_TIME) != 0 {
            return Err(Malformed {
                at: start,
                what: "a patch with unknown bits in its mask",
            });
        }
        let mut patch = Patch::NOTHING;
        if mask & KEY != 0 {
            patch.key = Some(nullable(reader)?);
        }
        if mask & VALUE != 0 {
            patch.value = Some(nullable(reader)?);
        }
        if mask & HEADERS != 0 {
            patch.headers = changes(reader)?;
        }
        if mask & ATTRIBUTES != 0 {
            patch.attributes = changes(reader)?;
        }
        if mask & EVENT_TIME != 0 {
            patch.event_time = Some(reader.u64()? as i64);
        }
        patch.bytes = reader.since(start);
        Ok(patch)
    }
}

#[inline]
fn nullable<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.u32()? {
        NULL => Ok(None),
        length => reader.take(length as usize).map(Some),
    }
}

fn changes<'a>(reader: &mut Reader<'a>) -> Result<(u16, &'a [u8]), Malformed> {
    let count = reader.u16()?;
    let start = reader.at;
    for _ in 0..count {
        change(reader)?;
    }
    Ok((count, reader.since(start)))
}

fn change<'a>(reader: &mut Reader<'a>) -> Result<Change<'a>, Malformed> {
    let start = reader.at;
    let operation = reader.u8()?;
    let name_length = reader.u16()?;
    let value_length = reader.u32()?;
    let name = reader.text(usize::from(name_length))?;
    let value = match value_length {
        NULL => None,
        length => Some(reader.take(length as usize)?),
    };
    match operation {
        SET => Ok(Change::Set { name, value }),
        ADD => Ok(Change::Add { name, value }),
        REMOVE => Ok(Change::Remove { name }),
        _ => Err(Malformed {
            at: start,
            what: "a change that is neither set (0), add (1) nor remove (2)",
        }),
    }
}

#[derive(Clone)]
struct Changes<'a> {
    reader: Reader<'a>,
    left: u16,
}

impl<'a> Changes<'a> {
    fn new((left, block): (u16, &'a [u8])) -> Changes<'a> {
        let reader = Reader::new(block, 0);
        Changes { reader, left }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        self.left = self.left.checked_sub(1)?;
        change(&mut self.reader).ok()
    }
}

/// Collects the changes to one record.
#[derive(Clone, Debug, Default)]
pub struct PatchBuilder {
    key: Option<Option<Vec<u8>>>,
    value: Option<Option<Vec<u8>>>,
    headers: (u16, Vec<u8>),
    attributes: (u16, Vec<u8>),
    event_time: Option<i64>,
    refused: Option<RecordRefused>,
}

impl PatchBuilder {
    /// Replaces the key; none for null.
    pub fn set_key(&mut self, key: Option<Vec<u8>>) {
        self.key = Some(key);
    }

    /// Replaces the value; none for null.
    pub fn set_value(&mut self, value: Option<Vec<u8>>) {
        self.value = Some(value);
    }

    /// Replaces the event time, microseconds since the Unix epoch; none for no event time.
    pub fn set_event_time(&mut self, time: Option<i64>) {
        self.event_time = Some(time.unwrap_or(NO_TIME));
    }

    /// Changes the headers.
    pub fn header(&mut self, change: Change<'_>) {
        let written = write_change("headers", &mut self.headers, change);
        self.refused = self.refused.or(written.err());
    }

    /// Changes the private attributes.
    pub fn attribute(&mut self, change: Change<'_>) {
        let written = write_change("attributes", &mut self.attributes, change);
        self.refused = self.refused.or(written.err());
    }

    /// The first change that could not be written, and why. The patch lacks it, and must not be used.
    pub fn refused(&self) -> Option<RecordRefused> {
        self.refused
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.key.is_none()
            && self.value.is_none()
            && self.headers.0 == 0
            && self.attributes.0 == 0
            && self.event_time.is_none()
    }

    /// Appends the patch as it lies in an answer.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let mut mask = 0;
        let parts = [
            (self.key.is_some(), KEY),
            (self.value.is_some(), VALUE),
            (self.headers.0 != 0, HEADERS),
            (self.attributes.0 != 0, ATTRIBUTES),
            (self.event_time.is_some(), EVENT_TIME),
        ];
        for (present, bit) in parts {
            if present {
                mask |= bit;
            }
        }
        bytes.push(mask);
        for field in [&self.key, &self.value].into_iter().flatten() {
            let length = field.as_ref().map_or(NULL, |field| field.len() as u32);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(field.as_deref().unwrap_or_default());
        }
        for (count, block) in [&self.headers, &self.attributes] {
            if *count != 0 {
                bytes.extend_from_slice(&count.to_le_bytes());
                bytes.extend_from_slice(block);
            }
        }
        if let Some(time) = self.event_time {
            bytes.extend_from_slice(&time.to_le_bytes());
        }
    }
}

fn write_change(
    field: &'static str,
    (count, block): &mut (u16, Vec<u8>),
    change: Change<'_>,
) -> Result<(), RecordRefused> {
    let (operation, name, value) = match change {
        Change::Set { name, value } => (SET, name, value),
        Change::Add { name, value } => (ADD, name, value),
        Change::Remove { name } => (REMOVE, name, None),
    };
    if name.len() > MAX_NAME {
        return Err(RecordRefused::Name {
            field,
            bytes: name.len(),
        });
    }
    *count = count.checked_add(1).ok_or(RecordRefused::Pairs {
        field,
        count: MAX_PAIRS + 1,
    })?;
    block.push(operation);
    write_pair(block, name, value);
    Ok(())
}
