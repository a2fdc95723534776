#![allow(clippy::unwrap_used)]

use super::*;

fn decoder() -> GpuDecoder {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/gqa-tied-f32");
    let config = ModelConfig::from_dir(directory).unwrap();
    let weights = Weights::open(directory).unwrap();
    let options = DecoderOptions {
        slots: 2,
        context: 64,
        max_rows: 64,
        ..DecoderOptions::default()
    };
    GpuDecoder::load(
        &Adapter::choose(Some("cpu")).unwrap(),
        &config,
        weights,
        options,
    )
    .unwrap()
}

fn rows() -> Vec<StepRow> {
    (0..64)
        .map(|position| StepRow {
            slot: 0,
            token: 1,
            position,
            wants_logits: true,
        })
        .collect()
}

#[test]
fn a_lost_device_is_a_typed_error_and_stays_one() {
    let mut decoder = decoder();
    let mut logits = Vec::new();
    decoder.step(&rows(), &mut logits).unwrap();
    decoder.gpu.device.destroy();
    let error = decoder.step(&rows(), &mut logits).unwrap_err();
    assert!(matches!(error, DecodeError::DeviceLost { .. }), "{error:?}");
    assert_eq!(decoder.step(&rows(), &mut logits).unwrap_err(), error);
}

#[test]
fn a_device_that_is_late_is_a_typed_error_and_the_decoder_is_given_up() {
    let mut decoder = decoder();
    decoder.deadline = Duration::from_nanos(1);
    let mut logits = Vec::new();
    let error = decoder.step(&rows(), &mut logits).unwrap_err();
    assert_eq!(
        error,
        DecodeError::DeadlineExceeded {
            limit: Duration::from_nanos(1)
        }
    );
    decoder.deadline = DEADLINE;
    assert_eq!(decoder.step(&rows(), &mut logits).unwrap_err(), error);
}
