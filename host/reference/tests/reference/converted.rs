//! What rounding the weights to int8 and int4 does to logits, and that the same numbers give the same logits whatever
//! file they lie in.

use std::path::Path;

use tidegate_contract::EncoderText;
use tidegate_reference::golden::{self, DECODERS, ENCODERS, GGUF_ENCODERS, REENCODED_ENCODERS};
use tidegate_reference::{ReferenceDecoder, ReferenceEncoder, wide};
use tidegate_weights::{
    Checkpoint, EncoderConfig, EncoderLayerTensor, EncoderTensor, Format, Quantization, ReadWhole,
    convert,
};

use crate::support::{checkpoint, decoder_of, logits, sequence};

/// The logits of a model's last golden case.
fn of(checkpoint: &Checkpoint, name: &str) -> Vec<f64> {
    let case = golden::decoder(name).unwrap().pop().unwrap();
    let mut decoder: ReferenceDecoder = decoder_of(checkpoint, case.context);
    logits(&mut decoder, &[sequence(0, &case.tokens, &[0, 1, 2])])
}

fn converted(name: &str, format: Format) -> Vec<f64> {
    let directory = tempfile::tempdir().unwrap();
    convert(&checkpoint(name), format, directory.path(), &mut |_, _| {}).unwrap();
    of(
        &Checkpoint::open(directory.path(), &ReadWhole).unwrap(),
        name,
    )
}

/// Root mean square of the difference, as a share of that of the expected logits.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found
        .iter()
        .zip(expected)
        .map(|(f, e)| (f - e).powi(2))
        .sum();
    let expected: f64 = expected.iter().map(|e| e.powi(2)).sum();
    (difference / expected).sqrt()
}

/// How far the logits of a model with experts may be off: some rows go through others than before, of which random weights make
/// something else altogether.
const OTHER_EXPERTS: f64 = 0.5;

/// Random weights have no outliers and no redundancy: every rounding reaches the logits. Rows that are no multiple of 32
/// stay floats, so that not all of these models change.
#[test]
fn int8_and_int4_change_the_logits_by_no_more_than_stated() {
    let mut changed = 0;
    for name in DECODERS {
        let expected = of(&checkpoint(name), name);
        for (format, most) in [(Format::Int8, 0.04), (Format::Int4, 0.45)] {
            let error = error(&converted(name, format), &expected);
            let has_experts = checkpoint(name).decoder().unwrap().experts.is_some();
            let most = if has_experts { OTHER_EXPERTS } else { most };
            assert!(error <= most, "{name}, {format:?}: {error:.4}");
            changed += usize::from(error > 1e-4);
        }
    }
    assert!(changed >= 12, "{changed} models were quantized");
}

#[test]
fn the_same_quantized_numbers_give_the_same_logits_from_either_file() {
    for (name, format) in [
        ("gguf-llama-q8_0", Format::Int8),
        ("gguf-llama-q4_0", Format::Int4),
    ] {
        let found = converted(name, format);
        let error = error(&found, &of(&checkpoint(name), name));
        match format {
            // Epsilon is f32 in the one and decimal in the other.
            Format::Int8 => assert!(error < 1e-9, "{error}"),
            // The embedding is int8 in our int4: q4_0's numbers times its scale, to within a rounding.
            _ => assert!(error < 0.05, "{error}"),
        }
    }
}

fn opened(directory: &Path) -> Checkpoint {
    let checkpoint = Checkpoint::open(directory, &ReadWhole).unwrap();
    checkpoint.check().unwrap();
    checkpoint
}

/// What a model makes of a few texts, pairs where it tells them apart.
fn vectors(checkpoint: &Checkpoint) -> Vec<f64> {
    let config = checkpoint.encoder().unwrap();
    let tokens: Vec<u32> = (0..30).map(|i| (7 + i * i * 5) % 64).collect();
    let types: Vec<u32> = (0..30).map(|i| u32::from(i > 11)).collect();
    let texts = [1, 9, 30].map(|length| EncoderText {
        tokens: &tokens[..length],
        types: match config.token_types() {
            1 => &[],
            _ => &types[..length],
        },
    });
    let mut vectors = Vec::new();
    let encoder = ReferenceEncoder::load(checkpoint, 80).unwrap();
    encoder.wide_encode(&texts, &mut vectors).unwrap();
    vectors
}

/// Every architecture with widths that can be quantized, and every GGUF file: a conversion says the same of the model, its matrices
/// are those that encoding makes, however they lie together in the file, and its vectors are about the same.
#[test]
fn encoders_are_converted_to_int8_and_int4() {
    let mut fused = 0;
    let gguf = GGUF_ENCODERS.into_iter().chain(REENCODED_ENCODERS);
    for name in ENCODERS.into_iter().chain(gguf) {
        let directory = tempfile::tempdir().unwrap();
        let open = || match golden::model(name).is_file() {
            true => checkpoint(name),
            false => opened(directory.path()),
        };
        if !golden::model(name).is_file() {
            wide::encoder(name, directory.path()).unwrap();
        }
        let before = open();
        let expected = vectors(&before);
        // int4 of random weights is far off: what is tested is that no tensor is another.
        for (format, most) in [(Format::Int8, 0.05), (Format::Int4, 0.6)] {
            let quantization = match format {
                Format::Int8 => Quantization::Int8,
                _ => Quantization::Int4,
            };
            let out = tempfile::tempdir().unwrap();
            let report = convert(&before, format, out.path(), &mut |_, _| {}).unwrap();
            let after = opened(out.path());
            let (config, said) = (before.encoder().unwrap(), after.encoder().unwrap());
            let mut decoder = config.decoder.clone();
            if let (Some(decoder), Some(said)) = (&mut decoder, &said.decoder) {
                decoder.quantization = Some(quantization);
                decoder.architecture.clone_from(&said.architecture);
                decoder.eos_tokens.clone_from(&said.eos_tokens);
            }
            let same = EncoderConfig {
                architecture: said.architecture.clone(),
                quantization: Some(quantization),
                decoder,
                ..config.clone()
            };
            assert_eq!(*said, same, "{name}");

            let encoded = open().encoded(format).unwrap();
            let (mut quantized, mut bytes, mut changed) = (0, 0, false);
            for tensor in config.tensors() {
                let [found, wanted] =
                    [&after, &encoded].map(|model| model.encoder_tensor(tensor).unwrap());
                assert_eq!(found.format(), wanted.format(), "{name}: {tensor:?}");
                assert_eq!(found.to_f32(), wanted.to_f32(), "{name}: {tensor:?}");
                quantized += usize::from(!found.format().is_float());
                bytes += found.bytes();
                changed |= found.format() != before.encoder_tensor(tensor).unwrap().format();
                let of_three = EncoderTensor::Layer(0, EncoderLayerTensor::Value);
                fused += usize::from(tensor == of_three && found.name().contains("Wqkv"));
            }
            assert_eq!(bytes, report.bytes_after, "{name}");
            let narrow = config.hidden % 32 != 0;
            assert_eq!(report.left_as_they_are.is_empty(), !narrow, "{name}");
            assert!(narrow || quantized > 6 * config.layers.len(), "{name}");
            let found = vectors(&after);
            let error = error(&found, &expected);
            // A score by itself may be near 0, beside which an error is larger.
            let most = if config.head.scores() == Some(1) {
                3.0 * most
            } else {
                most
            };
            assert!(error <= most, "{name}, {format:?}: {error:.4}");
            // What is handed on in the format already is not rounded again.
            assert_eq!(changed, error > 1e-6, "{name}, {format:?}: {error:.2e}");
        }
    }
    assert!(fused >= 2 * 6, "{fused} fused tensors");
}
