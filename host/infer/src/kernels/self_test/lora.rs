//! Low-rank adapters: A x, and B (A x) as every epilogue takes it, over rows of several adapters and of none.

use super::products::{Near, Weights, activated, before_norm, widths};
use super::{CaseRun, Failure, Numbers, beside, outcome};
use crate::buffer::Buffer;
use crate::kernels::lab::{Lab, sequence};
use crate::kernels::{StorageFormat, Store};
use crate::load_error::LoadError;
use crate::matrix::{
    BeforeNorm, Input, LoraMatrix, LoraOutput, LoraRows, Output, Packing, squares_of,
};
use crate::program::Count;
use tidegate_contract::StepSequence;

/// Of sums, as a share of their terms' magnitudes.
const BOUND: f64 = 1e-5;

/// Epsilon of norms.
const EPSILON: f64 = 1e-5;

/// Which adapter rows have.
const ADAPTERS: [u32; 7] = [2, 0, 1, 3, 0, 2, 1];

/// Ranks of three matrices beside each other in each slot: the last leaves them as they are.
const RANKS: [[usize; 3]; 3] = [[1, 0, 3], [17, 5, 8], [0, 0, 0]];

/// The same of two in turn.
const IN_TURN: [[usize; 3]; 3] = [[3, 3, 0], [17, 17, 0], [0, 0, 0]];

/// Columns of three, which end here: more than a workgroup has.
const ENDS: [usize; 3] = [268, 288, 304];

/// Numbers of a row of A x.
const STRIDE: usize = 36;

/// Adapters with numbers at random.
struct Case {
    in_turn: bool,
    width: usize,
    /// `[rank, width]` of each slot.
    a: Vec<Vec<f32>>,
    /// `[rank, columns]` of each slot and each of its matrices.
    b: Vec<[Vec<f32>; 3]>,
    step: Vec<StepSequence>,
}

impl Case {
    fn new(numbers: &mut Numbers, width: usize, in_turn: bool) -> Case {
        let mut case = Case {
            in_turn,
            width,
            a: Vec::new(),
            b: Vec::new(),
            step: ADAPTERS
                .map(|lora| StepSequence {
                    lora,
                    ..sequence(0, 1, &[0])
                })
                .to_vec(),
        };
        for ranks in case.ranks() {
            case.a
                .push(numbers.take(ranks.iter().sum::<usize>() * width));
            let of = |of: usize| ranks[of] * case.columns_of(of);
            case.b
                .push([of(0), of(1), of(2)].map(|count| numbers.take(count)));
        }
        case
    }

    fn ranks(&self) -> [[usize; 3]; 3] {
        if self.in_turn { IN_TURN } else { RANKS }
    }

    /// Columns of one of the matrices.
    fn columns_of(&self, of: usize) -> usize {
        match (self.in_turn, of) {
            (true, _) => ENDS[2] / 2,
            (false, 0) => ENDS[0],
            (false, of) => ENDS[of] - ENDS[of - 1],
        }
    }

    /// The matrix and its column that a column is of.
    fn place(&self, column: usize) -> (usize, usize) {
        match ENDS.iter().position(|end| column < *end) {
            _ if self.in_turn => (column % 2, column / 2),
            Some(0) | None => (0, column),
            Some(of) => (of, column - ENDS[of - 1]),
        }
    }

    /// As kernels read it.
    fn matrix(&self, lab: &Lab) -> Result<LoraMatrix, LoadError> {
        let width4 = self.width.div_ceil(4);
        let (mut a, mut b, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, ranks) in self.ranks().into_iter().enumerate() {
            let rank: usize = ranks.iter().sum();
            slots.extend([a.len() / 4, b.len() / 4, rank, 0].map(|word| word as u32));
            slots.extend(ranks.map(|rank| rank as u32).into_iter().chain([0]));
            for quad in 0..width4 {
                for place in 0..rank {
                    let row = &self.a[slot][place * self.width..][..self.width];
                    a.extend((quad * 4..quad * 4 + 4).map(|i| row.get(i).copied().unwrap_or(0.0)));
                }
            }
            let of = &self.b[slot];
            if self.in_turn {
                let columns = self.columns_of(0);
                for place in 0..ranks[0] {
                    for column in 0..columns {
                        b.extend([0, 1].map(|which: usize| of[which][place * columns + column]));
                    }
                }
            } else {
                b.extend(of.iter().flatten());
            }
        }
        // A binding is never empty.
        a.resize(a.len().max(4), 0.0);
        Ok(LoraMatrix::of_buffers(
            [
                lab.buffer(bytemuck::cast_slice(&a))?,
                lab.buffer(bytemuck::cast_slice(&b))?,
                lab.buffer(&slots)?,
            ],
            [width4 * 4, ENDS[2]],
            (if self.in_turn { [ENDS[2]; 3] } else { ENDS }, self.in_turn),
            STRIDE,
        ))
    }

    fn rows(&self, lab: &Lab, low: Buffer) -> Result<LoraRows, LoadError> {
        let mut adapted = Vec::new();
        let listed: Vec<u32> = (0..ADAPTERS.len() as u32)
            .filter(|row| ADAPTERS[*row as usize] > 0)
            .collect();
        for (row, lora) in ADAPTERS.into_iter().enumerate() {
            adapted.extend([lora, listed.get(row).copied().unwrap_or(0)]);
        }
        Ok(LoraRows {
            adapted: lab.buffer(&adapted)?,
            low,
            stride: STRIDE,
            raw: None,
        })
    }
}

/// Rows through A, with their norm or without, of fewer elements than a workgroup takes at once and of more.
pub(super) fn shrink(lab: &Lab, normed: bool) -> Result<(), Failure> {
    for width in [30, 1100] {
        let mut numbers = Numbers(21);
        let case = Case::new(&mut numbers, width, false);
        let input = numbers.take(ADAPTERS.len() * width);
        let of_row = width.div_ceil(4);
        let squares: Vec<f32> = numbers
            .take(ADAPTERS.len() * of_row)
            .into_iter()
            .map(f32::abs)
            .collect();
        let low = lab.output(ADAPTERS.len() * STRIDE);
        let (matrix, rows) = (case.matrix(lab)?, case.rows(lab, low.clone())?);
        let padded = lab.padded(&input, width)?;
        // Rows of squares are padded to four, like all others.
        let squares_buffer = lab.padded(&squares, of_row)?;
        let outputs = vec![low];
        let experiment = lab.experiment(&case.step, outputs, |builder, _| {
            let before = normed.then_some((&squares_buffer, (width, EPSILON)));
            builder.shrink(&matrix, &rows, &padded, before)
        })?;
        debug_assert_eq!(squares_of(of_row * 4), of_row.next_multiple_of(4));
        let mut expected = Vec::new();
        for (row, lora) in ADAPTERS.into_iter().enumerate() {
            let x = &input[row * width..][..width];
            let total: f64 = squares[row * of_row..][..of_row]
                .iter()
                .map(|s| f64::from(*s))
                .sum();
            let factor = match normed {
                true => 1.0 / (total / width as f64 + EPSILON).sqrt(),
                false => 1.0,
            };
            let a = (lora as usize).checked_sub(1).map(|slot| &case.a[slot]);
            let ranks = a.map_or(0, |a| a.len() / width);
            for place in 0..STRIDE {
                let (mut sum, mut terms) = (0.0, 0.0);
                if let Some(a) = a.filter(|_| place < ranks) {
                    for (w, x) in a[place * width..][..width].iter().zip(x) {
                        let term = f64::from(*w) * f64::from(*x);
                        (sum, terms) = (sum + term, terms + term.abs());
                    }
                }
                expected.push((sum * factor, BOUND * terms * factor));
            }
        }
        let case = format!("A x, width {width}, normed {normed}");
        outcome(lab, &experiment, 0, STRIDE)?.compare(&case, &expected)?;
    }
    Ok(())
}

/// B (A x) of rows, as an epilogue takes it.
pub(super) fn expand(lab: &Lab, store: Store) -> Result<(), Failure> {
    let mut numbers = Numbers(22);
    let gated = matches!(store, Store::Gated(_));
    let case = Case::new(&mut numbers, 8, gated);
    let count = ADAPTERS.len();
    let columns = ENDS[2];
    let low = numbers.take_full(count * STRIDE);
    let (before, norm) = (numbers.take(count * columns), numbers.take(columns));
    let matrix = case.matrix(lab)?;
    let rows = case.rows(lab, lab.buffer(bytemuck::cast_slice(&low))?)?;
    let (width, output) = match gated {
        true => (columns / 2, lab.output(count * columns / 2)),
        false => (columns, lab.padded(&before, columns)?),
    };
    let raw = lab.padded(&before, columns)?;
    let norm_buffer = lab.padded(&norm, columns)?;
    let of_row = squares_of(columns);
    let (weighted, squares) = (lab.output(count * columns), lab.output(count * of_row));
    let outputs = vec![output.clone(), weighted.clone(), squares.clone()];
    let experiment = lab.experiment(&case.step, outputs, |builder, _| {
        let next = BeforeNorm {
            weighted: &weighted,
            squares: &squares,
        };
        let to = match store {
            Store::Gated(_) => LoraOutput::Gated(&output, store, &raw),
            Store::Stream => LoraOutput::Stream(&output, (&norm_buffer, next)),
            _ => LoraOutput::Sums(&output),
        };
        builder.expand(&matrix, &rows, to)
    })?;
    let ranks = case.ranks();
    let sum = |row: usize, column: usize| -> Near {
        let before = f64::from(before[row * columns + column]);
        let Some(slot) = (ADAPTERS[row] as usize).checked_sub(1) else {
            return (before, 0.0);
        };
        let (of, place) = case.place(column);
        let first: usize = ranks[slot][..of].iter().sum();
        let (mut sum, mut terms) = (before, before.abs());
        for j in 0..ranks[slot][of] {
            let b = case.b[slot][of][j * case.columns_of(of) + place];
            let term = f64::from(b) * f64::from(low[row * STRIDE + first + j]);
            (sum, terms) = (sum + term, terms + term.abs());
        }
        (sum, BOUND * terms)
    };
    let all = |of: &dyn Fn(usize, usize) -> Near, columns: usize| -> Vec<Near> {
        (0..count)
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
            .map(|(row, column)| of(row, column))
            .collect()
    };
    let what = format!("B (A x), {store:?}");
    let found: CaseRun = outcome(lab, &experiment, 0, width)?;
    if let Store::Gated(activation) = store {
        let gate = |row, column| {
            let gate = activated(activation, sum(row, 2 * column));
            let up = sum(row, 2 * column + 1);
            let bound = gate.1 * (up.0.abs() + up.1) + gate.0.abs() * up.1;
            (gate.0 * up.0, bound + 1e-6)
        };
        return found.compare(&what, &all(&gate, width));
    }
    found.compare(&what, &all(&sum, width))?;
    if store == Store::Stream {
        // Of rows that no adapter changes the product has left them.
        let changed = |row: usize| matches!(ADAPTERS[row], 1 | 2);
        let weighted = |row: usize, column: usize| match changed(row) {
            true => {
                let (sum, bound) = sum(row, column);
                let weight = f64::from(norm[column]);
                (sum * weight, bound * weight.abs() + 1e-6)
            }
            false => (0.0, 0.0),
        };
        let found = beside(lab, &experiment, 1, columns)?;
        found.compare(
            &format!("{what}, before the norm"),
            &all(&weighted, columns),
        )?;
        let squares = |row: usize, quad: usize| match changed(row) && quad < columns / 4 {
            true => (0..4)
                .map(|i| sum(row, 4 * quad + i))
                .fold((0.0, 1e-6), |of, (x, bound)| {
                    (
                        of.0 + x * x,
                        of.1 + 2.0 * x.abs() * bound + bound * bound + 1e-6 * x * x,
                    )
                }),
            false => (0.0, 0.0),
        };
        let found = beside(lab, &experiment, 2, of_row)?;
        found.compare(&format!("{what}, squares"), &all(&squares, of_row))?;
    }
    Ok(())
}

/// Columns of a gate, and of what it lets through.
const GATED: usize = 40;

/// Rows without an adapter have the bits that they have in a step where none has one, in a set that promises the same bits
/// beside whatever rows: gates of whole sums, of rows whose norm the product does or not.
pub(super) fn unadapted_gates(
    lab: &Lab,
    stored: StorageFormat,
    store: Store,
    normed: bool,
) -> Result<(), Failure> {
    if !lab.kernels.reproducible {
        return Ok(());
    }
    let mut numbers = Numbers(23);
    let (width, columns, most) = (widths(stored)[0], 2 * GATED, 33);
    let gate = Weights::new(&mut numbers, stored, GATED, width)?;
    let up = Weights::new(&mut numbers, stored, GATED, width)?;
    let matrix = lab.pack(Packing::alternating(gate.tensor()?, up.tensor()?))?;
    let mut input = numbers.take_full(most * width);
    let squares = normed.then(|| before_norm(&mut numbers, &mut input, width));
    // One slot, with a pair of the gate and one of what it lets through; rows without an adapter have numbers of A x that
    // are nobody's.
    let b = numbers.take_full(columns);
    let lora = LoraMatrix::of_buffers(
        [
            lab.output(4),
            lab.buffer(bytemuck::cast_slice(&b))?,
            lab.buffer(&[0, 0, 2, 0, 1, 1, 0, 0])?,
        ],
        [4, columns],
        ([columns; 3], true),
        4,
    );
    let low = numbers.take_full(most * 4);
    for rows in [3, 9, most] {
        let adapted_rows = rows / 2;
        let of_row = width.div_ceil(4);
        let input = lab.padded(&input[..rows * width], width)?;
        let squares = match &squares {
            Some(squares) => lab.padded(&squares[..rows * of_row], of_row)?,
            None => lab.output(4),
        };
        let adapted = (0..rows as u32).flat_map(|row| {
            let has_one = (row as usize) < adapted_rows;
            [u32::from(has_one), if has_one { row } else { 0 }]
        });
        let lora_rows = LoraRows {
            adapted: lab.buffer(&adapted.collect::<Vec<u32>>())?,
            low: lab.buffer(bytemuck::cast_slice(&low[..rows * 4]))?,
            stride: 4,
            raw: None,
        };
        let raw = lab.output(rows * columns);
        let run = |is_adapted: bool| -> Result<CaseRun, Failure> {
            let step = [
                StepSequence {
                    lora: u32::from(is_adapted),
                    ..sequence(0, adapted_rows, &[0; 4])
                },
                sequence(0, rows - adapted_rows, &[0; 4]),
            ];
            let output = lab.output(rows * GATED);
            let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
                let before = BeforeNorm {
                    weighted: &input,
                    squares: &squares,
                };
                let input = match normed {
                    true => Input::BeforeNorm(before, (width, super::products::EPSILON)),
                    false => Input::Rows(&input),
                };
                if !is_adapted {
                    return builder.matmul_into(
                        &matrix,
                        input,
                        Output::Rows(&output, store),
                        Count::Rows,
                    );
                }
                let sums = Output::Rows(&raw, Store::Plain);
                builder.matmul_into(&matrix, input, sums, Count::Mixed)?;
                builder.expand(&lora, &lora_rows, LoraOutput::Gated(&output, store, &raw))
            })?;
            outcome(lab, &experiment, 0, GATED)
        };
        let (alone, mut beside) = (run(false)?, run(true)?);
        let own = adapted_rows * GATED;
        beside.found.drain(..own.min(beside.found.len()));
        let case =
            format!("{stored:?} weights, {store:?} of rows beside adapted ones, {rows} rows");
        beside.same_bits(&case, &alone, adapted_rows, GATED)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_weights::Activation;

    use super::*;
    use crate::device::{Adapter, DeviceOptions, Gpu, Sabotage};
    use crate::kernels::self_test::{Tested, Wrong, self_test};
    use crate::kernels::{HEADS_BUFFERS, KernelSet, KernelVariant, KvPrecision};

    fn sets() -> [KernelSet; 2] {
        [KernelVariant::Software, KernelVariant::Portable].map(|variant| KernelSet {
            reproducible: true,
            ..KernelSet::of(variant, true, false)
        })
    }

    fn opened() -> Gpu {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        Gpu::open(&adapter, DeviceOptions::default()).unwrap()
    }

    /// What models run of a set: norms are done, and heads turned, by products that have columns on their own; heads where the
    /// device binds as many buffers as they take.
    fn cases(set: KernelSet) -> Vec<Tested> {
        let turns_heads = opened().storage_buffers() >= HEADS_BUFFERS;
        let gated = Store::Gated(Activation::Silu);
        let heads = Store::Heads(KvPrecision::F32);
        let mut cases = Vec::new();
        for stored in [StorageFormat::F32, StorageFormat::Int4] {
            cases.push(Tested::Unadapted(stored, gated, false));
            if set.matmul == KernelVariant::Portable {
                cases.push(Tested::Unadapted(stored, gated, true));
                let of_heads = [false, true].map(|norm| Tested::Unadapted(stored, heads, norm));
                cases.extend(of_heads.into_iter().filter(|_| turns_heads));
            }
        }
        cases
    }

    /// What the self-test says of kernels that are edited so.
    fn found(
        edit: Option<(&'static str, &'static str)>,
        set: KernelSet,
        tested: Tested,
    ) -> Option<Wrong> {
        let gpu = opened();
        if let Some((from, to)) = edit {
            gpu.sabotage("lora_expand", Sabotage::Edited { from, to });
        }
        self_test(&gpu, set, tested).unwrap()
    }

    #[test]
    fn rows_beside_adapted_ones_keep_their_bits() {
        for set in sets() {
            for tested in cases(set) {
                assert_eq!(found(None, set, tested), None, "{set:?}, {tested:?}");
            }
        }
    }

    #[test]
    fn a_kernel_that_touches_the_rows_of_others_is_seen() {
        for edit in [
            // Every row through the first adapter.
            ("let which = adapted[row].x;", "let which = 1u;"),
            // Sums that are one bit off: within what numbers may differ by.
            (
                "return raw[row * params.stride + column4];",
                "return bitcast<vec4<f32>>(bitcast<vec4<u32>>(raw[row * params.stride + column4]) + vec4<u32>(1u));",
            ),
        ] {
            for set in sets() {
                for tested in cases(set) {
                    let found = found(Some(edit), set, tested);
                    let is_seen = matches!(found, Some(Wrong::Numbers { .. }));
                    assert!(is_seen, "{edit:?}, {set:?}, {tested:?}: {found:?}");
                }
            }
        }
        // Where sums are added to, the rows of others are held against what was there.
        let edit = ("return adapted[place].y;", "return place;");
        for set in sets() {
            let found = found(Some(edit), set, Tested::Expand(Store::Residual));
            assert!(matches!(found, Some(Wrong::Numbers { .. })), "{found:?}");
        }
    }
}
