//! Kernels: which WGSL files and constants make each one, and the compiled pipelines.
//!
//! Only this module and the descriptions of formats ([`StorageFormat`]) name the files under `shaders/`, which lie in folders by
//! what they compute, those of a format in one of its own. A kernel is one set of parameters ([`Kernel`]); its text is made by
//! joining constants and files ([`Kernel::source`]), and [`Kernel::in_use`] lists every set a model can call for, so that a test
//! can pass each through naga's writers.

mod attention;
mod beside;
mod binding;
mod choice;
mod columns;
mod cooperative;
mod encoder;
mod experts;
mod heads;
mod kv;
pub mod lab;
mod layout;
mod lora;
mod matmul;
mod norm;
mod pipelines;
mod sampling;
mod self_test;
mod source;
mod variant;

pub use attention::AttentionKernel;
pub(crate) use attention::{
    GROUP, HeadCut, MOST_UNIT, SPLIT, TILE_ROWS, Together, hanging_over, merges, rows_together,
    scratch, turns_of_attention, unit_of,
};
pub(crate) use binding::{AnyBindings, bind};
pub(crate) use choice::{asked_for, choose_kernels, expected_kernels, products_by_name};
pub use cooperative::Cut;
pub use encoder::EncoderKernel;
pub(crate) use encoder::{Addend, LayerNorm, TextAttention, TextHeads};
pub(crate) use experts::Routing;
pub use experts::{CombinedWith, ExpertKernel};
pub use heads::HeadsKernel;
pub(crate) use heads::{Heads, KvBuffers};
pub use kv::KvPrecision;
pub use lora::LoraKernel;
pub use matmul::{
    EmbedKernel, F16_TOLERANCE, MatmulKernel, QuantizeKernel, Store, Subgroups, Tiling,
};
pub(crate) use matmul::{HEADS_BUFFERS, MOST_SUBGROUP, STREAM_BUFFERS};
pub use norm::{NormKernel, NormStore};
pub(crate) use pipelines::{Pipeline, Pipelines};
pub use sampling::{SamplingKernel, SamplingStage};
pub(crate) use self_test::{Tested, Verdicts, Wrong, widths};
use source::in_longs;
pub(crate) use source::shader;
pub(crate) use variant::{Base, MOST_TURNS};
pub use variant::{KernelSet, KernelVariant};

use crate::device::Features;
pub use crate::matrix::{Layout, StorageFormat, WeightNumbers};

/// One kernel: a family of WGSL files with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// A product with weights.
    Matmul(MatmulKernel),
    /// Activations in int8.
    Quantize(QuantizeKernel),
    /// Rows of an embedding.
    Embed(EmbedKernel),
    /// Norms and sums of rows.
    Norm(NormKernel),
    /// What is done to queries, keys and values before attention.
    Heads(HeadsKernel),
    /// Attention over the KV blocks.
    Attention(AttentionKernel),
    /// What a layer with experts does beside products.
    Experts(ExpertKernel),
    /// Low-rank adapters beside products.
    Lora(LoraKernel),
    /// What an encoder does beside products.
    Encoder(EncoderKernel),
    /// Draws tokens from logits.
    Sampling(SamplingKernel),
}

/// Calls a method of the kernel inside.
macro_rules! each {
    ($kernel:expr, $inner:ident => $call:expr) => {
        match $kernel {
            Kernel::Matmul($inner) => $call,
            Kernel::Quantize($inner) => $call,
            Kernel::Embed($inner) => $call,
            Kernel::Norm($inner) => $call,
            Kernel::Heads($inner) => $call,
            Kernel::Attention($inner) => $call,
            Kernel::Experts($inner) => $call,
            Kernel::Lora($inner) => $call,
            Kernel::Encoder($inner) => $call,
            Kernel::Sampling($inner) => $call,
        }
    };
}

/// What a kernel computes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// 32-bit floats.
    F32,
    /// Cooperative matrices, of whole tiles of so many rows.
    Matrices {
        /// Rows of a tile.
        rows: u32,
    },
    /// Smaller numbers, lane by lane.
    Other,
}

impl Kernel {
    /// Its name in profiles and errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        each!(self, kernel => kernel.name())
    }

    /// Its WGSL.
    #[must_use]
    pub fn source(self) -> String {
        each!(self, kernel => kernel.source())
    }

    /// Its WGSL on a device with these features.
    #[must_use]
    pub fn source_on(self, features: Features) -> String {
        match features.longs {
            true => in_longs(&self.source()),
            false => self.source(),
        }
    }

    /// What it binds, in group 0.
    pub(crate) fn bindings(self) -> AnyBindings {
        each!(self, kernel => kernel.bindings().into())
    }

    /// What it computes by.
    pub(crate) fn arithmetic(self) -> Arithmetic {
        match self {
            Kernel::Matmul(kernel) => match kernel.tiling {
                Tiling::Cooperative { cut, .. } => Arithmetic::Matrices { rows: cut.rows },
                Tiling::TileF16 | Tiling::Dot { .. } => Arithmetic::Other,
                _ => Arithmetic::F32,
            },
            _ => Arithmetic::F32,
        }
    }

    /// Optional features its WGSL needs.
    #[must_use]
    pub fn needs(self) -> Features {
        each!(self, kernel => kernel.needs())
    }

    /// Every set of parameters in use.
    #[must_use]
    pub fn in_use() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        kernels.extend(MatmulKernel::in_use().into_iter().map(Kernel::Matmul));
        kernels.extend(QuantizeKernel::in_use().into_iter().map(Kernel::Quantize));
        kernels.extend(EmbedKernel::in_use().into_iter().map(Kernel::Embed));
        kernels.extend(NormKernel::in_use().into_iter().map(Kernel::Norm));
        kernels.extend(HeadsKernel::in_use().into_iter().map(Kernel::Heads));
        kernels.extend(AttentionKernel::in_use().into_iter().map(Kernel::Attention));
        kernels.extend(ExpertKernel::in_use().into_iter().map(Kernel::Experts));
        kernels.extend(LoraKernel::in_use().into_iter().map(Kernel::Lora));
        kernels.extend(EncoderKernel::in_use().into_iter().map(Kernel::Encoder));
        kernels.extend(SamplingKernel::in_use().into_iter().map(Kernel::Sampling));
        kernels
    }
}
