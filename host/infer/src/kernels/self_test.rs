//! Whether kernels compute the right numbers on an adapter: small cases of odd shapes against float64 on the host, before
//! any model runs on them. Drivers differ in what subgroups are, in rounding, and in bugs.

use std::collections::HashMap;

use tidegate_contract::BLOCK;
use tidegate_weights::{Format, Tensor};

use super::lab::{HeadShape, Lab, sequence};
use super::{KernelSet, KernelVariant, KvPrecision, Stored};
use crate::device::Gpu;
use crate::load_error::LoadError;

/// What of a set of kernels is tested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tested {
    /// Products with weights that are so stored.
    Products(Stored),
    /// What is no product with weights.
    Rest,
}

/// What was found out about sets of kernels on a device: nothing wrong, or what.
pub(crate) type Verdicts = HashMap<(KernelSet, Tested), Option<String>>;

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
pub(crate) fn self_test(
    gpu: &Gpu,
    set: KernelSet,
    tested: Tested,
) -> Result<Option<String>, LoadError> {
    let lab = Lab {
        gpu: gpu.clone(),
        kernels: set,
        checked: false,
    };
    let (result, fault) = gpu.scoped(|| match tested {
        Tested::Rest => norm(&lab)
            .and_then(|()| heads(&lab))
            .and_then(|()| attention(&lab)),
        Tested::Products(stored) => products(&lab, stored),
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

/// Queries of two rows, normed and the first 12 of their 20 elements turned.
fn heads(lab: &Lab) -> Result<(), Wrong> {
    let mut numbers = Numbers(4);
    let shape = HeadShape {
        kv: KvPrecision::F16,
        rope: 12,
        norm_epsilon: Some(1e-5),
        ..HeadShape::plain(5, 1, 20, 1)
    };
    let (half, all) = (shape.rope / 2, shape.heads + 2);
    let qkv = numbers.take(2 * all * shape.dim);
    let norms = numbers.take(2 * shape.dim);
    let angles: Vec<[f32; 2]> = (0..BLOCK * half)
        .map(|_| [numbers.next(), numbers.next()])
        .collect();
    let experiment = lab.heads(shape, &angles, &norms, &qkv, &[sequence(7, 2, &[0])])?;
    lab.run(&experiment, 1)?;
    let found = lab.output_of(&experiment, 0, shape.dim)?;
    let mut expected = Vec::new();
    for row in 0..2 {
        for head in 0..shape.heads {
            let x = wide(&qkv[(row * all + head) * shape.dim..][..shape.dim]);
            let squares: f64 = x.iter().map(|x| x * x).sum();
            let scale = 1.0 / (squares / shape.dim as f64 + 1e-5).sqrt();
            let weights = wide(&norms);
            let x: Vec<f64> = x.iter().zip(weights).map(|(x, w)| x * scale * w).collect();
            for (i, own) in x.iter().enumerate() {
                let [cos, sin] = angles[(7 + row) * half + i % half].map(f64::from);
                let turned = match i {
                    i if i < half => own * cos - x[i + half] * sin,
                    i if i < 2 * half => own * cos + x[i - half] * sin,
                    _ => *own,
                };
                expected.push((turned, 1e-5));
            }
        }
    }
    compare("heads", &found, &expected)
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

/// Products by every tiling. Rows of a reproducible set have the same bits in each.
fn products(lab: &Lab, stored: Stored) -> Result<(), Wrong> {
    let mut numbers = Numbers(3);
    let columns = 37;
    // Shares of the sum of all products' magnitudes, which minima of q4_K make smaller than what is summed.
    let bound = match (lab.kernels.matmul, stored) {
        (KernelVariant::F16 | KernelVariant::Cooperative, _) => 2e-3,
        (KernelVariant::Dot, Stored::Int8 | Stored::Int4) => 1e-2,
        (_, Stored::Q4K | Stored::Q6K) => 1e-5,
        _ => 1e-6,
    };
    let (format, width) = case(stored);
    let bytes = bytes_of(&mut numbers, format, columns * width / format.block());
    let unfit = || Wrong::Numbers(format!("{format:?} rows of {width} do not fit their bytes"));
    let tensor = || Tensor::in_memory("self-test", format, columns, width, &bytes);
    let mut weights = Vec::new();
    let mut row = Vec::new();
    for index in 0..columns {
        let tensor = tensor().ok_or_else(unfit)?;
        tensor.read_row(index, &mut row).map_err(LoadError::from)?;
        weights.push(wide(&row));
    }
    let input = numbers.take(33 * width);
    let mut first_row: Option<Vec<u32>> = None;
    for rows in [1, 3, 9, 33] {
        let input = &input[..rows * width];
        let what = format!("{format:?} matmul of {rows} rows");
        let weights_again = tensor().ok_or_else(unfit)?;
        let experiment = lab.matmul(vec![weights_again], input, None)?;
        lab.run(&experiment, 1)?;
        let found = lab.output_of(&experiment, 0, columns)?;
        let mut expected = Vec::new();
        for x in wide(input).chunks(width) {
            for w in &weights {
                let products = || w.iter().zip(x).map(|(w, x)| w * x);
                let magnitude: f64 = products().map(f64::abs).sum();
                expected.push((products().sum(), bound * (1.0 + magnitude)));
            }
        }
        compare(&what, &found, &expected)?;
        let bits = found.iter().take(columns).map(|x| x.to_bits()).collect();
        let first_row = first_row.get_or_insert(bits);
        let same = found
            .iter()
            .zip(first_row)
            .all(|(x, bits)| x.to_bits() == *bits);
        if lab.kernels.reproducible && !same {
            return Err(Wrong::Numbers(format!(
                "{what}: the first has other bits than alone"
            )));
        }
    }
    Ok(())
}

/// The format that is so stored, and a width that is no multiple of what kernels take at a time.
fn case(stored: Stored) -> (Format, usize) {
    match stored {
        Stored::F32 => (Format::F32, 70),
        Stored::F16 => (Format::F16, 70),
        Stored::Bf16 => (Format::Bf16, 70),
        Stored::Int8 => (Format::Int8, 96),
        Stored::Int4 => (Format::Int4, 96),
        Stored::Q4K => (Format::Q4K, 256),
        Stored::Q6K => (Format::Q6K, 256),
    }
}

/// Blocks of weights in the bytes of a format, of numbers about 1.
fn bytes_of(numbers: &mut Numbers, format: Format, blocks: usize) -> Vec<u8> {
    let half = |value: f32| half::f16::from_f32(value).to_le_bytes();
    let mut bytes = Vec::new();
    for _ in 0..blocks {
        let mut integers = |count| {
            let integers = numbers.take(count).into_iter();
            integers.map(|x| (x * 64.0) as i8 as u8).collect::<Vec<_>>()
        };
        match format {
            Format::F32 => bytes.extend(numbers.next().to_le_bytes()),
            Format::F16 => bytes.extend(half(numbers.next())),
            Format::Bf16 => bytes.extend(half::bf16::from_f32(numbers.next()).to_le_bytes()),
            Format::Int8 => bytes.extend([&half(1.0 / 64.0)[..], &integers(32)].concat()),
            Format::Int4 => bytes.extend([&half(1.0 / 8.0)[..], &integers(16)].concat()),
            Format::Q4K => {
                let scales = [half(1.0 / 512.0), half(1.0 / 64.0)].concat();
                bytes.extend([scales, integers(12 + 128)].concat());
            }
            Format::Q6K => {
                bytes.extend([&integers(128 + 64 + 16)[..], &half(1.0 / 2048.0)].concat());
            }
        }
    }
    bytes
}
