//! Attention of a decoder over KV blocks.

use tidegate_contract::{BLOCK, StepSequence};

use super::{Failure, Numbers, beside, outcome, softmax, wide};
use crate::kernels::lab::{HeadShape, Lab, sequence};
use crate::kernels::{
    Base, HeadCut, KvPrecision, MOST_UNIT, SPLIT, Together, merges, rows_together, unit_of,
};

/// Of means of numbers about 1.
const BOUND: f64 = 1e-5;

/// KV blocks.
const BLOCKS: usize = 38;

/// Position of the first of the neighbours of one sequence, over more than two splits of a GPU. Through the window the second of
/// them no longer sees the first split.
const FIRST: usize = 256 + WINDOW - 2;

/// Positions of the window.
const WINDOW: usize = 300;

/// Sequences of one row each that begin with the same blocks, of which software adapters take some together too.
const SHARING: usize = 5;

/// Blocks that they have in common.
const SHARED_BLOCKS: usize = 21;

/// Neighbours: of which software adapters take some together, and for GPUs one full tile and one that is not.
fn neighbours(together: Together) -> usize {
    match together {
        Together::Neighbours(most) => (most + most.div_ceil(2)) as usize,
        Together::Sharing(_) | Together::Unasked => 9,
    }
}

/// Widths of heads: of fewer elements than a workgroup takes at once, and of as many; odd and even in quads.
const WIDTHS: [usize; 3] = [20, 128, 256];

/// More of them for software adapters, which have kernels by how heads are cut: of one chunk and of several, up to its end and not.
const MORE_WIDTHS: [usize; 16] = [
    8, 12, 16, 24, 32, 36, 40, 48, 56, 60, 64, 72, 84, 96, 100, 104,
];

/// Those that are cut so.
fn widths_so_cut(cut: HeadCut, kv: KvPrecision) -> Vec<usize> {
    let cut_so = |dim: &usize| HeadCut::of(dim.div_ceil(4) as u32, kv, cut.capped()) == cut;
    MORE_WIDTHS
        .into_iter()
        .chain(WIDTHS)
        .filter(cut_so)
        .collect()
}

/// The widths that are tried. Software adapters take those of their model's heads alone.
fn widths(lab: &Lab, cut: HeadCut, kv: KvPrecision) -> Vec<usize> {
    match lab.kernels.base {
        Base::Software => widths_so_cut(cut, kv),
        Base::Portable | Base::Subgroup => WIDTHS.into(),
    }
}

/// First everything that a row sees, with sinks, then a window of it without, with scores that are capped if they can be.
pub(super) fn attention(
    lab: &Lab,
    unit: u32,
    cut: HeadCut,
    kv: KvPrecision,
) -> Result<(), Failure> {
    // Software adapters have other kernels where scores are capped.
    let software = lab.kernels.base == Base::Software;
    for dim in widths(lab, cut, kv) {
        let plain = HeadShape {
            kv,
            softcap: (software && cut.capped()).then_some(50.0),
            sinks: true,
            ..HeadShape::plain(2 * unit as usize, 2, dim, BLOCKS)
        };
        let narrow = HeadShape {
            window: Some(WINDOW),
            softcap: (!software || cut.capped()).then_some(2.0),
            sinks: false,
            ..plain
        };
        // Of queries that are a little longer, some keys weigh far more than others: what is a little wrong with a score shows.
        // Of those that are very long, scores are far beyond the cap, where some drivers' tanh overflows. Without one they
        // would be so large that their own rounding shows.
        let longest = narrow.softcap.map_or(4.0, |_| 256.0);
        for (case, shape, longer) in [
            ("attention", plain, 4.0),
            ("attention in a window", narrow, longest),
        ] {
            attention_of_shape(lab, &format!("{case}, heads of {dim}"), shape, longer)?;
        }
    }
    attention_of_several_units(lab, unit, cut, kv)?;
    if lab.kernels.base != Base::Software {
        attention_of_long_rows(lab, unit, kv)?;
    }
    Ok(())
}

/// Query heads of a key head that are taken by several units of so many.
fn several_units(unit: u32) -> u32 {
    let most = 2 * MOST_UNIT * MOST_UNIT;
    (2 * unit..most)
        .step_by(unit as usize)
        .find(|group| unit_of(*group) == unit)
        .unwrap_or(unit)
}

/// Key heads whose query heads are more than one unit takes: which one a unit reads shows. A few rows are enough.
fn attention_of_several_units(
    lab: &Lab,
    unit: u32,
    cut: HeadCut,
    kv: KvPrecision,
) -> Result<(), Failure> {
    const BLOCKS: usize = 3;
    let Some(dim) = widths(lab, cut, kv).into_iter().min() else {
        return Ok(());
    };
    let softcap = (lab.kernels.base == Base::Software && cut.capped()).then_some(50.0);
    let shape = HeadShape {
        kv,
        softcap,
        ..HeadShape::plain(2 * several_units(unit) as usize, 2, dim, BLOCKS)
    };
    let rows = neighbours(rows_together(
        lab.kernels.base,
        [shape.heads, shape.kv_heads, dim],
    ));
    let mut numbers = Numbers(11);
    let table: Vec<u32> = (0..BLOCKS as u32).rev().collect();
    let step = [
        sequence(0, rows.min(BLOCKS * BLOCK), &table),
        sequence(7, 1, &table),
    ];
    let width = shape.heads * dim;
    let queries = numbers.take_full((step[0].tokens.len() + 1) * width);
    let cache = BLOCKS * BLOCK * shape.kv_heads * dim;
    let cached = [numbers.take_full(cache), numbers.take_full(cache)];
    let [keys, values] = &cached;
    let experiment = lab.attention(shape, &queries, [keys, values], &step)?;
    let expected = expected(shape, &step, &queries, &cached);
    let case = format!("attention, several units of a key head, heads of {dim}");
    outcome(lab, &experiment, 0, dim)?.compare(&case, &expected)
}

/// Rows that see so much that each of their workgroups has two splits, and the last one a few positions.
fn attention_of_long_rows(lab: &Lab, unit: u32, kv: KvPrecision) -> Result<(), Failure> {
    let seen = 32 * SPLIT as usize + 7;
    let together = rows_together(lab.kernels.base, [2 * unit as usize, 2, 20]);
    let rows = match together {
        Together::Neighbours(most) => most.div_ceil(2) as usize,
        Together::Sharing(_) | Together::Unasked => 1,
    };
    let blocks = (seen + rows).div_ceil(BLOCK);
    let shape = HeadShape {
        kv,
        ..HeadShape::plain(2 * unit as usize, 2, 20, blocks)
    };
    let mut numbers = Numbers(9);
    let table: Vec<u32> = (0..blocks as u32).rev().collect();
    let step = [sequence(seen - 1, rows, &table)];
    let width = shape.heads * shape.dim;
    // As above: what is a little wrong with a score shows.
    let queries = numbers.take_full(rows * width);
    let queries: Vec<f32> = queries.into_iter().map(|query| query * 4.0).collect();
    let cache = blocks * BLOCK * shape.kv_heads * shape.dim;
    let cached = [numbers.take_full(cache), numbers.take_full(cache)];
    let [keys, values] = &cached;
    let experiment = lab.attention(shape, &queries, [keys, values], &step)?;
    let expected = expected(shape, &step, &queries, &cached);
    let case = "attention over many splits";
    let all = outcome(lab, &experiment, 0, shape.dim)?;
    all.compare(case, &expected)?;
    // A row alone is another kernel's.
    let step = [sequence(seen - 1, 1, &table)];
    let experiment = lab.attention(shape, &queries[..width], [keys, values], &step)?;
    let alone = outcome(lab, &experiment, 0, shape.dim)?;
    let case = format!("{case}, a row alone");
    alone.compare(&case, &expected[..width])?;
    if !lab.kernels.reproducible {
        return Ok(());
    }
    alone.same_bits(&case, &all, 0, width)
}

/// The first and the last neighbour, and the first sequence that shares blocks with others, have queries that are `longer` times
/// those of the others. Of a reproducible set they have the same bits alone.
fn attention_of_shape(lab: &Lab, case: &str, shape: HeadShape, longer: f32) -> Result<(), Failure> {
    let mut numbers = Numbers(2);
    // Blocks in no order.
    let table: Vec<u32> = (0..BLOCKS as u32)
        .map(|block| block * 7 % BLOCKS as u32)
        .collect();
    let together = rows_together(lab.kernels.base, [shape.heads, shape.kv_heads, shape.dim]);
    let neighbours = neighbours(together);
    let mut step = vec![
        sequence(FIRST, neighbours, &table),
        sequence(0, 1, &table[3..]),
    ];
    step.extend((0..SHARING).map(|index| {
        let own = table.iter().rev().skip(index);
        let blocks: Vec<u32> = table[..SHARED_BLOCKS].iter().chain(own).copied().collect();
        sequence(FIRST - 35 * index - 30, 1, &blocks[..BLOCKS])
    }));
    let width = shape.heads * shape.dim;
    let cache = BLOCKS * BLOCK * shape.kv_heads * shape.dim;
    let first_sharing = neighbours + 1;
    let mut queries = numbers.take_full((first_sharing + SHARING) * width);
    for row in [0, neighbours - 1, first_sharing] {
        for query in &mut queries[row * width..][..width] {
            *query *= longer;
        }
    }
    let cached = [numbers.take_full(cache), numbers.take_full(cache)];
    let [keys, values] = &cached;
    let expected = expected(shape, &step, &queries, &cached);
    let experiment = lab.attention(shape, &queries, [keys, values], &step)?;
    let together = outcome(lab, &experiment, 0, shape.dim)?;
    together.compare(case, &expected)?;
    if merges(lab.kernels.base, lab.gpu.features()) {
        // Whoever merges the parts of a row leaves their count as it was.
        let left = beside(lab, &experiment, 1, 1)?;
        let nothing = vec![(0.0, 0.0); left.found.len()];
        left.compare(&format!("{case}, parts that are counted"), &nothing)?;
    }
    if !lab.kernels.reproducible {
        return Ok(());
    }
    let neighbour = |row| (row, sequence(FIRST + row, 1, &table));
    for (row, alone) in [
        neighbour(0),
        neighbour(neighbours - 1),
        (first_sharing, step[2].clone()),
    ] {
        let step = [alone];
        let query = &queries[row * width..][..width];
        let experiment = lab.attention(shape, query, [keys, values], &step)?;
        let alone = outcome(lab, &experiment, 0, shape.dim)?;
        let case = format!("{case}, row {row} alone");
        alone.same_bits(&case, &together, row, width)?;
    }
    Ok(())
}

/// What the rows of a step see of keys and values `[blocks, BLOCK, kv_heads, dim]`, by softmax: `[rows, heads, dim]`.
fn expected(
    shape: HeadShape,
    step: &[StepSequence],
    queries: &[f32],
    cached: &[Vec<f32>; 2],
) -> Vec<(f64, f64)> {
    let dim = shape.dim;
    let [keys, values] = cached.each_ref().map(|cached| wide(&shape.rounded(cached)));
    let queries = wide(queries);
    let mut queries = queries.chunks_exact(dim);
    let mut expected = Vec::new();
    for sequence in step {
        let at = |position: usize, head: usize| {
            let place = sequence.blocks[position / BLOCK] as usize * BLOCK + position % BLOCK;
            (place * shape.kv_heads + head * shape.kv_heads / shape.heads) * dim
        };
        for row in 0..sequence.tokens.len() {
            let position = sequence.position as usize + row;
            let from = (position + 1).saturating_sub(shape.window.unwrap_or(usize::MAX));
            for (head, query) in (0..shape.heads).zip(&mut queries) {
                let score = |position: usize| {
                    let key = &keys[at(position, head)..][..dim];
                    let product: f64 = key.iter().zip(query).map(|(k, q)| k * q).sum();
                    let score = product / (dim as f64).sqrt();
                    shape
                        .softcap
                        .map_or(score, |cap| cap * (score / cap).tanh())
                };
                let sink = shape.sink(head).map(f64::from);
                let weights =
                    softmax(&(from..=position).map(score).chain(sink).collect::<Vec<_>>());
                let mut sums = vec![0.0; dim];
                // The sink's comes last, and has no value.
                for (position, weight) in (from..=position).zip(weights) {
                    let value = &values[at(position, head)..][..dim];
                    sums.iter_mut()
                        .zip(value)
                        .for_each(|(sum, v)| *sum += weight * v);
                }
                expected.extend(sums.into_iter().map(|sum| (sum, BOUND)));
            }
        }
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_tried_where_a_key_head_has_several() {
        for unit in 1..=MOST_UNIT {
            let group = several_units(unit);
            assert_eq!(unit_of(group), unit, "{group}");
            assert!(group > unit);
        }
    }

    #[test]
    fn heads_of_every_cut_are_tried() {
        for kv in KvPrecision::ALL {
            for cut in HeadCut::all(kv) {
                assert!(!widths_so_cut(cut, kv).is_empty(), "{kv:?}: {cut:?}");
            }
        }
    }
}
