//! The bytes of a log of values by key, all numbers little-endian.
//!
//! A header of 52 bytes: magic (8), version (4), zeros (4), what tells the key of the state from another (32), CRC-32 of
//! all before (4). Entries follow: length of the body (4), its CRC-32 (4), CRC-32 of those two (4), body. A body: what it
//! is (1; 1 puts, 2 removes), key (32), and where it puts, when it is forgotten (8, seconds since the Unix epoch) and the
//! value, sealed with the key of the state under the name that [`name`] makes.

const MAGIC: [u8; 8] = *b"TDGKEYED";
const VERSION: u32 = 1;
pub(super) const HEADER: usize = 52;
const ENTRY: usize = 12;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
const KEY: usize = 32;
/// Before the value of an entry that puts.
const BEFORE_VALUE: usize = 1 + KEY + 8;

/// Bytes of an entry with a sealed value of this length.
pub(super) const fn size(sealed: usize) -> usize {
    ENTRY + BEFORE_VALUE + sealed
}

/// What a value is sealed under: it cannot be moved to another key, nor given more time.
pub(super) fn name(key: &[u8; KEY], until: u64) -> [u8; KEY + 8] {
    let mut name = [0; KEY + 8];
    name[..KEY].copy_from_slice(key);
    name[KEY..].copy_from_slice(&until.to_le_bytes());
    name
}

pub(super) fn header(fingerprint: &[u8; KEY]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(fingerprint);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Why a header says nothing of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is not as it was written, or was never one.
    Damaged,
    /// Another version of Tidegate wrote it: nothing behind it may be read.
    Version,
}

/// What tells the key of the state that a file was written with from another.
pub(super) fn fingerprint(bytes: &[u8]) -> Result<[u8; KEY], Flaw> {
    let header = bytes.get(..HEADER).ok_or(Flaw::Damaged)?;
    let (body, crc) = header.split_last_chunk::<4>().ok_or(Flaw::Damaged)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) || header[..8] != MAGIC {
        return Err(Flaw::Damaged);
    }
    if header[8..12] != VERSION.to_le_bytes() {
        return Err(Flaw::Version);
    }
    let mut fingerprint = [0; KEY];
    fingerprint.copy_from_slice(&header[16..16 + KEY]);
    Ok(fingerprint)
}

/// An entry as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Put {
        key: [u8; KEY],
        until: u64,
        sealed: &'a [u8],
    },
    Remove {
        key: [u8; KEY],
    },
}

/// Appends an entry. None if its value is too long to be counted.
pub(super) fn write(entry: &Entry<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut body = Vec::new();
    match entry {
        Entry::Put { key, until, sealed } => {
            body.reserve_exact(BEFORE_VALUE + sealed.len());
            body.push(PUT);
            body.extend_from_slice(key);
            body.extend_from_slice(&until.to_le_bytes());
            body.extend_from_slice(sealed);
        }
        Entry::Remove { key } => {
            body.push(REMOVE);
            body.extend_from_slice(key);
        }
    }
    let at = out.len();
    out.extend_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    let crc = crc32fast::hash(&out[at..]);
    out.extend_from_slice(&crc.to_le_bytes());
    out.append(&mut body);
    Some(())
}

/// The whole entries of a file. What is none is passed over, to the next that is: the check sums tell, and what clients
/// sent is sealed, so that none of it looks like an entry.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    /// Where the next begins, if it is whole.
    at: usize,
    /// What was passed over.
    pub(super) passed: Passed,
}

/// Bytes that are no entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Of them all.
    pub(super) bytes: usize,
    /// Where the first of them is.
    pub(super) at: usize,
    /// Whether entries follow some of them: a write that was cut short leaves such bytes at the end alone.
    pub(super) within: bool,
}

impl<'a> Entries<'a> {
    /// Those behind the header.
    pub(super) fn of(bytes: &'a [u8]) -> Entries<'a> {
        Entries {
            bytes,
            at: HEADER.min(bytes.len()),
            passed: Passed::default(),
        }
    }

    /// The entry that begins here, if it is whole, and where it ends.
    fn read(&self, at: usize) -> Option<(Entry<'a>, usize)> {
        let rest = self.bytes.get(at..)?;
        let number = |at: usize| {
            let four = rest.get(at..at + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let (length, crc) = (number(0)? as usize, number(4)?);
        // Before any sum is made: where no entry is, this is most often not so.
        let body = rest.get(ENTRY..)?.get(..length)?;
        if number(8)? != crc32fast::hash(&rest[..8]) || crc32fast::hash(body) != crc {
            return None;
        }
        let (what, body) = body.split_first()?;
        let (key, rest) = body.split_first_chunk::<KEY>()?;
        let entry = match *what {
            PUT => {
                let (until, sealed) = rest.split_first_chunk::<8>()?;
                Entry::Put {
                    key: *key,
                    until: u64::from_le_bytes(*until),
                    sealed,
                }
            }
            REMOVE => Entry::Remove { key: *key },
            _ => return None,
        };
        Some((entry, at + ENTRY + length))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let found = (self.at..self.bytes.len()).find_map(|at| Some((at, self.read(at)?)));
        let (begin, next) = match found {
            Some((at, (entry, end))) => (at, Some((entry, end))),
            None => (self.bytes.len(), None),
        };
        if begin > self.at {
            if self.passed.bytes == 0 {
                self.passed.at = self.at;
            }
            self.passed.bytes += begin - self.at;
            self.passed.within |= next.is_some();
        }
        self.at = begin;
        let (entry, end) = next?;
        self.at = end;
        Some(entry)
    }
}
