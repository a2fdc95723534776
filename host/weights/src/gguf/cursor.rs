//! Reading a header: every read is checked against what is left of the file.

use super::GgufError;

/// Longest text that is read, bytes.
const LONGEST_TEXT: u64 = 16 << 20;

/// Longest name of a key (by the format) or tensor (there it is 64), bytes.
const LONGEST_NAME: u64 = 65_535;

/// A place in a file.
pub(super) struct Cursor<'a> {
    /// The beginning of the file, as far as a header may reach.
    bytes: &'a [u8],
    at: usize,
    /// Whether the file goes on behind `bytes`.
    goes_on: bool,
}

impl<'a> Cursor<'a> {
    /// At the beginning of a file, whose header has at most `longest` bytes.
    pub(super) fn new(file: &'a [u8], longest: usize) -> Self {
        Cursor {
            bytes: &file[..file.len().min(longest)],
            at: 0,
            goes_on: file.len() > longest,
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        match self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.cut_short(what, N as u64)),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        self.take(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        self.take(what).map(u64::from_le_bytes)
    }

    /// A count with a limit, of things of `size` bytes or more each, which the file must still hold.
    pub(super) fn count(&mut self, what: &str, limit: u64, size: u64) -> Result<usize, GgufError> {
        let count = self.u64(what)?;
        if count > limit {
            return Err(GgufError::TooMany {
                what: what.to_owned(),
                count,
                limit,
            });
        }
        // `limit` keeps the product from overflowing.
        let needed = count * size;
        if needed > self.left() as u64 {
            return Err(self.cut_short(what, needed));
        }
        Ok(count as usize)
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, GgufError> {
        self.text_within(what, LONGEST_TEXT)
    }

    pub(super) fn name(&mut self, what: &str) -> Result<String, GgufError> {
        self.text_within(what, LONGEST_NAME)
    }

    fn text_within(&mut self, what: &str, limit: u64) -> Result<String, GgufError> {
        let length = self.count(what, limit, 1)?;
        let bytes = &self.bytes[self.at..self.at + length];
        self.at += length;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(GgufError::NotUtf8 {
                what: what.to_owned(),
            }),
        }
    }

    fn cut_short(&self, what: &str, needed: u64) -> GgufError {
        if self.goes_on {
            return GgufError::LongHeader {
                what: what.to_owned(),
                end: self.at as u64 + needed,
                limit: self.bytes.len() as u64,
            };
        }
        GgufError::CutShort {
            what: what.to_owned(),
            at: self.at,
            needed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_ends_at_its_limit_though_the_file_goes_on() {
        let mut file = 9u64.to_le_bytes().to_vec();
        file.extend([b'a'; 9]);
        assert_eq!(Cursor::new(&file, 17).text("a").unwrap(), "aaaaaaaaa");
        assert_eq!(
            Cursor::new(&file, 16)
                .text("key `a`")
                .unwrap_err()
                .to_string(),
            "the header reaches with key `a` to byte 17, must end by byte 16"
        );
        assert_eq!(
            Cursor::new(&file[..16], 17)
                .text("key `a`")
                .unwrap_err()
                .to_string(),
            "it ends within key `a` (at byte 8, 9 bytes are needed)"
        );
    }
}
