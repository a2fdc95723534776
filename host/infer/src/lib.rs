//! The model room: a Llama-family decoder on any GPU that wgpu reaches, and the engine that serves it.
//!
//! It deliberately does not know streams, records, pipelines or HTTP, and downloads nothing: it reads a directory with
//! `config.json`, `model.safetensors` and `tokenizer.json`.
//!
//! Invariants:
//! - only this crate names `wgpu`; no optional wgpu feature is asked for;
//! - the number of dispatches in a step depends on the model, never on the number of rows or sequences;
//! - weights are stored in their own precision, and every sum is accumulated in f32;
//! - a device that fails, stalls or runs out of memory is a typed error, never a panic.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod config;
pub mod decoder;
pub mod device;
#[doc(hidden)]
pub mod kernels;
pub mod reference;
pub mod serving;
pub mod weights;

pub use config::{ConfigError, ModelConfig};
pub use decoder::{
    DecodeError, Decoder, DecoderOptions, DecoderShape, GpuDecoder, KernelFamily, LoadError,
    MemoryReport, StepRow,
};
pub use device::{Adapter, AdapterError, AdapterInfo, AdapterKind};
pub use reference::ReferenceDecoder;
pub use serving::{Engine, EngineOptions, EngineStats, LoadModelError, LoadOptions, load_model};
pub use weights::{Weights, WeightsError};
