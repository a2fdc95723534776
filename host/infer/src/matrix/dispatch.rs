//! Dispatches of products and of embeddings.

use std::ops::Range;

use tidegate_weights::Activation;

use super::format::GROUP;
use super::parts::parts;
use super::{Matrix, Shard, padded};
use crate::buffer::Buffer;
use crate::kernels::{
    EmbedKernel, Heads, Kernel, KvBuffers, MOST_SUBGROUP, MatmulKernel, QuantizeKernel, Store,
    Subgroups, Tiling,
};
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
pub(super) fn subgroups(traits: Traits) -> Subgroups {
    let [least, most] = traits.subgroup_lanes;
    Subgroups {
        broadcast: traits.features.subgroup && least >= 8,
        lanes: most.clamp(4, MOST_SUBGROUP),
    }
}

impl Builder<'_> {
    /// Token rows of `table` times `scale` into `output` `[rows, width]`. `drawn` is where the step before leaves what it draws,
    /// as `shaders/sampling/sampling_result.wgsl` writes it, for tokens that are fed from there.
    pub(crate) fn embed(
        &mut self,
        table: &Matrix,
        drawn: Option<&Buffer>,
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
                table.columns as u32,
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
            // Where no token is fed nobody reads it.
            let drawn = drawn.unwrap_or(self.step);
            let mut buffers = vec![self.step, &shard.values, drawn, output, &parameters];
            buffers.extend(shard.more());
            let work = Work::Rows(table.width as u64);
            // Each row is in one shard; which, the host does not ask. They are counted in the first.
            let first = [
                Touch::read(1, Area::Cells(shard.row_bytes(table.groups))),
                Touch::write(3, Area::Cells(table.width as u64 * 4)),
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
        self.product(matrix, input_output, store, Beside::default(), of)
    }

    /// `input` `[rows, matrix.width]` times `matrix` for all rows, with `bias` `[matrix.columns]` if there is one, by kernels that do
    /// not round it: something is decided by the sums.
    pub(crate) fn matmul_decision(
        &mut self,
        matrix: &Matrix,
        bias: Option<&Buffer>,
        input_output: [&Buffer; 2],
    ) -> Result<(), LoadError> {
        let beside = Beside {
            decides: true,
            bias,
            ..Beside::default()
        };
        let store = match bias {
            Some(_) => Store::Bias(None),
            None => Store::Plain,
        };
        self.product(matrix, input_output, store, beside, Count::Rows)
    }

    /// `input` times `matrix` for the rows that `of` counts, into `output`.
    pub(crate) fn matmul_into(
        &mut self,
        matrix: &Matrix,
        input: Input<'_>,
        output: Output<'_>,
        of: Count,
    ) -> Result<(), LoadError> {
        let (input, squares) = match input {
            Input::Rows(rows) => (rows, None),
            Input::BeforeNorm(rows, of_norm) => (rows.weighted, Some((rows.squares, of_norm))),
        };
        let (output, store, heads) = match output {
            Output::Rows(rows, store) => (rows, store, None),
            Output::Heads(heads) => (heads.queries, Store::Heads(heads.heads.kv), Some(heads)),
        };
        let parameters = heads.map(|of| self.uniform("heads", &of.parameters()));
        let beside = Beside {
            squares,
            heads: parameters.as_ref().zip(heads),
            ..Beside::default()
        };
        self.product(matrix, [input, output], store, beside, of)
    }

    /// `input` times `matrix` added to the rows of `stream`, whose next norm has these weights; what is left of that norm goes to `next`.
    pub(crate) fn matmul_stream(
        &mut self,
        matrix: &Matrix,
        [input, stream]: [&Buffer; 2],
        weights: &Buffer,
        next: BeforeNorm<'_>,
    ) -> Result<(), LoadError> {
        let beside = Beside {
            next: Some((weights, next)),
            ..Beside::default()
        };
        self.product(matrix, [input, stream], Store::Stream, beside, Count::Rows)
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
        let beside = Beside {
            bias: Some(bias),
            ..Beside::default()
        };
        self.product(matrix, input_output, Store::Bias(activation), beside, of)
    }

    fn product(
        &mut self,
        matrix: &Matrix,
        [input, output]: [&Buffer; 2],
        store: Store,
        beside: Beside<'_>,
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
            let (norm_width, epsilon) = beside.squares.map_or((0, 0.0), |(_, of_norm)| of_norm);
            let norm = [norm_width as f32, epsilon as f32].map(f32::to_bits);
            let mut parameters = vec![columns4, width4, stride, first, samples, groups, parts, 0];
            parameters.extend(norm.into_iter().chain([0, 0]));
            let parameters = self.uniform("matmul", &parameters);
            let tilings = match beside.decides {
                true => Tiling::of_decisions(self.kernels, shard.stored, subgroups),
                false => Tiling::of(self.kernels, shard.stored, subgroups),
            };
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
                        normed: beside.squares.is_some(),
                        routed: false,
                    }),
                    grid: match tiling {
                        // Those that read the same weights run side by side.
                        Tiling::Columns { .. } | Tiling::Cooperative { .. } => [rows, columns, one],
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
            buffers.extend(beside.buffers());
            let work = Work::Rows((shard.columns * matrix.width) as u64);
            let row = (matrix.width * 4) as u64;
            let mut touches = vec![
                Touch::read(1, Area::Columns(shard.values.size())),
                match rounded {
                    Some(_) => Touch::read(2, Area::Rows(u64::from(groups) * 32)),
                    None => Touch::read(2, Area::Rows(row)),
                },
            ];
            touches.extend(match beside.heads {
                None => Some(store.touch(3, [matrix.columns, shard.first, shard.columns])),
                Some((_, heads)) => heads.touch_queries(3, shard),
            });
            let mut next = 5..;
            let mut add = |area| {
                let reads = next.next().map(|buffer| Touch::read(buffer, area));
                touches.extend(reads);
            };
            shard
                .more()
                .for_each(|more| add(Area::Columns(more.size())));
            if rounded.is_some() {
                add(Area::Rows(u64::from(groups) * 4));
            }
            touches.extend(beside.touches(next, (matrix, shard)));
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

/// What a product multiplies.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    /// `[rows, width]`.
    Rows(&'a Buffer),
    /// Rows whose norm it does; the true width of the rows, and the norm's epsilon.
    BeforeNorm(BeforeNorm<'a>, (usize, f64)),
}

/// What becomes of its sums.
#[derive(Clone, Copy)]
pub(crate) enum Output<'a> {
    /// They go here.
    Rows(&'a Buffer, Store),
    /// They are heads.
    Heads(HeadsOutput<'a>),
}

/// Heads that a product turns and puts where attention finds them.
#[derive(Clone, Copy)]
pub(crate) struct HeadsOutput<'a> {
    pub(crate) heads: &'a Heads,
    /// `[rows, heads, stride]`.
    pub(crate) queries: &'a Buffer,
    pub(crate) cache: KvBuffers<'a>,
    /// `[context, half]` of (cos, sin).
    pub(crate) angles: &'a Buffer,
    /// Biases `[heads + 2 * kv_heads, stride]`, if the heads have them, in the order of the columns.
    pub(crate) extras: &'a Buffer,
}

impl HeadsOutput<'_> {
    /// `OfHeads` of `shaders/matmul/store_heads.wgsl`.
    pub(super) fn parameters(&self) -> [u32; 8] {
        let Heads {
            heads,
            kv_heads,
            half,
            bias,
            ..
        } = *self.heads;
        let stride4 = self.heads.stride4();
        [heads, kv_heads, stride4, half, u32::from(bias), 0, 0, 0]
    }

    /// The columns of queries, of keys or of values: `of` is 0, 1 or 2.
    fn columns(&self, of: usize) -> Range<usize> {
        let stride = self.heads.stride4() as usize * 4;
        let [queries, each] =
            [self.heads.heads, self.heads.kv_heads].map(|heads| heads as usize * stride);
        match of {
            0 => 0..queries,
            _ => queries + (of - 1) * each..queries + of * each,
        }
    }

    /// The queries that these columns of the product are.
    fn touch_queries(&self, buffer: usize, shard: &Shard) -> Option<Touch> {
        let all = self.columns(0);
        let own = shared(&all, shard);
        let area = Area::CellsOf {
            stride: (all.len() * 4) as u64,
            from: (own.start * 4) as u64,
            bytes: (own.len() * 4) as u64,
        };
        (!own.is_empty()).then(|| Touch::write(buffer, area))
    }

    /// The keys, or the values, that they are.
    fn touch_cache(&self, buffer: usize, of: usize, shard: &Shard) -> Option<Touch> {
        let all = self.columns(of);
        let own = shared(&all, shard);
        if own.is_empty() {
            return None;
        }
        let shard_first = shard.first as u64;
        let area = Area::OwnCells {
            kv_heads: self.heads.kv_heads,
            bytes: self.heads.kv_bytes(),
            columns: shard.columns as u64,
            own: (own.start as u64 - shard_first, own.end as u64 - shard_first),
            first: (own.start - all.start) as u64,
            all: all.len() as u64,
        };
        Some(Touch::write(buffer, area))
    }
}

/// The columns among these that a shard has.
fn shared(columns: &Range<usize>, shard: &Shard) -> Range<usize> {
    let start = columns.start.max(shard.first);
    start..columns.end.min(shard.first + shard.columns).max(start)
}

/// Rows of a stream before a norm that a product does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeNorm<'a> {
    /// `[rows, width]`: times the norm's weights.
    pub(crate) weighted: &'a Buffer,
    /// `[rows, `[`squares_of`]`(width)]`: the squares of each four elements, without the weights.
    pub(crate) squares: &'a Buffer,
}

/// Sums of squares that are kept of a row of so many elements, a multiple of 4.
pub(crate) fn squares_of(width: usize) -> usize {
    padded(width.div_ceil(4))
}

/// The buffers of a product beside its input, its weights and its output.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    bias: Option<&'a Buffer>,
    /// Where the input is before a norm: squares, and the norm's width and epsilon.
    squares: Option<(&'a Buffer, (usize, f64))>,
    /// Where the output goes to a norm: its weights, and what is left of it.
    next: Option<(&'a Buffer, BeforeNorm<'a>)>,
    /// Where the output is heads: the parameters of [`Heads`], and where they go.
    heads: Option<(&'a Buffer, HeadsOutput<'a>)>,
    /// Whether something is decided by the sums, so that the input is not rounded.
    decides: bool,
}

impl<'a> Beside<'a> {
    /// What these columns of a matrix touch of them; `places` are those of the buffers among all of the product.
    fn touches(
        self,
        mut places: impl Iterator<Item = usize>,
        (matrix, shard): (&Matrix, &Shard),
    ) -> Vec<Touch> {
        let columns = Area::Columns((shard.columns * 4) as u64);
        let cells = |each: usize| Area::CellsOf {
            stride: (matrix.columns * each) as u64,
            from: (shard.first * each) as u64,
            bytes: (shard.columns * each) as u64,
        };
        let mut touches = Vec::new();
        let mut place = || places.next().unwrap_or_default();
        if self.bias.is_some() {
            touches.push(Touch::read(place(), columns));
        }
        if self.squares.is_some() {
            let row = (squares_of(matrix.width) * 4) as u64;
            touches.push(Touch::read(place(), Area::Rows(row)));
        }
        if self.next.is_some() {
            touches.push(Touch::read(place(), columns));
            touches.push(Touch::write(place(), cells(4)));
            // One number for four columns.
            touches.push(Touch::write(place(), cells(1)));
        }
        if let Some((_, heads)) = self.heads {
            let [_parameters, _tables] = [place(), place()];
            let turned = u64::from(heads.heads.half) * 8;
            touches.push(Touch::read(place(), Area::Rows(turned)));
            touches.extend(heads.touch_cache(place(), 1, shard));
            touches.extend(heads.touch_cache(place(), 2, shard));
            let extras = place();
            if heads.heads.bias {
                touches.push(Touch::read(extras, columns));
            }
        }
        touches
    }

    /// In the order of the bindings.
    fn buffers(self) -> impl Iterator<Item = &'a Buffer> {
        let squares = self.squares.map(|(squares, _)| squares);
        let next = self
            .next
            .map(|(weights, next)| [weights, next.weighted, next.squares]);
        let one = self.bias.into_iter().chain(squares);
        let heads = self.heads.map(|(parameters, heads)| {
            let KvBuffers {
                tables,
                keys,
                values,
            } = heads.cache;
            [parameters, tables, heads.angles, keys, values, heads.extras]
        });
        one.chain(next.into_iter().flatten())
            .chain(heads.into_iter().flatten())
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
