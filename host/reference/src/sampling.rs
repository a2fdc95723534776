//! The draw of a token from logits, in float64, word by word as [`Sampling`] defines it.
//!
//! A logit that is no number is impossible, as one of minus infinity is; one of plus infinity counts as the greatest finite
//! f32.

mod philox;

use std::cmp::Ordering;

use tidegate_contract::{Sampled, Sampling};

pub use philox::philox;

/// Draws a token from `logits`, `[vocabulary]`.
#[must_use]
pub fn draw(logits: &[f32], sampling: &Sampling) -> Sampled {
    let adjusted = adjusted(logits, sampling);
    let Some(likeliest) = greatest(adjusted.iter().copied()) else {
        return Sampled::default();
    };
    let token = if sampling.temperature > 0.0 {
        let scores = scores(&adjusted, sampling);
        greatest(scores.into_iter()).unwrap_or(likeliest)
    } else {
        likeliest
    };
    let mut sampled = Sampled {
        token: Some(token as u32),
        ..Sampled::default()
    };
    if let Some(count) = sampling.logprobs {
        let logprobs = logprobs(&adjusted);
        sampled.logprob = logprobs[token] as f32;
        sampled.top = ranked(&adjusted)
            .into_iter()
            .take(usize::from(count))
            .map(|token| (token as u32, logprobs[token] as f32))
            .collect();
    }
    sampled
}

/// Logits after penalties, bias and mask, `[vocabulary]`; minus infinity where a token is impossible.
#[must_use]
pub fn adjusted(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let mut adjusted: Vec<f64> = logits.iter().map(|logit| number(*logit)).collect();
    for adjustment in &sampling.adjustments {
        let Some(logit) = adjusted.get_mut(adjustment.token as usize) else {
            continue;
        };
        if adjustment.seen {
            let repetition = f64::from(sampling.repetition);
            *logit = if *logit > 0.0 {
                *logit / repetition
            } else {
                *logit * repetition
            };
        }
        *logit -= f64::from(sampling.frequency) * f64::from(adjustment.count);
        if adjustment.count > 0 {
            *logit -= f64::from(sampling.presence);
        }
        *logit += f64::from(adjustment.bias);
    }
    if let Some(allowed) = &sampling.allowed {
        for (token, logit) in adjusted.iter_mut().enumerate() {
            let word = allowed.get(token / 32).copied().unwrap_or(0);
            if word >> (token % 32) & 1 == 0 {
                *logit = f64::NEG_INFINITY;
            }
        }
    }
    adjusted
}

/// What the draw compares, `[vocabulary]`: `(logit - greatest) / temperature` and the token's Gumbel noise, for tokens that
/// `top_k`, `top_p` and `min_p` leave; minus infinity for others. `adjusted` is that of [`adjusted`]; the temperature is
/// above 0.
#[must_use]
pub fn scores(adjusted: &[f64], sampling: &Sampling) -> Vec<f64> {
    let scaled = scaled(adjusted, sampling.temperature);
    let least = least_kept(&scaled, sampling);
    let score = |(token, logit): (usize, &f64)| {
        if *logit >= least && *logit > f64::NEG_INFINITY {
            logit + gumbel(sampling.seed, sampling.index, token as u32)
        } else {
            f64::NEG_INFINITY
        }
    };
    scaled.iter().enumerate().map(score).collect()
}

/// Natural log-probabilities of logits, `[vocabulary]`.
#[must_use]
pub fn logprobs(adjusted: &[f64]) -> Vec<f64> {
    let relative = scaled(adjusted, 1.0);
    let total: f64 = relative.iter().map(|logit| logit.exp()).sum();
    relative.iter().map(|logit| logit - total.ln()).collect()
}

/// Gumbel noise of a token: `-ln(-ln u)`, `u` from Philox as [`Sampling`] says.
#[must_use]
pub fn gumbel(seed: u64, index: u32, token: u32) -> f64 {
    let key = [seed as u32, (seed >> 32) as u32];
    let word = philox([token / 4, index, 0, 0], key)[token as usize % 4];
    let uniform = (f64::from(word >> 9) + 0.5) / f64::from(1u32 << 23);
    -(-uniform.ln()).ln()
}

/// Possible tokens, likeliest first, of equals the lowest id first.
fn ranked(adjusted: &[f64]) -> Vec<usize> {
    let mut tokens: Vec<usize> = (0..adjusted.len())
        .filter(|token| adjusted[*token] > f64::NEG_INFINITY)
        .collect();
    tokens.sort_by(|a, b| adjusted[*b].total_cmp(&adjusted[*a]).then(a.cmp(b)));
    tokens
}

/// A logit as a number that can be compared; minus infinity where it is impossible.
fn number(logit: f32) -> f64 {
    if logit.is_nan() {
        f64::NEG_INFINITY
    } else {
        // Plus 0, so that no -0 is told from 0 by their order.
        f64::from(logit.min(f32::MAX)) + 0.0
    }
}

/// `(logit - greatest) / temperature`.
fn scaled(adjusted: &[f64], temperature: f32) -> Vec<f64> {
    let greatest = adjusted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = |logit: &f64| {
        if *logit == f64::NEG_INFINITY {
            f64::NEG_INFINITY
        } else {
            (logit - greatest) / f64::from(temperature)
        }
    };
    adjusted.iter().map(scale).collect()
}

/// The least of the scaled logits that `top_k`, then `top_p`, then `min_p` leave.
fn least_kept(scaled: &[f64], sampling: &Sampling) -> f64 {
    let possible = |logit: &f64| *logit > f64::NEG_INFINITY;
    let mut sorted: Vec<f64> = scaled.iter().copied().filter(possible).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut least = f64::NEG_INFINITY;
    if let Some(border) = (sampling.top_k as usize)
        .checked_sub(1)
        .and_then(|last| sorted.get(last))
    {
        least = *border;
        sorted.retain(|logit| *logit >= least);
    }
    if sampling.top_p < 1.0 {
        let total: f64 = sorted.iter().map(|logit| logit.exp()).sum();
        let mut mass = 0.0;
        for logit in &sorted {
            mass += logit.exp();
            if mass >= total * f64::from(sampling.top_p) {
                least = *logit;
                break;
            }
        }
    }
    if sampling.min_p > 0.0 {
        least = least.max(f64::from(sampling.min_p).ln());
    }
    least
}

/// Index of the greatest number, of equals the first; `None` if none is above minus infinity.
fn greatest(numbers: impl Iterator<Item = f64>) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, number) in numbers.enumerate() {
        let least = best.map_or(f64::NEG_INFINITY, |(_, best)| best);
        if number.partial_cmp(&least) == Some(Ordering::Greater) {
            best = Some((index, number));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests;
