//! Dispatches of products and of embeddings.

use tidegate_weights::Activation;

use super::{Matrix, Shard};
use crate::device::Gpu;
use crate::kernels::{EmbedKernel, Kernel, MatmulKernel, Store, Tiling};
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Choice, Count, Work};

impl Shard {
    /// The buffers from binding 5 on.
    fn more(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        [&self.scales, &self.supers, &self.high]
            .into_iter()
            .flatten()
    }
}

/// Whether the 8 lanes of a software kernel can tell each other what they have read.
fn lanes_tell(gpu: &Gpu) -> bool {
    gpu.features().subgroup && gpu.device.adapter_info().subgroup_min_size >= 8
}

impl Builder<'_> {
    /// Token rows of `table` times `scale` into `output` `[rows, width]`.
    pub(crate) fn embed(
        &mut self,
        table: &Matrix,
        output: &wgpu::Buffer,
        scale: f32,
    ) -> Result<(), LoadError> {
        let width4 = (table.width / 4) as u32;
        for shard in &table.shards {
            let kernel = Kernel::Embed(EmbedKernel {
                stored: shard.stored,
                layout: table.layout,
            });
            let parameters = [
                width4,
                shard.first as u32,
                shard.columns as u32,
                scale.to_bits(),
                table.groups as u32,
                0,
                0,
                0,
            ];
            let parameters = self.uniform("embed", &parameters);
            let grid = [
                Axis::Fixed(width4.div_ceil(EmbedKernel::LANES)),
                Axis::Per {
                    of: Count::Rows,
                    each: 1,
                },
                Axis::Fixed(1),
            ];
            let mut buffers = vec![self.step, &shard.values, output, &parameters];
            buffers.extend(shard.more());
            let work = Work::rows(table.width as u64);
            self.dispatch(Count::Rows, &[Choice::always(kernel, grid)], &buffers, work)?;
        }
        Ok(())
    }

    /// `input` `[rows, matrix.width]` times `matrix`, for all rows of a step or for its samples.
    pub(crate) fn matmul(
        &mut self,
        matrix: &Matrix,
        input_output: [&wgpu::Buffer; 2],
        store: Store,
        of: Count,
    ) -> Result<(), LoadError> {
        self.product(matrix, input_output, store, None, of)
    }

    /// As [`Builder::matmul`], with `bias` `[matrix.columns]` added to each row, and then an activation.
    pub(crate) fn matmul_bias(
        &mut self,
        matrix: &Matrix,
        bias: &wgpu::Buffer,
        input_output: [&wgpu::Buffer; 2],
        activation: Option<Activation>,
        of: Count,
    ) -> Result<(), LoadError> {
        self.product(
            matrix,
            input_output,
            Store::Bias(activation),
            Some(bias),
            of,
        )
    }

    fn product(
        &mut self,
        matrix: &Matrix,
        [input, output]: [&wgpu::Buffer; 2],
        store: Store,
        bias: Option<&wgpu::Buffer>,
        of: Count,
    ) -> Result<(), LoadError> {
        let told = lanes_tell(self.gpu);
        for shard in &matrix.shards {
            let columns4 = (shard.columns / 4) as u32;
            let [width4, stride, first] =
                [matrix.width, matrix.columns, shard.first].map(|n| (n / 4) as u32);
            let samples = u32::from(of == Count::Samples);
            let groups = matrix.groups as u32;
            let parameters = [columns4, width4, stride, first, samples, groups, 0, 0];
            let parameters = self.uniform("matmul", &parameters);
            let choices: Vec<Choice> = Tiling::of(self.kernels, told)
                .into_iter()
                .map(|(most, tiling)| {
                    let [columns, rows] = tiling.extent();
                    Choice {
                        most,
                        kernel: Kernel::Matmul(MatmulKernel {
                            tiling,
                            stored: shard.stored,
                            store,
                        }),
                        grid: [
                            Axis::Fixed(columns4.div_ceil(columns)),
                            Axis::Per { of, each: rows },
                            Axis::Fixed(1),
                        ],
                    }
                })
                .collect();
            let mut buffers = vec![self.step, &shard.values, input, output, &parameters];
            buffers.extend(shard.more());
            buffers.extend(bias);
            let work = Work::rows((shard.columns * matrix.width) as u64);
            self.dispatch(of, &choices, &buffers, work)?;
        }
        Ok(())
    }
}
