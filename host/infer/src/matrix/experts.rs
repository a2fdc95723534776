//! The matrices of experts, one after another on the device, and products with them.

use tidegate_weights::Tensor;

use super::dispatch::subgroups;
use super::layout::TILE;
use super::parts::parts;
use super::{Matrix, Packing, StorageFormat, padded};
use crate::buffer::Buffer;
use crate::kernels::{Kernel, KernelSet, MatmulKernel, Routing, Store, Tiling};
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::site::Site;
use crate::touch::{Area, Touch};

/// The matrices of experts, to be packed.
pub(crate) struct ExpertPacking<'a> {
    packing: Packing<'a>,
    columns: usize,
    experts: usize,
}

/// The same on the device: each of its rows makes one column of the output of an expert.
#[derive(Debug)]
pub(crate) struct ExpertMatrix {
    matrix: Matrix,
    /// Of each, a multiple of 4; what is stored of them is padded with zeros to whole tiles.
    pub(crate) columns: usize,
    experts: usize,
}

impl<'a> ExpertPacking<'a> {
    /// Of each expert one tensor, or two whose rows come in turn.
    pub(crate) fn new(of_each: Vec<Vec<Tensor<'a>>>) -> ExpertPacking<'a> {
        let columns = of_each.first().map_or(0, |tensors| {
            tensors.len() * padded(tensors.first().map_or(0, Tensor::rows))
        });
        ExpertPacking {
            experts: of_each.len(),
            packing: Packing::experts(of_each),
            columns,
        }
    }

    /// How rows are stored on the device, in any order and more than once.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = StorageFormat> {
        self.packing.kinds()
    }

    /// As [`Packing::widened`].
    pub(crate) fn widened(&self) -> impl Iterator<Item = (&Tensor<'a>, u64)> {
        self.packing.widened()
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.packing.bytes()
    }

    /// Bytes of the largest plane of one expert.
    pub(super) fn largest(&self) -> u64 {
        let groups = self.packing.groups();
        let planes = self.packing.kinds().flat_map(|stored| stored.planes());
        let row = planes.map(|plane| plane.bytes(groups)).max().unwrap_or(0);
        (row * self.columns.next_multiple_of(TILE)) as u64
    }

    /// As [`Packing::upload`].
    pub(crate) fn upload(
        self,
        site: Site<'_>,
        kernels: KernelSet,
        label: &str,
        bytes: u64,
    ) -> Result<ExpertMatrix, LoadError> {
        Ok(ExpertMatrix {
            matrix: self.packing.upload(site, kernels, label, bytes)?,
            columns: self.columns,
            experts: self.experts,
        })
    }
}

/// What a product with experts reads beside its weights.
#[derive(Clone, Copy)]
pub(crate) struct ExpertInput<'a> {
    /// `[rows, width]`; or, where `each` pair has its own, `[rows, chosen, width]`.
    pub(crate) rows: &'a Buffer,
    pub(crate) each: bool,
    /// Which pairs each expert has.
    pub(crate) groups: &'a Buffer,
}

impl Builder<'_> {
    /// Rows times the matrices of the experts that they go through, into `output` `[rows, chosen, matrix.columns]`, or half as many
    /// columns where gate and up come in turn.
    pub(crate) fn matmul_experts(
        &mut self,
        of: &ExpertMatrix,
        routing: Routing,
        input: ExpertInput<'_>,
        (output, store): (&Buffer, Store),
    ) -> Result<(), LoadError> {
        let subgroups = subgroups(self.site.traits());
        let matrix = &of.matrix;
        let stored_columns = of.columns.next_multiple_of(TILE);
        let share = if input.each { 1 } else { routing.chosen };
        let columns4 = (of.columns / 4) as u32;
        for shard in &matrix.shards {
            let [first, experts] = [shard.first, shard.columns].map(|rows| rows / stored_columns);
            let groups = matrix.groups as u32;
            let parameters = [
                columns4,
                (matrix.width / 4) as u32,
                columns4,
                0,
                0,
                groups,
                parts(shard.stored, groups),
                share,
                0,
                0,
                first as u32,
                experts as u32,
            ];
            let parameters = self.uniform("experts", &parameters);
            let tilings = Tiling::of_experts(self.kernels, shard.stored, subgroups).into_iter();
            let choices: Vec<SizedKernel> = routing
                .sized(tilings)
                .map(|(most, tiling)| {
                    let [across, rows] = tiling.extent();
                    let columns = Axis::Columns(columns4.div_ceil(across));
                    let (tiles, one) = (routing.axis(rows), Axis::Fixed(1));
                    SizedKernel {
                        most,
                        kernel: Kernel::Matmul(MatmulKernel {
                            tiling,
                            stored: shard.stored,
                            store,
                            normed: false,
                            routed: true,
                        }),
                        grid: match tiling {
                            Tiling::Columns { .. } => [tiles, columns, one],
                            _ => [columns, tiles, one],
                        },
                    }
                })
                .collect();
            let mut buffers = vec![self.step, &shard.values, input.rows, output, &parameters];
            buffers.extend(&shard.more);
            buffers.push(input.groups);
            let weights = |bytes: u64| Area::Experts {
                each: bytes / experts.max(1) as u64,
                first: first as u32,
                count: experts as u32,
                chosen: routing.chosen,
                of: routing.experts,
            };
            let pairs = |bytes: usize, share: u32| Area::Pairs {
                bytes: bytes as u64,
                share,
                chosen: routing.chosen,
                of: routing.experts,
                first: first as u32,
                count: experts as u32,
            };
            let each = if matches!(store, Store::Gated(_)) {
                2
            } else {
                4
            };
            let mut touches = vec![
                Touch::read(1, weights(shard.values.size())),
                Touch::read(2, pairs(matrix.width * 4, share)),
                Touch::write(3, pairs(of.columns * each, 1)),
            ];
            let planes = shard.more.iter().zip(5..);
            touches.extend(planes.map(|(more, at)| Touch::read(at, weights(more.size()))));
            // A tile's own words.
            touches.push(Touch::read(5 + shard.more.len(), pairs(4, 1)));
            // Those of all experts, of whom a shard has so many.
            let multiplied = u64::from(routing.chosen) * (of.columns * matrix.width) as u64;
            let work = Work::Rows(multiplied * experts as u64 / of.experts.max(1) as u64);
            self.dispatch(Count::Rows, &choices, &buffers, work, &touches)?;
        }
        Ok(())
    }
}
