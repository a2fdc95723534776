//! Whole models of every family against the transformers library in float64.

use tidegate_infer::{DecoderOptions, KernelVariant, KvPrecision};
use tidegate_reference::golden::{
    self, DECODERS, GGUF_DECODERS, PACKED_DECODERS, REENCODED_DECODERS,
};

use tidegate_reference::ReferenceDecoder;

use crate::support::{
    assert_close, bare_gpu, blocks, golden_checkpoint, load, logits, options_on, sequence, variants,
};

/// Sums of a few hundred products in f32, through at most three layers, as a share of 1 + the largest logit.
const TOLERANCE: f64 = 5e-5;

/// The same with keys and values rounded to f16.
const HALF_TOLERANCE: f64 = 2e-3;

/// The same with keys and values rounded to int8, by a scale for each head of each position.
const INT8_TOLERANCE: f64 = 5e-2;

/// The same with products of matrices in f16, or with activations rounded to int8.
fn tolerance(variant: KernelVariant) -> f64 {
    match variant {
        KernelVariant::F16 | KernelVariant::Cooperative => 5e-3,
        KernelVariant::Dot => 5e-2,
        _ => TOLERANCE,
    }
}

#[track_caller]
fn check(name: &str, gpu: &tidegate_infer::Gpu, options: &DecoderOptions, tolerance: f64) {
    let checkpoint = golden_checkpoint(name);
    for case in golden::decoder(name).unwrap() {
        let options = DecoderOptions {
            context: case.context,
            ..options.clone()
        };
        let mut decoder = load(gpu, &checkpoint, &options);
        let blocks = blocks(3, case.tokens.len());
        let found = logits(&mut decoder, &[sequence(0, &case.tokens, &blocks)]);
        let vocabulary = found.len() / case.tokens.len();
        for (&position, expected) in case.positions.iter().zip(&case.logits) {
            let found = &found[position * vocabulary..][..vocabulary];
            let kernels = options.kernels;
            let what = format!(
                "{name}, {kernels:?}, {}, position {position}",
                gpu.features()
            );
            assert_close(found, expected, tolerance, &what);
        }
    }
}

#[test]
fn every_family_gives_the_logits_of_transformers_with_every_variant() {
    for (gpu, variant) in variants() {
        for name in DECODERS {
            check(name, gpu, &options_on(gpu, variant), tolerance(variant));
        }
    }
}

#[test]
fn every_gguf_gives_the_logits_of_what_it_holds() {
    for (gpu, variant) in variants() {
        for name in GGUF_DECODERS {
            check(name, gpu, &options_on(gpu, variant), tolerance(variant));
        }
    }
}

/// How far int8 is from what the file holds: random weights have no redundancy, so that every rounding reaches the logits.
const REENCODED: f64 = 0.05;

/// A model on a device beside the same in float64 with the weights that the device holds, and beside what its files say, to
/// within `exact`.
fn check_reencoded(name: &str, gpu: &tidegate_infer::Gpu, variant: KernelVariant, exact: f64) {
    let checkpoint = golden_checkpoint(name);
    for case in golden::decoder(name).unwrap() {
        let options = DecoderOptions {
            context: case.context,
            ..options_on(gpu, variant)
        };
        let mut decoder = load(gpu, &checkpoint, &options);
        let blocks = blocks(3, case.tokens.len());
        let found = logits(&mut decoder, &[sequence(0, &case.tokens, &blocks)]);
        let mut reference = ReferenceDecoder::load(&checkpoint, case.context, 12, 64).unwrap();
        let mut expected = Vec::new();
        let step = [sequence(0, &case.tokens, &blocks)];
        reference.wide_logits(&step, &mut expected).unwrap();
        let what = format!("{name}, {variant:?}");
        assert_close(&found, &expected, tolerance(variant), &what);
        let vocabulary = found.len() / case.tokens.len();
        for (&position, said) in case.positions.iter().zip(&case.logits) {
            let found = &found[position * vocabulary..][..vocabulary];
            assert_close(found, said, exact + tolerance(variant), &what);
        }
    }
    for format in checkpoint.reencoded().unwrap() {
        let loss = format
            .loss
            .as_ref()
            .map_or((0.0, 0.0), |loss| (loss.rms, loss.largest));
        // Half a step of 127, and half a unit of the scale's eleven bits.
        let most = 0.5 / 127.0 + 1.0 / 2048.0;
        assert!(loss.0 < 1e-2 && loss.1 < most, "{name}: {format:?}");
    }
}

#[test]
fn formats_without_kernels_run_as_int8_near_what_the_file_holds() {
    for (gpu, variant) in variants() {
        for name in REENCODED_DECODERS {
            check_reencoded(name, gpu, variant, REENCODED);
        }
    }
}

#[test]
fn packed_models_run_near_what_they_say_and_as_that_where_nothing_is_lost() {
    // What they are held in runs in every variant above.
    for variant in [KernelVariant::Software, KernelVariant::Portable] {
        for name in PACKED_DECODERS {
            let lossy = ["by-order", "awq", "fp8", "gptq-qwen3-moe"];
            let exact = match lossy.iter().any(|part| name.contains(part)) {
                true => REENCODED,
                false => 0.0,
            };
            check_reencoded(name, bare_gpu(), variant, exact);
        }
    }
}

#[test]
fn keys_and_values_in_fewer_bits_change_the_logits_by_no_more_than_stated() {
    for (kv, tolerance) in [
        (KvPrecision::F16, HALF_TOLERANCE),
        (KvPrecision::Int8, INT8_TOLERANCE),
    ] {
        for variant in [KernelVariant::Software, KernelVariant::Portable] {
            for name in DECODERS {
                // Of its rows, which go through one expert each, one goes through another with int8, by all kernels alike.
                if kv == KvPrecision::Int8 && name == "gpt-oss-one-bf16" {
                    continue;
                }
                let options = DecoderOptions {
                    kv,
                    ..options_on(bare_gpu(), variant)
                };
                check(name, bare_gpu(), &options, tolerance);
            }
        }
    }
}
