//! Samplings as the kernels take them.

use tidegate_contract::Sampling;

/// Words of a row: `Row` in `shaders/sampling/sampling.wgsl`.
pub(super) const ROW: usize = 16;

/// Least temperature that a draw tells from another: below, all but the greatest logits are impossible at any rate.
const LEAST_TEMPERATURE: f64 = 1e-35;

/// Greatest temperature that a draw tells from another: the inverse of a greater one is no normal f32.
const GREATEST_TEMPERATURE: f64 = 1e37;

/// Farther below the greatest scaled logit than this a probability is less than f32 holds.
const REACH: f64 = 88.0;

/// A sampling as a row; `mask` is 0 for none, or counts them from 1.
pub(super) fn row_words(sampling: &Sampling, mask: u32) -> [u32; ROW] {
    let bounded = |value: f64| value.min(f64::from(f32::MAX)) as f32;
    let [inverse, reach, distance] = if sampling.temperature > 0.0 {
        let temperature =
            f64::from(sampling.temperature).clamp(LEAST_TEMPERATURE, GREATEST_TEMPERATURE);
        let distance = -temperature * f64::from(sampling.min_p).ln();
        [1.0 / temperature, REACH * temperature, distance].map(bounded)
    } else {
        [0.0; 3]
    };
    [
        sampling.top_k,
        sampling.top_p.to_bits(),
        inverse.to_bits(),
        reach.to_bits(),
        distance.to_bits(),
        sampling.seed as u32,
        (sampling.seed >> 32) as u32,
        sampling.index,
        sampling.logprobs.map_or(0, |count| 1 + u32::from(count)),
        mask,
        sampling.repetition.to_bits(),
        bounded(1.0 / f64::from(sampling.repetition)).to_bits(),
        sampling.presence.to_bits(),
        sampling.frequency.to_bits(),
        0,
        0,
    ]
}

/// Appends the adjustments that change a logit, four words each, as `shaders/sampling/sample_adjust.wgsl` takes them. `first`
/// is the index of the row's first logit.
pub(super) fn adjustment_words(sampling: &Sampling, first: u32, row: u32, words: &mut Vec<u32>) {
    let penalised = sampling.frequency != 0.0 || sampling.presence != 0.0;
    for adjustment in &sampling.adjustments {
        let repeated = adjustment.seen && sampling.repetition != 1.0;
        let counted = adjustment.count > 0 && penalised;
        if !repeated && !counted && adjustment.bias == 0.0 {
            continue;
        }
        let count = adjustment.count.min(u32::MAX >> 1);
        words.extend([
            first + adjustment.token,
            row,
            count << 1 | u32::from(adjustment.seen),
            adjustment.bias.to_bits(),
        ]);
    }
}
