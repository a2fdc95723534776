//! Matrices that other tools quantized and published in safetensors: whole numbers in words, or 8-bit floats, with scales
//! and zero points in tensors beside them.
//!
//! Sources: `QuantLinear.pack` of AutoGPTQ 0.7.1 (`qlinear_cuda_old.py`), `WQLinear_GEMM.from_linear` and
//! `dequantize_gemm` of autoawq 0.2.9, `pack_to_int32` of compressed-tensors 0.20, and for 8-bit floats transformers'
//! `finegrained_fp8`; for 4-bit ones "OCP Microscaling Formats (MX) Specification" 1.0 and transformers' `integrations/mxfp4.py`.

mod format;
mod rows;

pub use format::{PackedFormat, Stored};
pub(crate) use rows::{
    AWQ_PLACES, Float, Groups, Numbers, PackedRows, STRAIGHT, Scales, Words, Zeros,
};

/// What a `config.json` says of a model that another tool quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// GPTQ.
    Gptq {
        /// Bits of a number: 4 or 8.
        bits: u32,
        /// Elements of a row that share a scale; the whole row where nothing is said.
        group: Option<usize>,
        /// Whether zero points are stored one less than they are, as AutoGPTQ does.
        zeros_less_one: bool,
    },
    /// AWQ in its `gemm` layout: four bits.
    Awq {
        /// Elements of a row that share a scale; the whole row where nothing is said.
        group: Option<usize>,
    },
    /// compressed-tensors, whole numbers in words.
    CompressedWords {
        /// Bits of a number: 4 or 8.
        bits: u32,
        /// Elements of a row that share a scale; the whole row where nothing is said.
        group: Option<usize>,
        /// Whether each group has a zero point of its own: not where weights are symmetric.
        has_zeros: bool,
    },
    /// compressed-tensors, a byte for each whole number.
    CompressedBytes {
        /// Elements of a row that share a scale; the whole row where nothing is said.
        group: Option<usize>,
    },
    /// 8-bit floats.
    Fp8 {
        /// Rows and elements of a block that shares a scale; where nothing is said a row does, or the whole.
        block: Option<[usize; 2]>,
    },
    /// MXFP4: the experts of gpt-oss, which lie together.
    Mxfp4,
}
