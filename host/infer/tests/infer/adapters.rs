//! Low-rank adapters against the peft library in float64, and rows of several adapters and of none in one batch.

use std::path::PathBuf;

use tidegate_contract::{DecodeError, Decoder, StepSequence};
use tidegate_infer::sheet::{CostSheet, DeviceProfile, SheetOptions, StepSheet};
use tidegate_infer::{DecoderOptions, Gpu, GpuDecoder, KernelVariant, MemoryReport};
use tidegate_reference::golden::{self, ADAPTED_DECODERS, DecoderCase};
use tidegate_weights::{Checkpoint, Format, Lora, ReadWhole};

use crate::support::{
    Random, assert_close, assert_same, bare_gpu, blocks, golden_checkpoint, gpu, load, logits,
    options_on, sequence, sums_otherwise, variants,
};

/// As of whole models without adapters.
fn tolerance(variant: KernelVariant) -> f64 {
    match variant {
        KernelVariant::F16 | KernelVariant::Cooperative => 5e-3,
        KernelVariant::Dot => 5e-2,
        _ => 5e-5,
    }
}

/// A base with all its adapters.
fn adapted(base: &str) -> (Checkpoint, Vec<(PathBuf, DecoderCase)>) {
    let checkpoint = golden_checkpoint(base);
    let cases = golden::adapters(base).unwrap();
    let loras = cases.iter().map(|(folder, _)| {
        let config = checkpoint.decoder().unwrap();
        Lora::open(folder, config, &ReadWhole).unwrap_or_else(|e| panic!("{e}"))
    });
    let loras = loras.collect();
    (checkpoint.adapted(loras), cases)
}

/// A sequence through an adapter.
fn through(lora: usize, position: usize, tokens: &[u32], blocks: &[u32]) -> StepSequence {
    StepSequence {
        lora: lora as u32,
        ..sequence(position, tokens, blocks)
    }
}

/// All adapters and none over the same tokens, side by side in one step: `[none, 1, 2, ...]`.
fn side_by_side(decoder: &mut GpuDecoder, case: &DecoderCase, loras: usize) -> Vec<Vec<f32>> {
    let each = case.tokens.len().div_ceil(16);
    let step: Vec<StepSequence> = (0..=loras)
        .map(|lora| {
            let blocks = blocks((lora * each) as u32, case.tokens.len());
            through(lora, 0, &case.tokens, &blocks)
        })
        .collect();
    let all = logits(decoder, &step);
    let of_each = all.len() / step.len();
    all.chunks(of_each).map(<[f32]>::to_vec).collect()
}

fn loaded(
    gpu: &Gpu,
    checkpoint: &Checkpoint,
    case: &DecoderCase,
    variant: KernelVariant,
    rows: usize,
) -> GpuDecoder {
    let options = DecoderOptions {
        context: case.context,
        max_rows: rows,
        max_samples: rows,
        ..options_on(gpu, variant)
    };
    load(gpu, checkpoint, &options)
}

#[test]
fn adapters_give_the_logits_of_peft_and_rows_without_one_those_of_the_base() {
    for (gpu, variant) in variants() {
        for base in ADAPTED_DECODERS {
            let (checkpoint, cases) = adapted(base);
            let case = &cases[0].1;
            let rows = (cases.len() + 1) * case.tokens.len();
            let mut decoder = loaded(gpu, &checkpoint, case, variant, rows);
            let mut plain = loaded(gpu, &golden_checkpoint(base), case, variant, rows);
            let found = side_by_side(&mut decoder, case, cases.len());
            for (index, (folder, case)) in cases.iter().enumerate() {
                let found = &found[index + 1];
                let vocabulary = found.len() / case.tokens.len();
                for (&position, expected) in case.positions.iter().zip(&case.logits) {
                    let found = &found[position * vocabulary..][..vocabulary];
                    let what = format!(
                        "{}, {variant:?}, {}, position {position}",
                        folder.display(),
                        gpu.features()
                    );
                    assert_close(found, expected, tolerance(variant), &what);
                }
            }
            let tokens = [sequence(0, &case.tokens, &blocks(0, case.tokens.len()))];
            let alone = logits(&mut plain, &tokens);
            let what = format!("{base}, {variant:?}, {}", gpu.features());
            // Of sums that depend on the rows of a step both have as many.
            if !sums_otherwise(variant) {
                assert_same(&found[0], &alone, &format!("{what}: beside adapters"));
                assert_same(
                    &logits(&mut decoder, &tokens),
                    &alone,
                    &format!("{what}: by itself"),
                );
            }
        }
    }
}

/// The bits of a row's logits, whatever adapters the rows beside it have: through a base of every family, with heads in groups and of
/// widths that are no multiples of four, with experts, and of weights in int8 and int4.
#[test]
fn a_row_has_the_same_bits_whatever_adapters_are_beside_it() {
    let bases = ADAPTED_DECODERS.map(|base| (base, None));
    let encoded =
        [Format::Int8, Format::Int4].map(|format| ("llama-tied-sharded-f32", Some(format)));
    for (base, format) in bases.into_iter().chain(encoded) {
        let (checkpoint, cases) = adapted(base);
        let checkpoint = match format {
            Some(format) => checkpoint.encoded(format).unwrap(),
            None => checkpoint,
        };
        for (gpu, variant) in variants() {
            if sums_otherwise(variant) {
                continue;
            }
            same_bits_beside_any(gpu, variant, &checkpoint, &cases[0].1, base);
        }
    }
}

fn same_bits_beside_any(
    gpu: &Gpu,
    variant: KernelVariant,
    checkpoint: &Checkpoint,
    case: &DecoderCase,
    base: &str,
) {
    let options = DecoderOptions {
        context: case.context,
        ..options_on(gpu, variant)
    };
    let mut decoder = load(gpu, checkpoint, &options);
    let vocabulary = checkpoint.decoder().unwrap().vocabulary;
    let mut random = Random(5);
    let prompts: Vec<Vec<u32>> = (0..33).map(|_| random.tokens(vocabulary, 2)).collect();
    let loras = checkpoint.loras().len();
    let adapter_of = |row: usize| (row * 5 + 2) % (loras + 1);
    // What an adapter makes of a row by itself.
    let mut by_itself = |row: usize, lora: usize| {
        let tokens = &prompts[row];
        logits(&mut decoder, &[through(lora, 0, &tokens[..1], &[0])]);
        logits(&mut decoder, &[through(lora, 1, &tokens[1..], &[0])])
    };
    let what = format!("{base}, {variant:?}, {}", gpu.features());
    // Each makes something else of it, or the same bits would say nothing.
    let of_each: Vec<Vec<f32>> = (0..=loras).map(|lora| by_itself(0, lora)).collect();
    for (lora, of) in of_each.iter().enumerate() {
        assert!(!of_each[..lora].contains(of), "{what}, adapter {lora}");
    }
    let alone: Vec<Vec<f32>> = (0..prompts.len())
        .map(|row| by_itself(row, adapter_of(row)))
        .collect();
    for batch in [1, 3, 8, 32] {
        for first in [0, 1] {
            let step = |at: usize| -> Vec<StepSequence> {
                (first..first + batch)
                    .map(|row| {
                        let blocks = [1 + (row - first) as u32];
                        through(adapter_of(row), at, &prompts[row][at..=at], &blocks)
                    })
                    .collect()
            };
            logits(&mut decoder, &step(0));
            let together = logits(&mut decoder, &step(1));
            for (row, found) in (first..).zip(together.chunks(vocabulary)) {
                assert_same(found, &alone[row], &format!("{what}, row {row} of {batch}"));
            }
        }
    }
}

#[test]
fn a_step_without_adapters_runs_nothing_more_than_the_base() {
    let (checkpoint, cases) = adapted("llama-odd-f16");
    let case = &cases[0].1;
    for (gpu, variant) in [
        (gpu(), KernelVariant::Software),
        (bare_gpu(), KernelVariant::Software),
    ] {
        let mut decoder = loaded(gpu, &checkpoint, case, variant, 8);
        let mut plain = loaded(gpu, &golden_checkpoint("llama-odd-f16"), case, variant, 8);
        let dispatches = |decoder: &mut GpuDecoder, loras: &[usize]| {
            let step: Vec<StepSequence> = (0..)
                .zip(loras)
                .map(|(row, lora)| through(*lora, 0, &[3], &[row]))
                .collect();
            logits(decoder, &step);
            decoder.dispatches_last_step()
        };
        let base = dispatches(&mut plain, &[0, 0, 0]);
        assert_eq!(dispatches(&mut decoder, &[0, 0, 0]), base);
        // Two for each of four products of a layer, however many adapters and rows.
        let layers = checkpoint.decoder().unwrap().layers.len() as u32;
        assert_eq!(dispatches(&mut decoder, &[8]), base + 8 * layers);
        assert_eq!(
            dispatches(&mut decoder, &[8, 0, 9, 1, 10]),
            base + 8 * layers
        );
    }
}

#[test]
fn an_adapter_that_is_not_there_is_refused() {
    let (checkpoint, cases) = adapted("qwen3-moe-f16");
    let case = &cases[0].1;
    let mut decoder = loaded(bare_gpu(), &checkpoint, case, KernelVariant::Software, 8);
    let error = decoder
        .logits(&[through(2, 0, &[1], &[0])], &mut Vec::new())
        .unwrap_err();
    assert!(matches!(error, DecodeError::Refused { .. }), "{error}");
    let expected =
        "sequence 0 of the step: low-rank adapter is 2, must be at most the adapters there are, 1";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_adapters_take_is_in_the_report_and_in_its_estimate() {
    let (checkpoint, cases) = adapted("llama-odd-f16");
    let case = &cases[0].1;
    let base = golden_checkpoint("llama-odd-f16");
    let report = |checkpoint: &Checkpoint| {
        loaded(bare_gpu(), checkpoint, case, KernelVariant::Software, 8).memory_report()
    };
    let (with, without) = (report(&checkpoint), report(&base));
    let numbers: usize = checkpoint
        .loras()
        .iter()
        .map(|lora| lora.parameters())
        .sum();
    let more = with.weights - without.weights;
    // Padding, of widths that are no multiples of four and of gate and up in turn, is no more than the numbers themselves.
    assert!(more >= 4 * numbers as u64, "{more} for {numbers}");
    assert!(more <= 8 * numbers as u64, "{more} for {numbers}");
    let options = DecoderOptions {
        context: case.context,
        max_rows: 8,
        max_samples: 8,
        ..options_on(bare_gpu(), KernelVariant::Software)
    };
    let estimate = MemoryReport::estimate(&checkpoint, &options).unwrap();
    assert_eq!(estimate.weights, with.weights);
    assert!(estimate.total() >= with.total());
}

#[test]
fn the_cost_sheet_counts_adapters_as_far_as_they_change_a_step() {
    let (checkpoint, _) = adapted("llama-odd-f16");
    let base = golden_checkpoint("llama-odd-f16");
    let device = DeviceProfile::named("h100").unwrap();
    let steps = SheetOptions {
        batch: 3,
        context: 32,
        chunk: 16,
    };
    let options = steps.decoder();
    let planned =
        |checkpoint: &Checkpoint| CostSheet::planned(checkpoint, &device, &options, steps).unwrap();
    let (with, without) = (planned(&checkpoint), planned(&base));
    assert!(with.weights_bytes > without.weights_bytes);
    let layers = checkpoint.decoder().unwrap().layers.len();
    for (with, without) in [
        (&with.decode, &without.decode),
        (&with.prefill, &without.prefill),
    ] {
        let count = |sheet: &StepSheet, kernel: &str| {
            let of = sheet.dispatches.iter();
            of.filter(|dispatch| dispatch.kernel == kernel).count()
        };
        assert_eq!(
            count(without, "lora_shrink") + count(without, "lora_expand"),
            0
        );
        assert_eq!(count(with, "lora_shrink"), 4 * layers);
        assert_eq!(count(with, "lora_expand"), 4 * layers);
        assert!(with.least_bytes > without.least_bytes);
        assert!(with.multiply_adds > without.multiply_adds);
    }
}
