//! Kernels as plain loops. Rows lie one after another; `rows` below is the length divided by the width.

use std::ops::Range;

use tidegate_weights::{Activation, ClampedGate};

/// Root mean square norm (Zhang and Sennrich 2019): `x · weight / sqrt(mean(x²) + epsilon)`, row by row. `x` `[rows,
/// width]`, `weight` `[width]`; where a family stores weights around 0, their offset is already in `weight`.
#[must_use]
pub fn rms_norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(weight.len()) {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + epsilon).sqrt();
        out.extend(row.iter().zip(weight).map(|(v, w)| v * scale * w));
    }
    out
}

/// Layer norm (Ba et al. 2016): `(x - mean) / sqrt(variance + epsilon) · weight + bias`, row by row, with the variance of
/// the whole row. `x` `[rows, width]`, `weight` and `bias` `[width]`.
#[must_use]
pub fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], epsilon: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(weight.len()) {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + epsilon).sqrt();
        let parts = row.iter().zip(weight).zip(bias);
        out.extend(parts.map(|((v, w), b)| (v - mean) * scale * w + b));
    }
    out
}

/// `x · weightᵀ`: `x` `[rows, width]`, `weight` `[columns, width]`, result `[rows, columns]`.
#[must_use]
pub fn matmul(x: &[f64], weight: &[f64], width: usize) -> Vec<f64> {
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
    x.chunks_exact(width)
        .flat_map(|row| {
            weight
                .chunks_exact(width)
                .map(move |column| dot(row, column))
        })
        .collect()
}

/// `x + y`, in place; same shapes.
pub fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Adds `bias` `[width]` to every row of `x` `[rows, width]`.
pub fn add_to_rows(x: &mut [f64], bias: &[f64]) {
    x.chunks_exact_mut(bias.len())
        .for_each(|row| add(row, bias));
}

/// Turns the beginning of one head (Su et al. 2021, in the halves' layout of GPT-NeoX and transformers): of the first `2 ·
/// table.len()` elements, element `i` and element `i + table.len()` are a pair that turns by the angle whose cos and sin
/// are `table[i]`. Elements beyond stay. `head` `[head_dim]`.
pub fn rope(head: &mut [f64], table: &[[f64; 2]]) {
    let half = table.len();
    for (i, [cos, sin]) in table.iter().enumerate() {
        let (a, b) = (head[i], head[i + half]);
        head[i] = a * cos - b * sin;
        head[i + half] = b * cos + a * sin;
    }
}

/// The positions that a row sees: those up to its own, or the last `window` of them.
#[must_use]
pub fn visible(position: usize, window: Option<usize>) -> Range<usize> {
    let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
    first..position + 1
}

/// `cap · tanh(x / cap)`, or `x` without a cap.
#[must_use]
pub fn softcap(x: f64, cap: Option<f64>) -> f64 {
    cap.map_or(x, |cap| cap * (x / cap).tanh())
}

/// `exp(x) / sum(exp(x))`, one row, in place. Minus infinity becomes 0.
pub fn softmax(x: &mut [f64]) {
    let highest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    x.iter_mut().for_each(|v| *v = (*v - highest).exp());
    let total: f64 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= total);
}

/// The experts that a row goes through, with their weights: the `chosen` highest of its logits, highest first, of equal ones
/// the first; each with its share of the softmax over all, or over these alone where `normalized` (Shazeer et al. 2017).
#[must_use]
pub fn route(logits: &[f64], chosen: usize, normalized: bool) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    order.truncate(chosen);
    let mut shares: Vec<f64> = match normalized {
        true => order.iter().map(|expert| logits[*expert]).collect(),
        false => logits.to_vec(),
    };
    softmax(&mut shares);
    let share = |(place, expert): (usize, usize)| {
        let share = shares[if normalized { place } else { expert }];
        (expert, share)
    };
    order.into_iter().enumerate().map(share).collect()
}

/// Attention of one head over the positions it sees: `softmax(softcap(scale · query · keys)) · values`; a sink is one more
/// score, whose value is zero (gpt-oss). `query` `[head_dim]`, `keys` and `values` `[positions][head_dim]`, result `[head_dim]`.
#[must_use]
pub fn attention(
    query: &[f64],
    keys: &[&[f64]],
    values: &[&[f64]],
    scale: f64,
    cap: Option<f64>,
    sink: Option<f64>,
) -> Vec<f64> {
    let mut weights: Vec<f64> = keys
        .iter()
        .map(|key| {
            let product = key.iter().zip(query).map(|(k, q)| k * q).sum::<f64>();
            softcap(product * scale, cap)
        })
        .chain(sink)
        .collect();
    softmax(&mut weights);
    let mut out = vec![0.0; query.len()];
    for (weight, value) in weights.iter().zip(values) {
        out.iter_mut()
            .zip(*value)
            .for_each(|(o, v)| *o += weight * v);
    }
    out
}

/// The error function, by the series of positive terms (Abramowitz and Stegun 7.1.6): `2/√π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ /
/// (2n+1)!!`; beyond 6 it is 1 to the last bit of float64.
#[must_use]
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-18 {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// An activation (Hendrycks and Gimpel 2016 for GELU and its tanh form).
#[must_use]
pub fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

/// `activation(gate) · up`, element by element (Shazeer 2020).
#[must_use]
pub fn gated(activation: Activation, gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter()
        .zip(up)
        .map(|(g, u)| activate(activation, *g) * u)
        .collect()
}

/// What gpt-oss's experts have in its place ([`ClampedGate`]), element by element.
#[must_use]
pub fn clamped_gate(of: ClampedGate, gate: &[f64], up: &[f64]) -> Vec<f64> {
    let one = |(gate, up): (&f64, &f64)| {
        let gate = gate.min(of.limit);
        let up = up.clamp(-of.limit, of.limit);
        (up + 1.0) * gate / (1.0 + (-of.slope * gate).exp())
    };
    gate.iter().zip(up).map(one).collect()
}

/// The mean of the rows: `x` `[rows, width]`, result `[width]`.
#[must_use]
pub fn mean_of_rows(x: &[f64], width: usize) -> Vec<f64> {
    let mut mean = vec![0.0; width];
    x.chunks_exact(width).for_each(|row| add(&mut mean, row));
    let rows = (x.len() / width) as f64;
    mean.iter_mut().for_each(|v| *v /= rows);
    mean
}

/// Brings one row to unit length; a shorter length than 1e-12 counts as that (torch's `normalize`).
pub fn normalize(x: &mut [f64]) {
    let length = x.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12);
    x.iter_mut().for_each(|v| *v /= length);
}

#[cfg(test)]
mod tests;
