//! The decoder on a device: one step over a batch of rows, drawn on the device.
//!
//! It does not know requests or text: it knows KV blocks, positions and token ids.

mod company;
mod experts;
mod fusion;
mod gpu;
mod lab;
mod loading;
mod lora;
mod options;
mod paper;
mod passes;
mod profile;
mod scratch;
mod sizes;

pub(crate) use company::Partition;
pub use gpu::GpuDecoder;
#[doc(hidden)]
pub use lab::ExpertProduct;
pub use options::DecoderOptions;
pub(crate) use paper::on_paper;
pub(crate) use passes::{Piece, StepWords};
pub use profile::KernelTime;
pub use sizes::MemoryReport;

pub use crate::kernels::KvPrecision;
