//! Samplings as the kernels take them.

use tidegate_contract::Sampling;

/// Words of a row: `Row` in `shaders/sampling/sampling.wgsl`.
pub(super) const ROW: usize = 20;

/// Least temperature that a draw tells from another: below, all but the greatest logits are impossible at any rate.
const LEAST_TEMPERATURE: f64 = 1e-35;

/// Greatest temperature that a draw tells from another: the inverse of a greater one is no normal f32.
const GREATEST_TEMPERATURE: f64 = 1e37;

/// Farther below the greatest scaled logit than this a probability is less than f32 holds.
const REACH: f64 = 88.0;

/// Levels in which a search finds one border: two that cut evenly by logits, eight by keys.
const LEVELS: u32 = 10;

/// Levels of the search for what `top_k` and `top_p` leave, one of them for a search that must begin anew; 0 for none.
pub(super) fn levels(sampling: &Sampling, vocabulary: usize) -> u32 {
    let top_k = (1..vocabulary as u32).contains(&sampling.top_k);
    match u32::from(top_k) + u32::from(sampling.top_p < 1.0) {
        borders if sampling.temperature > 0.0 && borders > 0 => 1 + borders * LEVELS,
        _ => 0,
    }
}

/// A sampling as a row; `mask` is 0 for none, or counts them from 1, `levels` as [`levels`] says, `adjustments` as
/// [`super::adjustments::Placed`].
pub(super) fn row_words(
    sampling: &Sampling,
    mask: u32,
    levels: u32,
    adjustments: [u32; 4],
) -> [u32; ROW] {
    let bounded = |value: f64| value.min(f64::from(f32::MAX)) as f32;
    let [inverse, reach, distance] = if sampling.temperature > 0.0 {
        let temperature =
            f64::from(sampling.temperature).clamp(LEAST_TEMPERATURE, GREATEST_TEMPERATURE);
        let distance = -temperature * f64::from(sampling.min_p).ln();
        [1.0 / temperature, REACH * temperature, distance].map(bounded)
    } else {
        [0.0; 3]
    };
    let [first_kept, kept, first_change, changes] = adjustments;
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
        levels,
        sampling.repetition.to_bits(),
        bounded(1.0 / f64::from(sampling.repetition)).to_bits(),
        sampling.presence.to_bits(),
        sampling.frequency.to_bits(),
        first_kept,
        kept,
        first_change,
        changes,
        0,
    ]
}
