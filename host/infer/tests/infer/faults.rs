//! What goes wrong on a device is a typed error, and others on the device, or a new device, go on.

use std::time::Duration;

use tidegate_contract::{DecodeError, Decoder, Sampled};
use tidegate_infer::device::Sabotage;
use tidegate_infer::{DecoderOptions, Features, GpuDecoder, KernelVariant, LoadError};

use crate::support::{
    assert_same, blocks, gpu, in_chunks, load, logits, open, options, random_model, sequence,
    small_config,
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
    let mut decoder = load(&open(Features::ALL), &checkpoint, &default_kernels());
    let limit = Duration::from_nanos(1);
    decoder.set_deadline(limit);
    let step = [sequence(0, &[1; 64], &blocks(0, 64))];
    let mut logits = Vec::new();
    let error = decoder.logits(&step, &mut logits).unwrap_err();
    assert_eq!(error, DecodeError::DeadlineExceeded { limit });
    decoder.set_deadline(Duration::from_secs(30));
    assert_eq!(decoder.logits(&step, &mut logits).unwrap_err(), error);
}

#[test]
fn running_out_of_memory_ends_the_model_it_happens_to_and_no_other() {
    let checkpoint = random_model(small_config(), 3);
    let device = open(Features::ALL);
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

#[test]
fn a_kernel_that_does_not_compile_is_named() {
    let checkpoint = random_model(small_config(), 4);
    for kernel in ["embed", "sample_draw", "sample_finish"] {
        let device = open(Features::ALL);
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
    }
}

/// The reduction of the software attention writes nothing: the self-test sees it, and the portable kernels, which have no
/// such kernel, take its place. Asked for by name, they are refused.
#[test]
fn kernels_that_compute_wrong_numbers_are_not_used() {
    let checkpoint = random_model(small_config(), 5);
    let device = open(Features::ALL);
    let sound = load(&device, &checkpoint, &default_kernels());
    assert_eq!(sound.kernels().matmul, KernelVariant::Software, "llvmpipe");

    for sabotage in [Sabotage::DoesNothing, Sabotage::DoesNotCompile] {
        device.sabotage("attention_values", sabotage);
        let mut decoder = load(&device, &checkpoint, &default_kernels());
        assert_eq!(decoder.kernels().matmul, KernelVariant::Portable);
        let mut whole = load(gpu(), &checkpoint, &options(KernelVariant::Portable));
        let step = [sequence(0, &[1, 2, 3], &blocks(0, 3))];
        assert_same(
            &logits(&mut decoder, &step),
            &logits(&mut whole, &step),
            "portable",
        );
        let asked = options(KernelVariant::Software);
        let error = GpuDecoder::load(&device, &checkpoint, &asked).unwrap_err();
        assert!(
            matches!(
                error,
                LoadError::Variant {
                    variant: "software",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains("attention"), "{error}");
    }

    device.sabotage("norm", Sabotage::DoesNothing);
    let error = GpuDecoder::load(&device, &checkpoint, &default_kernels()).unwrap_err();
    assert!(matches!(error, LoadError::Variant { .. }), "{error:?}");
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
