//! Blocks of the formats that no kernel reads, to f32.
//!
//! Sources: the `block_*` of ggml's `ggml-common.h` and their `dequantize_row_*` in `ggml-quants.c`; q8_K, of which the
//! gguf package has no code, after the latter alone.

use half::f16;

use super::GROUP;
use super::decode::{decode, half_at, scale_and_minimum};
use super::encode::encode_int8;
use super::stored::StoredFormat;

/// What the sixteen numbers of iq4_nl and iq4_xs stand for (`kvalues_iq4nl`).
const VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// What the sixteen numbers of mxfp4 stand for, twice (`kvalues_mxfp4`).
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Appends the elements of whole blocks in `bytes`; a last block that is cut short is left out.
pub(crate) fn decode_stored(format: StoredFormat, bytes: &[u8], out: &mut Vec<f32>) {
    match format {
        StoredFormat::Kept(format) => decode(format, bytes, out),
        StoredFormat::Q4_1 => each(bytes, out, q4_1),
        StoredFormat::Q5_0 => each(bytes, out, q5_0),
        StoredFormat::Q5_1 => each(bytes, out, q5_1),
        StoredFormat::Q2K => each(bytes, out, q2_k),
        StoredFormat::Q3K => each(bytes, out, q3_k),
        StoredFormat::Q5K => each(bytes, out, q5_k),
        StoredFormat::Q8K => each(bytes, out, q8_k),
        StoredFormat::Iq4Nl => each(bytes, out, iq4_nl),
        StoredFormat::Iq4Xs => each(bytes, out, iq4_xs),
        StoredFormat::Mxfp4 => each(bytes, out, mxfp4),
    }
}

/// Appends a row of whole blocks in int8: its numbers to `values`, a scale for each 32 to `scales`. `floats` is what
/// [`decode_stored`] makes of it.
///
/// Where elements are whole multiples of one number, these are int8's, and nothing is lost if its scale is an f16: of q5_0, of
/// iq4_nl, of mxfp4 whose powers of two are, and of q3_K, whose scales of groups are whole numbers themselves. Of iq4_xs and q8_K the scale is rounded. All else is
/// encoded as any floats are, and so is a group that loses less by that.
pub(crate) fn reencode(
    format: StoredFormat,
    bytes: &[u8],
    floats: &[f32],
    values: &mut Vec<u8>,
    scales: &mut Vec<u8>,
) {
    let blocks = bytes.chunks_exact(format.block_bytes());
    for (block, floats) in blocks.zip(floats.chunks_exact(format.block())) {
        for (index, group) in floats.as_chunks::<GROUP>().0.iter().enumerate() {
            encode_multiples(group, multiples(format, block, index), values, scales);
        }
    }
}

/// Appends one group of int8. `multiples` is a number and the whole multiples of it that the elements are, where they are
/// that: those are kept, unless int8 cannot say them or another scale is nearer.
pub(crate) fn encode_multiples(
    group: &[f32; GROUP],
    multiples: Option<(f32, [i16; GROUP])>,
    values: &mut Vec<u8>,
    scales: &mut Vec<u8>,
) {
    match multiples.and_then(|multiples| better(group, multiples)) {
        Some((scale, numbers)) => {
            scales.extend(scale.to_le_bytes());
            values.extend(numbers.map(|q| q as u8));
        }
        None => encode_int8(group, values, scales),
    }
}

/// The number and its multiples as int8, if they are nearer than what [`encode_int8`] makes of the group.
fn better(
    group: &[f32; GROUP],
    (number, multiples): (f32, [i16; GROUP]),
) -> Option<(f16, [i8; GROUP])> {
    let scale = f16::from_f32(number);
    if !scale.is_finite() {
        return None;
    }
    let mut numbers = [0i8; GROUP];
    for (number, multiple) in numbers.iter_mut().zip(multiples) {
        *number = i8::try_from(multiple).ok()?;
    }
    let error = |scale: f32, numbers: &mut dyn Iterator<Item = i8>| -> f64 {
        let differences = group.iter().zip(numbers);
        differences
            .map(|(x, q)| (f64::from(*x) - f64::from(f32::from(q) * scale)).powi(2))
            .sum()
    };
    let own = error(scale.to_f32(), &mut numbers.into_iter());
    if own > 0.0 {
        let (mut values, mut scales) = (Vec::with_capacity(GROUP), Vec::with_capacity(2));
        encode_int8(group, &mut values, &mut scales);
        let other = half_at(&scales, 0);
        if error(other, &mut values.iter().map(|q| *q as i8)) < own {
            return None;
        }
    }
    Some((scale, numbers))
}

/// The number that the elements of group `index` of a block are whole multiples of, and the multiples.
fn multiples(format: StoredFormat, block: &[u8], index: usize) -> Option<(f32, [i16; GROUP])> {
    let values = |values: [i8; 16], bytes: &[u8]| {
        std::array::from_fn(|i| {
            i16::from(values[usize::from((bytes[i % 16] >> (4 * (i / 16))) & 15)])
        })
    };
    let named = |bytes: &[u8]| values(VALUES, bytes);
    Some(match format {
        StoredFormat::Q5_0 => {
            let mut numbers = [0; GROUP];
            let five_bits = five_bits(&block[2..6], &block[6..]);
            numbers
                .iter_mut()
                .zip(five_bits)
                .for_each(|(number, q)| *number = i16::from(q) - 16);
            (half_at(block, 0), numbers)
        }
        StoredFormat::Iq4Nl => (half_at(block, 0), named(&block[2..])),
        StoredFormat::Mxfp4 => (half_power(block[0]), values(DOUBLED, &block[1..])),
        StoredFormat::Q3K => {
            let numbers = std::array::from_fn(|i| {
                let (scale, q) = q3_k_numbers(block, 2 * index + i / 16, i % 16);
                scale * q
            });
            (half_at(block, 108), numbers)
        }
        StoredFormat::Iq4Xs => (
            iq4_xs_scale(block, index),
            named(&block[8 + 16 * index..][..16]),
        ),
        StoredFormat::Q8K => {
            let numbers = &block[4 + GROUP * index..][..GROUP];
            let numbers = std::array::from_fn(|i| i16::from(numbers[i] as i8));
            (
                f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
                numbers,
            )
        }
        _ => return None,
    })
}

fn each<const N: usize>(bytes: &[u8], out: &mut Vec<f32>, block: fn(&[u8; N], &mut Vec<f32>)) {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .for_each(|bytes| block(bytes, out));
}

/// d, m, 16 bytes: the low nibbles, then the high ones.
fn q4_1(block: &[u8; 20], out: &mut Vec<f32>) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for shift in [0, 4] {
        out.extend(
            block[4..]
                .iter()
                .map(|b| d * f32::from((b >> shift) & 15) + m),
        );
    }
}

/// The 32 numbers of five bits: 16 bytes of nibbles as in q4_1, and the fifth bit of element `i` in bit `i` of four bytes.
fn five_bits(high: &[u8], nibbles: &[u8]) -> impl Iterator<Item = u8> {
    (0..32).map(move |i| {
        let nibble = (nibbles[i % 16] >> (4 * (i / 16))) & 15;
        let bit = (high[i / 8] >> (i % 8)) & 1;
        nibble | (bit << 4)
    })
}

/// d, four bytes of fifth bits, 16 bytes of nibbles.
fn q5_0(block: &[u8; 22], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    out.extend(five_bits(&block[2..6], &block[6..]).map(|q| d * f32::from(i16::from(q) - 16)));
}

/// d, m, four bytes of fifth bits, 16 bytes of nibbles.
fn q5_1(block: &[u8; 24], out: &mut Vec<f32>) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    out.extend(five_bits(&block[4..8], &block[8..]).map(|q| d * f32::from(q) + m));
}

/// 16 bytes of scales (low nibble) and minimums (high), 64 of numbers, d, dmin. The numbers of each 128 elements lie in 32
/// bytes, the first 32 elements in the lowest two bits.
fn q2_k(block: &[u8; 84], out: &mut Vec<f32>) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for (group, packed) in block[..16].iter().enumerate() {
        let scale = d * f32::from(packed & 15);
        let minimum = dmin * f32::from(packed >> 4);
        let (half, quarter, at) = (group / 8, group % 8 / 2, group % 2 * 16);
        let bytes = &block[16 + 32 * half + at..][..16];
        out.extend(
            bytes
                .iter()
                .map(|b| scale * f32::from((b >> (2 * quarter)) & 3) - minimum),
        );
    }
}

/// 32 bytes of third bits, 64 of numbers as in q2_K, 12 of scales, d. Where a third bit is 0 the number is 4 less.
fn q3_k(block: &[u8; 110], out: &mut Vec<f32>) {
    let d = half_at(block, 108);
    for group in 0..16 {
        for i in 0..16 {
            let (scale, q) = q3_k_numbers(block, group, i);
            out.push(d * f32::from(scale) * f32::from(q));
        }
    }
}

/// The scale of a group of 16 in a block of q3_K, in -32..=31, and element `i` of it, in -4..=3.
fn q3_k_numbers(block: &[u8], group: usize, i: usize) -> (i16, i16) {
    let packed = &block[96..108];
    let low = (packed[group % 8] >> (4 * (group / 8))) & 15;
    let upper = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
    let (half, quarter, at) = (group / 8, group % 8 / 2, group % 2 * 16 + i);
    let q = (block[32 + 32 * half + at] >> (2 * quarter)) & 3;
    let third = (block[at] >> (group / 2)) & 1;
    (
        i16::from(low | (upper << 4)) - 32,
        i16::from(q) - 4 * i16::from(1 - third),
    )
}

/// d, dmin, 12 bytes of scales as in q4_K, 32 of fifth bits, 128 of nibbles as in q4_K.
fn q5_k(block: &[u8; 176], out: &mut Vec<f32>) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for group in 0..8 {
        let (scale, minimum) = scale_and_minimum(&block[4..16], group);
        let (scale, minimum) = (d * f32::from(scale), dmin * f32::from(minimum));
        let nibbles = &block[48 + 32 * (group / 2)..][..32];
        out.extend(nibbles.iter().zip(&block[16..48]).map(|(low, high)| {
            let q = ((low >> (4 * (group % 2))) & 15) | (((high >> group) & 1) << 4);
            scale * f32::from(q) - minimum
        }));
    }
}

/// d in f32, 256 numbers, 16 sums.
fn q8_k(block: &[u8; 292], out: &mut Vec<f32>) {
    let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    out.extend(block[4..260].iter().map(|q| d * f32::from(*q as i8)));
}

fn iq4_nl(block: &[u8; 18], out: &mut Vec<f32>) {
    named(VALUES, half_at(block, 0), &block[2..], out);
}

/// The exponent of a power of two, 16 bytes of nibbles as in iq4_nl.
fn mxfp4(block: &[u8; 17], out: &mut Vec<f32>) {
    named(DOUBLED, half_power(block[0]), &block[1..], out);
}

/// `2^(exponent - 128)` (`ggml_e8m0_to_fp32_half`): half of what OCP's E8M0 says, whose 255 is no number; here it is one.
fn half_power(exponent: u8) -> f32 {
    match exponent {
        // Below the least normal number.
        0 | 1 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits(u32::from(exponent - 1) << 23),
    }
}

/// d, two bytes of the scales' upper two bits, four of their lower four, 128 of nibbles, of each group as in iq4_nl.
fn iq4_xs(block: &[u8; 136], out: &mut Vec<f32>) {
    for (group, bytes) in block[8..].chunks_exact(16).enumerate() {
        named(VALUES, iq4_xs_scale(block, group), bytes, out);
    }
}

/// The scale of a group in a block of iq4_xs.
fn iq4_xs_scale(block: &[u8], group: usize) -> f32 {
    let uppers = u16::from_le_bytes([block[2], block[3]]);
    let low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
    let upper = ((uppers >> (2 * group)) & 3) as u8;
    half_at(block, 0) * f32::from(i16::from(low | (upper << 4)) - 32)
}

/// `scale` times those of the `values` that the low nibbles name, then the high ones.
fn named(values: [i8; 16], scale: f32, bytes: &[u8], out: &mut Vec<f32>) {
    for shift in [0, 4] {
        out.extend(
            bytes
                .iter()
                .map(|b| scale * f32::from(values[usize::from((b >> shift) & 15)])),
        );
    }
}
