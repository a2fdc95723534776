//! Draws with everything that a request can ask for, over a vocabulary of several chunks.
//!
//! The expected tokens are those of the float64 reference, which this room does not know; a test holds them against it, and
//! makes sure that none of them hangs on a rounding.

use tidegate_contract::{Adjustment, Sampled, Sampling};

use super::{Failure, Numbers, Wrong};
use crate::kernels::lab::Lab;
use crate::load_error::LoadError;
use crate::sampling::lab::Draws;

/// Four chunks of 512 logits and two logits more.
const VOCABULARY: usize = 2050;

/// Rows of a draw at most.
const TOGETHER: usize = 5;

/// How far from the reference a log-probability may be.
const BOUND: f64 = 1e-4;

/// A draw and what must come of it.
struct Case {
    name: &'static str,
    sampling: Sampling,
    token: Option<u32>,
    logprob: f32,
    top: &'static [(u32, f32)],
}

/// Logits in -8..8, no two of them alike.
fn logits() -> Vec<f32> {
    let mut numbers = Numbers(12);
    let mut logit = || (numbers.bits() >> 8) as f32 / f32::from(1u16 << 10) / 1024.0 - 8.0;
    (0..VOCABULARY).map(|_| logit()).collect()
}

/// Every third token was seen, every ninth twice in the answer; every fifth of those has a bias.
fn adjustments() -> Vec<Adjustment> {
    let adjustment = |token: u32| Adjustment {
        token,
        count: if token.is_multiple_of(9) { 2 } else { 0 },
        seen: true,
        bias: if token.is_multiple_of(5) { -1.5 } else { 0.0 },
    };
    (0..VOCABULARY as u32).step_by(3).map(adjustment).collect()
}

/// Four of each eight tokens.
fn mask() -> Vec<u32> {
    vec![0x0f0f_0f0f; VOCABULARY.div_ceil(32)]
}

fn cases() -> Vec<Case> {
    let warm = |temperature, seed| Sampling {
        temperature,
        seed,
        index: 3,
        ..Sampling::default()
    };
    let penalised = Sampling {
        repetition: 1.3,
        presence: 0.4,
        frequency: 0.3,
        adjustments: adjustments(),
        ..Sampling::default()
    };
    let masked = Sampling {
        allowed: Some(mask().into()),
        ..Sampling::default()
    };
    let top_k = Sampling {
        top_k: 40,
        ..warm(1.5, 0)
    };
    let top_p = Sampling {
        top_p: 0.6,
        ..warm(1.0, 1)
    };
    // More tokens are left than chunks list.
    let many = Sampling {
        top_k: 1000,
        top_p: 0.9,
        ..warm(6.0, 1)
    };
    let min_p = Sampling {
        min_p: 0.3,
        ..warm(1.0, 1)
    };
    let all = Sampling {
        temperature: 1.4,
        top_k: 60,
        top_p: 0.8,
        min_p: 0.1,
        index: 7,
        allowed: masked.allowed.clone(),
        logprobs: Some(2),
        ..penalised.clone()
    };
    let likeliest = Sampling {
        logprobs: Some(3),
        ..Sampling::default()
    };
    let nothing = Sampling {
        allowed: Some(vec![0; VOCABULARY.div_ceil(32)].into()),
        ..warm(1.0, 0)
    };
    let case = |name, sampling, token| Case {
        name,
        sampling,
        token: Some(token),
        logprob: 0.0,
        top: &[],
    };
    vec![
        Case {
            logprob: -4.836_716,
            top: &[(1860, -4.836_716), (143, -4.853_736), (174, -4.865_384)],
            ..case("the likeliest", likeliest, 1860)
        },
        case("penalties", penalised, 143),
        case("a mask", masked, 1858),
        case("a temperature", warm(0.8, 0), 1892),
        case("top_k", top_k, 1892),
        case("top_p", top_p, 1480),
        case("top_k and top_p that leave many", many, 750),
        case("min_p", min_p, 1480),
        Case {
            logprob: -4.292_003,
            top: &[(1858, -3.827_832), (131, -3.844_223)],
            ..case("everything", all, 1568)
        },
        Case {
            token: None,
            ..case("nothing possible", nothing, 0)
        },
    ]
}

/// Each case alone, then several of them as the rows of one draw.
pub(super) fn sampling(lab: &Lab) -> Result<(), Failure> {
    let (logits, cases) = (logits(), cases());
    let mut draws = lab.draws(VOCABULARY, TOGETHER)?;
    let failed = |error| LoadError::from_decode(error, 0);
    let mut alone = Vec::new();
    for case in &cases {
        draws.upload(&logits);
        let sampled = draws.draw(&[&case.sampling]).map_err(failed)?;
        check(case, sampled.first(), || names(lab, &draws))?;
        alone.extend(sampled);
    }
    for (cases, alone) in cases.chunks(TOGETHER).zip(alone.chunks(TOGETHER)) {
        draws.upload(&logits.repeat(cases.len()));
        let samplings: Vec<&Sampling> = cases.iter().map(|case| &case.sampling).collect();
        let together = draws.draw(&samplings).map_err(failed)?;
        for (case, (alone, together)) in cases.iter().zip(alone.iter().zip(&together)) {
            if alone != together {
                return Err(Failure::Wrong(Wrong::Numbers {
                    kernel: names(lab, &draws),
                    case: format!("a draw among others, {}", case.name),
                    expected: format!("{alone:?}"),
                    found: format!("{together:?}"),
                }));
            }
        }
    }
    Ok(())
}

/// The kernels of the last draw, by name.
fn names(lab: &Lab, draws: &Draws) -> String {
    let mut names: Vec<&str> = Vec::new();
    for kernel in draws.kernels() {
        lab.gpu.note_tried(kernel);
        if !names.contains(&kernel.name()) {
            names.push(kernel.name());
        }
    }
    names.join(", ")
}

fn check(
    case: &Case,
    found: Option<&Sampled>,
    names: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let kernel = names();
    let near = |(token, logprob): (u32, f32), (wanted, expected): (u32, f32)| {
        token == wanted && f64::from(logprob - expected).abs() <= BOUND
    };
    let right = found.is_some_and(|found| {
        let token = |token: Option<u32>| token.unwrap_or(u32::MAX);
        let drawn = (token(found.token), found.logprob);
        near(drawn, (token(case.token), case.logprob))
            && found.top.len() == case.top.len()
            && found.top.iter().zip(case.top).all(|(a, b)| near(*a, *b))
    });
    if right {
        return Ok(());
    }
    let expected = Sampled {
        token: case.token,
        logprob: case.logprob,
        top: case.top.to_vec(),
    };
    Err(Failure::Wrong(Wrong::Numbers {
        kernel,
        case: format!("a draw, {}", case.name),
        expected: format!("{expected:?} within {BOUND:.0e}"),
        found: format!("{found:?}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_reference::sampling as reference;

    /// Also with logits and borders a little different: no expected token is a matter of rounding.
    #[test]
    fn what_a_self_test_expects_is_what_the_reference_draws() {
        let exact = logits();
        for case in cases() {
            for change in [0.0, 1e-4, -1e-4] {
                let mut numbers = Numbers(13);
                let logits: Vec<f32> = exact.iter().map(|x| x + change * numbers.next()).collect();
                let by = |x: f32| if x == 1.0 { x } else { x * (1.0 + change) };
                let sampling = Sampling {
                    top_p: by(case.sampling.top_p),
                    min_p: by(case.sampling.min_p),
                    ..case.sampling.clone()
                };
                let found = reference::draw(&logits, &sampling);
                let near = |a: f32, b: f32| (a - b).abs() <= 1e-3;
                assert_eq!(found.token, case.token, "{}", case.name);
                assert!(
                    near(found.logprob, case.logprob),
                    "{}: {found:?}",
                    case.name
                );
                assert_eq!(found.top.len(), case.top.len());
                for (found, expected) in found.top.iter().zip(case.top) {
                    assert!(found.0 == expected.0 && near(found.1, expected.1));
                }
            }
        }
    }

    /// A kernel that leaves out what a case is for draws another token.
    #[test]
    fn every_setting_of_a_case_changes_its_token() {
        let logits = logits();
        let plain = Sampling::default();
        for case in cases() {
            let of = &case.sampling;
            let others = [
                Sampling {
                    temperature: 0.0,
                    ..of.clone()
                },
                Sampling {
                    adjustments: Vec::new(),
                    ..of.clone()
                },
                Sampling {
                    allowed: None,
                    ..of.clone()
                },
                Sampling {
                    top_k: 0,
                    top_p: 1.0,
                    min_p: 0.0,
                    ..of.clone()
                },
            ];
            for other in others {
                let drawn = reference::draw(&logits, &other).token;
                let changed = other != *of && of.allowed.is_none();
                assert!(!changed || drawn != case.token, "{}: {other:?}", case.name);
            }
            let drawn = reference::draw(&logits, &plain).token;
            assert!(*of == plain || of.logprobs == Some(3) || drawn != case.token);
        }
    }
}
