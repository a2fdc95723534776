//! Formats of GGUF files that no kernel reads: their rows are handed on as [`Format::Int8`].

use super::{Format, GROUP, SUPER_BLOCK};

/// How the elements of a tensor lie in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoredFormat {
    /// As they are handed on.
    Kept(Format),
    /// Groups of 32: `d·q + m`, q in 0..=15, d and m f16.
    Q4_1,
    /// Groups of 32: `d·(q - 16)`, q in 0..=31, d f16.
    Q5_0,
    /// Groups of 32: `d·q + m`, q in 0..=31, d and m f16.
    Q5_1,
    /// Groups of 16 in blocks of 256: `d·s·q - dmin·m`, q in 0..=3, s and m in 0..=15 for a group, d and dmin f16 for a
    /// block.
    Q2K,
    /// Groups of 16 in blocks of 256: `d·(s - 32)·q`, q in -4..=3, s in 0..=63 for a group, d f16 for a block.
    Q3K,
    /// Groups of 32 in blocks of 256: `d·s·q - dmin·m`, q in 0..=31, s and m in 0..=63 for a group, d and dmin f16 for a
    /// block.
    Q5K,
    /// Blocks of 256: `d·q`, q in -128..=127, d f32; sums of groups follow, which nothing here needs.
    Q8K,
    /// Groups of 32: `d·v[q]`, q in 0..=15 names one of 16 values that lie closer about 0, d f16.
    Iq4Nl,
    /// Groups of 32 in blocks of 256: `d·(s - 32)·v[q]`, s in 0..=63 for a group, d f16 for a block.
    Iq4Xs,
    /// Groups of 32: `2^(e - 128)·v[q]`, q in 0..=15 names one of 16 values that are twice those of a 4-bit float (OCP's MXFP4),
    /// e a byte.
    Mxfp4,
}

impl StoredFormat {
    /// All that can be read, in the order of their numbers in GGUF files.
    pub const ALL: [StoredFormat; 17] = [
        StoredFormat::Kept(Format::F32),
        StoredFormat::Kept(Format::F16),
        StoredFormat::Kept(Format::Bf16),
        StoredFormat::Kept(Format::Int8),
        StoredFormat::Kept(Format::Int4),
        StoredFormat::Q4_1,
        StoredFormat::Q5_0,
        StoredFormat::Q5_1,
        StoredFormat::Q2K,
        StoredFormat::Q3K,
        StoredFormat::Kept(Format::Q4K),
        StoredFormat::Q5K,
        StoredFormat::Kept(Format::Q6K),
        StoredFormat::Q8K,
        StoredFormat::Iq4Nl,
        StoredFormat::Iq4Xs,
        StoredFormat::Mxfp4,
    ];

    /// The name used in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoredFormat::Kept(format) => format.name(),
            StoredFormat::Q4_1 => "q4_1",
            StoredFormat::Q5_0 => "q5_0",
            StoredFormat::Q5_1 => "q5_1",
            StoredFormat::Q2K => "q2_K",
            StoredFormat::Q3K => "q3_K",
            StoredFormat::Q5K => "q5_K",
            StoredFormat::Q8K => "q8_K",
            StoredFormat::Iq4Nl => "iq4_nl",
            StoredFormat::Iq4Xs => "iq4_xs",
            StoredFormat::Mxfp4 => "mxfp4",
        }
    }

    /// The name that GGUF files and their makers use: q8_0 and q4_0 are int8 and int4 everywhere else.
    #[must_use]
    pub fn gguf_name(self) -> &'static str {
        match self {
            StoredFormat::Kept(Format::Int8) => "q8_0",
            StoredFormat::Kept(Format::Int4) => "q4_0",
            other => other.name(),
        }
    }

    /// What rows are handed on in.
    #[must_use]
    pub fn handed_on(self) -> Format {
        match self {
            StoredFormat::Kept(format) => format,
            _ => Format::Int8,
        }
    }

    /// Elements that are stored together; a row is a whole number of them.
    #[must_use]
    pub fn block(self) -> usize {
        match self {
            StoredFormat::Kept(format) => format.block(),
            StoredFormat::Q4_1
            | StoredFormat::Q5_0
            | StoredFormat::Q5_1
            | StoredFormat::Iq4Nl
            | StoredFormat::Mxfp4 => GROUP,
            StoredFormat::Q2K
            | StoredFormat::Q3K
            | StoredFormat::Q5K
            | StoredFormat::Q8K
            | StoredFormat::Iq4Xs => SUPER_BLOCK,
        }
    }

    /// Bytes of a block, scales included.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            StoredFormat::Kept(format) => format.block_bytes(),
            StoredFormat::Q4_1 => 2 + 2 + GROUP / 2,
            StoredFormat::Q5_0 => 2 + GROUP / 8 + GROUP / 2,
            StoredFormat::Q5_1 => 2 + 2 + GROUP / 8 + GROUP / 2,
            StoredFormat::Q2K => SUPER_BLOCK / 16 + SUPER_BLOCK / 4 + 2 + 2,
            StoredFormat::Q3K => SUPER_BLOCK / 8 + SUPER_BLOCK / 4 + 12 + 2,
            StoredFormat::Q5K => 2 + 2 + 12 + SUPER_BLOCK / 8 + SUPER_BLOCK / 2,
            StoredFormat::Q8K => 4 + SUPER_BLOCK + SUPER_BLOCK / 16 * 2,
            StoredFormat::Iq4Nl => 2 + GROUP / 2,
            StoredFormat::Iq4Xs => 2 + 2 + SUPER_BLOCK / 64 + SUPER_BLOCK / 2,
            StoredFormat::Mxfp4 => 1 + GROUP / 2,
        }
    }

    /// Bytes of a row of `width` elements, a multiple of [`StoredFormat::block`], scales included.
    #[must_use]
    pub fn row_bytes(self, width: usize) -> usize {
        width / self.block() * self.block_bytes()
    }
}

impl From<Format> for StoredFormat {
    fn from(format: Format) -> Self {
        StoredFormat::Kept(format)
    }
}
