//! Products with weights, and rows of an embedding.

use super::binding::{Access, Bindings};
use super::source::{LANES, join, shader};
use super::{KernelSet, KernelVariant};
use crate::device::Features;
use crate::matrix::Stored;
use tidegate_weights::Activation;

/// Lanes of a register-tiled matmul: few, so that narrow layers still spread over the cores of a software adapter.
const REGISTER_LANES: u32 = 16;

/// What a matmul does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// They are the output.
    Plain,
    /// They are added to the output.
    Residual,
    /// They are gate and up in turn; the output is activation(gate) * up.
    Gated(Activation),
}

/// How a matmul is cut into invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// `rows` by 4 in the registers of an invocation: software adapters.
    Registers {
        /// Rows of a tile.
        rows: u32,
    },
    /// `rows` by 4 in a workgroup that shares the width: GPUs, few rows.
    Reduce {
        /// Rows of a tile.
        rows: u32,
    },
    /// 32 by 32 in a workgroup: GPUs, many rows.
    Tile,
}

impl Tiling {
    /// Every tiling of a set of kernels, from few rows to many: each with the most rows it is chosen for.
    #[must_use]
    pub fn of(kernels: KernelSet) -> &'static [(u32, Tiling)] {
        match kernels.matmul {
            KernelVariant::Software => &[
                (1, Tiling::Registers { rows: 1 }),
                (4, Tiling::Registers { rows: 4 }),
                (u32::MAX, Tiling::Registers { rows: 8 }),
            ],
            // Its order of sums is the same at any number of rows; that of a tile is another.
            _ if kernels.reproducible => &[
                (1, Tiling::Reduce { rows: 1 }),
                (u32::MAX, Tiling::Reduce { rows: 4 }),
            ],
            _ => &[
                (1, Tiling::Reduce { rows: 1 }),
                (8, Tiling::Reduce { rows: 4 }),
                (u32::MAX, Tiling::Tile),
            ],
        }
    }

    /// Columns / 4 and rows of a workgroup.
    pub(crate) fn extent(self) -> [u32; 2] {
        match self {
            Tiling::Registers { rows } => [REGISTER_LANES, rows],
            Tiling::Reduce { rows } => [1, rows],
            Tiling::Tile => [8, 32],
        }
    }
}

/// A product with weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulKernel {
    /// Cut.
    pub tiling: Tiling,
    /// How the weights lie on the device.
    pub stored: Stored,
    /// Epilogue.
    pub store: Store,
}

impl MatmulKernel {
    pub(crate) fn name(self) -> &'static str {
        "matmul"
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)]
    }

    pub(crate) fn source(self) -> String {
        let store = match self.store {
            Store::Plain => shader!("store.wgsl"),
            Store::Residual => shader!("store_residual.wgsl"),
            Store::Gated(_) => concat!(include_str!("../../../../shaders/activation_silu.wgsl"), include_str!("../../../../shaders/store_gated.wgsl")),
        };
        let (constants, kernel) = match self.tiling {
            Tiling::Registers { rows } => (
                vec![("LANES", REGISTER_LANES), ("ROWS", rows)],
                shader!("matmul_software.wgsl"),
            ),
            Tiling::Reduce { rows } => (
                vec![("LANES", LANES), ("ROWS", rows)],
                shader!("matmul_reduce.wgsl"),
            ),
            Tiling::Tile => (Vec::new(), shader!("matmul_tile.wgsl")),
        };
        let files = [
            shader!("step.wgsl"),
            weights(self.stored),
            shader!("matmul.wgsl"),
            store,
            kernel,
        ];
        join(&constants, &files)
    }

    pub(crate) fn in_use() -> Vec<MatmulKernel> {
        let mut kernels = Vec::new();
        for variant in [KernelVariant::Portable, KernelVariant::Software] {
            for &(_, tiling) in Tiling::of(KernelSet::of(variant, false, false)) {
                for stored in Stored::ALL {
                    for store in [Store::Plain, Store::Residual, Store::Gated(Activation::Silu)] {
                        kernels.push(MatmulKernel {
                            tiling,
                            stored,
                            store,
                        });
                    }
                }
            }
        }
        kernels
    }
}

/// Rows of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmbedKernel {
    /// How the table lies on the device.
    pub stored: Stored,
}

impl EmbedKernel {
    /// Lanes of a workgroup.
    pub(crate) const LANES: u32 = LANES;

    pub(crate) fn name(self) -> &'static str {
        "embed"
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        &[(0, Read), (1, Read), (3, Write), (4, Uniform)]
    }

    pub(crate) fn source(self) -> String {
        let files = [
            shader!("step.wgsl"),
            weights(self.stored),
            shader!("embed.wgsl"),
        ];
        join(&[("LANES", Self::LANES)], &files)
    }

    pub(crate) fn in_use() -> Vec<EmbedKernel> {
        Stored::ALL
            .into_iter()
            .map(|stored| EmbedKernel { stored })
            .collect()
    }
}

fn weights(stored: Stored) -> &'static str {
    match stored {
        Stored::F32 => shader!("weights_f32.wgsl"),
        Stored::F16 => shader!("weights_f16.wgsl"),
        Stored::Bf16 => shader!("weights_bf16.wgsl"),
    }
}
