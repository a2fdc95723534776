use super::*;

/// Blocks and what the gguf package made of them (`tests/golden/blocks.py`).
const GOLDEN: [(Format, &[u8], &[u8]); 4] = [
    (
        Format::Int8,
        include_bytes!("../../tests/golden/q8_0.bin"),
        include_bytes!("../../tests/golden/q8_0.f32"),
    ),
    (
        Format::Int4,
        include_bytes!("../../tests/golden/q4_0.bin"),
        include_bytes!("../../tests/golden/q4_0.f32"),
    ),
    (
        Format::Q4K,
        include_bytes!("../../tests/golden/q4_k.bin"),
        include_bytes!("../../tests/golden/q4_k.f32"),
    ),
    (
        Format::Q6K,
        include_bytes!("../../tests/golden/q6_k.bin"),
        include_bytes!("../../tests/golden/q6_k.f32"),
    ),
];

#[test]
fn dequantization_gives_the_bits_of_the_formats_definition() {
    for (format, blocks, floats) in GOLDEN {
        let mut out = Vec::new();
        decode(format, blocks, &mut out);
        let expected: Vec<u32> = floats
            .as_chunks()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect();
        let found: Vec<u32> = out.iter().map(|value| value.to_bits()).collect();
        assert!(found.len() >= 512, "{}", format.name());
        assert_eq!(found, expected, "{}", format.name());
    }
}

/// The floats that the documentation of [`RowParts`] gives to the parts.
fn floats_of(format: Format, parts: &RowParts) -> Vec<f32> {
    let half = |bytes: &[u8], at: usize| {
        half::f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32()
    };
    let nibble = |i: usize| (parts.values[i / 2] >> (4 * (i % 2))) & 15;
    let elements = match format {
        Format::Int8 => parts.values.len(),
        _ => 2 * parts.values.len(),
    };
    (0..elements)
        .map(|i| match format {
            Format::Int8 => half(&parts.scales, i / 32) * f32::from(parts.values[i] as i8),
            Format::Int4 => half(&parts.scales, i / 32) * (f32::from(nibble(i)) - 8.0),
            Format::Q4K => {
                let [s, m] = [0, 1].map(|at| f32::from(parts.scales[2 * (i / 32) + at]));
                let [d, minimum] = [0, 1].map(|at| half(&parts.supers, 2 * (i / 256) + at));
                d * s * f32::from(nibble(i)) - minimum * m
            }
            Format::Q6K => {
                let upper = (parts.high[i / 4] >> (2 * (i % 4))) & 3;
                let q = f32::from(nibble(i) | (upper << 4)) - 32.0;
                half(&parts.supers, i / 256) * f32::from(parts.scales[i / 16] as i8) * q
            }
            Format::F32 | Format::F16 | Format::Bf16 => unreachable!("not quantized"),
        })
        .collect()
}

#[test]
fn the_parts_of_a_row_are_its_numbers_in_the_order_of_the_elements() {
    for (format, blocks, floats) in GOLDEN {
        let mut parts = RowParts::default();
        split(format, blocks, &mut parts);
        let expected: Vec<f32> = floats
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        assert_eq!(floats_of(format, &parts), expected, "{}", format.name());
        assert_eq!(not_finite(format, &parts), None);
    }
}

#[test]
fn a_scale_that_is_no_number_is_found_with_its_first_element() {
    for (format, at, element) in [
        (Format::Int8, 3 * 34, 3 * 32),
        (Format::Int4, 18, 32),
        (Format::Q4K, 144 + 2, 256 + 128),
        (Format::Q6K, 210 + 208, 256),
    ] {
        let (_, blocks, _) = GOLDEN
            .into_iter()
            .find(|(known, ..)| *known == format)
            .unwrap();
        for bits in [0x7c00u16, 0xfc00, 0x7e01] {
            let mut blocks = blocks.to_vec();
            blocks[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            let mut parts = RowParts::default();
            split(format, &blocks, &mut parts);
            let (found, value) = not_finite(format, &parts).unwrap();
            assert_eq!(found, element, "{}", format.name());
            assert!(!value.is_finite());
            let mut out = Vec::new();
            decode(format, &blocks, &mut out);
            assert!(!out[element].is_finite(), "{}", format.name());
        }
    }
}

fn groups(seed: u64, count: usize) -> Vec<[f32; GROUP]> {
    let rows = crate::random::RandomRows {
        seed,
        tensor: 0,
        mean: 0.0,
        deviation: 0.02,
    };
    (0..count)
        .map(|row| {
            let mut floats = Vec::new();
            decode(
                Format::F32,
                &rows.stored(Format::F32, row, GROUP),
                &mut floats,
            );
            // Cubes have the heavy ends that weights have.
            std::array::from_fn(|i| floats[i].powi(3) * 2000.0)
        })
        .collect()
}

fn error_of(format: Format, group: &[f32; GROUP], values: &[u8], scales: &[u8]) -> f64 {
    let mut out = Vec::new();
    decode_apart(format, values, scales, &mut out);
    assert_eq!(out.len(), GROUP);
    group
        .iter()
        .zip(out)
        .map(|(x, y)| f64::from(x - y).powi(2))
        .sum()
}

/// `quantize_row_q4_0_ref`.
fn q4_0(group: &[f32; GROUP]) -> (Vec<u8>, Vec<u8>) {
    let greatest = group.iter().fold(
        0f32,
        |most, x| if x.abs() > f32::abs(most) { *x } else { most },
    );
    let scale = greatest / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let q = group.map(|x| ((x * inverse + 8.5) as u8).min(15));
    let values = q.chunks(2).map(|pair| pair[0] | (pair[1] << 4)).collect();
    (values, half::f16::from_f32(scale).to_le_bytes().to_vec())
}

#[test]
fn int4_loses_less_than_q4_0_and_never_more_in_any_group() {
    let (mut ours, mut theirs) = (0.0, 0.0);
    for group in groups(1, 500) {
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        encode_int4(&group, &mut values, &mut scales);
        let error = error_of(Format::Int4, &group, &values, &scales);
        let (values, scales) = q4_0(&group);
        let plain = error_of(Format::Int4, &group, &values, &scales);
        assert!(error <= plain * 1.0001 + 1e-12, "{error} and {plain}");
        ours += error;
        theirs += plain;
    }
    assert!(ours < 0.9 * theirs, "{ours} and {theirs}");
}

#[test]
fn int8_is_within_half_a_step() {
    for group in groups(2, 200) {
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        encode_int8(&group, &mut values, &mut scales);
        let scale = half::f16::from_le_bytes([scales[0], scales[1]]).to_f32();
        let mut out = Vec::new();
        decode_apart(Format::Int8, &values, &scales, &mut out);
        for (x, y) in group.iter().zip(out) {
            // The scale itself is rounded, by a part in 2048, which 127 steps add up.
            assert!(
                (x - y).abs() <= scale * (0.5 + 127.0 / 2048.0),
                "{x} became {y}, a step is {scale}"
            );
        }
    }
}

#[test]
fn groups_of_zeros_and_of_absurd_sizes_stay_finite() {
    for size in [0.0, 1e-30, 1e-8, 1e30, f32::MAX] {
        let group: [f32; GROUP] = std::array::from_fn(|i| {
            if i % 3 == 0 {
                -size
            } else {
                size / (i + 1) as f32
            }
        });
        for (format, encode) in [
            (
                Format::Int8,
                encode_int8 as fn(&[f32; GROUP], &mut Vec<u8>, &mut Vec<u8>),
            ),
            (Format::Int4, encode_int4),
        ] {
            let (mut values, mut scales, mut out) = (Vec::new(), Vec::new(), Vec::new());
            encode(&group, &mut values, &mut scales);
            decode_apart(format, &values, &scales, &mut out);
            assert!(out.iter().all(|y| y.is_finite()), "{size}: {out:?}");
            if size == 0.0 {
                assert_eq!(out, [0.0; GROUP]);
            }
        }
    }
}
