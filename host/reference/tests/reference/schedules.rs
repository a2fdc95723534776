//! The same tokens in other blocks, chunks and batches give the same logits, bit by bit.

use proptest::prelude::*;
use tidegate_contract::{BLOCK, DecodeError, Decoder, Sampling, StepSequence};
use tidegate_reference::ReferenceDecoder;

use crate::support::{decoder, logits, sequence};

/// Models whose attention differs: odd widths, one window, two kinds of layers and ropes, caps.
const MODELS: [&str; 4] = ["llama-odd-f16", "mistral-bf16", "gemma3-bf16", "gemma2-f32"];

fn tokens(seed: u32, count: usize) -> Vec<u32> {
    (0..count as u32)
        .map(|i| (seed + i * i * 7 + i) % 64)
        .collect()
}

/// The logits of every position, all in one step in blocks 0, 1, 2, ...
fn plain(decoder: &mut ReferenceDecoder, tokens: &[u32]) -> Vec<f64> {
    let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    logits(decoder, &[sequence(0, tokens, &blocks)])
}

#[test]
fn blocks_in_any_order_are_as_good_as_contiguous_ones() {
    for name in MODELS {
        let mut decoder = decoder(name);
        let tokens = tokens(3, 45);
        let expected = plain(&mut decoder, &tokens);
        let found = logits(&mut decoder, &[sequence(0, &tokens, &[7, 0, 11])]);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_prompt_in_chunks_is_as_good_as_in_one() {
    for name in MODELS {
        let mut decoder = decoder(name);
        let tokens = tokens(4, 45);
        let expected = plain(&mut decoder, &tokens);
        for chunk in [1, 3, 16, 17, 44] {
            let mut found = Vec::new();
            for (index, part) in tokens.chunks(chunk).enumerate() {
                let step = [sequence(index * chunk, part, &[5, 2, 9])];
                found.extend(logits(&mut decoder, &step));
            }
            assert_eq!(found, expected, "{name}, chunks of {chunk}");
        }
    }
}

#[test]
fn sequences_together_are_as_good_as_alone() {
    for name in MODELS {
        let mut decoder = decoder(name);
        let all = [tokens(1, 20), tokens(2, 33), tokens(9, 5)];
        let expected: Vec<Vec<f64>> = all.iter().map(|t| plain(&mut decoder, t)).collect();
        let vocabulary = decoder.shape().vocabulary;
        let blocks: [&[u32]; 3] = [&[4, 1], &[0, 8, 3], &[6]];
        // The first is ahead by a chunk; then a chunk, a single row, and a whole prompt together.
        logits(&mut decoder, &[sequence(0, &all[0][..19], blocks[0])]);
        logits(&mut decoder, &[sequence(0, &all[1][..7], blocks[1])]);
        let step = [
            sequence(7, &all[1][7..], blocks[1]),
            sequence(19, &all[0][19..], blocks[0]),
            sequence(0, &all[2], blocks[2]),
        ];
        let found = logits(&mut decoder, &step);
        let together = [
            &expected[1][7 * vocabulary..],
            &expected[0][19 * vocabulary..],
            &expected[2],
        ]
        .concat();
        assert_eq!(found, together, "{name}");
    }
}

#[test]
fn a_shared_prefix_is_as_good_as_an_own_one() {
    for name in MODELS {
        let mut decoder = decoder(name);
        let prefix = tokens(5, 2 * BLOCK);
        let with = |seed| [prefix.clone(), tokens(seed, 10)].concat();
        let expected = [11, 12].map(|seed| plain(&mut decoder, &with(seed)));
        let vocabulary = decoder.shape().vocabulary;
        logits(&mut decoder, &[sequence(0, &prefix, &[10, 3])]);
        let step = [
            sequence(2 * BLOCK, &tokens(11, 10), &[10, 3, 6]),
            sequence(2 * BLOCK, &tokens(12, 10), &[10, 3, 2]),
        ];
        let found = logits(&mut decoder, &step);
        let own = expected.map(|e| e[2 * BLOCK * vocabulary..].to_vec());
        assert_eq!(found, own.concat(), "{name}");
    }
}

#[test]
fn a_position_written_again_forgets_what_stood_there() {
    for name in MODELS {
        let mut decoder = decoder(name);
        let tokens = tokens(6, 20);
        let expected = plain(&mut decoder, &tokens);
        let vocabulary = decoder.shape().vocabulary;
        // Guesses at 12 to 17 that turn out wrong.
        logits(&mut decoder, &[sequence(0, &tokens[..12], &[1, 2])]);
        logits(&mut decoder, &[sequence(12, &[9; 6], &[1, 2])]);
        let found = logits(&mut decoder, &[sequence(12, &tokens[12..], &[1, 2])]);
        assert_eq!(found, expected[12 * vocabulary..], "{name}");
    }
}

#[test]
fn only_the_last_tokens_that_are_asked_for_give_logits() {
    let mut decoder = decoder("llama-odd-f16");
    let tokens = tokens(7, 9);
    let expected = plain(&mut decoder, &tokens);
    let vocabulary = decoder.shape().vocabulary;
    let mut step = sequence(0, &tokens, &[0]);
    step.samples.truncate(2);
    let found = logits(&mut decoder, &[step.clone()]);
    assert_eq!(found, expected[7 * vocabulary..]);
    step.samples.clear();
    assert!(logits(&mut decoder, &[step]).is_empty());
    assert!(logits(&mut decoder, &[]).is_empty());
}

#[test]
fn a_refused_step_changes_nothing() {
    let mut decoder = decoder("mistral-bf16");
    let tokens = tokens(8, 20);
    let expected = plain(&mut decoder, &tokens);
    let vocabulary = decoder.shape().vocabulary;
    logits(&mut decoder, &[sequence(0, &tokens[..19], &[0, 1])]);
    let good = StepSequence {
        tokens: vec![1; 3],
        ..sequence(0, &[1; 3], &[0])
    };
    let bad = sequence(0, &[64], &[2]);
    let mut found = Vec::new();
    let refused = decoder.logits(&[good, bad], &mut found);
    assert!(matches!(
        refused,
        Err(DecodeError::Refused { sequence: 1, .. })
    ));
    let found = logits(&mut decoder, &[sequence(19, &tokens[19..], &[0, 1])]);
    assert_eq!(found, expected[19 * vocabulary..]);
}

#[test]
fn a_step_draws_one_token_for_each_sampling() {
    let mut decoder = decoder("gemma2-f32");
    let tokens = tokens(2, 12);
    let mut step = sequence(0, &tokens, &[0]);
    step.samples = vec![
        Sampling::default(),
        Sampling {
            temperature: 0.8,
            seed: 5,
            logprobs: Some(2),
            ..Sampling::default()
        },
    ];
    let vocabulary = decoder.shape().vocabulary;
    let (mut logits, mut sampled) = (Vec::new(), Vec::new());
    decoder.logits(&[step.clone()], &mut logits).unwrap();
    decoder.step(&[step], &mut sampled).unwrap();
    assert_eq!((logits.len(), sampled.len()), (2 * vocabulary, 2));
    let likeliest = (0..vocabulary)
        .max_by(|a, b| logits[*a].total_cmp(&logits[*b]))
        .unwrap();
    assert_eq!(sampled[0].token, Some(likeliest as u32));
    assert!(sampled[0].top.is_empty());
    assert!(sampled[1].token.is_some_and(|t| (t as usize) < vocabulary));
    assert_eq!(sampled[1].top.len(), 2);
    assert!(sampled[1].logprob < 0.0 && sampled[1].top[0].1 >= sampled[1].logprob);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any cut of three sequences into chunks, taken in any order of turns, over any blocks.
    #[test]
    fn any_schedule_gives_the_same_logits(
        model in 0..MODELS.len(),
        lengths in prop::array::uniform3(1_usize..48),
        blocks in Just((0_u32..12).collect::<Vec<_>>()).prop_shuffle(),
        chunks in prop::collection::vec((0_usize..3, 1_usize..20), 1..40),
        seed in 0_u32..1000,
    ) {
        let mut decoder = decoder(MODELS[model]);
        let vocabulary = decoder.shape().vocabulary;
        let all: Vec<Vec<u32>> = (0..3).map(|i| tokens(seed + 17 * i, lengths[i as usize])).collect();
        let expected: Vec<Vec<f64>> = all.iter().map(|t| plain(&mut decoder, t)).collect();
        let mut written = [0; 3];
        // Each chunk is a step with the next tokens of one sequence and, beside it, one token of each other.
        let turns = chunks.into_iter().chain((0..3).map(|i| (i, 48)));
        for (turn, chunk) in turns {
            let (mut step, mut wanted) = (Vec::new(), Vec::new());
            for index in 0..3 {
                let from = written[index];
                let to = all[index].len().min(from + if index == turn { chunk } else { 1 });
                if from < to {
                    step.push(sequence(from, &all[index][from..to], &blocks[4 * index..][..4]));
                    wanted.extend_from_slice(&expected[index][from * vocabulary..to * vocabulary]);
                    written[index] = to;
                }
            }
            prop_assert_eq!(logits(&mut decoder, &step), wanted);
        }
        prop_assert_eq!(written.to_vec(), lengths.to_vec());
    }
}
