//! What goes wrong on a device is a typed error, and others on the device, or a new device, go on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_contract::{DecodeError, Decoder, Sampled};
use tidegate_infer::device::Sabotage;
use tidegate_infer::{
    AdapterKind, DecoderOptions, DeviceOptions, EncoderOptions, Features, Gpu, GpuDecoder,
    GpuEncoder, KernelVariant, KvPrecision, LoadError,
};
use tidegate_reference::golden::ENCODERS;
use tidegate_weights::{Checkpoint, Format, ModelConfig};

use crate::support::{
    adapter, assert_same, bare_to_spoil, blocks, even_config, expert_config, full_config,
    golden_checkpoint, gpu, in_chunks, load, logits, open, options, random_model, sequence,
    shared_expert_config, small_config, sums_otherwise, to_spoil, turned_config, variants,
};

fn default_kernels() -> DecoderOptions {
    DecoderOptions {
        kernels: None,
        ..options(KernelVariant::Software)
    }
}

#[test]
fn a_lost_device_is_a_typed_error_and_the_model_loads_again_on_a_new_one() {
    let checkpoint = random_model(small_config(), 1);
    let device = open(Features::ALL);
    let mut decoder = load(&device, &checkpoint, &default_kernels());
    let tokens = [1, 2, 3, 4, 5];
    let expected = in_chunks(&mut decoder, &tokens, &blocks(0, 5), 5);

    device.lose();
    let step = [sequence(0, &tokens, &blocks(0, 5))];
    let mut sampled: Vec<Sampled> = Vec::new();
    let error = decoder.step(&step, &mut sampled).unwrap_err();
    assert!(matches!(error, DecodeError::DeviceLost { .. }), "{error:?}");
    assert!(error.is_fatal());
    assert_eq!(
        decoder.step(&step, &mut sampled).unwrap_err(),
        error,
        "it stays lost"
    );
    let error = GpuDecoder::load(&device, &checkpoint, &default_kernels()).unwrap_err();
    assert!(matches!(error, LoadError::DeviceLost { .. }), "{error:?}");

    let mut decoder = load(&open(Features::ALL), &checkpoint, &default_kernels());
    let found = in_chunks(&mut decoder, &tokens, &blocks(0, 5), 5);
    assert_same(&found, &expected, "after the loss");
}

#[test]
fn a_device_that_is_late_is_a_typed_error_and_the_decoder_is_given_up() {
    let checkpoint = random_model(small_config(), 2);
    let mut decoder = load(gpu(), &checkpoint, &default_kernels());
    let limit = Duration::from_nanos(1);
    decoder.set_deadline(limit);
    let step = [sequence(0, &[1; 64], &blocks(0, 64))];
    let mut logits = Vec::new();
    // A thread that is put aside between the submission and the wait finds the step done: then it was not late.
    let error = (0..1000)
        .find_map(|_| decoder.logits(&step, &mut logits).err())
        .unwrap();
    assert_eq!(error, DecodeError::DeadlineExceeded { limit });
    decoder.set_deadline(Duration::from_secs(30));
    assert_eq!(decoder.logits(&step, &mut logits).unwrap_err(), error);
}

#[test]
fn running_out_of_memory_ends_the_model_it_happens_to_and_no_other() {
    let checkpoint = random_model(small_config(), 3);
    let device = to_spoil();
    let mut other = load(&device, &checkpoint, &default_kernels());
    let mut decoder = load(&device, &checkpoint, &default_kernels());

    device.exhaust();
    let error = GpuDecoder::load(&device, &checkpoint, &default_kernels()).unwrap_err();
    let LoadError::OutOfMemory { bytes, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(bytes, decoder.memory_report().total());

    device.exhaust();
    let step = [sequence(0, &[1, 2, 3], &blocks(0, 3))];
    let mut found = Vec::new();
    let error = decoder.logits(&step, &mut found).unwrap_err();
    assert!(
        matches!(error, DecodeError::OutOfMemory { .. }),
        "{error:?}"
    );
    assert!(error.is_fatal());
    assert_eq!(decoder.logits(&step, &mut found).unwrap_err(), error);
    assert_eq!(logits(&mut other, &step).len(), 3 * 53);
}

/// The driver itself finds no memory: this test starts itself again and ends that process's address space a little beyond what
/// it has, so that nothing is taken from anybody. Only the memory of a software adapter is in that address space.
#[cfg(target_os = "linux")]
#[test]
fn a_driver_without_memory_refuses_a_model_and_goes_on_with_others() {
    const LIMITED: &str = "TIDEGATE_TEST_LIMITED";
    if adapter().info().kind != AdapterKind::Software {
        return;
    }
    if std::env::var_os(LIMITED).is_none() {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "faults::a_driver_without_memory_refuses_a_model_and_goes_on_with_others",
            ])
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        let errors = String::from_utf8_lossy(&again.stderr);
        assert!(said.contains("1 passed"), "{said} {errors}");
        return;
    }
    let checkpoint = random_model(small_config(), 3);
    let device = open(Features::ALL);
    let mut other = load(&device, &checkpoint, &default_kernels());
    let step = [sequence(0, &[1, 2, 3], &blocks(0, 3))];
    let expected = logits(&mut other, &step);

    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let most = (kilobytes.unwrap().parse::<u64>().unwrap() << 10) + (256 << 20);
    let limited = std::process::Command::new("prlimit")
        .args([
            format!("--pid={}", std::process::id()),
            format!("--as={most}"),
        ])
        .status()
        .expect("this test needs prlimit, which util-linux has");
    assert!(limited.success());

    // Keys, and values, of each of three layers take 100 MiB: the third of these six is too much.
    let options = DecoderOptions {
        blocks: (100 << 20) / (16 * 2 * 12 * 4),
        ..default_kernels()
    };
    let error = GpuDecoder::load(&device, &checkpoint, &options).unwrap_err();
    let LoadError::OutOfMemory { bytes, reason } = error else {
        panic!("{error:?}");
    };
    assert!(bytes > 600 << 20, "{bytes}");
    assert!(reason.contains("keys or values of a layer"), "{reason}");
    assert_same(&logits(&mut other, &step), &expected, "another model");
    let mut again = load(&device, &checkpoint, &default_kernels());
    assert_same(&logits(&mut again, &step), &expected, "after the refusal");
}

#[test]
fn a_kernel_that_does_not_compile_is_named() {
    let checkpoint = random_model(small_config(), 4);
    let device = to_spoil();
    for kernel in ["embed", "norm", "sample_draw", "sample_finish"] {
        device.sabotage(kernel, Sabotage::DoesNotCompile);
        let error = GpuDecoder::load(&device, &checkpoint, &default_kernels()).unwrap_err();
        let LoadError::Kernel {
            kernel: named,
            reason,
        } = error
        else {
            panic!("{kernel}: {error:?}");
        };
        assert_eq!(named, kernel);
        assert!(reason.contains("this is no shader"), "{reason}");
        device.repair();
    }
}

/// The second half of the software attention writes nothing, or does not compile: the self-test sees it, and the portable
/// kernels, which have no such kernel, take its place. Asked for by name, they are refused.
#[test]
fn kernels_that_compute_wrong_numbers_are_not_used() {
    let checkpoint = random_model(small_config(), 5);
    let device = to_spoil();
    let sound = load(&device, &checkpoint, &default_kernels());
    assert_eq!(sound.kernels().matmul, KernelVariant::Software, "llvmpipe");

    for sabotage in [Sabotage::DoesNothing, Sabotage::DoesNotCompile] {
        device.sabotage("attention_values", sabotage);
        let said = Said::default();
        // With one alone, tracing asks only the thread that comes by first whether anybody listens: that may be another test.
        let _another = tracing::Dispatch::new(Said::default());
        let mut decoder = tracing::subscriber::with_default(said.clone(), || {
            load(&device, &checkpoint, &default_kernels())
        });
        assert_eq!(decoder.kernels().matmul, KernelVariant::Portable);
        let said = said.0.lock().unwrap().join("\n");
        for part in [
            "failed their self-test",
            "kernels=\"software\"",
            "attention_values",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(said.contains("instead=\"portable\""), "{said}");
        let mut whole = load(gpu(), &checkpoint, &options(KernelVariant::Portable));
        let step = [sequence(0, &[1, 2, 3], &blocks(0, 3))];
        assert_same(
            &logits(&mut decoder, &step),
            &logits(&mut whole, &step),
            "portable",
        );
        let asked = options(KernelVariant::Software);
        let error = GpuDecoder::load(&device, &checkpoint, &asked).unwrap_err();
        match &error {
            LoadError::WrongNumbers(wrong) => {
                assert_eq!(wrong.variant, "software");
                assert!(wrong.kernel.contains("attention_values"), "{error}");
            }
            LoadError::Kernel { kernel, .. } => assert_eq!(kernel, "attention_values"),
            _ => panic!("{error:?}"),
        }
    }
}

/// What is said while it is the subscriber.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Said {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(
            &mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                line += &format!("{field}={value:?} ");
            },
        );
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// That loading fails, and with which kernels named.
#[track_caller]
fn assert_wrong(kernel: &str, error: &LoadError) {
    let LoadError::WrongNumbers(wrong) = error else {
        panic!("{kernel}: {error:?}");
    };
    let named = wrong.kernel.split(", ").any(|name| name == kernel);
    assert!(named, "{error}");
    assert_ne!(wrong.expected, wrong.found);
    let said = error.to_string();
    for part in [
        wrong.variant,
        &wrong.adapter,
        kernel,
        &wrong.expected,
        &wrong.found,
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// Kernels that all variants have under one name: none is left to try.
#[test]
fn a_decoder_with_a_kernel_that_writes_nothing_is_not_loaded() {
    let checkpoint = random_model(full_config(), 5);
    let device = to_spoil();
    for kernel in [
        "embed",
        "norm",
        "bias",
        "softcap",
        "heads",
        "matmul",
        "sample_scan",
        "sample_search",
        "sample_draw",
        "sample_finish",
    ] {
        device.sabotage(kernel, Sabotage::DoesNothing);
        let error = GpuDecoder::load(&device, &checkpoint, &default_kernels()).unwrap_err();
        assert_wrong(kernel, &error);
        device.repair();
    }
    load(&device, &checkpoint, &default_kernels());
}

/// What only some variants have.
#[test]
fn kernels_that_only_a_variant_has_are_tried_with_it() {
    let checkpoint = Checkpoint::random(even_config(), Format::Int8, 5);
    let (bare, whole) = (bare_to_spoil(), to_spoil());
    for (device, variant, kernel) in [
        (&whole, KernelVariant::Software, "attention_scores"),
        (&whole, KernelVariant::Software, "attention_values"),
        (&whole, KernelVariant::Portable, "attention"),
        (&whole, KernelVariant::Subgroup, "attention"),
        // Else whoever writes the last part merges them.
        (&bare, KernelVariant::Portable, "attention_merge"),
        (&whole, KernelVariant::Dot, "quantize"),
    ] {
        device.sabotage(kernel, Sabotage::DoesNothing);
        let error = GpuDecoder::load(device, &checkpoint, &options(variant)).unwrap_err();
        assert_wrong(kernel, &error);
        device.repair();
    }
}

/// By their parameters: the very ones that a step runs.
#[test]
fn every_kernel_of_a_decoder_ran_in_a_self_test() {
    let (bare, whole) = (bare_to_spoil(), to_spoil());
    let biased = ModelConfig {
        post_norms: false,
        heads: 7,
        kv_heads: 1,
        ..full_config()
    };
    // Of the last products do norms, and no heads.
    let normed = ModelConfig {
        head_norms: true,
        ..small_config()
    };
    for (config, format, kv) in [
        (full_config(), Format::Bf16, KvPrecision::F16),
        (biased, Format::F16, KvPrecision::Int8),
        (even_config(), Format::Int8, KvPrecision::F16),
        (turned_config(), Format::F16, KvPrecision::F16),
        (normed, Format::F32, KvPrecision::F16),
        (expert_config(), Format::Int8, KvPrecision::F16),
        (shared_expert_config(), Format::F16, KvPrecision::F16),
    ] {
        let checkpoint = Checkpoint::random(config, format, 5);
        for (shared, variant) in variants() {
            let device = match shared.features() {
                Features::NONE => &bare,
                _ => &whole,
            };
            device.forget_tests();
            let options = DecoderOptions {
                kv,
                reproducible: format == Format::Int8 && !sums_otherwise(variant),
                checked_shaders: false,
                ..options(variant)
            };
            let decoder = load(device, &checkpoint, &options);
            for kernel in decoder.kernels_in_use() {
                assert!(
                    device.was_tried(kernel),
                    "{variant}, {format:?}: {kernel:?}"
                );
            }
        }
    }
}

#[test]
fn a_step_that_was_refused_changes_nothing_and_can_be_followed_by_a_right_one() {
    let checkpoint = random_model(small_config(), 6);
    let mut decoder = load(gpu(), &checkpoint, &default_kernels());
    let good = [sequence(0, &[1, 2, 3], &blocks(0, 3))];
    let expected = logits(&mut decoder, &good);
    let mut found = vec![7.0];
    for bad in [
        sequence(0, &[53], &[0]),
        sequence(511, &[1, 2], &blocks(0, 513)),
        sequence(0, &[1], &[80]),
        sequence(0, &[1], &[]),
        sequence(0, &[1; 65], &blocks(0, 65)),
        sequence(0, &[], &[0]),
    ] {
        let error = decoder
            .logits(std::slice::from_ref(&bad), &mut found)
            .unwrap_err();
        assert!(matches!(error, DecodeError::Refused { .. }), "{error:?}");
        assert!(!error.is_fatal());
    }
    assert_same(&logits(&mut decoder, &good), &expected, "after refusals");
}

/// The variable is read where options name no kernels: this test starts itself again with it.
#[test]
fn the_environment_chooses_the_kernels() {
    const VARIABLE: &str = "TIDEGATE_KERNELS";
    let Ok(name) = std::env::var(VARIABLE) else {
        for name in ["portable", "dot", "cuda"] {
            let again = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "faults::the_environment_chooses_the_kernels"])
                .env(VARIABLE, name)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&again.stdout);
            assert!(said.contains("1 passed"), "{name}: {said}");
        }
        return;
    };
    let checkpoint = random_model(small_config(), 7);
    let loaded = GpuDecoder::load(gpu(), &checkpoint, &default_kernels());
    match KernelVariant::named(&name) {
        Some(variant) => assert_eq!(loaded.unwrap().kernels().matmul, variant),
        None => {
            let error = loaded.unwrap_err().to_string();
            assert!(error.contains(&format!("is `{name}`")), "{error}");
        }
    }
}

/// In the place of the loop over the width in `matmul_columns.wgsl`.
const LOOP: &str = "for (var u = part; u < units; u += params.parts) {";

/// What adds up an eight of parts there.
const EIGHT: &str = "p < min(begin + EIGHT, min(params.parts - round, HELD)); p++";

/// The same in `matmul_software.wgsl`.
const SOFTWARE_LOOP: &str = "for (var g = 0u; g < groups; g++) {";

/// A kernel that sums backwards where it takes several rows at once, and forwards where it takes one: each sum is as good, but a
/// row's bits depend on what is beside it.
#[test]
fn kernels_that_sum_backwards_for_more_rows_are_not_reproducible() {
    let checkpoint = random_model(even_config(), 5);
    let device = to_spoil();
    for (variant, from, to) in [
        (
            KernelVariant::Portable,
            "whole[c] += partial[p * SUMS + lane];",
            "whole[c] += partial[select(p, HELD - EIGHT - p, ROWS > 1u) * SUMS + lane];",
        ),
        (
            KernelVariant::Software,
            SOFTWARE_LOOP,
            "for (var j = 0u; j < params.groups; j++) {
             let g = select(j, params.groups - 1u - j, ROWS > 1u);",
        ),
    ] {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        let loaded = |reproducible| {
            let options = DecoderOptions {
                reproducible,
                ..options(variant)
            };
            GpuDecoder::load(&device, &checkpoint, &options)
        };
        let error = loaded(true).unwrap_err();
        assert_wrong("matmul", &error);
        assert!(error.to_string().contains("`reproducible`"), "{error}");
        assert!(loaded(false).is_ok(), "{variant}");
    }
}

/// The last elements of a row, or half of the lanes where only a wide row has them all at work.
#[test]
fn kernels_that_leave_out_a_part_of_wide_rows_are_not_used() {
    let checkpoint = random_model(even_config(), 5);
    let device = to_spoil();
    for (from, to) in [
        (
            LOOP,
            "for (var u = part; u + UNITS < units; u += params.parts) {",
        ),
        (
            LOOP,
            "for (var u = part; u < min(units, 256u); u += params.parts) {",
        ),
        (
            EIGHT,
            "p < min(begin + 4u, min(params.parts - round, HELD)); p++",
        ),
    ] {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        let error =
            GpuDecoder::load(&device, &checkpoint, &options(KernelVariant::Portable)).unwrap_err();
        assert_wrong("matmul", &error);
    }
}

/// The same of integers: the last group, those from some on, or parts that nobody adds up.
#[test]
fn kernels_that_leave_out_a_part_of_wide_rows_of_integers_are_not_used() {
    let checkpoint = Checkpoint::random(even_config(), Format::Int8, 5);
    let device = to_spoil();
    for (from, to) in [
        (
            LOOP,
            "for (var u = part; u + 1u < units; u += params.parts) {",
        ),
        (
            LOOP,
            "for (var u = part; u < min(units, 100u); u += params.parts) {",
        ),
        (
            EIGHT,
            "p < min(begin + 4u, min(params.parts - round, HELD)); p++",
        ),
        (
            "for (var round = 0u; round < params.parts; round += HELD) {",
            "for (var round = 0u; round < min(params.parts, HELD); round += HELD) {",
        ),
    ] {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        let error =
            GpuDecoder::load(&device, &checkpoint, &options(KernelVariant::Portable)).unwrap_err();
        assert_wrong("matmul", &error);
    }
}

/// What products do beside multiplying: squares of a row that are left out, a factor that depends on the tile, weights of a norm that
/// belong to others, the second pair of four that is not turned, a bias that values do not get.
#[test]
fn products_that_norm_or_turn_wrongly_are_not_used() {
    let config = ModelConfig {
        qkv_bias: true,
        ..even_config()
    };
    let checkpoint = random_model(config, 5);
    let device = to_spoil();
    let mut used = Vec::new();
    for (from, to) in [
        ("select(0.0, four(s_3), k_3 < quads)", "0.0"),
        ("s < STRANDS / 8u; s++", "s < STRANDS / 16u; s++"),
        ("stream * norm[place]", "stream * norm[column4 / 2u]"),
        ("= dot(stream, stream);", "= dot(stream.xyz, stream.xyz);"),
        (
            "turn(x.zw, angles[angle + 1u])",
            "turn(x.zw, angles[angle])",
        ),
        (
            "x += biases[place];",
            "x += select(vec4<f32>(), biases[place], turns_all(head));",
        ),
        (
            "keys[key_at(kept, kv_head, e4)] = to_kv(x, 0.0);",
            "keys[key_at(kept, kv_head, e4)] = to_kv(sums, 0.0);",
        ),
        ("(head - of_heads.heads) % of_heads.kv_heads", "0u"),
        ("paged(entry.x, entry.z)", "paged(0u, entry.z)"),
        (
            "let place = params.first + column4;",
            "let place = column4;",
        ),
    ] {
        let to = to.replace(
            "turns_all(head)",
            "head < of_heads.heads + of_heads.kv_heads",
        );
        let to: &'static str = to.leak();
        device.sabotage("matmul", Sabotage::Edited { from, to });
        match GpuDecoder::load(&device, &checkpoint, &options(KernelVariant::Portable)) {
            Ok(_) => used.push(to),
            Err(error) => assert_wrong("matmul", &error),
        }
        device.repair();
    }
    assert!(used.is_empty(), "{}", used.join("\n"));
    // What is summed in another order, or rounded otherwise, where a tile has more rows: squares of a row, those of four elements, keys.
    for (from, to) in [
        (
            "eighth += partial[lane * 8u + s].x;",
            "eighth += partial[lane * 8u + select(s, 7u - s, ROWS > 1u)].x;",
        ),
        (
            "= dot(stream, stream);",
            "= dot(stream, stream) * select(1.0, 1.0000002, ROWS > 1u);",
        ),
        (
            "keys[key_at(kept, kv_head, e4)] = to_kv(x, 0.0);",
            "keys[key_at(kept, kv_head, e4)] = to_kv(x * select(1.0, 1.0000002, ROWS > 1u), 0.0);",
        ),
    ] {
        device.sabotage("matmul", Sabotage::Edited { from, to });
        let loaded = |reproducible| {
            let options = DecoderOptions {
                kv: KvPrecision::F32,
                reproducible,
                ..options(KernelVariant::Portable)
            };
            GpuDecoder::load(&device, &checkpoint, &options)
        };
        let error = loaded(true).unwrap_err();
        assert_wrong("matmul", &error);
        assert!(error.to_string().contains("`reproducible`"), "{error}");
        assert!(loaded(false).is_ok(), "{from}");
        device.repair();
    }
}

/// Head norms: half of the lanes where only a wide head has them all at work, and a sum whose order depends on the row.
#[test]
fn head_norms_that_leave_out_lanes_or_sum_otherwise_by_row_are_not_used() {
    let config = ModelConfig {
        head_norms: true,
        ..even_config()
    };
    let checkpoint = random_model(config, 5);
    let device = open(Features::ALL);
    let refused = |variant, reproducible, from, to| {
        device.sabotage("heads", Sabotage::Edited { from, to });
        let options = DecoderOptions {
            reproducible,
            ..options(variant)
        };
        let error = GpuDecoder::load(&device, &checkpoint, &options).err();
        if let Some(error) = &error {
            assert_wrong("heads", error);
        }
        error.map(|error| error.to_string())
    };
    let halved = "for (var i = 0u; i < LANES / 2u; i += 8u) {";
    let from = "for (var i = 0u; i < LANES; i += 8u) {";
    assert!(refused(KernelVariant::Portable, false, from, halved).is_some());
    for (variant, from, to) in [
        (
            KernelVariant::Portable,
            "let x = biased(source, head, place.lane * 4u + i);",
            "let x = biased(source, head, place.lane * 4u + select(i, 3u - i, place.group.y > 0u));",
        ),
        (
            KernelVariant::Software,
            "let x = biased(source, head, e);\n            squares += x * x;",
            "let last = params.stride4 * 4u - 1u;
             let x = biased(source, head, select(e, last - e, group.y > 0u));
             squares += x * x;",
        ),
    ] {
        let error = refused(variant, true, from, to).unwrap_or_default();
        assert!(error.contains("`reproducible`"), "{variant}: {error}");
        assert_eq!(refused(variant, false, from, to), None, "{variant}");
    }
}

/// Heads of more quads than a workgroup of the software attention has lanes.
fn wide_heads() -> ModelConfig {
    ModelConfig {
        head_dim: 128,
        ..even_config()
    }
}

/// In the place of what reads keys and values in f32: the same, rounded to f16.
const READ: &str = "fn from_kv(x: Kv) -> vec4<f32> {\n    return x;";
const READ_ROUNDED: &str = "fn from_kv(x: Kv) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(pack2x16float(x.xy)), unpack2x16float(pack2x16float(x.zw)));";

/// Which key head a unit of query heads reads.
const OF_KEY_HEAD: &str = "return unit * HEADS / (params.heads / params.kv_heads);";

/// What only a wide head has: elements beyond the first few of a score, of a sum of values and of merged splits. And keys and
/// values read with fewer bits than they are kept with.
#[test]
fn attention_that_leaves_out_a_part_of_wide_heads_or_rounds_is_not_used() {
    let checkpoint = random_model(wide_heads(), 5);
    let device = open(Features::ALL);
    let mut used = Vec::new();
    for (variant, kernel, from, to) in [
        (
            KernelVariant::Software,
            "attention_scores",
            "chunk < params.stride4;",
            "chunk < min(params.stride4, CHUNK);",
        ),
        (
            KernelVariant::Software,
            "attention_scores",
            "dot(key_3_0.d, d_3_0)",
            "0.0",
        ),
        (
            KernelVariant::Software,
            "attention_values",
            "if (quad_0 < params.stride4 &&",
            "if (quad_0 < min(params.stride4, 32u) &&",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "for (; d < params.stride4; d++) {",
            "for (; d + 1u < params.stride4; d++) {",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "products[g] += dot(k.d, queries[q + 3u]);",
            "products[g] += dot(k.d, queries[q + 3u]) * select(0.0, 1.0, d < 32u);",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "select(0.0, weights[w + at_3], at + 3u < last) * v_3",
            "0.0 * v_3",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "s < shares; s++",
            "s < min(shares, 2u); s++",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "HEADS * params.stride4; i += LANES",
            "min(HEADS * params.stride4, 5u); i += LANES",
        ),
        // Splits of one part.
        (
            KernelVariant::Portable,
            "attention",
            "total * factor + sum",
            "total + sum",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "sums[round] * factor;",
            "sums[round];",
        ),
        // The same of tiles.
        (
            KernelVariant::Portable,
            "attention_tile",
            "total * factors[lane / 8u] + sum",
            "total + sum",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            "sums[e] *= factors[first_query + e];",
            "",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            "if (quad < params.stride4) {",
            "if (quad + 1u < params.stride4) {",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            "row >= rows || query",
            "row + 1u >= rows || query",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            "let part = (head * parts_of_head() + number - first)",
            "let part = (head * parts_of_head() + group.x)",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            "position + 7u > entry.z;",
            "position > entry.z;",
        ),
        // A part that is not waited for.
        (
            KernelVariant::Portable,
            "attention",
            "before == all",
            "before + 1u >= all",
        ),
        // What was counted is not forgotten.
        (
            KernelVariant::Portable,
            "attention",
            "atomicStore(&written[row * units + unit], 0u)",
            "atomicStore(&written[row * units + unit], 1u)",
        ),
        // Key heads of several units.
        (
            KernelVariant::Software,
            "attention_scores",
            OF_KEY_HEAD,
            "return min(unit, params.kv_heads - 1u);",
        ),
        (
            KernelVariant::Software,
            "attention_values",
            OF_KEY_HEAD,
            "return min(unit, params.kv_heads - 1u);",
        ),
        (
            KernelVariant::Portable,
            "attention",
            OF_KEY_HEAD,
            "return min(unit, params.kv_heads - 1u);",
        ),
        (
            KernelVariant::Portable,
            "attention_tile",
            OF_KEY_HEAD,
            "return min(unit, params.kv_heads - 1u);",
        ),
        (
            KernelVariant::Software,
            "attention_scores",
            READ,
            READ_ROUNDED,
        ),
        (
            KernelVariant::Software,
            "attention_values",
            READ,
            READ_ROUNDED,
        ),
        (KernelVariant::Portable, "attention", READ, READ_ROUNDED),
    ] {
        device.sabotage(kernel, Sabotage::Edited { from, to });
        match GpuDecoder::load(&device, &checkpoint, &options(variant)) {
            Ok(_) => used.push(format!("{variant}: {kernel} with `{to}`")),
            Err(error) => assert_wrong(kernel, &error),
        }
        device.repair();
    }
    assert!(used.is_empty(), "{}", used.join("\n"));
}

/// Scores that are summed backwards where a step has more than one row.
#[test]
fn attention_that_sums_otherwise_beside_other_rows_is_not_reproducible() {
    let checkpoint = random_model(wide_heads(), 5);
    let device = open(Features::ALL);
    for (variant, kernel, from, to) in [
        (
            KernelVariant::Software,
            "attention_scores",
            "dot(key_0_0.a, a_0_0)",
            "select(dot(key_0_0.a, a_0_0), dot(key_0_0.a.wzyx, a_0_0.wzyx), step.rows > 1u)",
        ),
        (
            KernelVariant::Portable,
            "attention",
            "products[g] += dot(k.a, queries[q]);\n                    products[g] += dot(k.b, queries[q + 1u]);",
            "let first = select(dot(k.a, queries[q]), dot(k.b, queries[q + 1u]), step.rows > 1u);
             products[g] += first;
             products[g] += select(dot(k.b, queries[q + 1u]), dot(k.a, queries[q]), step.rows > 1u);",
        ),
    ] {
        device.sabotage(kernel, Sabotage::Edited { from, to });
        let loaded = |reproducible| {
            let options = DecoderOptions {
                reproducible,
                ..options(variant)
            };
            GpuDecoder::load(&device, &checkpoint, &options)
        };
        let error = loaded(true).unwrap_err();
        assert_wrong(kernel, &error);
        assert!(error.to_string().contains("`reproducible`"), "{error}");
        assert!(loaded(false).is_ok(), "{variant}");
        device.repair();
    }
}

/// Rows of several sequences that go together as far as their blocks agree: a group too many is summed up for all of them, or the
/// sums that they have in common are left out.
#[test]
fn attention_that_shares_too_much_or_too_little_is_not_used() {
    let checkpoint = random_model(even_config(), 5);
    let device = open(Features::ALL);
    let variant = KernelVariant::Software;
    for (from, to) in [
        (
            "groups = step.entries[tile].x;",
            "groups = step.entries[tile].x + 1u;",
        ),
        (
            "if (ROWS == 1u && part.seen > 0u) {",
            "if (ROWS == 1u && part.seen > 1000u) {",
        ),
    ] {
        device.sabotage("attention_values", Sabotage::Edited { from, to });
        let error = GpuDecoder::load(&device, &checkpoint, &options(variant)).unwrap_err();
        assert_wrong("attention_values", &error);
        device.repair();
    }
    // What is carried over has other bits: weights that are added up in another order.
    let from = "set_scores(carried_total_0, total_0);";
    let to = "let all = total_0.x + total_0.y + total_0.z + total_0.w;
              set_scores(carried_total_0, vec4<f32>(all, 0.0, 0.0, 0.0));";
    device.sabotage("attention_values", Sabotage::Edited { from, to });
    let loaded = |reproducible| {
        let options = DecoderOptions {
            reproducible,
            ..options(variant)
        };
        GpuDecoder::load(&device, &checkpoint, &options)
    };
    let error = loaded(true).unwrap_err();
    assert_wrong("attention_values", &error);
    assert!(error.to_string().contains("`reproducible`"), "{error}");
    assert!(loaded(false).is_ok());
}

/// Keys and values in int8 that are rounded the wrong way, or whose scales are left out or taken from another position.
#[test]
fn int8_that_is_rounded_or_scales_wrong_is_not_used() {
    let checkpoint = random_model(wide_heads(), 5);
    let device = open(Features::ALL);
    let (software, portable) = (KernelVariant::Software, KernelVariant::Portable);
    let rounded = ("round(held * inverse)", "trunc(held * inverse)");
    let largest = (
        "bitcast<u32>(greatest / 127.0)",
        "bitcast<u32>(greatest / 128.0)",
    );
    for (variant, kernel, (from, to)) in [
        (software, "heads", rounded),
        (portable, "heads", rounded),
        (software, "heads", largest),
        (portable, "heads", largest),
        (
            portable,
            "heads",
            ("workgroup_max(place, magnitude(x))", "magnitude(x)"),
        ),
        (software, "attention_scores", ("sum_0_0 *= scale_0;", "")),
        (
            software,
            "attention_scores",
            ("+ place % BLOCK / UNIT]", "]"),
        ),
        (
            software,
            "attention_values",
            ("select(weight_0 * scales,", "select(weight_0,"),
        ),
        (portable, "attention", ("product *= scales_here.x;", "")),
        (portable, "attention", ("v_2 *= scales[at_2];", "")),
        (portable, "attention_tile", ("v *= scales[at + i];", "")),
        (
            portable,
            "attention_tile",
            (
                "aside[lane] = of_position.x;",
                "aside[lane] = of_position.y;",
            ),
        ),
        (
            portable,
            "attention",
            ("bitcast<f32>(values[at]", "bitcast<f32>(keys[at]"),
        ),
    ] {
        device.sabotage(kernel, Sabotage::Edited { from, to });
        let options = DecoderOptions {
            kv: KvPrecision::Int8,
            ..options(variant)
        };
        let loaded = GpuDecoder::load(&device, &checkpoint, &options);
        let error = loaded.expect_err(to);
        assert_wrong(kernel, &error);
        device.repair();
        device.forget_tests();
    }
}

/// What an encoder's answer may depend on: which row and which tile it has in a call.
#[test]
fn kernels_of_encoders_that_sum_otherwise_by_place_are_not_reproducible() {
    let checkpoint = golden_checkpoint(ENCODERS[0]);
    let device = open(Features::ALL);
    for (variant, kernel, from, to) in [
        (
            KernelVariant::Portable,
            "encoder_norm",
            "squares += dot(x, x);",
            "let y = x * x;
             squares += select(dot(x, x), y.w + y.z + y.y + y.x, place.group.x > 4u);",
        ),
        (
            KernelVariant::Software,
            "encoder_norm",
            "squares += dot(x, x);",
            "let y = x * x;
             squares += select(dot(x, x), y.w + y.z + y.y + y.x, row > 4u);",
        ),
        (
            KernelVariant::Software,
            "encoder_softmax",
            "total += dot(shares, vec4<f32>(1.0));",
            "let y = shares;
             total = select(total + dot(y, vec4<f32>(1.0)), total + y.w + y.z + y.y + y.x, group.x > 2u);",
        ),
        (
            KernelVariant::Software,
            "encoder_scores",
            "sum_0 += vec4<f32>(dot(q_0, k_0), dot(q_0, k_1), dot(q_0, k_2), dot(q_0, k_3));",
            "let y = q_0 * k_0;
             sum_0 += vec4<f32>(select(dot(q_0, k_0), y.w + y.z + y.y + y.x, group.x > 2u),
                 dot(q_0, k_1), dot(q_0, k_2), dot(q_0, k_3));",
        ),
    ] {
        device.sabotage(kernel, Sabotage::Edited { from, to });
        let loaded = |reproducible| {
            let options = EncoderOptions {
                kernels: Some(variant),
                reproducible,
                ..EncoderOptions::default()
            };
            GpuEncoder::load(&device, &checkpoint, &options)
        };
        let error = loaded(true).err();
        let error = error.unwrap_or_else(|| panic!("{variant}: {kernel} is used"));
        assert_wrong(kernel, &error);
        assert!(error.to_string().contains("`reproducible`"), "{error}");
        assert!(loaded(false).is_ok(), "{variant}: {kernel}");
        device.repair();
    }
}

/// What only wide heads have: elements beyond the first of a score, and more than one workgroup along a row.
#[test]
fn attention_of_texts_that_leaves_out_a_part_of_wide_heads_is_not_used() {
    let checkpoint = golden_checkpoint(ENCODERS[0]);
    let device = open(Features::ALL);
    for (kernel, from, to) in [
        (
            "encoder_scores",
            "d < params.head4; d++",
            "d < min(params.head4, 16u); d++",
        ),
        (
            "encoder_values",
            "let column = group.y * LANES + lane;",
            "let column = min(group.y, 0u) * LANES + lane;",
        ),
    ] {
        device.sabotage(kernel, Sabotage::Edited { from, to });
        match GpuEncoder::load(&device, &checkpoint, &EncoderOptions::default()) {
            Ok(_) => panic!("{kernel} with `{to}` is used"),
            Err(error) => assert_wrong(kernel, &error),
        }
        device.repair();
    }
}

/// A driver that reports a range may choose the lanes of a subgroup for each kernel.
#[test]
fn where_subgroups_vary_nothing_reproducible_sums_over_them() {
    if !gpu().features().subgroup {
        return;
    }
    let checkpoint = random_model(even_config(), 5);
    let [least, most] = adapter().info().subgroup_lanes;
    for (lanes, even) in [([least, most], least == most), ([least, 2 * most], false)] {
        let options = DeviceOptions {
            subgroup_lanes: Some(lanes),
            ..DeviceOptions::default()
        };
        let device = Gpu::open(adapter(), options).unwrap();
        let loaded = |reproducible| {
            let options = DecoderOptions {
                reproducible,
                ..crate::support::options(KernelVariant::Subgroup)
            };
            GpuDecoder::load(&device, &checkpoint, &options)
        };
        assert!(loaded(false).is_ok(), "{lanes:?}");
        match loaded(true) {
            Ok(_) => assert!(even, "{lanes:?}"),
            Err(error) => {
                let said = error.to_string();
                let lanes = format!("subgroups have {} to {} lanes", lanes[0], lanes[1]);
                assert!(!even && said.contains(&lanes), "{said}");
                assert!(said.contains("`reproducible = false`"), "{said}");
            }
        }
    }
}

/// They would be named in the log, and others would run.
#[test]
fn kernels_that_reproducible_answers_cannot_run_are_refused() {
    let checkpoint = random_model(small_config(), 7);
    // Cooperative matrices can, where a device has them.
    for variant in [KernelVariant::F16, KernelVariant::Cooperative] {
        let options = DecoderOptions {
            kernels: Some(variant),
            reproducible: true,
            ..default_kernels()
        };
        let error = match GpuDecoder::load(gpu(), &checkpoint, &options) {
            Err(error) => error,
            Ok(_) => {
                assert_eq!(variant, KernelVariant::Cooperative);
                continue;
            }
        };
        let LoadError::Variant { reason, .. } = &error else {
            panic!("{error:?}");
        };
        // Where the device could run them it is for this reason.
        let lacking = reason.contains("the device lacks");
        let in_order = variant == KernelVariant::F16 && reason.contains("`reproducible = false`");
        assert!(lacking || in_order, "{error}");
    }
}
