//! Mixtures of experts: against the float64 reference, with the same bits beside any other rows, and in what is read.

use tidegate_contract::{Sampling, StepSequence};
use tidegate_infer::device::Sabotage;
use tidegate_infer::{DecoderOptions, GpuDecoder, KernelVariant, LoadError};
use tidegate_reference::ReferenceDecoder;
use tidegate_weights::{Checkpoint, Experts, Format, ModelConfig};

use crate::support::{
    Random, assert_close, assert_same, blocks, even_config, expert_config, full_config,
    gpt_oss_config, gpu, in_chunks, is_exact, load, logits, options, options_on, sequence,
    shared_expert_config, sums_otherwise, to_spoil, variants,
};

/// As of models without experts: three layers of f32 sums.
const TOLERANCE: f64 = 5e-5;

#[test]
fn experts_give_the_logits_of_the_reference_in_every_format() {
    // Norms after each branch, caps and biases beside.
    let all = ModelConfig {
        experts: shared_expert_config().experts,
        ..full_config()
    };
    for (config, format) in [
        (shared_expert_config(), Format::F32),
        (all, Format::F32),
        (gpt_oss_config(), Format::F32),
        (expert_config(), Format::F16),
        (expert_config(), Format::Bf16),
        (expert_config(), Format::Int8),
        (expert_config(), Format::Int4),
    ] {
        let checkpoint = Checkpoint::random(config, format, 3);
        let tokens = Random(3).tokens(53, 50);
        let mut reference = ReferenceDecoder::load(&checkpoint, 512, 80, 512).unwrap();
        let mut expected = Vec::new();
        let step = [sequence(0, &tokens, &blocks(0, 50))];
        reference.wide_logits(&step, &mut expected).unwrap();
        for (gpu, variant) in variants() {
            if !is_exact(variant) {
                continue;
            }
            let mut decoder = load(gpu, &checkpoint, &options_on(gpu, variant));
            let what = format!("{format:?}, {variant}, {}", gpu.features());
            // Of one row, of some, and of so many that experts have full tiles.
            for chunk in [1, 9, 50] {
                let found = in_chunks(&mut decoder, &tokens, &blocks(5, 50), chunk);
                assert_close(&found, &expected, TOLERANCE, &format!("{what}, by {chunk}"));
            }
        }
    }
}

/// The bits of a row's logits, whatever rows are beside it and whichever experts they go through.
#[test]
fn a_row_has_the_same_bits_whoever_shares_its_experts() {
    for (config, format) in [
        (expert_config(), Format::Int8),
        (expert_config(), Format::Int4),
        (shared_expert_config(), Format::F16),
        (gpt_oss_config(), Format::Int8),
    ] {
        let checkpoint = Checkpoint::random(config, format, 5);
        let mut random = Random(5);
        let tokens = random.tokens(53, 40);
        for (gpu, variant) in variants() {
            if sums_otherwise(variant) {
                continue;
            }
            let options = DecoderOptions {
                reproducible: true,
                blocks: 400,
                ..options_on(gpu, variant)
            };
            let mut decoder = load(gpu, &checkpoint, &options);
            let what = |more: &str| format!("{format:?} {variant}, {more}");
            let expected = in_chunks(&mut decoder, &tokens, &blocks(0, 40), 40);
            for chunk in [1, 3, 8, 32] {
                let found = in_chunks(&mut decoder, &tokens, &blocks(7, 40), chunk);
                assert_same(&found, &expected, &what(&format!("chunks of {chunk}")));
            }
            for batch in [1, 3, 8, 32] {
                let others: Vec<(Vec<u32>, Vec<u32>)> = (1..batch as u32)
                    .map(|i| (random.tokens(53, 1 + i as usize), blocks(8 * i, 40)))
                    .collect();
                for (tokens, blocks) in &others {
                    in_chunks(&mut decoder, &tokens[..tokens.len() - 1], blocks, 64);
                }
                in_chunks(&mut decoder, &tokens[..39], &blocks(300, 40), 64);
                let mut step: Vec<StepSequence> = others
                    .iter()
                    .map(|(tokens, blocks)| {
                        sequence(tokens.len() - 1, &tokens[tokens.len() - 1..], blocks)
                    })
                    .collect();
                let place = step.len() / 2;
                step.insert(place, sequence(39, &tokens[39..], &blocks(300, 40)));
                let found = logits(&mut decoder, &step);
                assert_same(
                    &found[place * 53..][..53],
                    &expected[39 * 53..],
                    &what(&format!("batch of {batch}")),
                );
            }
        }
    }
}

/// What is not loaded with kernels that do nothing, or give a row another expert's output.
#[test]
fn kernels_of_experts_that_are_wrong_are_not_used() {
    let checkpoint = Checkpoint::random(shared_expert_config(), Format::F16, 5);
    let device = to_spoil();
    let wrong = |variant: KernelVariant, what: &str| {
        device.forget_tests();
        let error = GpuDecoder::load(&device, &checkpoint, &options(variant)).unwrap_err();
        let LoadError::WrongNumbers(wrong) = &error else {
            panic!("{what}: {error:?}");
        };
        device.repair();
        wrong.kernel.clone()
    };
    for variant in [KernelVariant::Software, KernelVariant::Portable] {
        for kernel in ["route", "group", "combine"] {
            device.sabotage(kernel, Sabotage::DoesNothing);
            let named = wrong(variant, kernel);
            assert!(named.contains(kernel), "{variant}, {kernel}: {named}");
        }
        for (kernel, from, to) in [
            (
                "group",
                "place % TILE] = pair;",
                "place % TILE] = pair / 2u;",
            ),
            ("combine", "sum += weight * x", "sum += weight * weight * x"),
        ] {
            device.sabotage(kernel, Sabotage::Edited { from, to });
            let named = wrong(variant, from);
            assert!(named.contains(kernel), "{variant}, {from}: {named}");
        }
    }
}

/// The same of what gpt-oss alone has: sinks left out or of another head, biases of other experts, a gate that is not cut off.
#[test]
fn kernels_of_gpt_oss_that_are_wrong_are_not_used() {
    let checkpoint = Checkpoint::random(gpt_oss_config(), Format::F16, 5);
    let device = to_spoil();
    for variant in [KernelVariant::Software, KernelVariant::Portable] {
        let attention = match variant {
            KernelVariant::Software => "attention_values",
            _ => "attention_tile",
        };
        for (kernel, from, to) in [
            (attention, "params.has_sinks == 0u", "params.heads > 0u"),
            (attention, "head % params.heads", "0u"),
            ("activate", "expert * params.width4", "params.width4"),
            ("activate", "vec4<f32>(params.limit));", "vec4<f32>(9.0));"),
            ("activate", "(up + 1.0)", "up"),
            ("combine", "+ bias_of(route.x, column)", ""),
        ] {
            device.sabotage(kernel, Sabotage::Edited { from, to });
            device.forget_tests();
            let error = GpuDecoder::load(&device, &checkpoint, &options(variant)).unwrap_err();
            device.repair();
            let LoadError::WrongNumbers(wrong) = &error else {
                panic!("{variant}, {from}: {error:?}");
            };
            assert!(
                wrong.kernel.contains(kernel),
                "{variant}, {from}: {wrong:?}"
            );
        }
    }
}

#[test]
fn more_experts_than_workgroups_is_refused_by_the_rows_that_would_do() {
    let config = ModelConfig {
        experts: Some(Experts {
            count: 1000,
            chosen: 1000,
            intermediate: 4,
            normalized: true,
            shared: None,
            layers: vec![true, false, false],
            clamped: None,
        }),
        ..even_config()
    };
    let checkpoint = Checkpoint::random(config, Format::F32, 1);
    let options = DecoderOptions {
        max_rows: 300,
        ..options(KernelVariant::Portable)
    };
    let error = GpuDecoder::load(gpu(), &checkpoint, &options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("max_rows is 300, must be between 1 and 258"),
        "{error}"
    );
}

/// Software adapters end a kernel's loops after some 65,000 turns, and one invocation brings all pairs of rows and experts together: here
/// 32,768 of them. So such a step runs in several passes.
#[test]
fn more_pairs_than_a_software_adapter_has_turns_for_are_brought_together_all_the_same() {
    let config = ModelConfig {
        experts: Some(Experts {
            count: 8,
            chosen: 8,
            intermediate: 4,
            normalized: true,
            shared: None,
            layers: vec![true, false, false],
            clamped: None,
        }),
        ..even_config()
    };
    let checkpoint = Checkpoint::random(config, Format::F32, 1);
    let (sequences, length) = (64, 64);
    let options = DecoderOptions {
        blocks: sequences * length / 16,
        max_rows: sequences * length,
        ..options(KernelVariant::Software)
    };
    let mut decoder = load(gpu(), &checkpoint, &options);
    let mut random = Random(9);
    let step: Vec<StepSequence> = (0..sequences)
        .map(|index| {
            let own = blocks((index * length / 16) as u32, length);
            StepSequence {
                samples: vec![Sampling::default()],
                ..sequence(0, &random.tokens(53, length), &own)
            }
        })
        .collect();
    let together = logits(&mut decoder, &step);
    for (index, sequence) in step.iter().enumerate() {
        let alone = logits(&mut decoder, std::slice::from_ref(sequence));
        let of = &together[index * 53..][..53];
        assert_same(of, &alone, &format!("sequence {index}"));
    }
}

#[test]
fn a_choice_of_more_turns_than_a_software_adapter_has_is_refused_by_name() {
    let config = |count, chosen| ModelConfig {
        experts: Some(Experts {
            count,
            chosen,
            intermediate: 4,
            normalized: true,
            shared: None,
            layers: vec![true, false, false],
            clamped: None,
        }),
        ..even_config()
    };
    let checkpoint = |count, chosen| Checkpoint::random(config(count, chosen), Format::F32, 1);
    let of_software = options(KernelVariant::Software);
    let error = GpuDecoder::load(gpu(), &checkpoint(512, 128), &of_software).unwrap_err();
    let error = error.to_string();
    for part in [
        "software kernels cannot run on ",
        "to choose 128 of 512 experts takes 66304 turns",
        "after 65000",
        "ask for `portable` kernels",
    ] {
        assert!(error.contains(part), "{error}");
    }
    load(gpu(), &checkpoint(512, 125), &of_software);
    let portable = options(KernelVariant::Portable);
    load(gpu(), &checkpoint(512, 128), &portable);
}
