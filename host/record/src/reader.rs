//! Reading bytes from elsewhere one after the other, with the place of what is wrong.

/// What is wrong in an arena, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte, counted from the first of the arena.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

/// A place in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The arena as far as it may be read.
    bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from `at` on, up to the end of the bytes.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Reader<'a> {
        Reader { bytes, at }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// What lies between here and a place before.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let found = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>());
        match found {
            Some(found) => {
                self.at += N;
                Ok(*found)
            }
            None => Err(self.fault("it ends in the middle of a number")),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many bytes.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(found) => {
                self.at += length;
                Ok(found)
            }
            None => Err(self.fault("a length that reaches beyond the end")),
        }
    }

    /// So many bytes of text.
    pub(crate) fn text(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let start = self.at;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|error| Malformed {
            at: start + error.valid_up_to(),
            what: "text that is not UTF-8",
        })
    }

    /// Something wrong at this place.
    pub(crate) fn fault(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }
}
