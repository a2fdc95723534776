use std::sync::Arc;

use super::super::{Adjustment, DecodeError, DecoderShape, FedToken, Sampling, StepSequence};
use super::{EncoderText, check_texts};

const SHAPE: DecoderShape = DecoderShape {
    loras: 0,
    vocabulary: 50,
    context: 64,
    blocks: 9,
    max_rows: 20,
    max_samples: 3,
};

fn sequence(position: u32, tokens: usize, blocks: &[u32]) -> StepSequence {
    StepSequence {
        lora: 0,
        position,
        tokens: vec![7; tokens],
        blocks: blocks.to_vec(),
        samples: vec![Sampling::default()],
    }
}

/// The refusal's index, what it names and the value.
#[track_caller]
fn refusal(step: &[StepSequence]) -> (usize, &'static str, String) {
    match SHAPE.check(step) {
        Err(DecodeError::Refused {
            sequence,
            what,
            value,
            ..
        }) => (sequence, what, value),
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn refused_sampling(sampling: Sampling, what: &str) {
    let mut step = sequence(0, 1, &[0]);
    step.samples = vec![sampling];
    assert_eq!(refusal(&[step]).1, what);
}

#[test]
fn a_step_within_the_shape_is_taken() {
    let good = [
        sequence(15, 1, &[0]),
        sequence(16, 1, &[1, 2]),
        sequence(48, 16, &[1, 3, 4, 5]),
        // More blocks than are needed; block 8 is not touched and may be anybody's.
        sequence(0, 1, &[6, 8]),
        sequence(0, 1, &[7, 8]),
    ];
    let mut good = good.to_vec();
    good[3].samples.clear();
    good[4].samples.clear();
    assert_eq!(SHAPE.check(&good), Ok(()));
    assert_eq!(SHAPE.check(&[]), Ok(()));
}

#[test]
fn every_token_must_be_known_and_within_the_context() {
    assert_eq!(refusal(&[sequence(0, 0, &[])]).1, "tokens");
    let mut unknown = sequence(0, 3, &[0]);
    unknown.tokens[2] = 50;
    let found = refusal(&[sequence(0, 1, &[1]), unknown.clone()]);
    assert_eq!(found, (1, "token", "50".to_owned()));
    unknown.tokens[2] = 49;
    assert_eq!(SHAPE.check(&[unknown]), Ok(()));
    let late = sequence(60, 5, &[0, 1, 2, 3, 4]);
    assert_eq!(refusal(&[late]).1, "position and tokens together");
    let never = sequence(u32::MAX, 1, &[0]);
    assert_eq!(refusal(&[never]).1, "position and tokens together");
}

#[test]
fn every_position_must_have_a_block_that_exists() {
    assert_eq!(refusal(&[sequence(15, 2, &[0])]).1, "blocks");
    assert_eq!(SHAPE.check(&[sequence(15, 2, &[0, 1])]), Ok(()));
    let beyond = refusal(&[sequence(15, 2, &[0, 9])]);
    assert_eq!(beyond, (0, "block", "9".to_owned()));
}

#[test]
fn rows_and_samples_are_counted_over_the_whole_step() {
    let wide = [sequence(0, 16, &[0]), sequence(0, 5, &[1])];
    assert_eq!(
        refusal(&wide),
        (1, "rows of the step up to here", "21".to_owned())
    );
    let mut eager = sequence(0, 4, &[0]);
    eager.samples = vec![Sampling::default(); 3];
    assert_eq!(SHAPE.check(std::slice::from_ref(&eager)), Ok(()));
    let found = refusal(&[eager.clone(), sequence(0, 1, &[1])]);
    assert_eq!(found, (1, "samples of the step up to here", "4".to_owned()));
    eager.tokens.truncate(2);
    assert_eq!(refusal(&[eager]), (0, "samples", "3".to_owned()));
}

#[test]
fn a_block_that_is_written_is_of_one_sequence_alone() {
    let reader = |blocks: &[u32]| sequence(32, 1, blocks);
    // Blocks before the position are shared by right.
    assert_eq!(
        SHAPE.check(&[reader(&[0, 1, 2]), reader(&[0, 1, 3])]),
        Ok(())
    );
    let found = refusal(&[reader(&[0, 1, 2]), reader(&[3, 4, 2])]);
    assert_eq!(found, (1, "block", "2".to_owned()));
    // A reader of what another writes, whichever comes first.
    assert_eq!(
        refusal(&[reader(&[0, 1, 2]), sequence(16, 1, &[3, 1])]).0,
        0
    );
    assert_eq!(
        refusal(&[sequence(16, 1, &[3, 1]), reader(&[0, 1, 2])]).0,
        1
    );
    // Its own block twice.
    assert_eq!(refusal(&[sequence(10, 10, &[4, 4])]).1, "block");
    assert_eq!(refusal(&[sequence(16, 1, &[4, 4])]).1, "block");
}

#[test]
fn sampling_parameters_must_be_in_range() {
    let with = |change: fn(&mut Sampling)| {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        sampling
    };
    for bad in [-0.1, f32::NAN, f32::INFINITY] {
        let of = |change: fn(&mut Sampling, f32)| {
            let mut sampling = Sampling::default();
            change(&mut sampling, bad);
            sampling
        };
        refused_sampling(of(|s, v| s.temperature = v), "temperature");
        refused_sampling(of(|s, v| s.top_p = v), "top_p");
        refused_sampling(of(|s, v| s.min_p = v), "min_p");
        refused_sampling(of(|s, v| s.repetition = v), "repetition penalty");
    }
    refused_sampling(with(|s| s.top_p = 0.0), "top_p");
    refused_sampling(with(|s| s.top_p = 1.1), "top_p");
    refused_sampling(with(|s| s.min_p = 1.0), "min_p");
    refused_sampling(with(|s| s.repetition = 0.0), "repetition penalty");
    refused_sampling(with(|s| s.presence = f32::NAN), "presence penalty");
    refused_sampling(with(|s| s.frequency = f32::NAN), "frequency penalty");
    refused_sampling(
        with(|s| s.logprobs = Some(21)),
        "log-probabilities asked for",
    );
    refused_sampling(
        with(|s| s.allowed = Some(Arc::new([0; 1]))),
        "words of the mask",
    );
    refused_sampling(
        with(|s| s.allowed = Some(Arc::new([0; 3]))),
        "words of the mask",
    );

    let mut step = sequence(0, 1, &[0]);
    step.samples = vec![Sampling {
        temperature: 2.5,
        top_k: u32::MAX,
        top_p: 0.001,
        min_p: 0.999,
        repetition: 0.5,
        presence: -2.0,
        frequency: 2.0,
        allowed: Some(Arc::new([0; 2])),
        logprobs: Some(20),
        ..Sampling::default()
    }];
    assert_eq!(SHAPE.check(&[step]), Ok(()));
}

#[test]
fn adjustments_must_ascend_within_the_vocabulary() {
    let of = |tokens: &[u32], bias: f32| Sampling {
        adjustments: tokens
            .iter()
            .map(|&token| Adjustment {
                token,
                count: 0,
                seen: false,
                bias,
            })
            .collect(),
        ..Sampling::default()
    };
    refused_sampling(of(&[3, 2], 1.0), "adjusted token");
    refused_sampling(of(&[3, 3], 1.0), "adjusted token");
    refused_sampling(of(&[3, 50], 1.0), "adjusted token");
    refused_sampling(of(&[3, 4], f32::NEG_INFINITY), "logit bias");
    let mut step = sequence(0, 1, &[0]);
    step.samples = vec![of(&[0, 3, 49], -100.0)];
    assert_eq!(SHAPE.check(&[step]), Ok(()));
}

#[test]
fn texts_must_be_within_an_encoders_limits() {
    let check = |texts: &[&[u32]]| check_texts(&EncoderText::singles(texts), 10, 2, 4, 6);
    assert_eq!(check(&[&[9, 0, 1], &[1, 2, 3]]), Ok(()));
    let what = |texts: &[&[u32]]| match check(texts) {
        Err(DecodeError::Refused { sequence, what, .. }) => (sequence, what),
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(what(&[&[1], &[]]), (1, "tokens"));
    assert_eq!(what(&[&[1; 5]]), (0, "tokens"));
    assert_eq!(what(&[&[1, 10]]), (0, "token"));
    assert_eq!(
        what(&[&[1; 4], &[1; 3]]),
        (1, "rows of the call up to here")
    );
}

#[test]
fn types_are_one_for_each_token_and_known_to_the_encoder() {
    let check = |types: &[u32]| {
        let tokens = &[1, 2, 3];
        let found = check_texts(&[EncoderText { tokens, types }], 10, 2, 4, 6);
        found.map_err(|error| error.to_string())
    };
    for types in [&[][..], &[0, 0, 1]] {
        assert_eq!(check(types), Ok(()));
    }
    let refused = |what: &str| Err(format!("sequence 0 of the step: {what}"));
    assert_eq!(
        check(&[0, 1]),
        refused("token types is 2, must be one for each of 3 tokens, or none")
    );
    assert_eq!(
        check(&[0, 1, 2]),
        refused("token type is 2, must be below the model's types, 2")
    );
}

#[test]
fn a_fed_token_is_the_only_one_of_its_sequence_and_one_that_is_drawn() {
    let step = [
        sequence(3, 1, &[0]),
        sequence(0, 2, &[1]),
        sequence(7, 1, &[2]),
    ];
    let fed = |sequence, sampling| FedToken { sequence, sampling };
    assert_eq!(SHAPE.check_after(&step, &[], 0), Ok(()));
    // One draw may be fed to several.
    let good = [fed(2, 1), fed(0, 1)];
    assert_eq!(SHAPE.check_after(&step, &good, 2), Ok(()));
    let refusal = |fed: &[FedToken]| match SHAPE.check_after(&step, fed, 2) {
        Err(DecodeError::Refused {
            sequence,
            what,
            value,
            ..
        }) => (sequence, what, value),
        other => panic!("not refused: {other:?}"),
    };
    let of = "the sequence of a fed token";
    assert_eq!(refusal(&[fed(1, 0)]), (1, "tokens", "2".to_owned()));
    assert_eq!(refusal(&[fed(3, 0)]), (3, of, "3".to_owned()));
    let twice = [fed(0, 0), fed(2, 0), fed(0, 1)];
    assert_eq!(refusal(&twice), (0, of, "0".to_owned()));
    let never = (2, "the sampling of a fed token", "2".to_owned());
    assert_eq!(refusal(&[fed(2, 2)]), never);
    let mut wrong = step.clone();
    wrong[1].tokens[0] = 50;
    let found = SHAPE.check_after(&wrong, &[], 2);
    assert!(matches!(
        found,
        Err(DecodeError::Refused { sequence: 1, .. })
    ));
}
