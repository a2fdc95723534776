//! Blocks of name and value pairs: headers and private attributes.

use crate::layout::{NULL, u16_at, u32_at};

/// Most headers, and most private attributes, of a record, and changes to either in a patch.
pub const MAX_PAIRS: usize = u16::MAX as usize;
/// Bytes of the longest name of a header or private attribute.
pub const MAX_NAME: usize = u16::MAX as usize;

/// One header or attribute: its name and its value, which may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The name.
    pub name: &'a str,
    /// The value, or none for null.
    pub value: Option<&'a [u8]>,
}

/// The pairs of a block, in order. The block is checked when its batch is.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    block: &'a [u8],
    left: u16,
}

impl<'a> Pairs<'a> {
    #[inline]
    pub(crate) fn new(block: &'a [u8], count: u16) -> Pairs<'a> {
        Pairs { block, left: count }
    }

    /// The pairs of a block that comes from outside; none if it does not hold exactly `count` of them.
    pub fn read(block: &'a [u8], count: u16) -> Option<Pairs<'a>> {
        Pairs::check(block, count).then_some(Pairs::new(block, count))
    }

    /// Whether the block holds exactly `count` well-formed pairs.
    pub(crate) fn check(block: &'a [u8], count: u16) -> bool {
        let mut pairs = Pairs::new(block, count);
        for _ in 0..count {
            if pairs.next().is_none() {
                return false;
            }
        }
        pairs.block.is_empty()
    }

    /// The value of the last pair with this name.
    pub fn last(self, name: &str) -> Option<Pair<'a>> {
        self.filter(|pair| pair.name == name).last()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// How many there are.
    #[inline]
    pub fn number(&self) -> u16 {
        self.left
    }

    /// The block as it lies in the arena.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.block
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        if self.left == 0 {
            return None;
        }
        let name_length = u16_at(self.block, 0)? as usize;
        let value_length = u32_at(self.block, 2)?;
        let value_at = 6 + name_length;
        let name = std::str::from_utf8(self.block.get(6..value_at)?).ok()?;
        let (value, end) = if value_length == NULL {
            (None, value_at)
        } else {
            let end = value_at.checked_add(value_length as usize)?;
            (Some(self.block.get(value_at..end)?), end)
        };
        self.block = self.block.get(end..)?;
        self.left -= 1;
        Some(Pair { name, value })
    }
}

/// Appends one pair to a block. Names longer than 65,535 bytes are cut at a character border.
pub fn write_pair(block: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let mut length = name.len().min(u16::MAX as usize);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    block.extend_from_slice(&(length as u16).to_le_bytes());
    let value_length = value.map_or(NULL, |value| value.len() as u32);
    block.extend_from_slice(&value_length.to_le_bytes());
    block.extend_from_slice(&name.as_bytes()[..length]);
    block.extend_from_slice(value.unwrap_or_default());
}
