//! Products whose sums are heads: turned, and put where attention finds them.

use tidegate_contract::BLOCK;

use super::products::{EPSILON, Near, Product, Weights, before_norm, share_of, sums_of, widths};
use super::rows::{turned, written};
use super::{CaseRun, Failure, Numbers, wide};
use crate::kernels::lab::{Experiment, HeadShape, Lab, sequence};
use crate::kernels::{Heads, KernelVariant, KvBuffers, KvPrecision, StorageFormat, Store};
use crate::matrix::{
    BeforeNorm, HeadsOutput, Input, LoraMatrix, LoraOutput, LoraRows, Matrix, Output, Packing,
};
use crate::program::Count;

/// Rows at most.
const MOST: usize = 33;

/// Blocks of two sequences, in no order, and their first positions: just before a block ends, and within one.
const SEQUENCES: [([u32; 3], usize); 2] = [([2, 0, 3], BLOCK - 1), ([1, 5, 4], 3)];

/// How many of the rows of a step are those of each sequence.
fn rows_of(rows: usize) -> [usize; 2] {
    [rows.div_ceil(2), rows / 2]
}

/// Which row of the input each row of a step has: that of its place in its sequence, so that it is the same beside others.
fn inputs_of(rows: usize) -> impl Iterator<Item = usize> {
    let ([first, second], [before, _]) = (rows_of(rows), rows_of(MOST));
    (0..first).chain(before..before + second)
}

/// Rows of two sequences, and weights in several shards: plain heads, then with biases, an odd number of pairs that turn, and elements
/// that do not. Rows of a reproducible set have the same bits in each tiling.
pub(super) fn heads(
    lab: &Lab,
    stored: StorageFormat,
    kv: KvPrecision,
    [normed, adapted]: [bool; 2],
) -> Result<(), Failure> {
    let plain = HeadShape {
        kv,
        ..HeadShape::plain(4, 2, 20, 6)
    };
    let full = HeadShape {
        rope: 14,
        bias: true,
        ..HeadShape {
            kv,
            ..HeadShape::plain(4, 2, 18, 6)
        }
    };
    for (case, shape) in [("plain heads", plain), ("heads", full)] {
        let case = format!("{stored:?} weights, {case}");
        heads_of_shape(lab, &case, (stored, shape), [normed, adapted])?;
    }
    Ok(())
}

/// The same where some rows have an adapter, so that heads are made of raw sums; the adapter leaves these as they are.
pub(super) fn adapted_heads(lab: &Lab, kv: KvPrecision) -> Result<(), Failure> {
    heads(lab, StorageFormat::F32, kv, [false, true])
}

/// Rows without an adapter write the bits that they write in a step where none has one, in a set that promises the same bits
/// beside whatever rows: heads of whole sums with biases, of rows whose norm the product does or not.
pub(super) fn unadapted_heads(
    lab: &Lab,
    stored: StorageFormat,
    kv: KvPrecision,
    normed: bool,
) -> Result<(), Failure> {
    if !lab.kernels.reproducible {
        return Ok(());
    }
    let shape = HeadShape {
        kv,
        rope: 14,
        bias: true,
        ..HeadShape::plain(4, 2, 18, 6)
    };
    let (mut inputs, ..) = inputs(lab, (stored, shape), normed)?;
    for rows in [3, 9, MOST] {
        let case = format!("{stored:?} weights, heads of rows beside adapted ones, {rows} rows");
        inputs.adapted = Adapted::No;
        let alone = written(lab, &run(lab, &inputs, rows)?, shape)?;
        inputs.adapted = Adapted::First;
        let beside = written(lab, &run(lab, &inputs, rows)?, shape)?;
        let ([own, _], width) = (rows_of(rows), shape.heads * shape.dim);
        let (table, first) = SEQUENCES[0];
        for (index, ((_, mut beside), (_, alone))) in beside.into_iter().zip(&alone).enumerate() {
            if index == 0 {
                beside.found.drain(..(own * width).min(beside.found.len()));
                beside.same_bits(&case, alone, own, width)?;
                continue;
            }
            // What the adapted sequence has written is its own.
            for position in first..first + own {
                let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
                let cells = shape.kv_heads * shape.dim;
                let cells = place * cells..(place + 1) * cells;
                let theirs = alone.found.get(cells.clone());
                if let (Some(mine), Some(theirs)) = (beside.found.get_mut(cells), theirs) {
                    mine.copy_from_slice(theirs);
                }
            }
            beside.same_bits(&case, alone, 0, 1)?;
        }
    }
    Ok(())
}

/// What rows of the first of two sequences go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adapted {
    No,
    /// An adapter that leaves them as they are.
    AsTheyAre,
    /// An adapter of this product.
    First,
}

/// What a case is computed from.
struct Case {
    shape: HeadShape,
    matrix: Matrix,
    adapted: Adapted,
    width: usize,
    input: Vec<f32>,
    squares: Option<Vec<f32>>,
    angles: Vec<[f32; 2]>,
    /// Biases, in the order of the columns.
    extras: Vec<f32>,
}

fn heads_of_shape(
    lab: &Lab,
    case: &str,
    (stored, shape): (StorageFormat, HeadShape),
    [normed, adapted]: [bool; 2],
) -> Result<(), Failure> {
    let (mut inputs, weights, biases) = inputs(lab, (stored, shape), normed)?;
    if adapted {
        inputs.adapted = Adapted::AsTheyAre;
    }
    let (dim, half) = (shape.dim, shape.rope / 2);
    let count = shape.heads + 2 * shape.kv_heads;
    let parts = parts_of(shape);
    // Places of a head's elements, in the order of the columns.
    let order = |head| order_of(shape, head);
    let product = if normed {
        Product::Normed
    } else {
        Product::Plain
    };
    let share = share_of(lab.kernels, stored, product);
    let sums = weights
        .each_ref()
        .map(|weights| sums_of(weights, &inputs.input, share, inputs.squares.as_deref()));
    let mut fewer: Option<[CaseRun; 3]> = None;
    for rows in [1, 3, 9, 17, MOST] {
        // Only cooperative matrices have a tiling of their own for so many.
        if rows == 17 && lab.kernels.matmul != KernelVariant::Cooperative {
            continue;
        }
        let case = format!("{case}, {rows} rows");
        let experiment = run(lab, &inputs, rows)?;
        let cache = shape.blocks * BLOCK * shape.kv_heads * dim;
        let mut expected = [Vec::new(), vec![(0.0, 0.0); cache], vec![(0.0, 0.0); cache]];
        let places = SEQUENCES
            .iter()
            .zip(rows_of(rows))
            .flat_map(|((table, first), rows)| {
                (*first..*first + rows).map(move |position| {
                    let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
                    (position, place)
                })
            });
        for (input, (position, place)) in inputs_of(rows).zip(places) {
            for head in 0..count {
                let (part, own) = match head.checked_sub(shape.heads) {
                    None => (0, head),
                    Some(head) => (1 + head / shape.kv_heads, head % shape.kv_heads),
                };
                let head_sums = &sums[part][input * parts[part] + own * dim..][..dim];
                let x = head_sums.iter().map(|(sum, _)| *sum).collect();
                let bounds = head_sums.iter().map(|(_, bound)| *bound);
                let bound = bounds.fold(1e-5, f64::max);
                let x = turned(
                    shape,
                    &wide(&biases),
                    head,
                    x,
                    &inputs.angles[position * half..],
                );
                let near = |i: usize| -> Near {
                    match (part, shape.kv) {
                        (0, _) | (_, KvPrecision::F32) => (x[i], 2.0 * bound),
                        (_, KvPrecision::F16 | KvPrecision::Int8) => {
                            (x[i], 2.0 * bound + 1e-3 * (1.0 + x[i].abs()))
                        }
                    }
                };
                if part == 0 {
                    expected[0].extend(order(head).map(near));
                } else {
                    let at = (place * shape.kv_heads + own) * dim;
                    for (to, i) in expected[part][at..].iter_mut().zip(order(head)) {
                        *to = near(i);
                    }
                }
            }
        }
        let found = written(lab, &experiment, shape)?;
        for ((kind, outcome), expected) in found.iter().zip(&expected) {
            outcome.compare(&format!("{case}, {kind}"), expected)?;
        }
        let found = found.map(|(_, outcome)| outcome);
        if lab.kernels.reproducible
            && let Some(fewer) = fewer
        {
            same_bits(&case, fewer, &found, shape.heads * dim)?;
        }
        fewer = Some(found);
    }
    Ok(())
}

/// Rows of queries, keys and values.
fn parts_of(shape: HeadShape) -> [usize; 3] {
    [shape.heads, shape.kv_heads, shape.kv_heads].map(|heads| heads * shape.dim)
}

/// Places of a head's elements, in the order of the columns.
fn order_of(shape: HeadShape, head: usize) -> impl Iterator<Item = usize> {
    let turns = head < shape.heads + shape.kv_heads;
    Heads::in_pairs(shape.dim, if turns { shape.rope / 2 } else { 0 })
}

/// What a case of this shape is computed from, its weights, and the biases of its heads.
fn inputs(
    lab: &Lab,
    (stored, shape): (StorageFormat, HeadShape),
    normed: bool,
) -> Result<(Case, [Weights; 3], Vec<f32>), Failure> {
    let mut numbers = Numbers(8);
    let (dim, half, width) = (shape.dim, shape.rope / 2, widths(stored)[0]);
    let count = shape.heads + 2 * shape.kv_heads;
    let parts = parts_of(shape);
    let [queries, keys, values] = parts.map(|rows| Weights::new(&mut numbers, stored, rows, width));
    let weights = [queries?, keys?, values?];
    let tensors = weights.iter().map(Weights::tensor);
    let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
    let packing = Packing::turned_heads(tensors, dim, &[half, half, 0]);
    let matrix = lab.pack_in_shards(packing, stored)?;
    let mut input = numbers.take_full(MOST * width);
    let squares = normed.then(|| before_norm(&mut numbers, &mut input, width));
    let angles = (0..shape.context * half).map(|_| [numbers.full(), numbers.full()]);
    let angles: Vec<[f32; 2]> = angles.collect();
    let biases = numbers.take_full(count * dim);
    let extras = (0..count).flat_map(|head| {
        let biases = &biases;
        order_of(shape, head).map(move |i| biases[head * dim + i])
    });
    let inputs = Case {
        shape,
        matrix,
        adapted: Adapted::No,
        width,
        extras: extras.collect(),
        input,
        squares,
        angles,
    };
    Ok((inputs, weights, biases))
}

/// What fewer rows write is what it is beside others: queries of `width` elements of the first sequence, keys and values of both.
fn same_bits(
    case: &str,
    fewer: [CaseRun; 3],
    found: &[CaseRun; 3],
    width: usize,
) -> Result<(), Failure> {
    for (index, (mut fewer, found)) in fewer.into_iter().zip(found).enumerate() {
        if index == 0 {
            let [first, _] = rows_of(fewer.found.len() / width);
            fewer.found.truncate(first * width);
        } else {
            // Where nothing was written with fewer rows there may be something now.
            let now = fewer.found.iter_mut().zip(&found.found);
            now.filter(|(before, _)| **before == 0.0)
                .for_each(|(before, now)| *before = *now);
        }
        fewer.same_bits(case, found, 0, 1)?;
    }
    Ok(())
}

/// The product, ready to run over so many rows.
fn run(lab: &Lab, case: &Case, rows: usize) -> Result<Experiment, Failure> {
    let (shape, width) = (case.shape, case.width);
    let rows_of_input = |of: &[f32], width: usize| -> Vec<f32> {
        let rows = inputs_of(rows).flat_map(|row| &of[row * width..][..width]);
        rows.copied().collect()
    };
    let input = lab.padded(&rows_of_input(&case.input, width), width)?;
    let squares = case.squares.as_ref().map(|squares| {
        let fours = width.div_ceil(4);
        lab.padded(&rows_of_input(squares, fours), fours)
    });
    let squares = squares.transpose()?;
    let angles = lab.buffer(bytemuck::cast_slice(&case.angles))?;
    let extras = lab.padded(&case.extras, shape.dim)?;
    let queries = lab.output(rows * shape.heads * shape.stride());
    let (keys, values) = (lab.output(shape.cache()), lab.output(shape.cache()));
    let outputs = vec![queries.clone(), keys.clone(), values.clone()];
    let heads = shape.heads();
    let sequences = SEQUENCES.iter().zip(rows_of(rows));
    let mut step: Vec<_> = sequences
        .filter(|(_, rows)| *rows > 0)
        .map(|((table, first), rows)| sequence(*first, rows, table))
        .collect();
    if case.adapted != Adapted::No {
        // Those of the first sequence.
        step[0].lora = 1;
    }
    let columns = case.matrix.columns;
    // The words of a slot: where its numbers begin, and ranks. One without anything, or of the whole product.
    let (rank, mut numbers) = match case.adapted {
        Adapted::First => (2, Numbers(24)),
        Adapted::No | Adapted::AsTheyAre => (0, Numbers(0)),
    };
    let b = numbers.take_full((rank * columns).max(4));
    let slot = [0, 0, rank as u32, 0, rank as u32, 0, 0, 0];
    let lora = LoraMatrix::of_buffers(
        [
            lab.output(4),
            lab.buffer(bytemuck::cast_slice(&b))?,
            lab.buffer(&slot)?,
        ],
        [4, columns],
        ([columns; 3], false),
        4,
    );
    // Rows without an adapter have numbers there that are nobody's.
    let low = numbers.take_full(rows * 4);
    let own = rows_of(rows)[0] as u32;
    let adapted = (0..rows as u32).flat_map(|row| [u32::from(row < own), row.min(own - 1)]);
    let lora_rows = LoraRows {
        adapted: lab.buffer(&adapted.collect::<Vec<u32>>())?,
        low: lab.buffer(bytemuck::cast_slice(&low))?,
        stride: 4,
        raw: None,
    };
    let raw = lab.output(rows * columns);
    Ok(lab.experiment(&step, outputs, |builder, tables| {
        let input = match &squares {
            None => Input::Rows(&input),
            Some(squares) => {
                let weighted = &input;
                Input::BeforeNorm(BeforeNorm { weighted, squares }, (width, EPSILON))
            }
        };
        let heads = HeadsOutput {
            heads: &heads,
            queries: &queries,
            cache: KvBuffers {
                tables,
                keys: &keys,
                values: &values,
            },
            angles: &angles,
            extras: &extras,
        };
        if case.adapted == Adapted::No {
            return builder.matmul_into(&case.matrix, input, Output::Heads(heads), Count::Rows);
        }
        let sums = Output::Rows(&raw, Store::Plain);
        builder.matmul_into(&case.matrix, input, sums, Count::Mixed)?;
        builder.expand(&lora, &lora_rows, LoraOutput::Heads(heads, &raw))
    })?)
}
