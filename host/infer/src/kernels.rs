//! Kernels: which WGSL files and constants make each one, and the compiled pipelines.
//!
//! Only this module names the files under `shaders/`. A kernel is one set of parameters ([`Kernel`]); its text is made by
//! joining constants and files ([`Kernel::source`]), and [`Kernel::in_use`] lists every set a model can call for, so that a
//! test can pass each through naga's writers.

pub mod lab;
mod layout;
mod pipelines;
mod source;

pub(crate) use layout::Layout;
pub(crate) use pipelines::{ByRows, Extent, Pipelines};

use crate::decoder::KernelFamily;
use crate::weights::Precision;

/// Widest head, elements: one workgroup of the portable attention spans it.
pub(crate) const LARGEST_HEAD: usize = 256;

/// What a matmul does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// They are the output.
    Plain,
    /// They are added to the output.
    Residual,
    /// They are gate and up in turn; the output is silu(gate) * up.
    Swiglu,
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
    /// Every tiling of a family, from few rows to many: each with the most rows it is chosen for.
    #[must_use]
    pub fn of(family: KernelFamily) -> &'static [(u32, Tiling)] {
        match family {
            KernelFamily::Software => &[
                (1, Tiling::Registers { rows: 1 }),
                (4, Tiling::Registers { rows: 4 }),
                (u32::MAX, Tiling::Registers { rows: 8 }),
            ],
            KernelFamily::Portable => &[
                (1, Tiling::Reduce { rows: 1 }),
                (8, Tiling::Reduce { rows: 4 }),
                (u32::MAX, Tiling::Tile),
            ],
        }
    }

    /// Workgroups for `columns4 * 4` columns and `rows` rows.
    fn grid(self, columns4: u32, rows: u32) -> [u32; 3] {
        match self {
            Tiling::Registers { rows: tile } => [
                columns4.div_ceil(source::REGISTER_LANES),
                rows.div_ceil(tile),
                1,
            ],
            Tiling::Reduce { rows: tile } => [columns4, rows.div_ceil(tile), 1],
            Tiling::Tile => [columns4.div_ceil(8), rows.div_ceil(32), 1],
        }
    }
}

/// One kernel: a family of WGSL files with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Token rows of the embedding.
    Embed {
        /// Of the embedding.
        precision: Precision,
    },
    /// RMSNorm.
    RmsNorm {
        /// Family.
        family: KernelFamily,
    },
    /// A product with weights.
    Matmul {
        /// Cut.
        tiling: Tiling,
        /// Of the weights.
        precision: Precision,
        /// Epilogue.
        store: Store,
    },
    /// Rotary embedding and KV write.
    Rope,
    /// Queries times keys.
    Scores {
        /// Family.
        family: KernelFamily,
        /// Query heads to a key head.
        group: u32,
    },
    /// Softmax and values.
    Values {
        /// Family.
        family: KernelFamily,
        /// Query heads to a value head.
        group: u32,
    },
}

impl Kernel {
    /// Every set of parameters in use, for models whose query heads come in `groups` to a key head.
    #[must_use]
    pub fn in_use(groups: &[u32]) -> Vec<Kernel> {
        let families = [KernelFamily::Portable, KernelFamily::Software];
        let precisions = [Precision::F32, Precision::F16, Precision::Bf16];
        let mut kernels = vec![Kernel::Rope];
        kernels.extend(precisions.map(|precision| Kernel::Embed { precision }));
        for family in families {
            kernels.push(Kernel::RmsNorm { family });
            for (_, tiling) in Tiling::of(family) {
                for precision in precisions {
                    for store in [Store::Plain, Store::Residual, Store::Swiglu] {
                        kernels.push(Kernel::Matmul {
                            tiling: *tiling,
                            precision,
                            store,
                        });
                    }
                }
            }
        }
        for &group in groups {
            kernels.extend(families.map(|family| Kernel::Scores { family, group }));
            kernels.extend(families.map(|family| Kernel::Values { family, group }));
        }
        kernels
    }
}
