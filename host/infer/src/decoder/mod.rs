//! The decoder on a device: one step over a batch of rows, drawn on the device.
//!
//! It does not know requests or text: it knows KV blocks, positions and token ids.

mod gpu;
mod options;
mod parts;
mod passes;
mod plan;
mod profile;

pub use gpu::GpuDecoder;
pub use options::DecoderOptions;
pub(crate) use passes::StepWords;
pub use plan::MemoryReport;
pub use profile::KernelTime;

pub use crate::kernels::KvPrecision;
