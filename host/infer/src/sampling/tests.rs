//! The device's draw against the float64 reference, in both families, with shader checks on and off.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use tidegate_contract::Adjustment;
use tidegate_reference::sampling as reference;

use super::lab::Draws;
use super::*;
use crate::device::{Adapter, DeviceOptions};
use crate::kernels::KernelVariant;

/// Of a score or border, relative to 1 + its size: some 30 units in the last place of f32.
const TOLERANCE: f64 = 4e-6;

/// Logits beyond this are taken for it in differences: those of any two must stay finite.
const MOST: f64 = 1.7e38;

/// A sampler that is given rows with their logits.
struct Bench(Draws);

impl Bench {
    fn new(gpu: &Gpu, variant: KernelVariant, checked: bool, shape: [usize; 2]) -> Bench {
        let kernels = KernelSet::of(variant, true, false);
        Bench(Draws::new(gpu, kernels, checked, shape).unwrap())
    }

    fn try_draw(&mut self, rows: &[(Vec<f32>, Sampling)]) -> Result<Vec<Sampled>, DecodeError> {
        let logits: Vec<f32> = rows
            .iter()
            .flat_map(|(logits, _)| logits)
            .copied()
            .collect();
        let samplings: Vec<&Sampling> = rows.iter().map(|(_, sampling)| sampling).collect();
        self.0.upload(&logits);
        self.0.draw(&samplings)
    }

    fn draw(&mut self, rows: &[(Vec<f32>, Sampling)]) -> Vec<Sampled> {
        self.try_draw(rows).unwrap()
    }
}

/// The device that all tests here share, with the kernels that were compiled on it.
fn gpu() -> Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    let open = || {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        Gpu::open(&adapter, DeviceOptions::default()).unwrap()
    };
    GPU.get_or_init(open).clone()
}

const VARIANTS: [KernelVariant; 2] = [KernelVariant::Software, KernelVariant::Portable];

/// Samplers of every kind over one vocabulary.
fn benches(gpu: &Gpu, vocabulary: usize, max_samples: usize) -> Vec<Bench> {
    let kinds = VARIANTS.map(|variant| [(variant, true), (variant, false)]);
    let bench = |(variant, checked)| Bench::new(gpu, variant, checked, [vocabulary, max_samples]);
    kinds.into_iter().flatten().map(bench).collect()
}

fn warm() -> Sampling {
    Sampling {
        temperature: 1.0,
        ..Sampling::default()
    }
}

/// Rows of the same logits, one for each seed.
fn seeds(
    logits: &[f32],
    sampling: &Sampling,
    seeds: std::ops::Range<u64>,
) -> Vec<(Vec<f32>, Sampling)> {
    let row = |seed| {
        let sampling = Sampling {
            seed,
            ..sampling.clone()
        };
        (logits.to_vec(), sampling)
    };
    seeds.map(row).collect()
}

/// Which tokens come over 256 seeds.
fn drawn(bench: &mut Bench, logits: &[f32], sampling: &Sampling) -> Vec<u32> {
    let rows = seeds(logits, sampling, 0..256);
    let tokens: HashSet<u32> = bench
        .draw(&rows)
        .into_iter()
        .filter_map(|sampled| sampled.token)
        .collect();
    let mut tokens: Vec<u32> = tokens.into_iter().collect();
    tokens.sort_unstable();
    tokens
}

/// Asserts that `found` is what the reference draws, or as good within the tolerance of f32, and says whether it is the
/// very token.
fn check(logits: &[f32], sampling: &Sampling, found: &Sampled) -> bool {
    let expected = reference::draw(logits, sampling);
    let what = || format!("{found:?} instead of {expected:?} for {sampling:?}");
    assert_eq!(
        found.token.is_some(),
        expected.token.is_some(),
        "{}",
        what()
    );
    let (Some(token), Some(wanted)) = (found.token, expected.token) else {
        return true;
    };
    let bounded = |logit: f64| {
        if logit == f64::NEG_INFINITY {
            logit
        } else {
            logit.clamp(-MOST, MOST)
        }
    };
    let adjusted = reference::adjusted(logits, sampling);
    let adjusted: Vec<f64> = adjusted.into_iter().map(bounded).collect();
    // Differences of logits are as exact as the logits: those given are, those that penalties have changed are rounded.
    let greatest = adjusted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rounded = |token: u32| {
        if sampling.adjustments.is_empty() {
            0.0
        } else {
            greatest.abs().max(adjusted[token as usize].abs())
        }
    };
    let near = |a: f64, b: f64, size: f64| {
        (a - b).abs() <= TOLERANCE * (1.0 + a.abs().max(b.abs()) + size)
    };
    if token != wanted {
        let size = rounded(token).max(rounded(wanted));
        let best = if sampling.temperature == 0.0 {
            near(adjusted[token as usize], adjusted[wanted as usize], size)
        } else {
            let size = size / f64::from(sampling.temperature);
            // Borders may be off by as much as the sums of masses are.
            [0.0, -1.0, 1.0].into_iter().any(|direction| {
                let scaled = |value: f32| {
                    let change = (TOLERANCE * (1.0 + size)).min(0.5);
                    (f64::from(value) * (1.0 + direction * change)) as f32
                };
                let other = Sampling {
                    top_p: if sampling.top_p < 1.0 {
                        scaled(sampling.top_p)
                    } else {
                        1.0
                    },
                    min_p: scaled(sampling.min_p),
                    ..sampling.clone()
                };
                let scores = reference::scores(&adjusted, &other);
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                near(scores[token as usize], most, size)
            })
        };
        assert!(best, "{}", what());
    }
    if let Some(count) = sampling.logprobs {
        let logprobs = reference::logprobs(&adjusted);
        let close = |token: u32, found: f32| {
            near(f64::from(found), logprobs[token as usize], rounded(token))
        };
        assert!(close(token, found.logprob), "{}", what());
        assert_eq!(found.top.len(), expected.top.len(), "{}", what());
        assert!(found.top.len() <= usize::from(count));
        for ((token, logprob), (wanted, _)) in found.top.iter().zip(&expected.top) {
            assert!(close(*token, *logprob), "{}", what());
            let size = rounded(*token);
            let equal = near(adjusted[*token as usize], adjusted[*wanted as usize], size);
            assert!(equal, "{}", what());
        }
    } else {
        assert!(found.top.is_empty());
    }
    token == wanted
}

/// Logits as models make them, and as they never should.
fn logits(vocabulary: usize) -> impl Strategy<Value = Vec<f32>> {
    (any::<u64>(), 0..6usize, 0.05f32..12.0).prop_map(move |(seed, kind, spread)| {
        let mut state = seed | 1;
        let mut unit = || {
            // xorshift64*, Vigna 2016.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as f32 / (1 << 24) as f32
        };
        (0..vocabulary)
            .map(|_| {
                let normal = ((0..6).map(|_| unit()).sum::<f32>() - 3.0) * 1.4 * spread;
                let dice = unit();
                match kind {
                    0 => normal.round(),
                    1 if dice < 0.2 => f32::NEG_INFINITY,
                    1 if dice < 0.3 => f32::NAN,
                    1 if dice < 0.3002 => f32::INFINITY,
                    1 if dice < 0.31 => -0.0,
                    2 if dice < 0.1 => f32::MIN,
                    2 => normal * 1e30,
                    3 => -normal.abs() - 100.0,
                    4 => 1.25,
                    _ => normal,
                }
            })
            .collect()
    })
}

fn samplings(vocabulary: usize) -> impl Strategy<Value = Sampling> {
    let top_k = prop_oneof![
        Just(0u32),
        Just(1),
        Just(vocabulary as u32),
        Just(u32::MAX),
        1..vocabulary as u32 + 1,
        1..50u32
    ];
    let temperature = prop_oneof![
        Just(0.0f32),
        0.01f32..4.0,
        Just(1.0),
        Just(1e-30),
        Just(f32::from_bits(1)),
        Just(1e37)
    ];
    let top_p = prop_oneof![Just(1.0f32), 0.01f32..1.0, Just(1e-9)];
    let min_p = prop_oneof![Just(0.0f32), 0f32..0.9];
    let penalties = prop_oneof![
        Just([1.0f32, 0.0, 0.0]),
        [0.5f32..2.0, -2f32..2.0, -2f32..2.0]
    ];
    let adjustment = (0..vocabulary as u32, 0..5u32, any::<bool>(), -5f32..5.0);
    let adjustments = proptest::collection::vec(adjustment, 0..40);
    let mask = prop_oneof![
        2 => Just(None),
        1 => proptest::collection::vec(any::<u32>(), vocabulary.div_ceil(32)).prop_map(Some)
    ];
    let logprobs = prop_oneof![Just(None), (0..=20u8).prop_map(Some)];
    let draw = (any::<u64>(), any::<u32>());
    let kept = (temperature, top_k, top_p, min_p);
    (kept, penalties, adjustments, mask, logprobs, draw).prop_map(
        |(kept, penalties, mut adjustments, allowed, logprobs, (seed, index))| {
            adjustments.sort_by_key(|adjustment| adjustment.0);
            adjustments.dedup_by_key(|adjustment| adjustment.0);
            let adjustment = |(token, count, seen, bias)| Adjustment {
                token,
                count,
                seen: seen || count > 0,
                bias,
            };
            let (temperature, top_k, top_p, min_p) = kept;
            let [repetition, presence, frequency] = penalties;
            Sampling {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition,
                presence,
                frequency,
                seed,
                index,
                adjustments: adjustments.into_iter().map(adjustment).collect(),
                allowed: allowed.map(Arc::from),
                logprobs,
            }
        },
    )
}

#[test]
fn any_draw_is_that_of_the_reference() {
    let gpu = gpu();
    for (vocabulary, cases) in [
        (1, 12),
        (3, 25),
        (1000, 40),
        (4099, 12),
        (32000, 3),
        (50257, 2),
        (128_256, 2),
    ] {
        for mut bench in benches(&gpu, vocabulary, 32) {
            let config = Config {
                cases,
                failure_persistence: None,
                max_shrink_iters: 200,
                ..Config::default()
            };
            let row = (logits(vocabulary), samplings(vocabulary));
            let rows = proptest::collection::vec(row, 1..=32);
            let (mut same, mut all) = (0, 0);
            let count = std::cell::RefCell::new((&mut same, &mut all));
            let bench = std::cell::RefCell::new(&mut bench);
            TestRunner::new(config)
                .run(&rows, |rows| {
                    let sampled = bench.borrow_mut().draw(&rows);
                    assert_eq!(sampled.len(), rows.len());
                    for ((logits, sampling), found) in rows.iter().zip(&sampled) {
                        let (same, all) = &mut *count.borrow_mut();
                        **same += u32::from(check(logits, sampling, found));
                        **all += 1;
                    }
                    Ok(())
                })
                .unwrap();
            // Nearly always it is the very token; of few rows one may be a near tie.
            let others = all - same;
            assert!(others <= 1 + all / 200, "{same} of {all} at {vocabulary}");
        }
    }
}

#[test]
fn a_row_is_the_same_to_the_bit_alone_and_among_others() {
    let gpu = gpu();
    let mut runner = TestRunner::deterministic();
    for vocabulary in [999, 20_000] {
        let rows = proptest::collection::vec((logits(vocabulary), samplings(vocabulary)), 32);
        let rows = rows.new_tree(&mut runner).unwrap().current();
        for variant in VARIANTS {
            let mut bench = Bench::new(&gpu, variant, false, [vocabulary, 32]);
            let bits = |sampled: Vec<Sampled>| -> Vec<_> {
                let top = |top: Vec<(u32, f32)>| -> Vec<_> {
                    top.into_iter()
                        .map(|(token, p)| (token, p.to_bits()))
                        .collect()
                };
                sampled
                    .into_iter()
                    .map(|s| (s.token, s.logprob.to_bits(), top(s.top)))
                    .collect()
            };
            let together = bits(bench.draw(&rows));
            for batch in [1, 3, 8] {
                let apart: Vec<_> = rows
                    .chunks(batch)
                    .flat_map(|rows| bits(bench.draw(rows)))
                    .collect();
                assert_eq!(apart, together, "{variant:?}, batches of {batch}");
            }
        }
    }
}

#[test]
fn frequencies_follow_the_probabilities() {
    let gpu = gpu();
    for mut bench in benches(&gpu, 5, 500) {
        let logits = [4f32, 3.0, 2.0, 1.0, 0.0].map(f32::ln);
        for (temperature, exponent) in [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)] {
            let sampling = Sampling {
                temperature,
                ..Sampling::default()
            };
            let mut counts = [0f64; 5];
            for batch in 0..10 {
                let rows = seeds(&logits, &sampling, batch * 500..batch * 500 + 500);
                for sampled in bench.draw(&rows) {
                    counts[sampled.token.unwrap() as usize] += 1.0;
                }
            }
            let parts = [4f64, 3.0, 2.0, 1.0].map(|part| part.powf(exponent));
            let total: f64 = parts.iter().sum();
            let chi_square: f64 = parts
                .iter()
                .zip(counts)
                .map(|(part, count)| {
                    let wanted = part / total * 5000.0;
                    (count - wanted).powi(2) / wanted
                })
                .sum();
            // Three degrees of freedom: above 16.3 once in a thousand.
            assert!(chi_square < 16.3, "{counts:?} at {temperature}");
            assert_eq!(counts[4], 0.0, "a logit of minus infinity is impossible");
        }
    }
}

#[test]
fn borders_fall_where_they_should() {
    let gpu = gpu();
    // Probabilities 1/2, 1/4, 1/16, 1/16, 1/16, 1/16 among tokens of a longer row.
    let mut logits = vec![f32::NAN; 3000];
    let likely = [
        (700u32, 0.5f32),
        (2999, 0.25),
        (0, 0.0625),
        (1, 0.0625),
        (5, 0.0625),
        (2000, 0.0625),
    ];
    for (token, probability) in likely {
        logits[token as usize] = probability.ln() + 3.0;
    }
    let kept = |count: usize| {
        let mut tokens: Vec<u32> = likely[..count].iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        tokens
    };
    for mut bench in benches(&gpu, 3000, 256) {
        for (top_k, count) in [(0, 6), (1, 1), (2, 2), (3, 6), (6, 6), (4000, 6)] {
            let sampling = Sampling { top_k, ..warm() };
            assert_eq!(
                drawn(&mut bench, &logits, &sampling),
                kept(count),
                "top_k {top_k}"
            );
        }
        for (top_p, count) in [
            (1e-6, 1),
            (0.499, 1),
            (0.501, 2),
            (0.749, 2),
            (0.751, 6),
            (1.0, 6),
        ] {
            let sampling = Sampling { top_p, ..warm() };
            assert_eq!(
                drawn(&mut bench, &logits, &sampling),
                kept(count),
                "top_p {top_p}"
            );
        }
        for (min_p, count) in [(0.51, 1), (0.49, 2), (0.126, 2), (0.124, 6)] {
            let sampling = Sampling { min_p, ..warm() };
            assert_eq!(
                drawn(&mut bench, &logits, &sampling),
                kept(count),
                "min_p {min_p}"
            );
        }
        let both = Sampling {
            top_k: 2,
            top_p: 0.66,
            ..warm()
        };
        assert_eq!(
            drawn(&mut bench, &logits, &both),
            kept(1),
            "2/3 of what top_k left"
        );
    }
}

#[test]
fn a_row_without_a_possible_token_has_none() {
    let gpu = gpu();
    for mut bench in benches(&gpu, 70, 4) {
        let nothing = Some(Arc::from([0u32; 3]));
        let last = Some(Arc::from([0u32, 0, 1 << 5]));
        let masked = |allowed: &Option<Arc<[u32]>>, temperature| Sampling {
            allowed: allowed.clone(),
            temperature,
            top_p: 0.9,
            top_k: 3,
            logprobs: Some(3),
            ..Sampling::default()
        };
        let found = bench.draw(&[
            (vec![1.0; 70], masked(&nothing, 0.0)),
            (vec![f32::NAN; 70], masked(&None, 1.0)),
            (vec![1.0; 70], masked(&nothing, 1.0)),
            (vec![1.0; 70], masked(&last, 1.0)),
        ]);
        assert_eq!(
            found[..3],
            [const {
                Sampled {
                    token: None,
                    logprob: 0.0,
                    top: Vec::new(),
                }
            }; 3]
        );
        assert_eq!((found[3].token, found[3].logprob), (Some(69), 0.0));
        assert_eq!(found[3].top, [(69, 0.0)]);
    }
}

#[test]
fn a_draw_takes_two_dispatches_where_all_is_greedy_and_else_three() {
    let gpu = gpu();
    let mut bench = Bench::new(&gpu, KernelVariant::Software, false, [1000, 4]);
    let mut dispatches = |samplings: &[Sampling]| {
        let samplings: Vec<(usize, &Sampling)> = samplings.iter().map(|s| (0, s)).collect();
        bench.0.sampler.prepare(&samplings).unwrap();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        bench.0.sampler.encode(&mut pass)
    };
    let idle = Adjustment {
        token: 3,
        count: 2,
        seen: true,
        bias: 0.0,
    };
    let unchanged = Sampling {
        adjustments: vec![idle],
        ..Sampling::default()
    };
    assert_eq!(dispatches(&[]), 0);
    assert_eq!(dispatches(&[Sampling::default(), unchanged]), 2);
    assert_eq!(dispatches(&[Sampling::default(), warm()]), 3);
    let top_k = Sampling {
        top_k: 40,
        ..warm()
    };
    assert_eq!(dispatches(std::slice::from_ref(&top_k)), 3);
    let all = Sampling {
        top_p: 0.5,
        min_p: 0.1,
        repetition: 1.5,
        adjustments: vec![idle],
        allowed: Some(Arc::from([u32::MAX; 32])),
        logprobs: Some(3),
        ..top_k
    };
    assert_eq!(dispatches(&[Sampling::default(), warm(), all]), 3);
}

#[test]
fn what_chunks_do_not_list_is_drawn_from_all_the_same() {
    let gpu = gpu();
    const VOCABULARY: usize = 20_000;
    let few = |token: usize| (token % 97) as f32 * 1e-3 - 20.0;
    // The likeliest are neighbours; all are alike; one is far above all others; nearly all are impossible.
    let neighbours: Vec<f32> = (0..VOCABULARY)
        .map(|token| match token {
            100..700 => 5.0 + (token * 7919 % 600) as f32 * 1e-3,
            _ => few(token),
        })
        .collect();
    let alike = vec![0.5; VOCABULARY];
    let mut lone: Vec<f32> = (0..VOCABULARY).map(few).collect();
    lone[12_345] = 90.0;
    let mut impossible = vec![f32::NEG_INFINITY; VOCABULARY];
    for token in [3, 7000, 19_999] {
        impossible[token] = token as f32 * 1e-4;
    }
    for mut bench in benches(&gpu, VOCABULARY, 16) {
        for logits in [&neighbours, &alike, &lone, &impossible] {
            for (top_k, top_p) in [(400, 1.0), (300, 0.9), (0, 0.8), (0, 0.9999), (19_999, 1.0)] {
                for temperature in [0.3, 1.0, 30.0] {
                    let sampling = Sampling {
                        temperature,
                        top_k,
                        top_p,
                        ..warm()
                    };
                    let rows = seeds(logits, &sampling, 0..16);
                    for ((logits, sampling), found) in rows.iter().zip(bench.draw(&rows)) {
                        check(logits, sampling, &found);
                    }
                }
            }
        }
    }
}

/// llvmpipe ends the loops of a kernel after 65,535 iterations in all, without a word.
#[test]
fn loops_over_the_largest_vocabularies_are_not_cut_short() {
    let gpu = gpu();
    const VOCABULARY: usize = 262_144;
    // The likeliest are all in one chunk.
    let rising: Vec<f32> = (0..VOCABULARY).map(|token| token as f32 / 1024.0).collect();
    let likeliest = Sampling {
        logprobs: Some(20),
        ..Sampling::default()
    };
    let many = Sampling {
        temperature: 1e37,
        top_k: 100_000,
        top_p: 0.5,
        ..warm()
    };
    for variant in VARIANTS {
        let mut bench = Bench::new(&gpu, variant, false, [VOCABULARY, 2]);
        for logits in [rising.clone(), vec![1.25; VOCABULARY]] {
            let rows = [(logits.clone(), likeliest.clone()), (logits, many.clone())];
            for ((logits, sampling), found) in rows.iter().zip(bench.draw(&rows)) {
                assert!(check(logits, sampling, &found), "{found:?}");
            }
        }
    }
}

#[test]
fn penalties_are_those_of_the_step_whatever_the_steps_before_had() {
    let gpu = gpu();
    const VOCABULARY: usize = 3000;
    let logits: Vec<f32> = (0..VOCABULARY)
        .map(|token| (token * 7919 % VOCABULARY) as f32 * 4e-3)
        .collect();
    for mut bench in benches(&gpu, VOCABULARY, 8) {
        // Answers that grow by what is drawn, so that every token must come from the right counts.
        let mut answers: Vec<Vec<u32>> = (0..6)
            .map(|n| (0..n * 60).map(|at| at * 31 % VOCABULARY as u32).collect())
            .collect();
        for step in 0..40 {
            let sampling = |answer: &Vec<u32>| {
                let mut counts = std::collections::BTreeMap::new();
                for token in answer {
                    *counts.entry(*token).or_insert(0u32) += 1;
                }
                let adjustment = |(token, count): (u32, u32)| Adjustment {
                    token,
                    count,
                    seen: true,
                    bias: if token % 4 == 0 { -0.125 } else { 0.0 },
                };
                Sampling {
                    repetition: 1.5,
                    presence: 2.0,
                    frequency: 0.5,
                    adjustments: counts.into_iter().map(adjustment).collect(),
                    logprobs: Some(4),
                    ..Sampling::default()
                }
            };
            let rows: Vec<_> = answers
                .iter()
                .map(|a| (logits.clone(), sampling(a)))
                .collect();
            let drawn = bench.draw(&rows);
            for ((answer, row), found) in answers.iter_mut().zip(&rows).zip(drawn) {
                check(&row.0, &row.1, &found);
                answer.extend(found.token);
            }
            match step {
                // One is given up and comes back, others move, one is cut short.
                10 => answers.rotate_left(2),
                20 => drop(answers.remove(1)),
                30 => answers.insert(0, vec![5; 70]),
                35 => answers[3].truncate(20),
                _ => {}
            }
        }
    }
}

#[test]
fn more_adjustments_than_there_is_room_for_are_refused() {
    let gpu = gpu().narrowed(64 << 10);
    let mut bench = Bench::new(&gpu, KernelVariant::Software, true, [5000, 2]);
    let biased = |count: u32| {
        let adjustment = |token| Adjustment {
            token,
            count: 0,
            seen: false,
            bias: if token == 4 { 100.0 } else { 1.0 },
        };
        let sampling = Sampling {
            adjustments: (0..count).map(adjustment).collect(),
            ..Sampling::default()
        };
        (vec![0.0; 5000], sampling)
    };
    let before = bench.0.sampler.bytes_now();
    let error = bench.try_draw(&[biased(3772), biased(69)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sequence 1 of the step: adjustments of the step up to here is 3841, must be at most 3840"
    );
    assert!(!error.is_fatal());
    assert_eq!(bench.0.sampler.bytes_now(), before);
    let drawn = bench.draw(&[biased(3772), biased(68)]);
    assert_eq!(
        drawn.iter().map(|s| s.token).collect::<Vec<_>>(),
        [Some(4); 2]
    );
    assert!(
        bench.0.sampler.bytes_now() > before,
        "memory for adjustments is taken when needed"
    );
}

#[test]
fn what_a_sampler_takes_is_known_before() {
    let gpu = gpu();
    for variant in VARIANTS {
        let bench = Bench::new(&gpu, variant, false, [50257, 7]);
        let kernels = KernelSet::of(variant, true, false);
        let rounding = 64;
        let bytes = Sampler::bytes(kernels, 50257, 7);
        assert!(bench.0.sampler.bytes_now().abs_diff(bytes) <= rounding);
    }
}
