//! Encoders against the transformers library in float64.

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, EncoderText, ScoreScale};
use tidegate_reference::golden::{self, ENCODERS, GGUF_ENCODERS, REENCODED_ENCODERS};
use tidegate_reference::{LoadError, ReferenceDecoder, ReferenceEncoder};

use crate::support::{assert_close, checkpoint};

/// As for decoders: the order of sums.
const TOLERANCE: f64 = 1e-12;

#[test]
fn every_encoder_gives_the_vectors_of_transformers() {
    check(&ENCODERS);
}

/// What a GGUF file holds, in the place of the weights that it was made from.
#[test]
fn every_gguf_encoder_gives_the_vectors_of_what_it_holds() {
    check(&GGUF_ENCODERS);
    check(&REENCODED_ENCODERS);
}

#[track_caller]
fn check(names: &[&str]) {
    for name in names {
        let checkpoint = checkpoint(name).exact();
        checkpoint.check().unwrap();
        let mut encoder = ReferenceEncoder::load(&checkpoint, 80).unwrap();
        let cases = golden::encoder(name).unwrap();
        let texts: Vec<EncoderText<'_>> = cases.iter().map(|case| case.text()).collect();
        let mut together = Vec::new();
        encoder.wide_encode(&texts, &mut together).unwrap();
        let mut rest = together.as_slice();
        for case in &cases {
            let found;
            (found, rest) = rest.split_at(case.vector.len());
            let what = format!("{name}, {} tokens", case.tokens.len());
            assert_close(found, &case.vector, TOLERANCE, &what);
            // A text's vector is its own, whatever else is in the call.
            let mut alone = Vec::new();
            encoder.encode(&[case.text()], &mut alone).unwrap();
            let rounded: Vec<f32> = found.iter().map(|v| *v as f32).collect();
            assert_eq!(alone, rounded, "{what}");
        }
        assert!(rest.is_empty(), "{name}");
    }
}

#[test]
fn an_encoder_says_what_it_makes() {
    let load = |name| ReferenceEncoder::load(&checkpoint(name), 8).unwrap();
    let of = |encoder: &ReferenceEncoder| (encoder.output(), encoder.width(), encoder.context());
    assert_eq!(of(&load("bert-f16")), (EncoderOutput::Embedding, 24, 40));
    assert_eq!(of(&load("roberta-f16")), (EncoderOutput::Embedding, 24, 38));
    assert_eq!(
        of(&load("bert-classes-f32")),
        (EncoderOutput::Scores, 3, 40)
    );
    let of_tokens = EncoderOutput::TokenScores;
    assert_eq!(of(&load("bert-entities-f16")), (of_tokens, 5, 40));
    assert_eq!(of(&load("roberta-entities-bf16")), (of_tokens, 5, 38));
    assert_eq!(of(&load("modernbert-entities-bf16")), (of_tokens, 5, 48));
    let (raw, sigmoid) = (ScoreScale::Raw, ScoreScale::Sigmoid);
    assert_eq!(
        of(&load("bert-relevance-f16")),
        (EncoderOutput::Relevance(raw), 1, 40)
    );
    assert_eq!(
        of(&load("roberta-relevance-bf16")),
        (EncoderOutput::Relevance(sigmoid), 1, 38)
    );
    assert_eq!(
        ["bert-relevance-f16", "roberta-relevance-bf16"].map(|name| load(name).types()),
        [2, 1]
    );
}

#[test]
fn texts_outside_the_limits_are_refused() {
    let mut encoder = ReferenceEncoder::load(&checkpoint("bert-f16"), 50).unwrap();
    let mut vectors = Vec::new();
    let long = [5; 41];
    for texts in [
        &[&long[..]][..],
        &[&[][..]],
        &[&[64][..]],
        &[&[1; 30], &[1; 21]],
    ] {
        let found = encoder.encode(&EncoderText::singles(texts), &mut vectors);
        assert!(
            matches!(found, Err(DecodeError::Refused { .. })),
            "{texts:?}"
        );
    }
    let texts = EncoderText::singles(&[&[1; 30], &[1; 20]]);
    encoder.encode(&texts, &mut vectors).unwrap();
    assert_eq!(vectors.len(), 2 * 24);
}

#[test]
fn a_decoder_is_no_encoder_and_the_other_way_round() {
    let found = ReferenceEncoder::load(&checkpoint("qwen3-f16"), 8);
    assert!(matches!(
        found,
        Err(LoadError::Kind {
            wanted: "encoder",
            ..
        })
    ));
    let found = ReferenceDecoder::load(&checkpoint("bert-f16"), 16, 1, 8);
    assert!(matches!(
        found,
        Err(LoadError::Kind {
            wanted: "decoder",
            ..
        })
    ));
}
