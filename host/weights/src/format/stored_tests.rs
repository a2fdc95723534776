//! Every format as GGUF files have it, against what the gguf package makes of the same bytes.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::*;

/// Blocks and what the gguf package made of them (`tests/golden/blocks.py`).
macro_rules! golden {
    ($($format:expr => $name:literal,)*) => {
        [$((
            $format,
            $name,
            include_bytes!(concat!("../../tests/golden/", $name, ".bin")).as_slice(),
            include_bytes!(concat!("../../tests/golden/", $name, ".f32")).as_slice(),
        ),)*]
    };
}

const GOLDEN: [(StoredFormat, &str, &[u8], &[u8]); 14] = golden! {
    StoredFormat::Kept(Format::Int8) => "q8_0",
    StoredFormat::Kept(Format::Int4) => "q4_0",
    StoredFormat::Kept(Format::Q4K) => "q4_k",
    StoredFormat::Kept(Format::Q6K) => "q6_k",
    StoredFormat::Q4_1 => "q4_1",
    StoredFormat::Q5_0 => "q5_0",
    StoredFormat::Q5_1 => "q5_1",
    StoredFormat::Q2K => "q2_k",
    StoredFormat::Q3K => "q3_k",
    StoredFormat::Q5K => "q5_k",
    StoredFormat::Q8K => "q8_k",
    StoredFormat::Iq4Nl => "iq4_nl",
    StoredFormat::Iq4Xs => "iq4_xs",
    StoredFormat::Mxfp4 => "mxfp4",
};

fn decoded(format: StoredFormat, blocks: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    decode_stored(format, blocks, &mut out);
    out
}

#[test]
fn every_format_of_blocks_is_here_under_its_name() {
    let floats = StoredFormat::ALL
        .iter()
        .filter(|stored| stored.block() == 1);
    assert_eq!(GOLDEN.len() + floats.count(), StoredFormat::ALL.len());
    for (format, name, ..) in GOLDEN {
        assert_eq!(format.gguf_name().to_lowercase(), name);
    }
}

#[test]
fn dequantization_gives_the_bits_of_the_gguf_package() {
    for (format, name, blocks, floats) in GOLDEN {
        let expected: Vec<u32> = floats
            .as_chunks()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect();
        let found = decoded(format, blocks);
        let found: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
        assert!(found.len() >= 512, "{name}");
        assert_eq!(
            blocks.len() / format.block_bytes() * format.block(),
            found.len()
        );
        assert_eq!(found, expected, "{name}");
    }
}

/// Blocks in which each byte takes each of its values (`every` of `blocks.py`).
fn every(size: usize) -> Vec<u8> {
    (0..1024)
        .flat_map(|block| {
            (0..size).map(move |at| {
                (block * (2 * at + 1) + block / 256 * (at * at + 17 * at)).to_le_bytes()[0]
            })
        })
        .collect()
}

#[test]
fn every_value_of_every_byte_is_dequantized_as_the_gguf_package_does() {
    let sums: BTreeMap<String, String> =
        serde_json::from_slice(include_bytes!("../../tests/golden/every.json")).unwrap();
    assert_eq!(sums.len(), GOLDEN.len());
    for (format, name, ..) in GOLDEN {
        let floats = decoded(format, &every(format.block_bytes()));
        assert_eq!(floats.len(), 1024 * format.block());
        let no_number = floats.iter().filter(|value| !value.is_finite()).count();
        // The highest exponent of mxfp4 is infinite only with the larger of its numbers.
        let least = if format == StoredFormat::Mxfp4 {
            32
        } else {
            1024
        };
        assert!(no_number >= least, "{name}: {no_number}");
        let mut hash = Sha256::new();
        for value in floats {
            let bits = if value.is_nan() {
                0x7fc0_0000
            } else {
                value.to_bits()
            };
            hash.update(bits.to_le_bytes());
        }
        let digits: Vec<String> = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digits.concat(), sums[name], "{name}");
    }
}

#[test]
fn a_block_that_is_cut_short_gives_nothing() {
    for (format, name, blocks, _) in GOLDEN {
        for cut in 1..format.block_bytes() {
            let found = decoded(format, &blocks[..format.block_bytes() + cut]);
            assert_eq!(found.len(), format.block(), "{name}");
        }
    }
}

/// Of each group whose int8 has a scale that f16 can have, and that is not subnormal, the largest difference as a share of its
/// greatest magnitude.
fn losses(format: StoredFormat, blocks: &[u8]) -> Vec<f64> {
    let floats = decoded(format, blocks);
    let (mut values, mut scales, mut after) = (Vec::new(), Vec::new(), Vec::new());
    reencode(format, blocks, &floats, &mut values, &mut scales);
    decode_apart(Format::Int8, &values, &scales, &mut after);
    assert_eq!(after.len(), floats.len());
    let groups = floats.chunks(GROUP).zip(after.chunks(GROUP));
    groups
        .filter_map(|(before, after)| {
            let greatest = before.iter().fold(0f32, |most, x| most.max(x.abs()));
            let scale = greatest / 127.0;
            if scale < half::f16::MIN_POSITIVE.to_f32() || scale > half::f16::MAX.to_f32() {
                return None;
            }
            let differences = before.iter().zip(after);
            let largest = differences.fold(0f32, |most, (x, y)| most.max((x - y).abs()));
            Some(f64::from(largest) / f64::from(greatest))
        })
        .collect()
}

#[test]
fn multiples_of_a_scale_stay_what_they_are_in_int8() {
    for (format, name, blocks, _) in GOLDEN {
        // The scales of q8_K are of any size.
        if matches!(format, StoredFormat::Kept(_) | StoredFormat::Q8K) {
            continue;
        }
        let losses = losses(format, blocks);
        assert!(losses.len() > 4, "{name}: {}", losses.len());
        let lossless = losses.iter().filter(|loss| **loss == 0.0).count();
        match format {
            StoredFormat::Q5_0 | StoredFormat::Iq4Nl | StoredFormat::Mxfp4 => {
                assert_eq!(lossless, losses.len(), "{name}")
            }
            // A scale of -32 times -4 is one more than int8 has.
            StoredFormat::Q3K => assert!(lossless * 10 > losses.len() * 8, "{name}: {lossless}"),
            _ => {}
        }
    }
    // No loss is more than that of any floats.
    for (format, name, blocks, _) in GOLDEN {
        let most = match format {
            StoredFormat::Kept(_) => continue,
            // What is lost is the rounding of a scale.
            StoredFormat::Iq4Xs => 1.0 / 2048.0,
            _ => 0.5 / 127.0 + 1.0 / 2048.0,
        };
        let losses = losses(format, blocks);
        let largest = losses.iter().fold(0f64, |most, loss| most.max(*loss));
        assert!(largest <= most, "{name}: {largest}");
    }
}

#[test]
fn a_q8_k_of_a_usual_scale_loses_no_more_than_the_rounding_of_the_scale() {
    let mut block = vec![0u8; StoredFormat::Q8K.block_bytes()];
    for scale in [0.012_345f32, 1.0, -0.3] {
        block[..4].copy_from_slice(&scale.to_le_bytes());
        (0..256).for_each(|i| block[4 + i] = i as u8);
        let losses = losses(StoredFormat::Q8K, &block);
        assert!(
            losses.iter().all(|loss| *loss <= 1.0 / 2048.0),
            "{losses:?}"
        );
        assert_eq!(losses.iter().all(|loss| *loss == 0.0), scale == 1.0);
    }
    // One past what a scale of f16 can be: taken apart as any floats.
    block[..4].copy_from_slice(&70_000f32.to_le_bytes());
    let losses = losses(StoredFormat::Q8K, &block);
    let most = 0.5 / 127.0 + 1.0 / 2048.0;
    assert!(
        !losses.is_empty() && losses.iter().all(|loss| *loss < most),
        "{losses:?}"
    );
}

/// Scales below 2^-14 have fewer bits the smaller they are, down to steps of 2^-24.
#[test]
fn int8_of_small_floats_loses_half_a_step_and_what_a_subnormal_scale_is_rounded_by() {
    let mut random = 1u32;
    for exponent in -30..0 {
        let group: [f32; GROUP] = std::array::from_fn(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random as f32 / u32::MAX as f32 - 0.5) * f32::powi(2.0, exponent)
        });
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        super::encode_int8(&group, &mut values, &mut scales);
        let mut after = Vec::new();
        super::decode_apart(Format::Int8, &values, &scales, &mut after);
        let greatest = group.iter().fold(0f32, |most, x| most.max(x.abs()));
        let rounding = (greatest / 127.0 / 2048.0).max(f32::powi(2.0, -25));
        let most = 0.5 * greatest / 127.0 + 127.5 * rounding;
        let largest = group
            .iter()
            .zip(&after)
            .fold(0f32, |most, (x, y)| most.max((x - y).abs()));
        assert!(largest <= most, "{greatest}: {largest} of {most}");
        if greatest >= 0.008 {
            assert!(largest <= 0.0045 * greatest, "{greatest}: {largest}");
        }
    }
}
