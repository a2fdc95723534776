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

/// What tells the key of the state that a file was written with from another.
pub(super) fn fingerprint(bytes: &[u8]) -> Result<[u8; KEY], &'static str> {
    let header = bytes.get(..HEADER).ok_or("it is shorter than its header")?;
    let (body, crc) = header.split_last_chunk::<4>().ok_or("it has no header")?;
    if header[..8] != MAGIC {
        return Err("this is no log of values by key");
    }
    if header[8..12] != VERSION.to_le_bytes() {
        return Err("it was written by another version of Tidegate");
    }
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err("its header is damaged");
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

/// The whole entries of a file, up to the first that is none.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    /// Where the next begins.
    pub(super) at: usize,
}

impl<'a> Entries<'a> {
    /// Those of a file whose header is right.
    pub(super) fn of(bytes: &'a [u8]) -> Entries<'a> {
        Entries { bytes, at: HEADER }
    }

    fn read(&self) -> Option<(Entry<'a>, usize)> {
        let rest = self.bytes.get(self.at..)?;
        let number = |at: usize| {
            let four = rest.get(at..at + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let (length, crc) = (number(0)? as usize, number(4)?);
        if number(8)? != crc32fast::hash(&rest[..8]) {
            return None;
        }
        let body = rest[ENTRY..].get(..length)?;
        if crc32fast::hash(body) != crc {
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
        Some((entry, ENTRY + length))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (entry, size) = self.read()?;
        self.at += size;
        Some(entry)
    }
}
