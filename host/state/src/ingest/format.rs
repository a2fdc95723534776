//! The bytes of an ingest log, all numbers little-endian.
//!
//! A segment file begins with a header of 60 bytes: magic (8), version (4), zeros (4), id of the log (16), number of the
//! segment (8, from 1; 0 is a file that holds nothing), offset of its first record (8), number of the
//! last group before it (8), CRC-32 of all before (4). Entries follow. An entry has a header of 24 bytes: length of the payload (4), its CRC-32 (4), number of its group (8), whether it
//! is the last of its group (4), CRC-32 of the log's id and all before (4). A group is what one sync made durable.
//!
//! A payload: offset of its first record (8), number of records (4), whether an idempotency key follows (1) and that key
//! (32 and 32), then the records: which parts it has (1), key, value, event time, number of headers (2), headers. A byte
//! string has its length before it.
//!
//! The CRC of an entry's header begins with the log's id, which no client knows: bytes that a client sent are never taken
//! for an entry.

use crc32fast::Hasher;
use tidegate_contract::{IdempotencyKey, IngestBatch, IngestRecord};

pub(super) const MAGIC: [u8; 8] = *b"TDGINGST";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER: usize = 60;
pub(super) const ENTRY: usize = 24;

/// The id of a log.
pub(super) type LogId = [u8; 16];

/// What a segment file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: LogId,
    /// 0 where it holds nothing.
    pub(super) number: u64,
    pub(super) first: u64,
    /// The last group before it.
    pub(super) group: u64,
}

impl Header {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.first.to_le_bytes());
        bytes.extend_from_slice(&self.group.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Header, &'static str> {
        let mut header = Bytes(bytes.get(..HEADER).ok_or("it is shorter than its header")?);
        let damaged = "its header is damaged";
        if header.take(8) != Some(&MAGIC) {
            return Err("this is no segment of an ingest log");
        }
        if header.u32() != Some(VERSION) {
            return Err("it was written by another version of Tidegate");
        }
        let crc = crc32fast::hash(&bytes[..HEADER - 4]);
        header.take(4).ok_or(damaged)?;
        let id = header.array().ok_or(damaged)?;
        let number = header.u64().ok_or(damaged)?;
        let first = header.u64().ok_or(damaged)?;
        let group = header.u64().ok_or(damaged)?;
        match header.u32() {
            Some(found) if found == crc => Ok(Header {
                id,
                number,
                first,
                group,
            }),
            _ => Err(damaged),
        }
    }
}

/// What stands before the payload of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHeader {
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) group: u64,
    pub(super) last: bool,
}

impl EntryHeader {
    pub(super) fn write(&self, id: &LogId, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(&self.group.to_le_bytes());
        out.extend_from_slice(&u32::from(self.last).to_le_bytes());
        let crc = header_crc(id, &out[at..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// The header of a whole entry that begins here.
    pub(super) fn read(id: &LogId, bytes: &[u8]) -> Option<EntryHeader> {
        let mut header = Bytes(bytes.get(..ENTRY)?);
        let found = EntryHeader {
            length: header.u32()?,
            crc: header.u32()?,
            group: header.u64()?,
            last: header.u32()? == 1,
        };
        if header.u32()? != header_crc(id, &bytes[..ENTRY - 4]) {
            return None;
        }
        let payload = bytes[ENTRY..].get(..found.length as usize)?;
        (crc32fast::hash(payload) == found.crc).then_some(found)
    }
}

fn header_crc(id: &LogId, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(id);
    hasher.update(bytes);
    hasher.finalize()
}

/// What stands first in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) idempotency: Option<IdempotencyKey>,
}

impl Batch {
    /// The same, and the records behind it.
    pub(super) fn read(payload: &[u8]) -> Option<(Batch, Bytes<'_>)> {
        let mut bytes = Bytes(payload);
        let (first, count) = (bytes.u64()?, bytes.u32()?);
        let idempotency = match bytes.u8()? {
            0 => None,
            _ => Some(IdempotencyKey {
                key: bytes.array()?,
                body: bytes.array()?,
            }),
        };
        let batch = Batch {
            first,
            count,
            idempotency,
        };
        Some((batch, bytes))
    }
}

const KEY: u8 = 1;
const VALUE: u8 = 2;
const TIME: u8 = 4;

/// The payload of a batch; where it goes is written later, by [`place`]. None if something in it is too long to be counted.
pub(super) fn payload(batch: &IngestBatch) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&u32::try_from(batch.records.len()).ok()?.to_le_bytes());
    out.push(u8::from(batch.idempotency.is_some()));
    if let Some(idempotency) = &batch.idempotency {
        out.extend_from_slice(&idempotency.key);
        out.extend_from_slice(&idempotency.body);
    }
    for record in &batch.records {
        write_record(record, &mut out)?;
    }
    u32::try_from(out.len()).ok()?;
    Some(out)
}

/// Writes where a payload goes.
pub(super) fn place(payload: &mut [u8], first: u64) {
    if let Some(place) = payload.first_chunk_mut::<8>() {
        *place = first.to_le_bytes();
    }
}

fn write_record(record: &IngestRecord, out: &mut Vec<u8>) -> Option<()> {
    let part = |bit: u8, there: bool| if there { bit } else { 0 };
    out.push(
        part(KEY, record.key.is_some())
            | part(VALUE, record.value.is_some())
            | part(TIME, record.event_time.is_some()),
    );
    for bytes in [&record.key, &record.value].into_iter().flatten() {
        write_bytes(bytes, out)?;
    }
    if let Some(time) = record.event_time {
        out.extend_from_slice(&time.to_le_bytes());
    }
    let count = u16::try_from(record.headers.len()).ok()?;
    out.extend_from_slice(&count.to_le_bytes());
    for (name, value) in &record.headers {
        write_bytes(name.as_bytes(), out)?;
        out.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write_bytes(value, out)?;
        }
    }
    Some(())
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

/// Bytes that are read from their beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    /// The next record, and its bytes in the log.
    pub(super) fn record(&mut self) -> Option<(IngestRecord, usize)> {
        let before = self.0.len();
        let parts = self.u8()?;
        let string = |bytes: &mut Bytes<'a>, bit: u8| match parts & bit {
            0 => Some(None),
            _ => bytes.string().map(|string| Some(string.to_vec())),
        };
        let key = string(self, KEY)?;
        let value = string(self, VALUE)?;
        let event_time = match parts & TIME {
            0 => None,
            _ => Some(i64::from_le_bytes(self.array()?)),
        };
        let mut headers = Vec::new();
        for _ in 0..self.u16()? {
            let name = std::str::from_utf8(self.string()?).ok()?.to_owned();
            let value = match self.u8()? {
                0 => None,
                _ => Some(self.string()?.to_vec()),
            };
            headers.push((name, value));
        }
        let record = IngestRecord {
            key,
            value,
            headers,
            event_time,
        };
        Some((record, before - self.0.len()))
    }

    /// Passes over the next record.
    pub(super) fn skip_record(&mut self) -> Option<()> {
        let parts = self.u8()?;
        for bit in [KEY, VALUE] {
            if parts & bit != 0 {
                self.string()?;
            }
        }
        if parts & TIME != 0 {
            self.take(8)?;
        }
        for _ in 0..self.u16()? {
            self.string()?;
            if self.u8()? != 0 {
                self.string()?;
            }
        }
        Some(())
    }
}
