//! Products with weights, and rows of an embedding.

use super::binding::{Access, Bindings};
use super::source::{LANES, join, shader};
use super::{KernelSet, KernelVariant};
use crate::device::Features;
use crate::matrix::{Layout, Stored};
use tidegate_weights::Activation;

/// What a matmul does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// They are the output.
    Plain,
    /// They are added to the output.
    Residual,
    /// They are gate and up in turn; the output is activation(gate) * up.
    Gated(Activation),
    /// A bias is added to them; the output is their activation.
    Bias(Option<Activation>),
}

impl Store {
    /// Every one in use.
    pub const ALL: [Store; 9] = [
        Store::Plain,
        Store::Residual,
        Store::Gated(Activation::Silu),
        Store::Gated(Activation::GeluTanh),
        Store::Gated(Activation::Gelu),
        Store::Bias(None),
        Store::Bias(Some(Activation::Silu)),
        Store::Bias(Some(Activation::GeluTanh)),
        Store::Bias(Some(Activation::Gelu)),
    ];

    fn files(self) -> [&'static str; 2] {
        match self {
            Store::Plain => ["", shader!("store.wgsl")],
            Store::Residual => ["", shader!("store_residual.wgsl")],
            Store::Gated(activation) => [activate(Some(activation)), shader!("store_gated.wgsl")],
            Store::Bias(activation) => [activate(activation), shader!("store_bias.wgsl")],
        }
    }
}

fn activate(activation: Option<Activation>) -> &'static str {
    match activation {
        None => shader!("activation_none.wgsl"),
        Some(Activation::Silu) => shader!("activation_silu.wgsl"),
        Some(Activation::GeluTanh) => shader!("activation_gelu_tanh.wgsl"),
        Some(Activation::Gelu) => shader!("activation_gelu.wgsl"),
    }
}

/// How a matmul is cut into invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// `rows` by 4 in the registers of each of 8 lanes: software adapters.
    Registers {
        /// Rows of a tile.
        rows: u32,
        /// Whether lanes tell each other what they have read of the input, which takes subgroups of 8 or more.
        told: bool,
    },
    /// `rows` by 4 in a workgroup that shares the width: GPUs, few rows.
    Reduce {
        /// Rows of a tile.
        rows: u32,
        /// Whether lanes add up over subgroups before they do in workgroup memory.
        subgroup: bool,
    },
    /// 32 by 32 in a workgroup: GPUs, many rows.
    Tile,
}

impl Tiling {
    /// Every tiling of a set of kernels, from few rows to many: each with the most rows it is chosen for. `told`: see
    /// [`Tiling::Registers`].
    #[must_use]
    pub fn of(kernels: KernelSet, told: bool) -> Vec<(u32, Tiling)> {
        let registers = |rows| Tiling::Registers { rows, told };
        let subgroup =
            kernels.matmul != KernelVariant::Portable && kernels.base == super::Base::Subgroup;
        let reduce = |rows| Tiling::Reduce { rows, subgroup };
        match Layout::of(kernels) {
            Layout::Tiles => vec![
                (1, registers(1)),
                (4, registers(4)),
                (u32::MAX, registers(8)),
            ],
            // Its order of sums is the same at any number of rows; that of a tile is another.
            Layout::Rows if kernels.reproducible => vec![(1, reduce(1)), (u32::MAX, reduce(4))],
            Layout::Rows => vec![(1, reduce(1)), (8, reduce(4)), (u32::MAX, Tiling::Tile)],
        }
    }

    /// Columns / 4 and rows of a workgroup.
    pub(crate) fn extent(self) -> [u32; 2] {
        match self {
            Tiling::Registers { rows, .. } => [8, rows],
            Tiling::Reduce { rows, .. } => [1, rows],
            Tiling::Tile => [8, 32],
        }
    }

    /// The order of weights it reads.
    fn layout(self) -> Layout {
        match self {
            Tiling::Registers { .. } => Layout::Tiles,
            Tiling::Reduce { .. } | Tiling::Tile => Layout::Rows,
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
        match self.tiling {
            Tiling::Registers { told: true, .. } | Tiling::Reduce { subgroup: true, .. } => {
                Features::SUBGROUP
            }
            _ => Features::NONE,
        }
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        macro_rules! bindings {
            ($($more:literal),*) => {
                &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform), $(($more, Read)),*]
            };
        }
        let bias = matches!(self.store, Store::Bias(_));
        match (self.stored, bias) {
            (Stored::F32 | Stored::F16 | Stored::Bf16, false) => bindings!(),
            (Stored::F32 | Stored::F16 | Stored::Bf16, true) => bindings!(8),
            (Stored::Int8 | Stored::Int4, false) => bindings!(5),
            (Stored::Int8 | Stored::Int4, true) => bindings!(5, 8),
            (Stored::Q4K, false) => bindings!(5, 6),
            (Stored::Q4K, true) => bindings!(5, 6, 8),
            (Stored::Q6K, false) => bindings!(5, 6, 7),
            (Stored::Q6K, true) => bindings!(5, 6, 7, 8),
        }
    }

    pub(crate) fn source(self) -> String {
        let [activation, store] = self.store.files();
        let mut files = vec![
            shader!("step.wgsl"),
            shader!("matmul.wgsl"),
            activation,
            store,
        ];
        let constants = match self.tiling {
            Tiling::Registers { rows, told } => {
                files.push(lanes(self.stored));
                files.push(if told {
                    shader!("input_broadcast.wgsl")
                } else {
                    shader!("input_direct.wgsl")
                });
                files.push(shader!("matmul_software.wgsl"));
                vec![("ROWS", rows)]
            }
            Tiling::Reduce { rows, subgroup } => {
                files.extend(weights(self.stored, self.tiling.layout()));
                files.push(if subgroup {
                    shader!("matmul_reduce_subgroup.wgsl")
                } else {
                    shader!("matmul_reduce_portable.wgsl")
                });
                files.push(shader!("matmul_reduce.wgsl"));
                vec![("LANES", LANES), ("ROWS", rows)]
            }
            Tiling::Tile => {
                files.extend(weights(self.stored, self.tiling.layout()));
                files.push(shader!("matmul_tile.wgsl"));
                Vec::new()
            }
        };
        join(&constants, &files)
    }

    pub(crate) fn in_use() -> Vec<MatmulKernel> {
        let mut kernels = Vec::new();
        let mut tilings: Vec<Tiling> = Vec::new();
        for variant in KernelVariant::ALL {
            for (software, reproducible, told) in [
                (false, false, false),
                (false, true, false),
                (true, false, false),
                (true, false, true),
            ] {
                let mut set = KernelSet::of(variant, software, true);
                set.reproducible = reproducible;
                let of = Tiling::of(set, told).into_iter().map(|(_, tiling)| tiling);
                tilings.extend(of);
            }
        }
        for tiling in tilings {
            for stored in Stored::ALL {
                kernels.extend(Store::ALL.map(|store| MatmulKernel {
                    tiling,
                    stored,
                    store,
                }));
            }
        }
        let mut seen = std::collections::HashSet::new();
        kernels.retain(|kernel| seen.insert(*kernel));
        kernels
    }
}

/// Rows of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmbedKernel {
    /// How the table lies on the device.
    pub stored: Stored,
    /// The order of its rows.
    pub layout: Layout,
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
        macro_rules! bindings {
            ($($more:literal),*) => {
                &[(0, Read), (1, Read), (3, Write), (4, Uniform), $(($more, Read)),*]
            };
        }
        match self.stored {
            Stored::F32 | Stored::F16 | Stored::Bf16 => bindings!(),
            Stored::Int8 | Stored::Int4 => bindings!(5),
            Stored::Q4K => bindings!(5, 6),
            Stored::Q6K => bindings!(5, 6, 7),
        }
    }

    pub(crate) fn source(self) -> String {
        let mut files = vec![shader!("step.wgsl")];
        files.extend(weights(self.stored, self.layout));
        files.push(shader!("embed.wgsl"));
        join(&[("LANES", Self::LANES)], &files)
    }

    pub(crate) fn in_use() -> Vec<EmbedKernel> {
        let layouts = [Layout::Rows, Layout::Tiles];
        let kernel = |stored| layouts.map(|layout| EmbedKernel { stored, layout });
        Stored::ALL.into_iter().flat_map(kernel).collect()
    }
}

/// Weights, four elements at a time.
fn weights(stored: Stored, layout: Layout) -> [&'static str; 2] {
    let layout = match layout {
        Layout::Rows => shader!("layout_rows.wgsl"),
        Layout::Tiles => shader!("layout_tiles.wgsl"),
    };
    let weights = match stored {
        Stored::F32 => shader!("weights_f32.wgsl"),
        Stored::F16 => shader!("weights_f16.wgsl"),
        Stored::Bf16 => shader!("weights_bf16.wgsl"),
        Stored::Int8 => shader!("weights_int8.wgsl"),
        Stored::Int4 => shader!("weights_int4.wgsl"),
        Stored::Q4K => shader!("weights_q4k.wgsl"),
        Stored::Q6K => shader!("weights_q6k.wgsl"),
    };
    [layout, weights]
}

/// Weights as the lanes of the software matmul read them.
fn lanes(stored: Stored) -> &'static str {
    match stored {
        Stored::F32 => shader!("lanes_f32.wgsl"),
        Stored::F16 => shader!("lanes_f16.wgsl"),
        Stored::Bf16 => shader!("lanes_bf16.wgsl"),
        Stored::Int8 => shader!("lanes_int8.wgsl"),
        Stored::Int4 => shader!("lanes_int4.wgsl"),
        Stored::Q4K => shader!("lanes_q4k.wgsl"),
        Stored::Q6K => shader!("lanes_q6k.wgsl"),
    }
}
