//! Changes to one record: as they lie in an answer, and how they are written.

use crate::layout::{NULL, u16_at, u32_at, u64_at};

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

    /// The new event time, if it changes.
    pub fn event_time(&self) -> Option<Option<i64>> {
        self.event_time.map(Some)
    }

    /// Changes to the headers.
    pub fn headers(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        Changes {
            block: self.headers.1,
            left: self.headers.0,
        }
    }

    /// Changes to the private attributes.
    pub fn attributes(&self) -> impl Iterator<Item = Change<'a>> + Clone + use<'a> {
        Changes {
            block: self.attributes.1,
            left: self.attributes.0,
        }
    }

    /// Bytes the patch has in the answer.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Reads bytes that hold one patch and nothing else, as [`PatchBuilder::write`] writes it.
    pub fn parse(bytes: &'a [u8]) -> Option<Patch<'a>> {
        let (patch, rest) = Patch::read(bytes)?;
        rest.is_empty().then_some(patch)
    }

    /// Reads a patch and returns what follows it.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Patch<'a>, &'a [u8])> {
        let (&mask, mut rest) = bytes.split_first()?;
        if mask & !(KEY | VALUE | HEADERS | ATTRIBUTES | EVENT_TIME) != 0 {
            return None;
        }
        let mut patch = Patch::NOTHING;
        if mask & KEY != 0 {
            (patch.key, rest) = nullable(rest).map(|(key, rest)| (Some(key), rest))?;
        }
        if mask & VALUE != 0 {
            (patch.value, rest) = nullable(rest).map(|(value, rest)| (Some(value), rest))?;
        }
        if mask & HEADERS != 0 {
            (patch.headers, rest) = changes(rest)?;
        }
        if mask & ATTRIBUTES != 0 {
            (patch.attributes, rest) = changes(rest)?;
        }
        if mask & EVENT_TIME != 0 {
            patch.event_time = Some(u64_at(rest, 0)? as i64);
            rest = &rest[8..];
        }
        patch.bytes = &bytes[..bytes.len() - rest.len()];
        Some((patch, rest))
    }
}

fn nullable(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let length = u32_at(bytes, 0)?;
    let rest = &bytes[4..];
    if length == NULL {
        return Some((None, rest));
    }
    let (field, rest) = rest.split_at_checked(length as usize)?;
    Some((Some(field), rest))
}

type ChangeBlock<'a> = (u16, &'a [u8]);

fn changes(bytes: &[u8]) -> Option<(ChangeBlock<'_>, &[u8])> {
    let count = u16_at(bytes, 0)?;
    let block = &bytes[2..];
    let mut reader = Changes { block, left: count };
    for _ in 0..count {
        reader.next()?;
    }
    let rest = reader.block;
    Some(((count, &block[..block.len() - rest.len()]), rest))
}

#[derive(Clone)]
struct Changes<'a> {
    block: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        if self.left == 0 {
            return None;
        }
        let operation = *self.block.first()?;
        let name_length = u16_at(self.block, 1)? as usize;
        let value_length = u32_at(self.block, 3)?;
        let (name, rest) = self.block.get(7..)?.split_at_checked(name_length)?;
        let name = std::str::from_utf8(name).ok()?;
        let (value, rest) = if value_length == NULL {
            (None, rest)
        } else {
            let (value, rest) = rest.split_at_checked(value_length as usize)?;
            (Some(value), rest)
        };
        let change = match operation {
            SET => Change::Set { name, value },
            ADD => Change::Add { name, value },
            REMOVE => Change::Remove { name },
            _ => return None,
        };
        self.block = rest;
        self.left -= 1;
        Some(change)
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

    /// Replaces the event time, microseconds since the Unix epoch.
    pub fn set_event_time(&mut self, time: i64) {
        self.event_time = Some(time);
    }

    /// Changes the headers.
    pub fn header(&mut self, change: Change<'_>) {
        write_change(&mut self.headers, change);
    }

    /// Changes the private attributes.
    pub fn attribute(&mut self, change: Change<'_>) {
        write_change(&mut self.attributes, change);
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

fn write_change((count, block): &mut (u16, Vec<u8>), change: Change<'_>) {
    if *count == u16::MAX {
        return;
    }
    let (operation, name, value) = match change {
        Change::Set { name, value } => (SET, name, value),
        Change::Add { name, value } => (ADD, name, value),
        Change::Remove { name } => (REMOVE, name, None),
    };
    *count += 1;
    block.push(operation);
    crate::pairs::write_pair(block, name, value);
}
