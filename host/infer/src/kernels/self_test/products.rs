//! Products with weights, and rows of an embedding.

use tidegate_contract::{Sampling, StepSequence};
use tidegate_weights::{Activation, Format, Tensor};

use super::{CaseRun, Failure, Numbers, beside, outcome, wide};
use crate::device::Gpu;
use crate::kernels::lab::{Experiment, Lab, sequence};
use crate::kernels::{
    F16_TOLERANCE, KernelSet, KernelVariant, StorageFormat, Store, WeightNumbers,
};
use crate::load_error::LoadError;
use crate::matrix::{BeforeNorm, Description, Input, Matrix, Output, Packing, squares_of};
use crate::program::Count;

/// Columns of a product, no multiple of what kernels take at a time.
pub(super) const COLUMNS: usize = 37;

/// Columns that lie together on a device, and some to spare for how they lie there.
const TILE: usize = 64;

/// Widths of rows: one of fewer elements than a workgroup takes at once, and one beyond 4,096, of which every lane has many.
const WIDTHS: [usize; 2] = [70, 4099];

/// [`WIDTHS`] in whole blocks of a format: no multiples of what kernels take at a time, as far as the format lets them be.
pub(super) fn widths(stored: StorageFormat) -> [usize; 2] {
    WIDTHS.map(|width| width.next_multiple_of(stored.format().block()))
}

/// Those of [`widths`] that products are tested with: what cannot bind a tile of the wide rows has no model of such rows.
pub(super) fn bound(gpu: &Gpu, stored: StorageFormat) -> Vec<usize> {
    let fits = |width: &usize| (width * TILE * size_of::<f32>()) as u64 <= gpu.largest_binding;
    widths(stored).into_iter().filter(fits).collect()
}

/// Floats with all their bits; integers, which scales take to about 1, no larger than 64.
impl WeightNumbers for Numbers {
    fn element(&mut self) -> f32 {
        self.full()
    }

    fn scale(&mut self, largest: f32) -> f32 {
        largest
    }

    fn integers(&mut self) -> u8 {
        (self.next() * 64.0) as i8 as u8
    }
}

/// A value and how far from it what is found may be.
pub(super) type Near = (f64, f64);

/// Weights in the bytes of a format, and what they are.
#[derive(Clone)]
pub(super) struct Weights {
    format: Format,
    width: usize,
    bytes: Vec<u8>,
    rows: Vec<Vec<f64>>,
}

impl Weights {
    pub(super) fn new(
        numbers: &mut Numbers,
        stored: StorageFormat,
        rows: usize,
        width: usize,
    ) -> Result<Weights, Failure> {
        let format = stored.format();
        let mut weights = Weights {
            format,
            width,
            bytes: stored.made_up(numbers, rows * width / format.block()),
            rows: vec![Vec::new(); rows],
        };
        let mut values = Vec::new();
        for row in 0..rows {
            let tensor = weights.tensor()?;
            tensor.read_row(row, &mut values).map_err(LoadError::from)?;
            weights.rows[row] = wide(&values);
        }
        Ok(weights)
    }

    pub(super) fn tensor(&self) -> Result<Tensor<'_>, LoadError> {
        let (rows, width) = (self.rows.len(), self.width);
        let tensor = Tensor::in_memory("self-test", self.format, rows, width, &self.bytes);
        tensor.ok_or_else(|| LoadError::Device {
            reason: format!("{:?} rows of {width} do not fit their bytes", self.format),
        })
    }

    /// The product of a row of weights and of inputs. `share` of the sum of all products' magnitudes is what it may be off,
    /// which minima of q4_K make smaller than what is summed.
    fn product(&self, row: usize, input: &[f64], share: f64) -> Near {
        let products = self.rows[row].iter().zip(input).map(|(w, x)| w * x);
        let (sum, magnitude) = products.fold((0.0, 0.0), |(sum, magnitude): Near, product| {
            (sum + product, magnitude + product.abs())
        });
        (sum, share * (1.0 + magnitude))
    }
}

/// What a product is beside weights and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    /// Of rows as they are.
    Plain,
    /// Of rows whose norm it does.
    Normed,
    /// One whose sums decide something, so that no input is rounded but to what it must be for its weights.
    Decision,
}

/// Products by every tiling, for all rows of a step and for its samples. Rows of a reproducible set have the same bits in each:
/// inputs have all the bits of f32, so that another order of sums is seen.
pub(super) fn products(
    lab: &Lab,
    stored: StorageFormat,
    store: Store,
    product: Product,
) -> Result<(), Failure> {
    for width in bound(&lab.gpu, stored) {
        products_of_width(lab, (stored, width), store, product)?;
    }
    Ok(())
}

/// How far off a sum may be, as a share of all its products' magnitudes.
pub(super) fn share_of(kernels: KernelSet, stored: StorageFormat, product: Product) -> f64 {
    let Description { dot, tolerance, .. } = stored.description();
    match kernels.matmul {
        KernelVariant::F16 | KernelVariant::Cooperative if product != Product::Decision => {
            F16_TOLERANCE
        }
        KernelVariant::Dot if dot.is_some() => 1e-2,
        _ => *tolerance,
    }
}

fn products_of_width(
    lab: &Lab,
    (stored, width): (StorageFormat, usize),
    store: Store,
    product: Product,
) -> Result<(), Failure> {
    let mut numbers = Numbers(3);
    let share = share_of(lab.kernels, stored, product);
    let normed = product == Product::Normed;
    let gated = matches!(store, Store::Gated(_));
    let weights = Weights::new(&mut numbers, stored, COLUMNS, width)?;
    let ups = if gated { COLUMNS } else { 0 };
    let up = Weights::new(&mut numbers, stored, ups, width)?;
    let packing = if gated {
        Packing::alternating(weights.tensor()?, up.tensor()?)
    } else {
        Packing::plain(weights.tensor()?)
    };
    // What is beside the columns of a shard has its own place.
    let matrix = match store {
        Store::Stream => lab.pack_in_shards(packing, stored)?,
        _ => lab.pack(packing)?,
    };
    let most = 33;
    let mut input = numbers.take_full(most * width);
    let beside = Beside {
        product,
        bias: numbers.take(COLUMNS),
        before: numbers.take(most * COLUMNS),
        norm: numbers.take_full(COLUMNS),
        squares: normed.then(|| before_norm(&mut numbers, &mut input, width)),
    };
    let squares = beside.squares.as_deref();
    let sums = [&weights, &up].map(|weights| sums_of(weights, &input, share, squares));
    let mut fewer: Vec<CaseRun> = Vec::new();
    for (rows, of) in [
        (1, Count::Rows),
        (3, Count::Samples),
        (9, Count::Rows),
        (17, Count::Rows),
        (most, Count::Rows),
    ] {
        // Only cooperative matrices have a tiling of their own for so many.
        if rows == 17 && lab.kernels.matmul != KernelVariant::Cooperative {
            continue;
        }
        // Norms are of all rows, and so are decisions.
        let of = if product != Product::Plain || store == Store::Stream {
            Count::Rows
        } else {
            of
        };
        let norm = match product {
            Product::Plain => "",
            Product::Normed => "norms and ",
            Product::Decision => "decisions by ",
        };
        let case = format!("{norm}{stored:?} weights, width {width}, {store:?}, {rows} of {of:?}");
        let experiment = run(
            lab,
            &matrix,
            (width, store),
            of,
            &input[..rows * width],
            &beside,
        )?;
        let outcome = outcome(lab, &experiment, 0, COLUMNS)?;
        let mut expected = Vec::new();
        for row in 0..rows {
            for column in 0..COLUMNS {
                let sum = sums[0][row * COLUMNS + column];
                let before = f64::from(beside.before[row * COLUMNS + column]);
                expected.push(match store {
                    // Those are tested elsewhere (turned.rs).
                    Store::Heads(_) => continue,
                    Store::Plain => sum,
                    Store::Residual | Store::Stream => (sum.0 + before, sum.1),
                    Store::Bias(of) => {
                        let biased = (sum.0 + f64::from(beside.bias[column]), sum.1);
                        of.map_or(biased, |of| activated(of, biased))
                    }
                    Store::Gated(of) => {
                        let up = sums[1][row * COLUMNS + column];
                        let gate = activated(of, sum);
                        let bound = gate.1 * (up.0.abs() + up.1) + gate.0.abs() * up.1;
                        (gate.0 * up.0, bound + 1e-6)
                    }
                });
            }
        }
        outcome.compare(&case, &expected)?;
        let mut found = vec![outcome];
        if store == Store::Stream {
            found.extend(next_norm(lab, &experiment, &case, &expected, &beside.norm)?);
        }
        for (found, fewer) in found.iter().zip(&fewer) {
            if lab.kernels.reproducible {
                fewer.same_bits(&case, found, 0, COLUMNS)?;
            }
        }
        fewer = found;
    }
    Ok(())
}

/// What is beside the weights and the input of a product.
struct Beside {
    product: Product,
    bias: Vec<f32>,
    /// In the output.
    before: Vec<f32>,
    /// Weights of the norm that is next.
    norm: Vec<f32>,
    /// Of the norm that is in the input, if one is: [`before_norm`].
    squares: Option<Vec<f32>>,
}

/// Of the norm of an input: next to nothing beside a row of magnitude 1, and some of the smallest of [`MAGNITUDES`].
pub(super) const EPSILON: f64 = 1e-12;

/// What rows before a norm are larger by than those after it, in turn. A stream has such rows, and what a norm makes of them is about 1;
/// what rounds its input must not round them before. Powers of two, about 1e5 and 1e-6: beyond all of f16, and below all that it has
/// with all its bits.
const MAGNITUDES: [f32; 3] = [1.0, 131_072.0, 1.0 / 1_048_576.0];

/// Makes rows of `width` what they are before a norm, and gives the squares of each four elements: of rows of this width, 1 on average
/// times the magnitude of the row, so that each row has a factor of its own.
pub(super) fn before_norm(numbers: &mut Numbers, input: &mut [f32], width: usize) -> Vec<f32> {
    let fours = width.div_ceil(4);
    let mut squares = Vec::with_capacity(input.len() / width * fours);
    for (row, magnitude) in input.chunks_mut(width).zip(MAGNITUDES.iter().cycle()) {
        row.iter_mut().for_each(|x| *x *= magnitude);
        let mean = 4.0 * (2.0 + numbers.next()) * magnitude * magnitude;
        squares.extend((0..fours).map(|_| mean * numbers.full().abs()));
    }
    squares
}

/// What a product leaves to the norm that is next: rows times its weights, and the squares of each four elements.
fn next_norm(
    lab: &Lab,
    experiment: &Experiment,
    case: &str,
    stream: &[Near],
    norm: &[f32],
) -> Result<[CaseRun; 2], Failure> {
    let times = |(x, bound): &Near, w: &f32| (x * f64::from(*w), bound + 1e-6 * x.abs());
    let rows = stream.chunks(COLUMNS);
    let weighted = rows
        .clone()
        .flat_map(|row| row.iter().zip(norm).map(|(x, w)| times(x, w)));
    let weighted_rows = beside(lab, experiment, 1, COLUMNS)?;
    weighted_rows.compare(&format!("{case}, weighted"), &weighted.collect::<Vec<_>>())?;
    let square = |(x, bound): &Near| (x * x, 2.0 * x.abs() * bound + bound * bound + 1e-6 * x * x);
    let four = |four: &[Near]| {
        let squares = four.iter().map(square);
        squares.fold((0.0, 0.0), |all: Near, one| (all.0 + one.0, all.1 + one.1))
    };
    let squares = rows.flat_map(|row| row.chunks(4).map(four));
    let found = beside(lab, experiment, 2, COLUMNS.div_ceil(4))?;
    found.compare(&format!("{case}, squares"), &squares.collect::<Vec<_>>())?;
    Ok([weighted_rows, found])
}

/// What the products are, of all rows of the input: `[rows, columns]`; of normed rows where there are squares ([`before_norm`]).
pub(super) fn sums_of(
    weights: &Weights,
    input: &[f32],
    share: f64,
    squares: Option<&[f32]>,
) -> Vec<Near> {
    let fours = weights.width.div_ceil(4);
    let mut sums = Vec::new();
    for (row, input) in wide(input).chunks(weights.width).enumerate() {
        let factor = squares.map_or(1.0, |squares| {
            let total: f64 = wide(&squares[row * fours..][..fours]).iter().sum();
            1.0 / (total / weights.width as f64 + EPSILON).sqrt()
        });
        let input: Vec<f64> = input.iter().map(|x| x * factor).collect();
        let columns = 0..weights.rows.len();
        sums.extend(columns.map(|column| {
            let (sum, bound) = weights.product(column, &input, share);
            (sum, bound + 1e-6 * sum.abs())
        }));
    }
    sums
}

/// One product, run: its output; and where there is a norm next, what is left to it.
fn run(
    lab: &Lab,
    matrix: &Matrix,
    (width, store): (usize, Store),
    of: Count,
    input: &[f32],
    beside: &Beside,
) -> Result<Experiment, Failure> {
    let rows = input.len() / width;
    let input = lab.padded(input, width)?;
    let [bias, norm] = [
        lab.padded(&beside.bias, COLUMNS)?,
        lab.padded(&beside.norm, COLUMNS)?,
    ];
    let squares = match &beside.squares {
        Some(squares) => lab.padded(&squares[..rows * width.div_ceil(4)], width.div_ceil(4))?,
        None => lab.output(rows * squares_of(COLUMNS.next_multiple_of(4))),
    };
    let output = match store {
        Store::Residual | Store::Stream => lab.padded(&beside.before[..rows * COLUMNS], COLUMNS)?,
        _ => lab.output(rows * COLUMNS.next_multiple_of(4)),
    };
    // Where samples count, there are more rows than those.
    let samples = if of == Count::Samples { rows } else { 0 };
    let step = [StepSequence {
        samples: vec![Sampling::default(); samples],
        ..sequence(0, if samples > 0 { rows + 2 } else { rows }, &[0; 4])
    }];
    let buffers = [&input, &output];
    let weighted = lab.output(rows * COLUMNS.next_multiple_of(4));
    let outputs = vec![output.clone(), weighted.clone(), squares.clone()];
    let normed = beside.squares.is_some();
    Ok(lab.experiment(&step, outputs, |builder, _| match store {
        _ if normed => {
            let rows = BeforeNorm {
                weighted: &input,
                squares: &squares,
            };
            let input = Input::BeforeNorm(rows, (width, EPSILON));
            builder.matmul_into(matrix, input, Output::Rows(&output, store), Count::Rows)
        }
        Store::Stream => {
            let next = BeforeNorm {
                weighted: &weighted,
                squares: &squares,
            };
            builder.matmul_stream(matrix, buffers, &norm, next)
        }
        _ if beside.product == Product::Decision => {
            let bias = matches!(store, Store::Bias(_)).then_some(&bias);
            builder.matmul_decision(matrix, bias, buffers)
        }
        Store::Bias(activation) => builder.matmul_bias(matrix, &bias, buffers, activation, of),
        _ => builder.matmul(matrix, buffers, store, of),
    })?)
}

/// An activation, whose slope is nowhere above 1.2, of a value that is not known better than within a bound.
pub(super) fn activated(activation: Activation, (x, bound): Near) -> Near {
    let y = match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
    };
    (y, 1.2 * bound + 1e-6 * (1.0 + y.abs()))
}

/// Within 1.5e-7 of the error function. Source: Abramowitz and Stegun 7.1.26.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let factors = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let series = factors
        .into_iter()
        .fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - series * (-x * x).exp()) * x.signum()
}

/// The first row of a table, its last, and one between, times a factor; two of them also as tokens that were drawn.
pub(super) fn embedding(lab: &Lab, stored: StorageFormat) -> Result<(), Failure> {
    let mut numbers = Numbers(7);
    let (tokens, scale) = (70, 1.5);
    let table = Weights::new(&mut numbers, stored, tokens, widths(stored)[0])?;
    let ids = [0, tokens as u32 - 1, 33];
    let drawn = [33, tokens as u32 - 1];
    let experiment = lab.embed(table.tensor()?, &ids, &drawn, scale)?;
    let rows = ids.iter().chain(drawn.iter().rev());
    let rows = rows.map(|id| &table.rows[*id as usize]);
    let near = |x: &f64| (x * f64::from(scale), 1e-5 * (1.0 + x.abs()));
    let expected: Vec<Near> = rows.flatten().map(near).collect();
    let case = format!("{stored:?} embeddings");
    outcome(lab, &experiment, 0, table.width)?.compare(&case, &expected)
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Adapter, DeviceOptions, Sabotage};
    use crate::kernels::self_test::{Tested, Wrong, self_test};
    use crate::kernels::{
        EmbedKernel, HEADS_BUFFERS, Kernel, KernelSet, MatmulKernel, Subgroups, Tiling,
    };
    use crate::matrix::Layout;

    /// With plain arithmetic in place of the matrices, in one order: what is stored, turned, scaled and left to the norm that is next,
    /// by every tiling. And in another order it is seen.
    #[test]
    fn products_by_cooperative_matrices_pass_in_one_order_whatever_becomes_of_them() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        let set = KernelSet {
            reproducible: true,
            emulated: true,
            ..KernelSet::of(KernelVariant::Cooperative, false, false)
        };
        let kv = crate::kernels::KvPrecision::F32;
        let (f16, int4) = (StorageFormat::F16, StorageFormat::Int4);
        // Where fewer buffers are bound than heads need at most, models turn them in a dispatch of its own.
        let heads = match gpu.storage_buffers() >= HEADS_BUFFERS {
            true => Store::Heads(kv),
            false => Store::Plain,
        };
        for tested in [
            Tested::Products(int4, Store::Gated(Activation::Silu)),
            Tested::Products(f16, Store::Stream),
            Tested::Products(f16, heads),
            Tested::NormedProducts(int4, heads),
            Tested::NormedProducts(f16, Store::Gated(Activation::Silu)),
            Tested::Embedding(f16),
            // What decides which experts a row goes through is not rounded.
            Tested::Decision(StorageFormat::F32, Store::Plain),
            Tested::Decision(f16, Store::Bias(None)),
            // Experts are multiplied by kernels that round nothing, of weights that lie as for the others.
            Tested::ExpertProducts(f16, Store::Plain),
            Tested::ExpertProducts(int4, Store::Gated(Activation::Silu)),
        ] {
            assert_eq!(self_test(&gpu, set, tested).unwrap(), None, "{tested:?}");
        }
        let subgroups = Subgroups {
            broadcast: false,
            lanes: 4,
        };
        let products = Tiling::of(set, f16, subgroups).into_iter();
        let decisions = Tiling::of_decisions(set, f16, subgroups).into_iter();
        let products = products.map(|(_, tiling)| (tiling, Store::Stream));
        for (tiling, store) in
            products.chain(decisions.map(|(_, tiling)| (tiling, Store::Bias(None))))
        {
            let kernel = Kernel::Matmul(MatmulKernel {
                tiling,
                stored: f16,
                store,
                normed: false,
                routed: false,
            });
            assert!(gpu.was_tried(kernel), "{kernel:?}");
        }
    }

    /// Files in q4_K and q6_K hold experts in them, and the models that are made up here do not.
    #[test]
    fn experts_in_every_format_pass_whatever_becomes_of_their_sums() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        for variant in [KernelVariant::Software, KernelVariant::Portable] {
            let set = KernelSet::of(variant, true, false);
            for stored in StorageFormat::ALL {
                for store in [Store::Plain, Store::Gated(Activation::Silu)] {
                    let tested = Tested::ExpertProducts(stored, store);
                    let found = self_test(&gpu, set, tested).unwrap();
                    assert_eq!(found, None, "{variant}, {stored:?}, {store:?}");
                }
            }
        }
    }

    /// Whatever is in the table of formats: with its own made-up weights, by every tiling that a model of it runs.
    #[test]
    fn every_format_is_tried_and_kernels_that_compute_nothing_are_seen() {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        let sets = [
            KernelVariant::Portable,
            KernelVariant::Software,
            KernelVariant::Dot,
        ]
        .map(|variant| KernelSet::of(variant, true, false));
        let all = || {
            sets.into_iter()
                .flat_map(|set| StorageFormat::ALL.map(|of| (set, of)))
        };
        let tests = |set: KernelSet, stored| {
            let normed = Tested::NormedProducts(stored, Store::Plain);
            let by_columns = set.matmul == KernelVariant::Portable;
            [
                Tested::Products(stored, Store::Plain),
                Tested::Embedding(stored),
            ]
            .into_iter()
            .chain(by_columns.then_some(normed))
        };
        for (set, stored) in all() {
            for tested in tests(set, stored) {
                assert_eq!(self_test(&gpu, set, tested).unwrap(), None, "{set:?}");
            }
            let layout = Layout::of(set);
            let embed = Kernel::Embed(EmbedKernel { stored, layout });
            assert!(gpu.was_tried(embed), "{embed:?}");
            let tried = |broadcast| {
                let subgroups = Subgroups {
                    broadcast,
                    lanes: 4,
                };
                let tilings = Tiling::of(set, stored, subgroups).into_iter();
                let mut kernels = tilings.map(|(_, tiling)| {
                    Kernel::Matmul(MatmulKernel {
                        tiling,
                        stored,
                        store: Store::Plain,
                        normed: false,
                        routed: false,
                    })
                });
                kernels.all(|kernel| gpu.was_tried(kernel))
            };
            assert!(tried(false) || tried(true), "{set:?}: {stored:?}");
        }
        for kernel in ["matmul", "embed"] {
            gpu.sabotage(kernel, Sabotage::DoesNothing);
        }
        for (set, stored) in all() {
            for tested in tests(set, stored) {
                let found = self_test(&gpu, set, tested).unwrap();
                assert!(
                    matches!(found, Some(Wrong::Numbers { .. })),
                    "{set:?}, {tested:?}: {found:?}"
                );
            }
        }
    }
}
