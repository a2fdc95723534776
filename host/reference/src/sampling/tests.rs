use std::sync::Arc;

use proptest::prelude::*;
use tidegate_contract::Adjustment;

use super::*;

fn warm() -> Sampling {
    Sampling {
        temperature: 1.0,
        ..Sampling::default()
    }
}

fn token(logits: &[f32], sampling: &Sampling) -> Option<u32> {
    draw(logits, sampling).token
}

/// Which tokens come over many seeds.
fn drawn(logits: &[f32], sampling: &Sampling) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..400)
        .filter_map(|seed| {
            let sampling = Sampling {
                seed,
                ..sampling.clone()
            };
            token(logits, &sampling)
        })
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

#[test]
fn greedy_takes_the_greatest_and_of_equals_the_first() {
    let greedy = Sampling::default();
    assert_eq!(token(&[0.0, 2.0, 2.0, 1.0], &greedy), Some(1));
    assert_eq!(token(&[f32::NAN, -1.0, f32::NAN], &greedy), Some(1));
    assert_eq!(token(&[-0.0, 0.0], &greedy), Some(0));
    assert_eq!(token(&[f32::MAX, f32::INFINITY], &greedy), Some(0));
    assert_eq!(token(&[1.0, f32::INFINITY], &warm()), Some(1));
}

#[test]
fn logits_without_a_number_have_no_token() {
    for sampling in [Sampling::default(), warm()] {
        assert_eq!(token(&[], &sampling), None);
        assert_eq!(token(&[f32::NAN, f32::NEG_INFINITY], &sampling), None);
        let allowed = Some(Arc::from([0u32]));
        let masked = Sampling {
            allowed,
            logprobs: Some(2),
            ..sampling
        };
        assert_eq!(draw(&[1.0, 2.0], &masked), Sampled::default());
    }
}

#[test]
fn frequencies_follow_the_probabilities() {
    // Probabilities 1/2, 1/3, 1/6 at temperature 1; 9/14, 4/14, 1/14 at 1/2.
    let logits = [3f32.ln(), 2f32.ln(), 0.0, f32::NAN];
    for (temperature, parts) in [(1.0, [3.0, 2.0, 1.0, 0.0]), (0.5, [9.0, 4.0, 1.0, 0.0])] {
        let total: f64 = parts.iter().sum();
        let draws = 20_000u32;
        let mut counts = [0u32; 4];
        for n in 0..draws {
            // Half by seeds, half by places.
            let (seed, index) = if n % 2 == 0 {
                (u64::from(n), 7)
            } else {
                (7, n)
            };
            let sampling = Sampling {
                temperature,
                seed,
                index,
                ..Sampling::default()
            };
            counts[token(&logits, &sampling).unwrap() as usize] += 1;
        }
        let mut chi_square = 0.0;
        for (count, part) in counts.into_iter().zip(parts) {
            let wanted = part / total * f64::from(draws);
            if part > 0.0 {
                chi_square += (f64::from(count) - wanted).powi(2) / wanted;
            } else {
                assert_eq!(count, 0);
            }
        }
        // Two degrees of freedom: above 13.8 once in a thousand.
        assert!(chi_square < 13.8, "{counts:?} at {temperature}");
    }
}

#[test]
fn noise_of_neighbouring_tokens_places_and_seeds_is_independent() {
    let correlation = |pair: &dyn Fn(u32) -> (f64, f64)| {
        let pairs: Vec<(f64, f64)> = (0..4000).map(pair).collect();
        let mean = 0.577_215_664_901_532_9;
        let product: f64 = pairs.iter().map(|(a, b)| (a - mean) * (b - mean)).sum();
        product / 4000.0 / (std::f64::consts::PI.powi(2) / 6.0)
    };
    let pairs: [&dyn Fn(u32) -> (f64, f64); 4] = [
        &|n| (gumbel(5, 3, n), gumbel(5, 3, n + 1)),
        &|n| (gumbel(5, n, 9), gumbel(5, n + 1, 9)),
        &|n| (gumbel(n.into(), 3, 9), gumbel(u64::from(n) + 1, 3, 9)),
        &|n| (gumbel(n.into(), 3, 9), gumbel(u64::from(n) << 32, 3, 9)),
    ];
    for (which, pair) in pairs.into_iter().enumerate() {
        // Five standard deviations of 1 / sqrt(4000).
        let found = correlation(pair);
        assert!(found.abs() < 0.08, "{found} of pairs {which}");
    }
}

#[test]
fn top_k_keeps_the_likeliest_and_equals_at_the_border() {
    let logits = [0.5, 1.0, f32::NAN, 0.5, 0.0, 0.2];
    for (top_k, kept) in [
        (1, vec![1]),
        (2, vec![0, 1, 3]),
        (3, vec![0, 1, 3]),
        (4, vec![0, 1, 3, 5]),
        (5, vec![0, 1, 3, 4, 5]),
        (900, vec![0, 1, 3, 4, 5]),
        (0, vec![0, 1, 3, 4, 5]),
    ] {
        let sampling = Sampling { top_k, ..warm() };
        assert_eq!(drawn(&logits, &sampling), kept, "top_k {top_k}");
    }
}

#[test]
fn top_p_keeps_the_fewest_that_reach_it() {
    // Probabilities 1/2, 1/3, 1/12, 1/12.
    let logits = [6f32.ln(), 4f32.ln(), 0.0, 0.0];
    for (top_p, kept) in [
        (1e-6, vec![0]),
        (0.49, vec![0]),
        (0.51, vec![0, 1]),
        (0.83, vec![0, 1]),
        (0.84, vec![0, 1, 2, 3]),
        (1.0, vec![0, 1, 2, 3]),
    ] {
        let sampling = Sampling { top_p, ..warm() };
        assert_eq!(drawn(&logits, &sampling), kept, "top_p {top_p}");
    }
    // Among the two that top_k leaves the first has 6/10.
    let both = Sampling {
        top_k: 2,
        top_p: 0.59,
        ..warm()
    };
    assert_eq!(drawn(&logits, &both), [0]);
    // At temperature 1/2 it has 36/54.
    let cold = Sampling {
        temperature: 0.5,
        top_p: 0.66,
        ..warm()
    };
    assert_eq!(drawn(&logits, &cold), [0]);
}

#[test]
fn min_p_keeps_what_is_likely_enough_beside_the_likeliest() {
    let logits = [1.0, 1.0 + 0.5f32.ln(), 1.0 + 0.2f32.ln()];
    for (min_p, kept) in [
        (0.6, vec![0]),
        (0.4, vec![0, 1]),
        (0.1, vec![0, 1, 2]),
        (0.0, vec![0, 1, 2]),
    ] {
        let sampling = Sampling { min_p, ..warm() };
        assert_eq!(drawn(&logits, &sampling), kept, "min_p {min_p}");
    }
}

#[test]
fn penalties_bias_and_mask_are_applied_in_their_order() {
    let adjustment = |token, count, seen, bias| Adjustment {
        token,
        count,
        seen,
        bias,
    };
    let sampling = Sampling {
        repetition: 2.0,
        frequency: 0.25,
        presence: 0.5,
        adjustments: vec![
            adjustment(0, 0, true, 0.0),
            adjustment(1, 3, true, 0.0),
            adjustment(2, 0, false, 1.5),
            adjustment(3, 1, true, -1.0),
            adjustment(5, 0, true, 9.0),
        ],
        allowed: Some(Arc::from([0b0101_1111u32])),
        ..Sampling::default()
    };
    let logits = [4.0, -4.0, 1.0, 3.0, 0.75, f32::NEG_INFINITY, -1.0, 99.0];
    let expected = [
        2.0,
        -8.0 - 0.75 - 0.5,
        2.5,
        1.5 - 0.25 - 0.5 - 1.0,
        0.75,
        f64::NEG_INFINITY,
        -1.0,
        f64::NEG_INFINITY,
    ];
    assert_eq!(adjusted(&logits, &sampling), expected);
    assert_eq!(token(&logits, &sampling), Some(2));
}

#[test]
fn log_probabilities_are_of_the_adjusted_logits_before_temperature() {
    let sampling = Sampling {
        temperature: 0.01,
        top_k: 1,
        logprobs: Some(3),
        adjustments: vec![Adjustment {
            token: 2,
            count: 0,
            seen: false,
            bias: 2f32.ln(),
        }],
        allowed: Some(Arc::from([0b1111u32])),
        ..Sampling::default()
    };
    // Probabilities 2/8, 1/8, 4/8, 1/8; the fifth is masked.
    let sampled = draw(&[2f32.ln(), 0.0, 2f32.ln(), 0.0, 7.0], &sampling);
    assert_eq!(sampled.token, Some(2));
    let close = |found: f32, probability: f64| (f64::from(found) - probability.ln()).abs() < 1e-6;
    assert!(close(sampled.logprob, 0.5));
    let ids: Vec<u32> = sampled.top.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [2, 0, 1], "of equals the lowest first");
    for ((_, found), wanted) in sampled.top.into_iter().zip([0.5, 0.25, 0.125]) {
        assert!(close(found, wanted), "{found}");
    }
}

proptest! {
    #[test]
    fn any_logits_and_parameters_give_a_possible_token(
        logits in proptest::collection::vec(prop_oneof![
            4 => -50f32..50.0, 1 => Just(f32::NAN), 1 => Just(f32::INFINITY), 1 => Just(f32::NEG_INFINITY),
            1 => Just(f32::MAX), 1 => Just(f32::MIN)], 0..300),
        temperature in prop_oneof![0f32..3.0, Just(f32::MAX), Just(1e-30), Just(f32::from_bits(1))],
        top_k in 0u32..400, top_p in 1e-9f32..=1.0, min_p in 0f32..1.0,
        seed in any::<u64>(), index in any::<u32>(),
    ) {
        let sampling = Sampling { temperature, top_k, top_p, min_p, seed, index, logprobs: Some(20), ..Sampling::default() };
        let possible = |logit: &f32| !logit.is_nan() && *logit != f32::NEG_INFINITY;
        let count = logits.iter().filter(|logit| possible(logit)).count();
        let sampled = draw(&logits, &sampling);
        match sampled.token {
            Some(token) => prop_assert!(possible(&logits[token as usize])),
            None => prop_assert_eq!(count, 0),
        }
        prop_assert_eq!(sampled.top.len(), count.min(20));
        prop_assert!(sampled.top.is_sorted_by(|a, b| a.1 >= b.1));
    }

    #[test]
    fn probabilities_sum_to_one(logits in proptest::collection::vec(-30f32..30.0, 1..200)) {
        let total: f64 = logprobs(&adjusted(&logits, &Sampling::default())).into_iter().map(f64::exp).sum();
        prop_assert!((total - 1.0).abs() < 1e-12);
    }
}
