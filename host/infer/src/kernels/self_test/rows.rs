//! What a decoder does beside products and attention: norms, biases, caps and heads.

use tidegate_contract::{BLOCK, Sampling, StepSequence};

use super::{CaseRun, Failure, Numbers, outcome, wide};
use crate::kernels::lab::{Experiment, HeadShape, Lab, sequence};
use crate::kernels::{KvPrecision, NormStore};
use crate::load_error::LoadError;
use crate::program::Count;

/// Of numbers about 1, and of sums that were brought back to that.
const BOUND: f64 = 1e-5;

/// Rows of two sequences; the last row of each is sampled from: rows 1 and 2.
fn sampled_rows() -> [StepSequence; 2] {
    [2, 1].map(|rows| StepSequence {
        samples: vec![Sampling::default()],
        ..sequence(0, rows, &[0])
    })
}

/// x * weight / sqrt(mean(x^2) + epsilon).
fn normed(row: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let squares: f64 = row.iter().map(|x| x * x).sum();
    let scale = 1.0 / (squares / row.len() as f64 + epsilon).sqrt();
    let scaled = row.iter().zip(weight).map(|(x, w)| x * scale * w);
    scaled.collect()
}

/// Every row of a step, then those that are sampled from: of fewer elements than a workgroup takes at once, and of more than
/// 4,096.
pub(super) fn norm(lab: &Lab, store: NormStore) -> Result<(), Failure> {
    for width in [70, 4099] {
        norm_of_width(lab, store, width)?;
    }
    Ok(())
}

fn norm_of_width(lab: &Lab, store: NormStore, width: usize) -> Result<(), Failure> {
    let mut numbers = Numbers(1);
    let (epsilon, step) = (1e-5, sampled_rows());
    let (weight, input) = (numbers.take_full(width), numbers.take_full(3 * width));
    let before = numbers.take(3 * width);
    let buffers = [lab.padded(&weight, width)?, lab.padded(&input, width)?];
    let mut all: Option<CaseRun> = None;
    for (case, of, rows) in [
        ("norms", Count::Rows, &[0, 1, 2][..]),
        ("norms of samples", Count::Samples, &[1, 2]),
    ] {
        let output = match store {
            // What is added to is that of the row, so that a row has the same bits in both.
            NormStore::Add => lab.padded(&before[rows[0] * width..3 * width], width)?,
            NormStore::Plain => lab.padded(&before[..rows.len() * width], width)?,
        };
        let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
            let [weight, input] = &buffers;
            builder.rms_norm(weight, [input, &output], width, epsilon, store, of)
        })?;
        let mut expected = Vec::new();
        for row in rows {
            let normed = normed(
                &wide(&input[row * width..][..width]),
                &wide(&weight),
                epsilon,
            );
            let before = before[row * width..][..width].iter();
            expected.extend(normed.iter().zip(before).map(|(x, before)| match store {
                NormStore::Plain => (*x, BOUND),
                NormStore::Add => (x + f64::from(*before), BOUND),
            }));
        }
        let case = format!("{case}, width {width}");
        let outcome = outcome(lab, &experiment, 0, width)?;
        outcome.compare(&case, &expected)?;
        if lab.kernels.reproducible
            && let Some(all) = &all
        {
            outcome.same_bits(&case, all, rows[0], width)?;
        }
        all = Some(outcome);
    }
    Ok(())
}

pub(super) fn bias(lab: &Lab, store: NormStore) -> Result<(), Failure> {
    let mut numbers = Numbers(5);
    let (width, rows) = (270, 3);
    let (bias, input) = (numbers.take(width), numbers.take(rows * width));
    let before = numbers.take(rows * width);
    let output = lab.padded(&before, width)?;
    let buffers = [lab.padded(&bias, width)?, lab.padded(&input, width)?];
    let step = [sequence(0, rows, &[0])];
    let experiment = lab.experiment(&step, vec![output.clone()], |builder, _| {
        let [bias, input] = &buffers;
        builder.add_bias(bias, [input, &output], width, store)
    })?;
    let sum = |index: usize| {
        let sum = f64::from(input[index]) + f64::from(bias[index % width]);
        match store {
            NormStore::Plain => (sum, BOUND),
            NormStore::Add => (sum + f64::from(before[index]), BOUND),
        }
    };
    let expected: Vec<_> = (0..rows * width).map(sum).collect();
    outcome(lab, &experiment, 0, width)?.compare("biases", &expected)
}

pub(super) fn softcap(lab: &Lab) -> Result<(), Failure> {
    let mut numbers = Numbers(6);
    let (vocabulary, cap) = (270, 5.0);
    // Far beyond the cap too, where some drivers' tanh overflows.
    let logits: Vec<f32> = numbers.take(2 * vocabulary);
    let logits: Vec<f32> = logits.iter().map(|x| x * x * x * 2000.0).collect();
    let buffer = lab.padded(&logits, vocabulary)?;
    let experiment = lab.experiment(&sampled_rows(), vec![buffer.clone()], |builder, _| {
        builder.softcap(&buffer, vocabulary, cap)
    })?;
    let capped = |logit: &f32| (cap * (f64::from(*logit) / cap).tanh(), BOUND);
    let expected: Vec<_> = logits.iter().map(capped).collect();
    outcome(lab, &experiment, 0, vocabulary)?.compare("capped logits", &expected)
}

/// Rows on both sides of a block's end: plain heads, then with biases and norms and a part of their elements turned. Of fewer
/// elements than a workgroup takes at once, and of as many. Of a reproducible set the second row has the same bits alone.
pub(super) fn heads(lab: &Lab, kv: KvPrecision) -> Result<(), Failure> {
    for dim in [20, 128, 256] {
        let plain = HeadShape {
            kv,
            ..HeadShape::plain(5, 2, dim, 3)
        };
        let full = HeadShape {
            rope: 12,
            norm_epsilon: Some(1e-5),
            bias: true,
            ..plain
        };
        for (case, shape) in [("plain heads", plain), ("heads", full)] {
            heads_of_shape(lab, &format!("{case} of {dim}"), shape)?;
        }
    }
    Ok(())
}

fn heads_of_shape(lab: &Lab, case: &str, shape: HeadShape) -> Result<(), Failure> {
    let mut numbers = Numbers(4);
    let (half, count, dim) = (shape.rope / 2, shape.heads + 2 * shape.kv_heads, shape.dim);
    let qkv = numbers.take_full(2 * count * dim);
    let angles: Vec<[f32; 2]> = (0..shape.context * half)
        .map(|_| [numbers.full(), numbers.full()])
        .collect();
    // Biases of all heads, then both norms; only what the shape has is there.
    let extras = numbers.take_full((count + 2) * dim);
    let used = if shape.bias { &extras[..] } else { &[0.0] };
    let table = [2, 0];
    let experiment = lab.heads(
        shape,
        &angles,
        used,
        &qkv,
        &[sequence(BLOCK - 1, 2, &table)],
    )?;

    let place = |position: usize| table[position / BLOCK] as usize * BLOCK + position % BLOCK;
    let cache = shape.blocks * BLOCK * shape.kv_heads * dim;
    let mut expected = [Vec::new(), vec![(0.0, 0.0); cache], vec![(0.0, 0.0); cache]];
    for row in 0..2 {
        let position = BLOCK - 1 + row;
        for head in 0..count {
            let x = wide(&qkv[(row * count + head) * dim..][..dim]);
            let x = turned(shape, &wide(&extras), head, x, &angles[position * half..]);
            let greatest = x.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            let stored = |x: &f64| match shape.kv {
                KvPrecision::F32 => (*x, BOUND),
                KvPrecision::F16 => (*x, 1e-3 * (1.0 + x.abs())),
                // Half a step, and what is not exact about the element and its scale.
                KvPrecision::Int8 => (*x, 0.5 * greatest / 127.0 + BOUND),
            };
            if head < shape.heads {
                expected[0].extend(x.iter().map(|x| (*x, BOUND)));
            } else {
                let of = (head - shape.heads) / shape.kv_heads;
                let at = place(position) * shape.kv_heads + (head - shape.heads) % shape.kv_heads;
                for (to, x) in expected[1 + of][at * dim..].iter_mut().zip(&x) {
                    *to = stored(x);
                }
            }
        }
    }
    let together = written(lab, &experiment, shape)?;
    for ((kind, outcome), expected) in together.iter().zip(&expected) {
        outcome.compare(&format!("{case}, {kind}"), expected)?;
    }
    if !lab.kernels.reproducible {
        return Ok(());
    }
    let step = [sequence(BLOCK, 1, &table)];
    let experiment = lab.heads(shape, &angles, used, &qkv[count * dim..], &step)?;
    let at = place(BLOCK) * shape.kv_heads * dim;
    let rows = [shape.heads * dim, at, at];
    for (((kind, mut alone), (_, together)), first) in written(lab, &experiment, shape)?
        .into_iter()
        .zip(&together)
        .zip(rows)
    {
        if kind != "queries" {
            // Where the first row is put there is nothing now.
            alone.found = alone.found[first..][..shape.kv_heads * dim].to_vec();
        }
        alone.same_bits(
            &format!("{case}, {kind} of a row alone"),
            together,
            first,
            1,
        )?;
    }
    Ok(())
}

/// Queries, keys and values that an experiment with heads writes.
pub(super) fn written(
    lab: &Lab,
    experiment: &Experiment,
    shape: HeadShape,
) -> Result<[(&'static str, CaseRun); 3], Failure> {
    let queries = outcome(lab, experiment, 0, shape.dim)?;
    let cached = |index| -> Result<CaseRun, LoadError> {
        Ok(CaseRun {
            kernel: queries.kernel.clone(),
            found: lab.cache_of(experiment, index, shape)?,
        })
    };
    let (keys, values) = (cached(1)?, cached(2)?);
    Ok([("queries", queries), ("keys", keys), ("values", values)])
}

/// A head with its bias, normed and turned, as far as the shape says.
pub(super) fn turned(
    shape: HeadShape,
    extras: &[f64],
    head: usize,
    mut x: Vec<f64>,
    angles: &[[f32; 2]],
) -> Vec<f64> {
    let (dim, half) = (shape.dim, shape.rope / 2);
    let count = shape.heads + 2 * shape.kv_heads;
    if shape.bias {
        let bias = &extras[head * dim..];
        x.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
    if head >= shape.heads + shape.kv_heads {
        return x;
    }
    if let Some(epsilon) = shape.norm_epsilon {
        let norm = count + usize::from(head >= shape.heads);
        x = normed(&x, &extras[norm * dim..][..dim], epsilon);
    }
    for (i, [cos, sin]) in angles.iter().take(half).enumerate() {
        let [cos, sin] = [cos, sin].map(|x| f64::from(*x));
        let (a, b) = (x[i], x[i + half]);
        (x[i], x[i + half]) = (a * cos - b * sin, b * cos + a * sin);
    }
    x
}
