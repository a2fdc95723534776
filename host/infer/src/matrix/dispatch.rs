//! Dispatches of products and of embeddings.

use tidegate_weights::Activation;

use super::format::GROUP;
use super::parts::parts;
use super::{Matrix, Shard};
use crate::buffer::Buffer;
use crate::kernels::{EmbedKernel, Kernel, MatmulKernel, QuantizeKernel, Store, Subgroups, Tiling};
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::site::Traits;
use crate::touch::{Area, Touch};

impl Shard {
    /// Bytes of a row of so many groups.
    fn row_bytes(&self, groups: usize) -> u64 {
        self.stored.row_bytes(groups) as u64
    }

    /// The buffers from binding 5 on.
    fn more(&self) -> impl Iterator<Item = &Buffer> {
        self.more.iter()
    }
}

/// What tilings take of a device's subgroups.
fn subgroups(traits: Traits) -> Subgroups {
    let [least, most] = traits.subgroup_lanes;
    Subgroups {
        broadcast: traits.features.subgroup && least >= 8,
        lanes: most.clamp(4, 64),
    }
}

impl Builder<'_> {
    /// Token rows of `table` times `scale` into `output` `[rows, width]`.
    pub(crate) fn embed(
        &mut self,
        table: &Matrix,
        output: &Buffer,
        scale: f32,
    ) -> Result<(), LoadError> {
        let width4 = (table.width / 4) as u32;
        for shard in &table.shards {
            let kernel = Kernel::Embed(EmbedKernel {
                stored: shard.stored,
                layout: shard.layout,
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
                Axis::Columns(width4.div_ceil(EmbedKernel::LANES)),
                Axis::Per {
                    of: Count::Rows,
                    each: 1,
                },
                Axis::Fixed(1),
            ];
            let mut buffers = vec![self.step, &shard.values, output, &parameters];
            buffers.extend(shard.more());
            let work = Work::Rows(table.width as u64);
            // Each row is in one shard; which, the host does not ask. They are counted in the first.
            let first = [
                Touch::read(1, Area::Cells(shard.row_bytes(table.groups))),
                Touch::write(2, Area::Cells(table.width as u64 * 4)),
            ];
            let touches = if shard.first == 0 { &first[..] } else { &[] };
            let choice = SizedKernel::always(kernel, grid);
            self.dispatch(Count::Rows, &[choice], &buffers, work, touches)?;
        }
        Ok(())
    }

    /// `input` `[rows, matrix.width]` times `matrix`, for all rows of a step or for its samples.
    pub(crate) fn matmul(
        &mut self,
        matrix: &Matrix,
        input_output: [&Buffer; 2],
        store: Store,
        of: Count,
    ) -> Result<(), LoadError> {
        self.product(matrix, input_output, store, None, of)
    }

    /// As [`Builder::matmul`], with `bias` `[matrix.columns]` added to each row, and then an activation.
    pub(crate) fn matmul_bias(
        &mut self,
        matrix: &Matrix,
        bias: &Buffer,
        input_output: [&Buffer; 2],
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
        [input, output]: [&Buffer; 2],
        store: Store,
        bias: Option<&Buffer>,
        of: Count,
    ) -> Result<(), LoadError> {
        let subgroups = subgroups(self.site.traits());
        // The input in int8, even elements first and not.
        let mut quantized: [Option<Quantized>; 2] = [None, None];
        for shard in &matrix.shards {
            let columns4 = (shard.columns / 4) as u32;
            let [width4, stride, first] =
                [matrix.width, matrix.columns, shard.first].map(|n| (n / 4) as u32);
            let samples = u32::from(of == Count::Samples);
            let groups = matrix.groups as u32;
            let parts = parts(shard.stored, groups);
            let parameters = [columns4, width4, stride, first, samples, groups, parts, 0];
            let parameters = self.uniform("matmul", &parameters);
            let tilings = Tiling::of(self.kernels, shard.stored, subgroups);
            let dot = tilings
                .iter()
                .any(|(_, tiling)| matches!(tiling, Tiling::Dot { .. }));
            let mut choices = Vec::with_capacity(tilings.len());
            for (most, tiling) in tilings {
                let [columns, rows] = tiling.extent();
                let columns = Axis::Columns(columns4.div_ceil(columns));
                let rows = Axis::Per { of, each: rows };
                let one = Axis::Fixed(1);
                choices.push(SizedKernel {
                    most,
                    kernel: Kernel::Matmul(MatmulKernel {
                        tiling,
                        stored: shard.stored,
                        store,
                    }),
                    grid: match tiling {
                        // Those that read the same weights run side by side.
                        Tiling::Columns { .. } => [rows, columns, one],
                        _ => [columns, rows, one],
                    },
                });
            }
            let own = shard.stored.description().dot.as_ref();
            let spread = own.is_some_and(|dot| dot.spread);
            let slot = &mut quantized[usize::from(spread)];
            if dot && slot.is_none() {
                *slot = Some(self.quantize(matrix, input, spread, of)?);
            }
            let rounded = slot.as_ref().filter(|_| dot);
            let input = rounded.map_or(input, |rounded| &rounded.values);
            let mut buffers = vec![self.step, &shard.values, input, output, &parameters];
            buffers.extend(shard.more());
            buffers.extend(rounded.map(|rounded| &rounded.scales));
            buffers.extend(bias);
            let work = Work::Rows((shard.columns * matrix.width) as u64);
            let row = (matrix.width * 4) as u64;
            let mut touches = vec![
                Touch::read(1, Area::Columns(shard.values.size())),
                match rounded {
                    Some(_) => Touch::read(2, Area::Rows(u64::from(groups) * 32)),
                    None => Touch::read(2, Area::Rows(row)),
                },
                store.touch(3, [matrix.columns, shard.first, shard.columns]),
            ];
            let mut next = 5;
            let mut add = |area| {
                touches.push(Touch::read(next, area));
                next += 1;
            };
            shard
                .more()
                .for_each(|more| add(Area::Columns(more.size())));
            if rounded.is_some() {
                add(Area::Rows(u64::from(groups) * 4));
            }
            if bias.is_some() {
                add(Area::Columns((shard.columns * 4) as u64));
            }
            self.dispatch(of, &choices, &buffers, work, &touches)?;
        }
        Ok(())
    }

    /// Buffers for so many groups in int8: those of an earlier product of the same size, which has run by then.
    fn quantized(&mut self, spread: bool, groups: u64) -> Quantized {
        let bytes = Quantized::bytes_of(groups);
        let fits = |made: &&Quantized| made.spread == spread && made.bytes() == bytes;
        if let Some(made) = self.quantized.iter().find(fits) {
            return made.clone();
        }
        let groups = groups.next_multiple_of(4);
        let made = Quantized {
            spread,
            values: self.site.storage("activations in int8", groups * 32),
            scales: self.site.storage("scales of activations", groups * 4),
        };
        self.quantized.push(made.clone());
        made
    }

    /// Rounds the rows of `input` to int8.
    fn quantize(
        &mut self,
        matrix: &Matrix,
        input: &Buffer,
        spread: bool,
        of: Count,
    ) -> Result<Quantized, LoadError> {
        let rows = input.size() / (matrix.width * 4) as u64;
        let groups = matrix.groups as u32;
        let quantized = self.quantized(spread, rows * u64::from(groups));
        let parameters = self.uniform("quantize", &[(matrix.width / 4) as u32, groups, 0, 0]);
        let kernel = Kernel::Quantize(QuantizeKernel { spread });
        let grid = [
            Axis::Columns(groups.div_ceil(QuantizeKernel::LANES)),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let buffers = [input, &quantized.values, &parameters, &quantized.scales];
        let work = Work::Rows(matrix.width as u64);
        let touches = [
            Touch::read(0, Area::Cells((matrix.width * 4) as u64)),
            Touch::write(1, Area::Cells(u64::from(groups) * 32)),
            Touch::write(3, Area::Cells(u64::from(groups) * 4)),
        ];
        let choice = SizedKernel::always(kernel, grid);
        self.dispatch(of, &[choice], &buffers, work, &touches)?;
        Ok(quantized)
    }
}

/// Bytes that activations in int8 take at most, where `rows` rows of these widths are multiplied: each width once with even
/// elements first and once as they are.
pub(crate) fn most_quantized(rows: usize, widths: [usize; 3]) -> u64 {
    let groups = widths.map(|width| (rows * width.div_ceil(GROUP)) as u64);
    2 * groups.map(Quantized::bytes_of).iter().sum::<u64>()
}

/// Rows of an input in int8.
#[derive(Clone, Debug)]
pub(crate) struct Quantized {
    spread: bool,
    values: Buffer,
    scales: Buffer,
}

impl Quantized {
    /// Bytes for so many groups of 32 elements.
    pub(crate) fn bytes_of(groups: u64) -> u64 {
        groups.next_multiple_of(4) * (32 + 4)
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.values.size() + self.scales.size()
    }
}
