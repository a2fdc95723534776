//! What a decoder is loaded with, and what it then takes in memory.

use crate::config::ModelConfig;
use crate::decoder::DecoderShape;

/// The family of kernels a decoder runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelFamily {
    /// For GPUs: workgroups that share memory.
    Portable,
    /// For software adapters: no workgroup memory, no barriers.
    Software,
}

impl KernelFamily {
    /// Its name in messages and in `TIDEGATE_KERNELS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KernelFamily::Portable => "portable",
            KernelFamily::Software => "software",
        }
    }
}

/// How much a decoder is loaded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Sequences that can be in flight at once.
    pub slots: usize,
    /// Positions per slot.
    pub context: usize,
    /// Rows in one step: decode rows and prefill rows together.
    pub max_rows: usize,
    /// Kernel family; by default the adapter's, unless the environment variable `TIDEGATE_KERNELS` says
    /// `portable` or `software`.
    pub kernels: Option<KernelFamily>,
    /// Whether shaders keep wgpu's bounds and loop checks. They are off by default because every index they take
    /// comes from rows that were checked on the host; tests run with them on as well.
    pub checked_shaders: bool,
}

impl Default for DecoderOptions {
    /// 16 slots of 1024 positions, 64 rows a step.
    fn default() -> Self {
        DecoderOptions {
            slots: 16,
            context: 1024,
            max_rows: 64,
            kernels: None,
            checked_shaders: false,
        }
    }
}

impl DecoderOptions {
    /// The shape of a decoder loaded with these options.
    #[must_use]
    pub fn shape(&self, config: &ModelConfig) -> DecoderShape {
        DecoderShape {
            vocabulary: config.vocabulary,
            context: self.context,
            slots: self.slots,
            max_rows: self.max_rows,
        }
    }
}

/// Bytes a decoder takes on the device, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Weights in their stored precision, rows padded to 4 elements; and the rotary table.
    pub weights: u64,
    /// Keys and values of every slot, f32.
    pub kv_cache: u64,
    /// Everything a step writes on its way, and the buffers it is read back through.
    pub activations: u64,
}

impl MemoryReport {
    /// All parts together, bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights + self.kv_cache + self.activations
    }
}
