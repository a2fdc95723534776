//! The model room: decoders and encoders on any GPU that wgpu reaches.
//!
//! It deliberately does not know streams, records, requests, text or HTTP, and downloads nothing: it takes a
//! [`Checkpoint`](tidegate_weights::Checkpoint) and implements the ports of `contract`.
//!
//! Invariants:
//! - only this crate names `wgpu`;
//! - no optional feature of wgpu is needed, and every kernel that a model runs has computed the right numbers on the adapter
//!   before (with `checked_shaders`, the same kernel without the checks has);
//! - the number of dispatches in a step depends on the model, not on the number of rows or sequences, but for what none of them
//!   needs, and unless a step is too long for one submission;
//! - weights are stored in their own precision, and every sum is accumulated in f32;
//! - a device that fails, stalls or runs out of memory is a typed error, never a panic.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod bench;
mod buffer;
pub mod decoder;
pub mod device;
mod encoder;
mod files;
mod held;
#[doc(hidden)]
pub mod kernels;
mod load_error;
mod matrix;
mod program;
#[doc(hidden)]
pub mod sampling;
pub mod sheet;
mod site;
mod touch;

pub use decoder::{DecoderOptions, GpuDecoder, KernelTime, KvPrecision, MemoryReport};
pub use device::{
    Adapter, AdapterError, AdapterInfo, AdapterKind, DeviceOptions, Features, Gpu,
    measure_copy_bandwidth,
};
pub use encoder::{EncoderOptions, GpuEncoder};
pub use files::MappedFiles;
pub use kernels::{KernelSet, KernelVariant};
pub use load_error::{LoadError, WrongNumbers};
