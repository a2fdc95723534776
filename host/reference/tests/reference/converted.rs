//! What rounding the weights to int8 and int4 does to logits, and that the same numbers give the same logits whatever
//! file they lie in.

use tidegate_reference::ReferenceDecoder;
use tidegate_reference::golden::{self, DECODERS};
use tidegate_weights::{Checkpoint, Format, ReadWhole, convert};

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
