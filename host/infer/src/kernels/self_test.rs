//! Whether kernels compute the right numbers on an adapter: small cases of odd shapes against float64 on the host, before
//! any model runs on them. Drivers differ in what subgroups are, in rounding, and in bugs.

use std::collections::HashMap;

use tidegate_contract::BLOCK;
use tidegate_weights::{Format, Tensor};

use super::lab::{HeadShape, Lab, sequence};
use super::{KernelSet, KernelVariant, KvPrecision};
use crate::device::Gpu;
use crate::load_error::LoadError;

/// What was found out about sets of kernels on a device: nothing wrong, or what.
pub(crate) type Verdicts = HashMap<KernelSet, Option<String>>;

/// Deterministic numbers: multiples of 1/64 in -1..1, which every float format holds.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> f32 {
        // Numerical Recipes' linear congruence; its upper bits are good enough to tell kernels apart.
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 25) as f32 / 64.0 - 1.0
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Says what is wrong with kernels of `set`, or nothing.
///
/// # Errors
/// The device failed altogether.
pub(crate) fn self_test(gpu: &Gpu, set: KernelSet) -> Result<Option<String>, LoadError> {
    let lab = Lab {
        gpu: gpu.clone(),
        kernels: set,
        checked: false,
    };
    let (result, fault) = gpu.scoped(|| {
        norm(&lab)
            .and_then(|()| attention(&lab))
            .and_then(|()| products(&lab))
    });
    if let Some(fault) = fault {
        return Err(LoadError::from_fault(fault, 0));
    }
    match result {
        Ok(()) => Ok(None),
        Err(Wrong::Numbers(what)) => Ok(Some(what)),
        Err(Wrong::Failed(error @ (LoadError::Kernel { .. } | LoadError::Device { .. }))) => {
            Ok(Some(error.to_string()))
        }
        Err(Wrong::Failed(error)) => Err(error),
    }
}

enum Wrong {
    Numbers(String),
    Failed(LoadError),
}

impl From<LoadError> for Wrong {
    fn from(error: LoadError) -> Self {
        Wrong::Failed(error)
    }
}

/// Every number within its bound of what it must be.
fn compare(what: &str, found: &[f32], expected: &[(f64, f64)]) -> Result<(), Wrong> {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(Wrong::Numbers(format!(
            "{what}: {found} numbers, must be {expected}"
        )));
    }
    for (index, (found, (expected, bound))) in found.iter().zip(expected).enumerate() {
        // A number that is none is not within the bound.
        let right = (f64::from(*found) - expected).abs() <= *bound;
        if !right {
            return Err(Wrong::Numbers(format!(
                "{what}: element {index} is {found}, must be {expected} within {bound:.1e}"
            )));
        }
    }
    Ok(())
}

fn norm(lab: &Lab) -> Result<(), Wrong> {
    let mut numbers = Numbers(1);
    let (width, rows, epsilon) = (70, 3, 1e-5);
    let (weight, input) = (numbers.take(width), numbers.take(rows * width));
    let experiment = lab.rms_norm(&weight, &input, epsilon, None)?;
    lab.run(&experiment, 1)?;
    let found = lab.output_of(&experiment, 0, width)?;
    let mut expected = Vec::new();
    for row in wide(&input).chunks(width) {
        let squares: f64 = row.iter().map(|x| x * x).sum();
        let scale = 1.0 / (squares / width as f64 + epsilon).sqrt();
        let normed = row
            .iter()
            .zip(wide(&weight))
            .map(|(x, w)| (x * scale * w, 1e-5));
        expected.extend(normed);
    }
    compare("norm", &found, &expected)
}

/// Three rows beyond a split and one that sees itself only, over blocks in no order.
fn attention(lab: &Lab) -> Result<(), Wrong> {
    let mut numbers = Numbers(2);
    let blocks = 20;
    let shape = HeadShape {
        kv: KvPrecision::F16,
        ..HeadShape::plain(6, 2, 20, blocks)
    };
    let table: Vec<u32> = (0..blocks as u32)
        .map(|block| block * 7 % blocks as u32)
        .collect();
    let positions = [298, 299, 300, 0];
    let step = [sequence(298, 3, &table), sequence(0, 1, &table[3..])];
    let queries = numbers.take(4 * shape.heads * shape.dim);
    let cache = shape.blocks * BLOCK * shape.kv_heads * shape.dim;
    let (keys, values) = (numbers.take(cache), numbers.take(cache));
    let experiment = lab.attention(shape, &queries, [&keys, &values], &step)?;
    lab.run(&experiment, 1)?;
    let found = lab.output_of(&experiment, 0, shape.dim)?;
    let mut expected = Vec::new();
    for (row, position) in positions.into_iter().enumerate() {
        let table = if row == 3 { &table[3..] } else { &table[..] };
        for head in 0..shape.heads {
            let query = &queries[(row * shape.heads + head) * shape.dim..][..shape.dim];
            let of = |cache: &[f32], position: usize| -> Vec<f64> {
                let place = table[position / BLOCK] as usize * BLOCK + position % BLOCK;
                let head = place * shape.kv_heads + head * shape.kv_heads / shape.heads;
                wide(&cache[head * shape.dim..][..shape.dim])
            };
            let scores: Vec<f64> = (0..=position)
                .map(|position| {
                    let products = of(&keys, position).into_iter().zip(wide(query));
                    products.map(|(k, q)| k * q).sum::<f64>() / (shape.dim as f64).sqrt()
                })
                .collect();
            let weights: Vec<f64> = scores.iter().map(|score| score.exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut sums = vec![0.0; shape.dim];
            for (position, weight) in weights.iter().enumerate() {
                for (sum, value) in sums.iter_mut().zip(of(&values, position)) {
                    *sum += weight / total * value;
                }
            }
            expected.extend(sums.into_iter().map(|sum| (sum, 1e-5)));
        }
    }
    compare("attention", &found, &expected)
}

/// Products by every tiling, of plain and of quantized weights.
fn products(lab: &Lab) -> Result<(), Wrong> {
    let mut numbers = Numbers(3);
    let columns = 37;
    // Shares of the sum of all products' magnitudes.
    let bound = match lab.kernels.matmul {
        KernelVariant::F16 | KernelVariant::Cooperative => 2e-3,
        KernelVariant::Dot => 1e-2,
        KernelVariant::Portable | KernelVariant::Software | KernelVariant::Subgroup => 1e-6,
    };
    for (format, width) in [(Format::F32, 70), (Format::Int8, 96), (Format::Int4, 96)] {
        let bytes = stored(&mut numbers, format, columns, width);
        let unfit = || Wrong::Numbers(format!("{format:?} rows of {width} do not fit their bytes"));
        let tensor = || Tensor::in_memory("self-test", format, columns, width, &bytes);
        let mut weights = Vec::new();
        let mut row = Vec::new();
        for index in 0..columns {
            let tensor = tensor().ok_or_else(unfit)?;
            tensor.read_row(index, &mut row).map_err(LoadError::from)?;
            weights.push(wide(&row));
        }
        for rows in [1, 3, 9, 33] {
            let input = numbers.take(rows * width);
            let weights_again = tensor().ok_or_else(unfit)?;
            let experiment = lab.matmul(vec![weights_again], &input, None)?;
            lab.run(&experiment, 1)?;
            let found = lab.output_of(&experiment, 0, columns)?;
            let mut expected = Vec::new();
            for x in wide(&input).chunks(width) {
                for w in &weights {
                    let products = || w.iter().zip(x).map(|(w, x)| w * x);
                    let magnitude: f64 = products().map(f64::abs).sum();
                    expected.push((products().sum(), bound * (1.0 + magnitude)));
                }
            }
            compare(
                &format!("{format:?} matmul of {rows} rows"),
                &found,
                &expected,
            )?;
        }
    }
    Ok(())
}

/// Weights in the bytes of a format; quantized ones have scales of 1/64.
fn stored(numbers: &mut Numbers, format: Format, rows: usize, width: usize) -> Vec<u8> {
    let scale = half::f16::from_f32(1.0 / 64.0).to_le_bytes();
    let integer = |numbers: &mut Numbers| (numbers.next() * 64.0) as i8 as u8;
    let mut bytes = Vec::new();
    match format {
        Format::Int8 | Format::Int4 => {
            let integers = if format == Format::Int8 { 32 } else { 16 };
            for _ in 0..rows * width / 32 {
                bytes.extend(scale);
                bytes.extend((0..integers).map(|_| integer(numbers)));
            }
        }
        _ => {
            let values = numbers.take(rows * width);
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
    bytes
}
