//! Products with weights, and rows of an embedding.

use std::collections::HashSet;

use super::binding::{Access, Bindings};
use super::columns;
use super::cooperative::{self, Cut};
use super::kv::KvPrecision;
use super::source::{LANES, WORDS, join, join_enabled, shader};
use super::{Base, KernelSet, KernelVariant};
use crate::device::Features;
use crate::matrix::{Description, Layout, MOST_PARTS, StorageFormat};
use crate::touch::{Area, Touch};
use tidegate_weights::Activation;

/// Sums of four columns that go through workgroup memory at once, of which every device has 16 KiB.
const MOST_PARTIAL: u32 = 1024;

/// The binding of the first plane of weights beside the values; the others follow.
const FIRST_PLANE: u32 = 5;

/// Lanes of a workgroup at most, which every device has.
const MOST_LANES: u32 = 256;

/// How far off a sum of products in f16 may be, as a share of all its products' magnitudes: an input and a weight are rounded to 11 bits
/// each, which is 2^-10 of their product together; what sums in f32 add is little beside it.
///
/// That is of inputs and weights from 2^-14 (6.1e-5) to 65,504, between which f16 has all its bits. What is smaller is rounded to a
/// multiple of 2^-24, so that it is off by up to 2^-25 (3e-8) whatever its own size; what is larger counts as 65,504. Rows whose norm a
/// product by cooperative matrices does are narrowed after it ([`MatmulKernel::normed`]), so they are held to the share at any magnitude
/// of the stream, as far as what the norm makes of them is within those limits.
pub const F16_TOLERANCE: f64 = 1.1e-3;

/// Lanes of a subgroup at most that products by cooperative matrices have room for: four are a workgroup.
pub(crate) const MOST_SUBGROUP: u32 = MOST_LANES / 4;

/// Lanes of what stands in for a subgroup where cooperative matrices are emulated.
const EMULATED_LANES: u32 = 32;

/// Storage buffers that a product binds at most where it begins a norm: of q6_K.
pub(crate) const STREAM_BUFFERS: u32 = 10;

/// Storage buffers that a product binds at most whose sums are heads: of q6_K, after a norm.
pub(crate) const HEADS_BUFFERS: u32 = 13;

/// What a matmul does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// They are the output.
    Plain,
    /// They are added to the output.
    Residual,
    /// They are added to the output, and what the norm of its rows needs that comes next goes beside it: the rows times the norm's
    /// weights, and the squares of each four elements, for a product that is [`MatmulKernel::normed`].
    Stream,
    /// They are heads of queries, keys and values, turned and put where attention finds them, in this precision: not in int8, where
    /// a head is kept when all of it is known.
    Heads(KvPrecision),
    /// They are gate and up in turn; the output is activation(gate) * up.
    Gated(Activation),
    /// A bias is added to them; the output is their activation.
    Bias(Option<Activation>),
}

impl Store {
    /// Every one in use.
    pub const ALL: [Store; 12] = [
        Store::Plain,
        Store::Residual,
        Store::Stream,
        Store::Heads(KvPrecision::F32),
        Store::Heads(KvPrecision::F16),
        Store::Gated(Activation::Silu),
        Store::Gated(Activation::GeluTanh),
        Store::Gated(Activation::Gelu),
        Store::Bias(None),
        Store::Bias(Some(Activation::Silu)),
        Store::Bias(Some(Activation::GeluTanh)),
        Store::Bias(Some(Activation::Gelu)),
    ];

    /// What is done with the output of a product whose sums are `columns` of rows of `stride`, from column `first` on.
    pub(crate) fn touch(self, buffer: usize, [stride, first, columns]: [usize; 3]) -> Touch {
        // Of gate and up in turn one number is left.
        let each = if matches!(self, Store::Gated(_)) {
            2
        } else {
            4
        };
        let [stride, from, bytes] = [stride, first, columns].map(|columns| (columns * each) as u64);
        let area = Area::CellsOf {
            stride,
            from,
            bytes,
        };
        match self {
            Store::Residual | Store::Stream => Touch::update(buffer, area),
            _ => Touch::write(buffer, area),
        }
    }

    pub(super) fn files(self) -> Vec<&'static str> {
        match self {
            Store::Plain => vec![shader!("matmul/store.wgsl")],
            Store::Residual => vec![shader!("matmul/store_residual.wgsl")],
            Store::Stream => vec![shader!("matmul/store_stream.wgsl")],
            Store::Heads(kv) => vec![
                kv.file(),
                shader!("matmul/store_heads.wgsl"),
                shader!("attention/paged.wgsl"),
                shader!("attention/kv_in_blocks.wgsl"),
            ],
            Store::Gated(activation) => vec![
                activate(Some(activation)),
                shader!("matmul/store_gated.wgsl"),
            ],
            Store::Bias(activation) => {
                vec![activate(activation), shader!("matmul/store_bias.wgsl")]
            }
        }
    }
}

fn activate(activation: Option<Activation>) -> &'static str {
    match activation {
        None => shader!("matmul/activation_none.wgsl"),
        Some(Activation::Silu) => shader!("matmul/activation_silu.wgsl"),
        Some(Activation::GeluTanh) => shader!("matmul/activation_gelu_tanh.wgsl"),
        Some(Activation::Gelu) => shader!("matmul/activation_gelu.wgsl"),
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
        broadcast: bool,
    },
    /// `rows` by 4 in a workgroup whose lanes take turns along the width: few rows of what has other tilings
    /// for many, and what is beside products by dots.
    Reduce {
        /// Rows of a tile.
        rows: u32,
        /// Whether lanes add up over subgroups before they do in workgroup memory.
        subgroup: bool,
    },
    /// `rows` by `4 * across` in a workgroup whose lanes have parts of the width: GPUs.
    Columns {
        /// Rows of a tile.
        rows: u32,
        /// Lanes beside each other that have the same part.
        across: u32,
        /// Parts that a workgroup sums at once; of a narrow matrix, which has fewer, some lanes have none.
        slots: u32,
    },
    /// 64 by 64 in a workgroup, through its memory in f16: GPUs with f16, many rows.
    TileF16,
    /// By cooperative matrices, in f16 with sums in f32: GPUs that have them, at any number of rows.
    Cooperative {
        /// Rows and columns of a workgroup, and who has which.
        cut: Cut,
        /// Whether plain arithmetic stands in for the matrices: [`KernelSet::emulated`].
        emulated: bool,
    },
    /// `rows` by 4 in a workgroup that shares the width, with the input in int8: only of formats that have dots.
    Dot {
        /// Rows of a tile.
        rows: u32,
    },
}

/// What tilings take of a device's subgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subgroups {
    /// See [`Tiling::Registers`].
    pub broadcast: bool,
    /// Lanes of a subgroup at most.
    pub lanes: u32,
}

impl Tiling {
    /// Every tiling of a set of kernels for weights that are so stored, from few rows to many: each with the most rows it is
    /// chosen for.
    ///
    /// All but those of f16 keep one order of sums at any number of rows.
    #[must_use]
    pub fn of(
        kernels: KernelSet,
        stored: StorageFormat,
        subgroups: Subgroups,
    ) -> Vec<(u32, Tiling)> {
        let registers = |rows| Tiling::Registers {
            rows,
            broadcast: subgroups.broadcast,
        };
        let subgroup = kernels.matmul != KernelVariant::Portable && kernels.base == Base::Subgroup;
        let reduce = |rows| Tiling::Reduce { rows, subgroup };
        let format = stored.description();
        match kernels.matmul {
            KernelVariant::Software => vec![
                (1, registers(1)),
                (4, registers(4)),
                (u32::MAX, registers(8)),
            ],
            KernelVariant::Dot if format.dot.is_some() => vec![
                (1, Tiling::Dot { rows: 1 }),
                (u32::MAX, Tiling::Dot { rows: 4 }),
            ],
            KernelVariant::F16 => vec![(1, reduce(1)), (8, reduce(4)), (u32::MAX, Tiling::TileF16)],
            KernelVariant::Cooperative => {
                let emulated = kernels.emulated;
                let lanes = if emulated {
                    EMULATED_LANES
                } else {
                    subgroups.lanes
                };
                let cooperative = |rows, columns, slices| Tiling::Cooperative {
                    cut: Cut {
                        rows,
                        columns,
                        slices,
                        lanes,
                    },
                    emulated,
                };
                vec![
                    // Rows are padded to 16 anyway. Few columns: many workgroups; each reads all of its rows, which are few too.
                    (4, cooperative(16, 16, (MOST_LANES / lanes).min(8))),
                    (16, cooperative(16, 32, 4)),
                    (32, cooperative(32, 32, 4)),
                    (u32::MAX, cooperative(64, 64, 1)),
                ]
            }
            KernelVariant::Portable | KernelVariant::Subgroup => Tiling::of_columns(stored),
            _ => vec![(1, reduce(1)), (u32::MAX, reduce(4))],
        }
    }

    /// Those of GPUs that round nothing and read weights in tiles.
    fn of_columns(stored: StorageFormat) -> Vec<(u32, Tiling)> {
        let columns = |rows, across, slots| Tiling::Columns {
            rows,
            across,
            slots,
        };
        vec![
            // Few rows: many lanes for each column, so that all of a device is at work.
            (1, columns(1, 4, 64)),
            (8, columns(4, 4, 64)),
            (
                u32::MAX,
                columns(8, stored.description().columns.across, 16),
            ),
        ]
    }

    /// The same for products with experts, from few rows of an expert to many: those that round no input.
    pub(crate) fn of_experts(
        kernels: KernelSet,
        stored: StorageFormat,
        subgroups: Subgroups,
    ) -> Vec<Tiling> {
        let mut tilings: Vec<Tiling> = Tiling::exact(kernels, stored, subgroups)
            .into_iter()
            .map(|(_, tiling)| tiling)
            .collect();
        if tilings.is_empty() {
            let subgroup = kernels.base == Base::Subgroup;
            tilings.extend([1, 4].map(|rows| Tiling::Reduce { rows, subgroup }));
        }
        tilings
    }

    /// The same for products that decide something: those that round no input but to what it must be for their weights.
    pub(crate) fn of_decisions(
        kernels: KernelSet,
        stored: StorageFormat,
        subgroups: Subgroups,
    ) -> Vec<(u32, Tiling)> {
        let mut tilings = Tiling::exact(kernels, stored, subgroups);
        if tilings.is_empty() {
            tilings = Tiling::of(kernels, stored, subgroups);
        }
        if let Some(last) = tilings.last_mut() {
            last.0 = u32::MAX;
        }
        tilings
    }

    /// Those that round no input, of the layout that these kernels read weights in.
    fn exact(
        kernels: KernelSet,
        stored: StorageFormat,
        subgroups: Subgroups,
    ) -> Vec<(u32, Tiling)> {
        if kernels.matmul == KernelVariant::Cooperative {
            return Tiling::of_columns(stored);
        }
        let mut tilings = Tiling::of(kernels, stored, subgroups);
        tilings.retain(|(_, tiling)| !tiling.rounds());
        tilings
    }

    /// Whether it multiplies rounded inputs.
    fn rounds(self) -> bool {
        matches!(
            self,
            Tiling::TileF16 | Tiling::Cooperative { .. } | Tiling::Dot { .. }
        )
    }

    /// Columns / 4 and rows of a workgroup.
    pub(crate) fn extent(self) -> [u32; 2] {
        match self {
            Tiling::Registers { rows, .. } => [8, rows],
            Tiling::Reduce { rows, .. } | Tiling::Dot { rows } => [1, rows],
            Tiling::Columns { rows, across, .. } => [across, rows],
            Tiling::TileF16 => [16, 64],
            Tiling::Cooperative { cut, .. } => [cut.columns / 4, cut.rows],
        }
    }
}

/// A product with weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulKernel {
    /// Cut.
    pub tiling: Tiling,
    /// How the weights lie on the device.
    pub stored: StorageFormat,
    /// Epilogue.
    pub store: Store,
    /// Whether sums are scaled as the norm of their row says, whose weights are in the input; by cooperative matrices it is the input
    /// that is scaled, before it is rounded.
    pub normed: bool,
    /// Whether its rows are pairs of a row and an expert, and its weights those of experts.
    pub routed: bool,
}

impl MatmulKernel {
    pub(crate) fn name(self) -> &'static str {
        "matmul"
    }

    /// Whether some model runs it: products for GPUs do norms, of the stream and for what a layer begins with.
    fn is_used(self) -> bool {
        let columns = matches!(
            self.tiling,
            Tiling::Columns { .. } | Tiling::Cooperative { .. }
        );
        if self.routed {
            return !self.normed
                && !self.tiling.rounds()
                && matches!(self.store, Store::Plain | Store::Gated(_));
        }
        match (self.store, self.normed) {
            (Store::Stream, normed) => columns && !normed,
            (Store::Heads(_), _) => columns,
            (Store::Plain | Store::Gated(_), true) => columns,
            (Store::Residual | Store::Bias(_), true) => false,
            (_, false) => true,
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self.tiling {
            Tiling::Registers {
                broadcast: true, ..
            }
            | Tiling::Reduce { subgroup: true, .. } => Features::SUBGROUP,
            Tiling::TileF16 => Features {
                f16: true,
                ..Features::NONE
            },
            Tiling::Cooperative {
                emulated: false, ..
            } => Features {
                subgroup: true,
                f16: true,
                cooperative: true,
                ..Features::NONE
            },
            _ => Features::NONE,
        }
    }

    pub(crate) fn bindings(self) -> Vec<(u32, Access)> {
        use Access::{Read, Uniform, Write};
        let mut bindings = vec![(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)];
        bindings.extend(more_planes(self.stored));
        if matches!(self.tiling, Tiling::Dot { .. }) {
            bindings.push((9, Read));
        }
        if matches!(self.store, Store::Bias(_)) {
            bindings.push((8, Read));
        }
        if self.normed {
            bindings.push((10, Read));
        }
        if self.store == Store::Stream {
            bindings.extend([(11, Read), (12, Write), (13, Write)]);
        }
        if let Store::Heads(_) = self.store {
            let written = [(17, Write), (18, Write)];
            bindings.extend([(14, Uniform), (15, Read), (16, Read)]);
            bindings.extend(written.into_iter().chain([(19, Read)]));
        }
        if self.routed {
            bindings.push((20, Read));
        }
        bindings
    }

    pub(crate) fn source(self) -> String {
        let Description { texts, dot, .. } = self.stored.description();
        let mut files = vec![shader!("step.wgsl"), shader!("matmul/matmul.wgsl")];
        files.extend(self.store.files());
        match self.tiling {
            Tiling::Registers { .. } => files.extend([WORDS, shader!("matmul/input_words.wgsl")]),
            Tiling::Dot { .. } => {}
            _ => files.push(shader!("matmul/input_f32.wgsl")),
        }
        if !self.tiling.rounds() {
            files.push(match self.routed {
                true => shader!("matmul/rows_routed.wgsl"),
                false => shader!("matmul/rows_plain.wgsl"),
            });
        }
        let written;
        let mut enable: &[&str] = &[];
        let mut constants = match self.tiling {
            Tiling::Registers { rows, broadcast } => {
                files.extend([texts.before, texts.lanes]);
                files.push(if broadcast {
                    shader!("matmul/input_broadcast.wgsl")
                } else {
                    shader!("matmul/input_direct.wgsl")
                });
                files.push(shader!("matmul/matmul_software.wgsl"));
                vec![("ROWS", rows)]
            }
            Tiling::Reduce { rows, subgroup } => {
                files.extend(weights(self.stored, Layout::Rows));
                files.push(if subgroup {
                    shader!("matmul/matmul_reduce_subgroup.wgsl")
                } else {
                    shader!("matmul/matmul_reduce_portable.wgsl")
                });
                files.push(shader!("matmul/matmul_reduce.wgsl"));
                vec![("LANES", LANES), ("ROWS", rows)]
            }
            Tiling::Columns {
                rows,
                across,
                slots,
            } => {
                files.push(texts.before);
                files.push(if self.normed {
                    shader!("matmul/columns_normed.wgsl")
                } else {
                    shader!("matmul/columns_plain.wgsl")
                });
                written = columns::source(self.stored, rows);
                files.push(&written);
                // Sums that workgroup memory has room for.
                let room = MOST_PARTIAL / (across * slots);
                let together = rows.min(room);
                let held = if rows == together {
                    slots * (room / rows).min(MOST_PARTS.div_ceil(slots))
                } else {
                    slots
                };
                vec![
                    ("ROWS", rows),
                    ("ACROSS", across),
                    ("SLOTS", slots),
                    ("HELD", held),
                    ("TOGETHER", together),
                    ("LANES", across * slots),
                ]
            }
            Tiling::TileF16 => {
                enable = &["f16"];
                files.extend(weights(self.stored, Layout::Rows));
                files.push(shader!("matmul/matmul_tile_f16.wgsl"));
                Vec::new()
            }
            Tiling::Cooperative { cut, emulated } => {
                files.extend(weights(self.stored, Layout::Tiles));
                files.push(if self.normed {
                    shader!("matmul/cooperative_normed.wgsl")
                } else {
                    shader!("matmul/columns_plain.wgsl")
                });
                let mut constants = cut.constants(self.normed);
                written = if emulated {
                    constants.push(("SUBGROUP", cut.lanes));
                    cooperative::emulated(&cut.source(self.stored))
                } else {
                    enable = &["f16", "wgpu_cooperative_matrix"];
                    files.push(shader!("matmul/cooperative.wgsl"));
                    cut.source(self.stored)
                };
                files.push(&written);
                constants
            }
            Tiling::Dot { rows } => {
                files.push(shader!("weights/layout_rows.wgsl"));
                files.extend(dot.as_ref().map(|dot| dot.text));
                files.push(shader!("matmul/matmul_dot.wgsl"));
                vec![("LANES", LANES), ("ROWS", rows)]
            }
        };
        if matches!(self.store, Store::Heads(_)) {
            constants.push(("UNIT", 1));
        }
        join_enabled(enable, &constants, &files)
    }

    pub(crate) fn in_use() -> Vec<MatmulKernel> {
        let mut kernels = Vec::new();
        let mut seen = HashSet::new();
        for variant in KernelVariant::ALL {
            for (broadcast, lanes) in [(false, 32), (true, 64)] {
                let set = KernelSet::of(variant, false, broadcast);
                let subgroups = Subgroups { broadcast, lanes };
                for stored in StorageFormat::ALL {
                    let tilings = Tiling::of(set, stored, subgroups).into_iter();
                    let tilings = tilings.map(|(_, tiling)| tiling);
                    let of_experts = Tiling::of_experts(set, stored, subgroups);
                    for tiling in tilings.chain(of_experts) {
                        let kernel = |store, (normed, routed)| MatmulKernel {
                            tiling,
                            stored,
                            store,
                            normed,
                            routed,
                        };
                        for store in Store::ALL {
                            let each = [(false, false), (true, false), (false, true)]
                                .map(|which| kernel(store, which));
                            let used = each.into_iter().filter(|kernel| kernel.is_used());
                            kernels.extend(used.filter(|kernel| seen.insert(*kernel)));
                        }
                    }
                }
            }
        }
        kernels
    }
}

/// Activations rounded to int8, for [`Tiling::Dot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeKernel {
    /// Whether even elements of each eight stand before odd ones, as int4 weights are taken apart.
    pub spread: bool,
}

impl QuantizeKernel {
    /// Lanes of a workgroup.
    pub(crate) const LANES: u32 = LANES;

    pub(crate) fn name(self) -> &'static str {
        "quantize"
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        &[(2, Read), (3, Write), (4, Uniform), (9, Write)]
    }

    pub(crate) fn source(self) -> String {
        let constants = [("LANES", Self::LANES), ("SPREAD", u32::from(self.spread))];
        join(&constants, &[shader!("matmul/quantize.wgsl")])
    }

    pub(crate) fn in_use() -> Vec<QuantizeKernel> {
        [false, true].map(|spread| QuantizeKernel { spread }).into()
    }
}

/// Rows of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmbedKernel {
    /// How the table lies on the device.
    pub stored: StorageFormat,
    /// The order of its rows.
    pub layout: Layout,
}

impl EmbedKernel {
    /// Lanes of a workgroup.
    pub(crate) const LANES: u32 = LANES;

    /// In place of a token id, with the number of a sampling added: what that sampling of the step before draws.
    pub(crate) const FED: u32 = 1 << 31;

    pub(crate) fn name(self) -> &'static str {
        "embed"
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Vec<(u32, Access)> {
        use Access::{Read, Uniform, Write};
        let mut bindings = vec![(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)];
        bindings.extend(more_planes(self.stored));
        bindings
    }

    pub(crate) fn source(self) -> String {
        let mut files = vec![shader!("step.wgsl")];
        files.extend(weights(self.stored, self.layout));
        files.push(shader!("weights/embed.wgsl"));
        join(&[("LANES", Self::LANES), ("FED", Self::FED)], &files)
    }

    pub(crate) fn in_use() -> Vec<EmbedKernel> {
        let layouts = [Layout::Rows, Layout::Tiles];
        let kernel = |stored| layouts.map(|layout| EmbedKernel { stored, layout });
        StorageFormat::ALL.into_iter().flat_map(kernel).collect()
    }
}

/// The bindings of the planes of weights beside the values.
fn more_planes(stored: StorageFormat) -> impl Iterator<Item = (u32, Access)> {
    let more = stored.planes().iter().skip(1);
    (FIRST_PLANE..)
        .zip(more)
        .map(|(binding, _)| (binding, Access::Read))
}

/// Weights, four elements at a time.
fn weights(stored: StorageFormat, layout: Layout) -> [&'static str; 3] {
    let layout = match layout {
        Layout::Rows => shader!("weights/layout_rows.wgsl"),
        Layout::Tiles => shader!("weights/layout_tiles.wgsl"),
    };
    let texts = &stored.description().texts;
    [layout, texts.before, texts.decode]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_bind_as_many_buffers_as_is_said_of_those_that_do_more() {
        let most = |is: fn(&MatmulKernel) -> bool| {
            let kernels = MatmulKernel::in_use().into_iter().filter(is);
            let storage = kernels.map(|kernel| {
                let bindings = kernel.bindings().into_iter();
                bindings
                    .filter(|(_, access)| *access != Access::Uniform)
                    .count()
            });
            storage.max()
        };
        let heads = |kernel: &MatmulKernel| matches!(kernel.store, Store::Heads(_));
        assert_eq!(most(heads), Some(HEADS_BUFFERS as usize));
        // Those of a norm, its beginning and its end.
        let norms = |kernel: &MatmulKernel| {
            !matches!(kernel.store, Store::Heads(_))
                && (kernel.normed || kernel.store == Store::Stream)
        };
        assert_eq!(most(norms), Some(STREAM_BUFFERS as usize));
        // What every device has.
        let plain = |kernel: &MatmulKernel| {
            !kernel.normed && !matches!(kernel.store, Store::Heads(_) | Store::Stream)
        };
        assert!(most(plain) <= Some(8));
    }
}
