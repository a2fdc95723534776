//! Blocks of the formats that no kernel reads, to f32.
//!
//! Sources: the `block_*` of ggml's `ggml-common.h` and their `dequantize_row_*` in `ggml-quants.c`; q8_K, of which the
//! gguf package has no code, after the latter alone.

use super::decode::{decode, half_at, scale_and_minimum};
use super::stored::StoredFormat;

/// What the sixteen numbers of iq4_nl and iq4_xs stand for (`kvalues_iq4nl`).
const VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

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
    }
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
        let packed = &block[96..108];
        let low = (packed[group % 8] >> (4 * (group / 8))) & 15;
        let upper = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
        let scale = d * f32::from(i16::from(low | (upper << 4)) - 32);
        let (half, quarter, at) = (group / 8, group % 8 / 2, group % 2 * 16);
        for i in at..at + 16 {
            let q = (block[32 + 32 * half + i] >> (2 * quarter)) & 3;
            let third = (block[i] >> (group / 2)) & 1;
            out.push(scale * f32::from(i16::from(q) - 4 * i16::from(1 - third)));
        }
    }
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
    named(half_at(block, 0), &block[2..], out);
}

/// d, two bytes of the scales' upper two bits, four of their lower four, 128 of nibbles, of each group as in iq4_nl.
fn iq4_xs(block: &[u8; 136], out: &mut Vec<f32>) {
    let d = half_at(block, 0);
    let uppers = u16::from_le_bytes([block[2], block[3]]);
    for (group, bytes) in block[8..].chunks_exact(16).enumerate() {
        let low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
        let upper = ((uppers >> (2 * group)) & 3) as u8;
        named(
            d * f32::from(i16::from(low | (upper << 4)) - 32),
            bytes,
            out,
        );
    }
}

/// `scale` times the values that the low nibbles name, then the high ones.
fn named(scale: f32, bytes: &[u8], out: &mut Vec<f32>) {
    for shift in [0, 4] {
        out.extend(
            bytes
                .iter()
                .map(|b| scale * f32::from(VALUES[usize::from((b >> shift) & 15)])),
        );
    }
}
