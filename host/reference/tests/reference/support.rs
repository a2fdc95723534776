//! Loading golden models, steps, and comparing logits.

use tidegate_contract::{BLOCK, Sampling, StepSequence};
use tidegate_reference::{ReferenceDecoder, golden};
use tidegate_weights::{Checkpoint, ReadWhole};

pub(crate) fn checkpoint(name: &str) -> Checkpoint {
    Checkpoint::open(&golden::model(name), &ReadWhole).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A golden decoder of 64 positions, 12 blocks and steps of 64 rows.
pub(crate) fn decoder(name: &str) -> ReferenceDecoder {
    decoder_of(&checkpoint(name), 64)
}

pub(crate) fn decoder_of(checkpoint: &Checkpoint, context: usize) -> ReferenceDecoder {
    let blocks = 12.max(context / BLOCK);
    ReferenceDecoder::load(checkpoint, context, blocks, 64).unwrap()
}

/// Tokens from `position` on, sampled from at each.
pub(crate) fn sequence(position: usize, tokens: &[u32], blocks: &[u32]) -> StepSequence {
    StepSequence {
        lora: 0,
        position: position as u32,
        tokens: tokens.to_vec(),
        blocks: blocks.to_vec(),
        samples: vec![Sampling::default(); tokens.len()],
    }
}

pub(crate) fn logits(decoder: &mut ReferenceDecoder, step: &[StepSequence]) -> Vec<f64> {
    let mut logits = Vec::new();
    decoder.wide_logits(step, &mut logits).unwrap();
    logits
}

/// Every number within `tolerance` of the expected one, of the greatest expected or of 1.
#[track_caller]
pub(crate) fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let greatest = expected.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let wrong = (found - expected).abs() / greatest;
        assert!(
            wrong <= tolerance,
            "{what}: element {index} is {found}, not {expected}: {wrong:.1e} of {greatest}"
        );
    }
}
