//! From logits to a token, on the CPU.

/// How many of the likeliest tokens are looked at first for `top_p`.
const FIRST_CANDIDATES: usize = 64;

/// Chooses a token from `logits`, `[vocabulary]`.
///
/// The likeliest one if `temperature` is 0 (or no positive number), of equals the lowest id. Otherwise one by chance
/// among the fewest likeliest tokens whose probabilities sum up to `top_p` (above 1, or no number: all; 0: the
/// likeliest). Chance depends on nothing but `seed` and `index`, the token's place in the answer. A logit that is no
/// number counts as impossible; `None` if all are.
pub(super) fn sample(
    logits: &[f32],
    temperature: f32,
    top_p: f32,
    seed: u64,
    index: u32,
) -> Option<u32> {
    let best = likeliest(logits)?;
    let greatest = logits[best];
    if temperature.is_nan() || temperature <= 0.0 || greatest == f32::INFINITY || top_p <= 0.0 {
        return Some(best as u32);
    }
    let scale = 1.0 / f64::from(temperature);
    let weight = |logit: f32| {
        if logit.is_nan() {
            0.0
        } else {
            (f64::from(logit - greatest) * scale).exp()
        }
    };
    let weights: Vec<f64> = logits.iter().map(|logit| weight(*logit)).collect();
    let total: f64 = weights.iter().sum();
    let chance = uniform(seed, index);
    if top_p >= 1.0 || top_p.is_nan() {
        return Some(
            pick(weights.iter().copied().enumerate(), chance * total).unwrap_or(best) as u32,
        );
    }
    let (nucleus, mass) = nucleus(&weights, total * f64::from(top_p));
    Some(pick(nucleus.iter().map(|id| (*id, weights[*id])), chance * mass).unwrap_or(best) as u32)
}

/// The index of the greatest number, the first of equals.
fn likeliest(logits: &[f32]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, logit) in logits.iter().enumerate() {
        let better = best.is_none_or(|best| *logit > logits[best]);
        if better && !logit.is_nan() && *logit != f32::NEG_INFINITY {
            best = Some(index);
        }
    }
    best
}

/// The fewest likeliest ids whose weights reach `wanted`, likeliest first, and the sum of their weights.
fn nucleus(weights: &[f64], wanted: f64) -> (Vec<usize>, f64) {
    let likelier = |a: &usize, b: &usize| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b));
    let mut ids: Vec<usize> = (0..weights.len()).collect();
    let mut count = FIRST_CANDIDATES;
    loop {
        let count_now = count.min(ids.len());
        if count_now < ids.len() {
            ids.select_nth_unstable_by(count_now - 1, likelier);
        }
        let candidates = &mut ids[..count_now];
        candidates.sort_unstable_by(likelier);
        let mut mass = 0.0;
        for (taken, id) in candidates.iter().enumerate() {
            mass += weights[*id];
            if mass >= wanted {
                return (candidates[..=taken].to_vec(), mass);
            }
        }
        if count_now == ids.len() {
            return (ids, mass);
        }
        count *= 8;
    }
}

/// The id at which the running sum of weights passes `target`; the last possible one if rounding keeps it below.
fn pick(weighted: impl Iterator<Item = (usize, f64)>, target: f64) -> Option<usize> {
    let mut sum = 0.0;
    let mut last = None;
    for (id, weight) in weighted {
        if weight > 0.0 {
            sum += weight;
            last = Some(id);
            if sum > target {
                break;
            }
        }
    }
    last
}

/// A number in `[0, 1)` that depends on the seed and the place only. Source of the mixing: Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators" (SplitMix64).
fn uniform(seed: u64, index: u32) -> f64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let place = u64::from(index)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = mix(mix(seed).wrapping_add(place));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greedy_takes_the_greatest_and_of_equals_the_first() {
        assert_eq!(sample(&[0.0, 2.0, 2.0, 1.0], 0.0, 1.0, 1, 0), Some(1));
        assert_eq!(sample(&[f32::NAN, -1.0, f32::NAN], 0.0, 1.0, 1, 0), Some(1));
        assert_eq!(
            sample(&[f32::NEG_INFINITY, f32::INFINITY], 1.0, 0.5, 1, 0),
            Some(1)
        );
    }

    #[test]
    fn logits_without_a_number_have_no_token() {
        assert_eq!(sample(&[], 0.0, 1.0, 1, 0), None);
        assert_eq!(sample(&[f32::NAN, f32::NEG_INFINITY], 1.0, 1.0, 1, 0), None);
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        // Probabilities 1/2, 1/3, 1/6.
        let logits = [3f32.ln(), 2f32.ln(), 0.0, f32::NAN];
        let mut counts = [0u32; 4];
        for seed in 0..6000 {
            counts[sample(&logits, 1.0, 1.0, seed, 7).unwrap() as usize] += 1;
        }
        // Three standard deviations of 6000 draws are below 120.
        for (count, wanted) in counts.into_iter().zip([3000i64, 2000, 1000, 0]) {
            assert!((i64::from(count) - wanted).abs() < 120, "{counts:?}");
        }
    }

    #[test]
    fn top_p_keeps_the_fewest_likeliest_tokens() {
        let logits = [3f32.ln(), 2f32.ln(), 0.0];
        for seed in 0..500 {
            assert_eq!(sample(&logits, 1.0, 0.49, seed, 0), Some(0));
            assert!(sample(&logits, 1.0, 0.51, seed, 0) < Some(2));
        }
        assert!((0..500).any(|seed| sample(&logits, 1.0, 0.51, seed, 0) == Some(1)));
        assert!((0..500).any(|seed| sample(&logits, 1.0, 0.9, seed, 0) == Some(2)));
        assert_eq!(sample(&logits, 1.0, 0.0, 3, 0), Some(0));
    }

    #[test]
    fn neighbouring_seeds_and_places_are_independent() {
        let mut sum = 0.0;
        for n in 0..1000u32 {
            sum += (uniform(u64::from(n), 0) - 0.5) * (uniform(u64::from(n) + 1, 0) - 0.5);
            sum += (uniform(9, n) - 0.5) * (uniform(9, n + 1) - 0.5);
        }
        // Correlation of 2000 pairs, variance 1/144 each: five standard deviations.
        assert!(
            sum.abs() < 5.0 * (2000.0f64 / 144.0 / 144.0).sqrt() * 12.0f64.sqrt(),
            "{sum}"
        );
    }

    proptest! {
        #[test]
        fn any_logits_and_parameters_give_a_possible_token(
            logits in proptest::collection::vec(prop_oneof![
                -50f32..50.0, Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY)], 0..300),
            temperature in prop_oneof![0f32..3.0, Just(f32::NAN), Just(-1.0), Just(f32::INFINITY), Just(1e-30)],
            top_p in prop_oneof![0f32..1.2, Just(f32::NAN), Just(-1.0)],
            seed in any::<u64>(), index in any::<u32>(),
        ) {
            let possible = |logit: &f32| !logit.is_nan() && *logit != f32::NEG_INFINITY;
            match sample(&logits, temperature, top_p, seed, index) {
                Some(token) => prop_assert!(possible(&logits[token as usize])),
                None => prop_assert!(!logits.iter().any(possible)),
            }
        }

        #[test]
        fn a_small_nucleus_is_that_of_a_full_sort(
            logits in proptest::collection::vec(-4f32..4.0, 1..700), top_p in 0.01f32..0.99,
        ) {
            let weights: Vec<f64> = logits.iter().map(|l| f64::from(*l).exp()).collect();
            let wanted = weights.iter().sum::<f64>() * f64::from(top_p);
            let mut sorted: Vec<usize> = (0..weights.len()).collect();
            sorted.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b)));
            let mut mass = 0.0;
            let fewest = sorted.iter().position(|id| { mass += weights[*id]; mass >= wanted }).unwrap();
            prop_assert_eq!(nucleus(&weights, wanted).0, sorted[..=fewest].to_vec());
        }
    }
}
