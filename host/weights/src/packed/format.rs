//! The ways in which other tools publish quantized matrices in safetensors.

use std::fmt;

use crate::format::StoredFormat;

/// How the numbers of a matrix lie that other tools quantized; its scales and zero points are tensors beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackedFormat {
    /// GPTQ: `s·(q - z)`, q and z in 0..=15, s and z for each group of a row's elements.
    GptqInt4,
    /// GPTQ: the same with q and z in 0..=255.
    GptqInt8,
    /// AWQ, its `gemm` layout: `s·(q - z)`, q and z in 0..=15, s and z for each group of a row's elements.
    AwqInt4,
    /// compressed-tensors: `s·(q - z)`, q and z in 0..=15, z 8 unless it is stored.
    CompressedInt4,
    /// compressed-tensors: the same with q and z in 0..=255, z 128 unless it is stored, or `s·q` with q in -128..=127.
    CompressedInt8,
    /// `s·x` with x an 8-bit float of four bits of exponent and three of fraction (OCP's E4M3, without infinities), s for
    /// blocks, rows or the whole.
    Fp8,
    /// OCP's MXFP4: `s·x` with x a 4-bit float of two bits of exponent and one of fraction (E2M1), s a power of two for each 32
    /// elements of a row (E8M0).
    Mxfp4,
}

impl PackedFormat {
    /// All that can be read.
    pub const ALL: [PackedFormat; 7] = [
        PackedFormat::GptqInt4,
        PackedFormat::GptqInt8,
        PackedFormat::AwqInt4,
        PackedFormat::CompressedInt4,
        PackedFormat::CompressedInt8,
        PackedFormat::Fp8,
        PackedFormat::Mxfp4,
    ];

    /// The name used in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PackedFormat::GptqInt4 => "gptq int4",
            PackedFormat::GptqInt8 => "gptq int8",
            PackedFormat::AwqInt4 => "awq int4",
            PackedFormat::CompressedInt4 => "compressed int4",
            PackedFormat::CompressedInt8 => "compressed int8",
            PackedFormat::Fp8 => "fp8",
            PackedFormat::Mxfp4 => "mxfp4",
        }
    }

    /// What a `quantization_config` says that means it, what an element is, and what it is held as, for documents.
    #[must_use]
    pub fn described(self) -> [&'static str; 3] {
        const WHOLE: &str = "s·(q - z)";
        match self {
            PackedFormat::GptqInt4 => [
                "`gptq`, 4 bits, `checkpoint_format` `gptq` or `gptq_v2`",
                WHOLE,
                "int4 where every zero point is 8, or else int8",
            ],
            PackedFormat::GptqInt8 => ["`gptq`, 8 bits", WHOLE, "int8"],
            PackedFormat::AwqInt4 => ["`awq`, version `gemm`", WHOLE, "as `gptq int4`"],
            PackedFormat::CompressedInt4 => [
                "`compressed-tensors`, `pack-quantized`, 4 bits",
                WHOLE,
                "as `gptq int4`",
            ],
            PackedFormat::CompressedInt8 => [
                "`compressed-tensors`, `int-quantized` or `pack-quantized`, 8 bits",
                WHOLE,
                "int8",
            ],
            PackedFormat::Fp8 => [
                "`fp8` (`weight_block_size`), `fbgemm_fp8`, `compressed-tensors` `float-quantized`",
                "s·x, x in E4M3",
                "int8",
            ],
            PackedFormat::Mxfp4 => [
                "`mxfp4`, of `GptOssForCausalLM`",
                "s·x, x in E2M1, s a power of two for 32 elements",
                "int8",
            ],
        }
    }
}

/// What the elements of a tensor lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stored {
    /// One of the formats of GGUF files, or this project's own.
    Blocks(StoredFormat),
    /// What another tool made of a matrix.
    Packed(PackedFormat),
}

impl Stored {
    /// The name used in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stored::Blocks(format) => format.name(),
            Stored::Packed(format) => format.name(),
        }
    }

    /// The name that the makers of such files use.
    #[must_use]
    pub fn makers_name(self) -> &'static str {
        match self {
            Stored::Blocks(format) => format.gguf_name(),
            Stored::Packed(format) => format.name(),
        }
    }

    /// Whether rows are handed on as they are stored.
    #[must_use]
    pub fn is_kept(self) -> bool {
        matches!(self, Stored::Blocks(StoredFormat::Kept(_)))
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
