//! Models as they lie on disk: what `config.json` or a GGUF header says, and tensors in every format that is read.
//!
//! It deliberately does not know devices, kernels, tokenizers or text (a GGUF file's vocabulary is handed on as it
//! stands there), and maps no memory itself: its files are given to it as bytes ([`ReadFile`]), so that every parser can
//! be fuzzed and no unsafe code stands here.
//!
//! Invariants:
//! - nothing in a file is believed before it is checked against the file's length and the limits named here;
//! - a model is described the same way whatever its family and file format: [`ModelConfig`] and [`DecoderTensor`];
//! - a tensor without which it would be a different model is read, or the model is refused by its name;
//! - dequantization gives the bits that the format's definition gives.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod checkpoint;
mod config;
mod convert;
mod error;
mod format;
mod gguf;
mod lora;
mod names;
mod packed;
mod random;
mod reencoding;
mod safetensors;
mod tensor;

pub use checkpoint::{Checkpoint, FileBytes, ReadFile, ReadWhole};
pub use config::{
    Activation, Architecture, ClampedGate, ConfigError, EncoderBiases, EncoderConfig, EncoderHead,
    EncoderLayer, Experts, HeadActivation, LayerConfig, ModelConfig, Pooling, Quantization, Rope,
    RopeScaling, Scoring, TextPrompts,
};
pub use convert::{ConvertError, ConvertReport, convert};
pub use error::{CheckpointError, TensorError};
pub use format::{Format, GROUP, RowParts, SUPER_BLOCK, StoredFormat};
pub use gguf::{
    GgufError, GgufFormat, GgufPart, GgufSummary, GgufTokenizer, PartError, gguf_nearest,
    gguf_summary, gguf_vocabulary, nearest_architecture,
};
pub use lora::{Lora, LoraError, LoraSummary, LowRank, MOST_RANK, adapted_digest};
pub use names::{DecoderTensor, EncoderLayerTensor, EncoderTensor, LayerTensor};
pub use packed::{PackedFormat, Scheme, Stored};
pub use reencoding::{Reencoded, RoundingLoss};
pub use tensor::Tensor;
