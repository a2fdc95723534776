//! How elements are stored, and the floats they stand for.
//!
//! Sources: IEEE 754 and bfloat16; `block_q8_0`, `block_q4_0`, `block_q4_K`, `block_q6_K` and their `dequantize_row_*`
//! in ggml (`ggml-common.h`, `ggml-quants.c`). Every product and sum is made in f32 in the order that is written there,
//! so that the bits are the same.
//!
//! [`Format`] is what rows are handed on in, and each of its formats has kernels; [`StoredFormat`] is what they lie in.

mod blocks;
mod decode;
mod encode;
mod split;
mod stored;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;

pub use stored::StoredFormat;

pub(crate) use blocks::{decode_stored, encode_multiples, reencode};
pub(crate) use decode::{decode, decode_apart};
pub(crate) use encode::{encode_floats, encode_groups};

#[cfg(test)]
pub(crate) use encode::{encode_int4, encode_int8};
pub(crate) use split::{not_finite, split};

/// Elements of a group of [`Format::Int8`] and [`Format::Int4`].
pub const GROUP: usize = 32;

/// Elements of a block of [`Format::Q4K`] and [`Format::Q6K`].
pub const SUPER_BLOCK: usize = 256;

/// How the elements of a tensor are handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// The upper half of a 32-bit float.
    Bf16,
    /// Groups of 32: `scale · q`, q in -128..=127, an f16 scale. GGUF's q8_0.
    Int8,
    /// Groups of 32: `scale · (q - 8)`, q in 0..=15, an f16 scale. GGUF's q4_0.
    Int4,
    /// Groups of 32 in blocks of 256: `d·s·q - dmin·m`, q in 0..=15, s and m in 0..=63 for a group, d and dmin f16 for
    /// a block. GGUF's q4_K.
    Q4K,
    /// Groups of 16 in blocks of 256: `d·s·(q - 32)`, q in 0..=63, s in -128..=127 for a group, d f16 for a block.
    /// GGUF's q6_K.
    Q6K,
}

impl Format {
    /// The name used in messages, files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
            Format::Int8 => "int8",
            Format::Int4 => "int4",
            Format::Q4K => "q4_K",
            Format::Q6K => "q6_K",
        }
    }

    /// Elements that are stored together; a row is a whole number of them.
    #[must_use]
    pub fn block(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::Bf16 => 1,
            Format::Int8 | Format::Int4 => GROUP,
            Format::Q4K | Format::Q6K => SUPER_BLOCK,
        }
    }

    /// Bytes of a block, scales included.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
            Format::Int8 => 2 + GROUP,
            Format::Int4 => 2 + GROUP / 2,
            Format::Q4K => 2 + 2 + 12 + SUPER_BLOCK / 2,
            Format::Q6K => SUPER_BLOCK / 2 + SUPER_BLOCK / 4 + SUPER_BLOCK / 16 + 2,
        }
    }

    /// Bytes of a row of `width` elements, a multiple of [`Format::block`], scales included.
    #[must_use]
    pub fn row_bytes(self, width: usize) -> usize {
        width / self.block() * self.block_bytes()
    }

    /// Whether elements are plain floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Format::F32 | Format::F16 | Format::Bf16)
    }

    /// Whether rows can be encoded to it here.
    pub(crate) fn is_encoded(self) -> bool {
        self.is_float() || matches!(self, Format::Int8 | Format::Int4)
    }

    /// Bytes of the values and of the scales of a row where the two are stored apart.
    pub(crate) fn apart_bytes(self, width: usize) -> (usize, usize) {
        match self {
            Format::Int4 => (width / 2, width / GROUP * 2),
            _ => (width, width / GROUP * 2),
        }
    }
}

/// The stored numbers of one row, each kind apart and in the order of the elements, whatever the file interleaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowParts {
    /// Floats: the elements, little-endian. Int8: i8. Int4 and Q4K: byte j holds elements 2j (low nibble) and 2j + 1.
    /// Q6K: as Int4, the low four bits of q.
    pub values: Vec<u8>,
    /// Q6K: byte j holds the upper two bits of q of elements 4j (lowest two bits) to 4j + 3. Else empty.
    pub high: Vec<u8>,
    /// Int8, Int4: f16 for each group. Q4K: s and m, a byte each, for each group. Q6K: i8 for each group. Else empty.
    pub scales: Vec<u8>,
    /// Q4K: d and dmin, f16 each, for each block. Q6K: d. Else empty.
    pub supers: Vec<u8>,
}

impl RowParts {
    /// Empties every part.
    pub fn clear(&mut self) {
        for part in [
            &mut self.values,
            &mut self.high,
            &mut self.scales,
            &mut self.supers,
        ] {
            part.clear();
        }
    }
}
