//! Low-rank adapters: A x, and B (A x) as every epilogue takes it, over rows of several adapters and of none.

use super::products::{Near, activated};
use super::{CaseRun, Failure, Numbers, beside, outcome};
use crate::buffer::Buffer;
use crate::kernels::Store;
use crate::kernels::lab::{Lab, sequence};
use crate::load_error::LoadError;
use crate::matrix::{BeforeNorm, LoraMatrix, LoraOutput, LoraRows, squares_of};
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
